//! TCP connections: host name look-up, addresses, socket options.

use std::{
    io::{self, IoSlice},
    net::SocketAddr,
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpSocket, TcpStream, lookup_host},
    time::timeout,
};

use super::{
    ClientSettings, Endpoint,
    error::{AddressError, AddressFailure, ConnectError, SystemError},
};

/// The byte stream of a connection. TLS becomes a variant here; authentication is in `auth`.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
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
            Ok(Ok(stream)) => return Ok(Transport::Plain(stream)),
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

impl AsyncRead for Transport {
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_read(cx, buffer),
        }
    }
}

impl AsyncWrite for Transport {
    fn poll_write(self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write(cx, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        slices: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_write_vectored(cx, slices),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(stream) => stream.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_flush(cx),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(stream) => Pin::new(stream).poll_shutdown(cx),
        }
    }
}
