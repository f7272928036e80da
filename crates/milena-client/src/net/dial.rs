//! Transports: host name look-up, addresses, socket options, TLS.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use milena_security::tls::{self, ClientTls, FailureKind};
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader, ReadBuf},
    net::{TcpSocket, TcpStream, lookup_host},
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    ClientSettings, Endpoint,
    error::{AddressError, AddressFailure, ConnectError, ExplainedTls, SystemError},
};

/// Bytes of TLS that one read takes from the socket. A record has 16 KiB, so that this saves most of the calls.
const TLS_READ_BYTES: usize = 64 << 10;
/// Bytes that a write may put into TLS records before the socket takes them.
const TLS_WRITE_BYTES: usize = 256 << 10;

/// The byte stream of a connection. Authentication is in `auth`.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
    Tls(Box<TlsTransport>),
}

#[derive(Debug)]
pub(super) struct TlsTransport {
    stream: TlsStream<BufReader<TcpStream>>,
    /// The name that the certificate must have, for messages.
    host: String,
}

/// Connects to the first address of the endpoint that accepts. The look-up and each address have `timeout_ms`.
pub(super) async fn dial(
    endpoint: &Endpoint,
    settings: &ClientSettings,
    timeout_ms: i64,
) -> Result<Transport, ConnectError> {
    let limit = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
    let addresses = timeout(limit, lookup_host((&*endpoint.host, endpoint.port))).await;
    let addresses = addresses.map_err(|_| ConnectError::ResolveTimedOut { timeout_ms })?;
    let addresses = addresses.map_err(|error| ConnectError::Resolve(error.into()))?;
    let mut attempts = Vec::new();
    for address in addresses {
        let connected = timeout(limit, connect(address, settings)).await;
        let error = match connected {
            Ok(Ok(stream)) => {
                return match &settings.security.tls {
                    None => Ok(Transport::Plain(stream)),
                    Some(tls) => secure(stream, endpoint, &tls.client, timeout_ms).await,
                };
            }
            Ok(Err(error)) => AddressError::System(SystemError::from(error)),
            Err(_) => AddressError::TimedOut { timeout_ms },
        };
        attempts.push(AddressFailure {
            address: address.ip(),
            error,
        });
    }
    if attempts.is_empty() {
        return Err(ConnectError::NoAddress);
    }
    Err(ConnectError::Connect {
        host: endpoint.host.clone(),
        attempts,
    })
}

async fn connect(address: SocketAddr, settings: &ClientSettings) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A negative size means the default of the operating system.
    if let Ok(size) = u32::try_from(settings.send_buffer_bytes) {
        socket.set_send_buffer_size(size)?;
    }
    if let Ok(size) = u32::try_from(settings.receive_buffer_bytes) {
        socket.set_recv_buffer_size(size)?;
    }
    socket.set_keepalive(true)?;
    let stream = socket.connect(address).await?;
    // Without a listener on a local port, the system may choose that same port for the socket and connect it to itself.
    if stream.local_addr()? == stream.peer_addr()? {
        return Err(io::ErrorKind::ConnectionRefused.into());
    }
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Does the TLS handshake.
async fn secure(
    stream: TcpStream,
    endpoint: &Endpoint,
    tls: &ClientTls,
    timeout_ms: i64,
) -> Result<Transport, ConnectError> {
    let host = endpoint.host.to_string();
    let name = tls::server_name(&host).map_err(|error| ConnectError::tls_refused(endpoint, error.to_string()))?;
    let stream = BufReader::with_capacity(TLS_READ_BYTES, stream);
    let connector = TlsConnector::from(tls.config());
    let connecting = connector.connect_with(name, stream, |session| {
        session.set_buffer_limit(Some(TLS_WRITE_BYTES));
    });
    let limit = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
    match timeout(limit, connecting).await {
        Ok(Ok(stream)) => Ok(Transport::Tls(Box::new(TlsTransport { stream, host }))),
        Ok(Err(error)) => {
            let failure = tls::explain(&error, &host);
            Err(match failure.kind {
                FailureKind::Authentication => ConnectError::tls_refused(endpoint, failure.text),
                FailureKind::Protocol => ConnectError::TlsProtocol(failure.text),
                FailureKind::Disconnected => ConnectError::TlsDisconnected(failure.text),
            })
        }
        Err(_) => Err(ConnectError::TlsTimedOut { timeout_ms }),
    }
}

impl TlsTransport {
    /// An error of the TLS layer with an explanation; others stay as they are.
    fn explain(&self, error: io::Error) -> io::Error {
        let failure = tls::explain(&error, &self.host);
        match failure.kind {
            FailureKind::Disconnected => error,
            FailureKind::Authentication | FailureKind::Protocol => io::Error::other(ExplainedTls(failure)),
        }
    }

    fn explained<T>(&self, poll: Poll<io::Result<T>>) -> Poll<io::Result<T>> {
        poll.map_err(|error| self.explain(error))
    }
}

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
            Self::Tls(tls) => match Pin::new(&mut tls.stream).poll_read(cx, buffer) {
                // Many peers close the socket without the alert that ends a TLS session.
                Poll::Ready(Err(error)) if error.kind() == io::ErrorKind::UnexpectedEof => Poll::Ready(Ok(())),
                read => tls.explained(read),
            },
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
            Self::Tls(tls) => {
                let written = Pin::new(&mut tls.stream).poll_write(cx, bytes);
                tls.explained(written)
            }
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
            Self::Tls(tls) => {
                let written = Pin::new(&mut tls.stream).poll_write_vectored(cx, slices);
                tls.explained(written)
            }
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
            Self::Tls(tls) => tls.stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
            Self::Tls(tls) => {
                let flushed = Pin::new(&mut tls.stream).poll_flush(cx);
                tls.explained(flushed)
            }
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
            Self::Tls(tls) => {
                let closed = Pin::new(&mut tls.stream).poll_shutdown(cx);
                tls.explained(closed)
            }
        }
    }
}
