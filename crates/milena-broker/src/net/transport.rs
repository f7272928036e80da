//! The bytes of a connection: a plain socket, or one with TLS.

use std::{io, sync::Arc};

use bytes::{BufMut as _, BytesMut};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
};

use super::{
    OutboundResponse,
    frames::FrameSource,
    tls::{TlsBuffers, TlsStream},
};

/// The socket of a connection.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
    Tls {
        stream: Box<TlsStream>,
        buffers: Arc<TlsBuffers>,
    },
}

impl Transport {
    pub(super) async fn send(&mut self, response: OutboundResponse) -> io::Result<()> {
        match self {
            Self::Plain(socket) => response.send(socket).await,
            Self::Tls { stream, buffers } => response.send_encrypted(stream, buffers).await,
        }
    }

    pub(super) async fn write_all(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Plain(socket) => socket.write_all(bytes).await,
            Self::Tls { stream, .. } => stream.write_all(bytes).await,
        }
    }

    /// Ends the connection in order.
    pub(super) fn close(&mut self) {
        if let Self::Tls { stream, .. } = self {
            stream.close();
        }
    }
}

impl FrameSource for Transport {
    async fn read(&mut self, buffer: &mut BytesMut, wanted: usize) -> io::Result<usize> {
        match self {
            Self::Plain(socket) => {
                buffer.reserve(wanted);
                socket.read_buf(&mut buffer.limit(wanted)).await
            }
            Self::Tls { stream, buffers } => stream.read(buffer, wanted, buffers).await,
        }
    }
}
