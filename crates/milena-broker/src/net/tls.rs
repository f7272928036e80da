//! TLS on a socket: the handshake, and a session that reads and writes large pieces.
//!
//! rustls is driven by hand. Its own buffer reads 4 KiB from a socket at once; here a read takes up to a whole buffer of the
//! pool, and a write encrypts as much into full records before one call to the system.

use std::{
    io::{self, BufRead as _, IoSlice, Read, Write},
    ops::{Deref, DerefMut},
    sync::{Arc, Mutex, PoisonError},
};

use bytes::{Buf as _, BytesMut};
use milena_security::tls::rustls::{ServerConfig, ServerConnection};
use tokio::{net::TcpStream, sync::Semaphore};

/// The size of a buffer: what one call to the system reads or writes at most.
pub(super) const BUFFER_SIZE: usize = 256 << 10;
/// The buffers that are kept for the next use.
const BUFFERS_MAX: usize = 32;
/// The most that one read takes during the handshake: a client hello, or a chain of certificates.
const HANDSHAKE_READ_MAX: usize = 16 << 10;
/// The least that one read takes, so that a record needs one call.
const READ_MIN: usize = 17 << 10;
/// A record of TLS, with its header and its tag.
const RECORD_MAX: usize = 17 << 10;

/// Buffers for reads and writes of all connections. An idle connection has none.
#[derive(Debug, Default)]
pub(crate) struct TlsBuffers {
    free: Mutex<Vec<Box<[u8]>>>,
}

impl TlsBuffers {
    pub(super) fn take(&self) -> TlsBuffer<'_> {
        let free = self.free.lock().unwrap_or_else(PoisonError::into_inner).pop();
        TlsBuffer {
            bytes: free.unwrap_or_else(|| vec![0; BUFFER_SIZE].into_boxed_slice()),
            pool: self,
        }
    }
}

/// A buffer that goes back to its pool.
pub(super) struct TlsBuffer<'a> {
    bytes: Box<[u8]>,
    pool: &'a TlsBuffers,
}

impl Deref for TlsBuffer<'_> {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        &self.bytes
    }
}

impl DerefMut for TlsBuffer<'_> {
    fn deref_mut(&mut self) -> &mut [u8] {
        &mut self.bytes
    }
}

impl Drop for TlsBuffer<'_> {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock().unwrap_or_else(PoisonError::into_inner);
        if free.len() < BUFFERS_MAX {
            free.push(std::mem::take(&mut self.bytes));
        }
    }
}

/// The server's end of a TLS connection.
#[derive(Debug)]
pub(super) struct TlsStream {
    socket: TcpStream,
    session: ServerConnection,
    /// Data that arrived together with the end of the handshake.
    early: BytesMut,
}

/// A handshake that failed.
#[derive(Debug)]
pub(super) struct HandshakeError {
    pub(super) source: io::Error,
    /// The first bytes of the client.
    pub(super) first: Vec<u8>,
}

impl TlsStream {
    /// Makes the handshake. `turn` admits few handshakes at once to the processor, so that a flood of them leaves workers
    /// for connections that are established.
    pub(super) async fn accept(
        socket: TcpStream,
        config: Arc<ServerConfig>,
        buffers: &TlsBuffers,
        turn: &Semaphore,
    ) -> Result<Self, HandshakeError> {
        let mut first = Vec::with_capacity(FIRST_BYTES);
        match Self::handshake(socket, config, buffers, (turn, &mut first)).await {
            Ok(stream) => Ok(stream),
            Err(source) => Err(HandshakeError { source, first }),
        }
    }

    async fn handshake(
        socket: TcpStream,
        config: Arc<ServerConfig>,
        buffers: &TlsBuffers,
        (turn, first): (&Semaphore, &mut Vec<u8>),
    ) -> io::Result<Self> {
        let mut session = ServerConnection::new(config).map_err(io::Error::other)?;
        // The pieces that are written are bounded already.
        session.set_buffer_limit(None);
        let mut stream = Self {
            socket,
            session,
            early: BytesMut::new(),
        };
        loop {
            stream.flush().await?;
            if !stream.session.is_handshaking() {
                return Ok(stream);
            }
            stream.socket.readable().await?;
            // The semaphore is never closed.
            let _turn = turn.acquire().await;
            let mut buffer = buffers.take();
            let count = match stream.socket.try_read(head_mut(&mut buffer, HANDSHAKE_READ_MAX)) {
                Ok(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            let bytes = head(&buffer, count);
            first.extend_from_slice(head(bytes, FIRST_BYTES.saturating_sub(first.len())));
            let mut early = std::mem::take(&mut stream.early);
            let fed = stream.feed(bytes, &mut early);
            stream.early = early;
            if let Err(error) = fed {
                // The alert says why.
                let _ = stream.try_flush();
                return Err(error);
            }
        }
    }

    /// Reads into `buffer`, about `wanted` bytes at most; 0 when the client has closed. Cancel safe.
    pub(super) async fn read(
        &mut self,
        buffer: &mut BytesMut,
        wanted: usize,
        buffers: &TlsBuffers,
    ) -> io::Result<usize> {
        if !self.early.is_empty() {
            let count = self.early.len();
            buffer.extend_from_slice(&self.early);
            self.early = BytesMut::new();
            return Ok(count);
        }
        loop {
            self.socket.readable().await?;
            let mut read = buffers.take();
            let limit = wanted.max(READ_MIN);
            let count = match self.socket.try_read(head_mut(&mut read, limit)) {
                // Clients of Kafka close without a close_notify; a frame that was cut off shows in its length.
                Ok(0) => return Ok(0),
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => continue,
                Err(error) => return Err(error),
            };
            buffer.reserve(count + RECORD_MAX);
            let before = buffer.len();
            let fed = self.feed(head(&read, count), buffer);
            drop(read);
            // Alerts, and responses to key updates.
            let flushed = self.try_flush();
            let closed = fed?;
            flushed?;
            if buffer.len() > before || closed {
                return Ok(buffer.len() - before);
            }
        }
    }

    /// Encrypts and sends everything.
    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.session.writer().write_all(bytes)?;
        self.flush().await
    }

    /// Tells the client that nothing follows, as far as the socket takes it at once.
    pub(super) fn close(&mut self) {
        self.session.send_close_notify();
        let _ = self.try_flush();
    }

    pub(super) fn session(&self) -> &ServerConnection {
        &self.session
    }

    /// Decrypts bytes of the socket into `plain`. Returns whether the client has closed its side.
    fn feed(&mut self, mut bytes: &[u8], plain: &mut BytesMut) -> io::Result<bool> {
        while bytes.has_remaining() {
            if self.session.read_tls(&mut ReadSlice(&mut bytes))? == 0 {
                return Ok(true);
            }
            let state = self
                .session
                .process_new_packets()
                .map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))?;
            self.take_plaintext(plain)?;
            if state.peer_has_closed() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take_plaintext(&mut self, plain: &mut BytesMut) -> io::Result<()> {
        let mut reader = self.session.reader();
        loop {
            let count = match reader.fill_buf() {
                Ok(chunk) => {
                    plain.extend_from_slice(chunk);
                    chunk.len()
                }
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            if count == 0 {
                return Ok(());
            }
            reader.consume(count);
        }
    }

    /// Sends the records that are ready.
    async fn flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            self.socket.writable().await?;
            self.try_flush()?;
        }
        Ok(())
    }

    /// Sends the records that are ready, as far as the socket takes them now.
    fn try_flush(&mut self) -> io::Result<()> {
        while self.session.wants_write() {
            match self.session.write_tls(&mut WriteSocket(&self.socket)) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(_) => {}
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

/// The bytes of a client that are kept to recognize a wrong protocol.
const FIRST_BYTES: usize = 16;

fn head(bytes: &[u8], len: usize) -> &[u8] {
    bytes.get(..len).unwrap_or(bytes)
}

fn head_mut(bytes: &mut [u8], len: usize) -> &mut [u8] {
    let len = len.min(bytes.len());
    bytes.get_mut(..len).unwrap_or_default()
}

/// Reads from a slice, and never more than is there.
struct ReadSlice<'a, 'b>(&'a mut &'b [u8]);

impl Read for ReadSlice<'_, '_> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        self.0.read(into)
    }
}

/// Writes to a socket without waiting.
struct WriteSocket<'a>(&'a TcpStream);

impl Write for WriteSocket<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.try_write(bytes)
    }

    fn write_vectored(&mut self, slices: &[IoSlice<'_>]) -> io::Result<usize> {
        self.0.try_write_vectored(slices)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}
