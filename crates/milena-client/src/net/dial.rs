//! Making a connection: names, addresses, socket options.

use std::{
    io::{self, IoSlice},
    net::{IpAddr, SocketAddr},
    pin::Pin,
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::{TcpSocket, TcpStream, lookup_host},
    time::timeout,
};

use super::{ClientSettings, Endpoint, failures::ConnectFailure};
use crate::reachability::FailureCause;

/// What bytes travel through. Encryption and logging in get a kind of their own here.
#[derive(Debug)]
pub(super) enum Transport {
    Plain(TcpStream),
}

/// Connects to the first address of the endpoint that answers. Each gets `timeout_ms`, and so does the look-up.
pub(super) async fn dial(
    endpoint: &Endpoint,
    settings: &ClientSettings,
    timeout_ms: i64,
) -> Result<Transport, ConnectFailure> {
    let limit = Duration::from_millis(u64::try_from(timeout_ms).unwrap_or(0));
    let late = |_| ConnectFailure::new(FailureCause::TimedOut, format!("no answer within {timeout_ms} ms"));
    let unknown = |error: io::Error| ConnectFailure::new(FailureCause::NameUnknown, error.to_string());
    let addresses = timeout(limit, lookup_host((&*endpoint.host, endpoint.port))).await;
    let addresses = addresses
        .map_err(late)
        .and_then(|found| found.map_err(unknown))
        .map_err(|failure| ConnectFailure {
            reason: format!("its name cannot be looked up: {}", failure.reason),
            ..failure
        })?;
    // An address that stands for itself need not be named twice.
    let is_address = endpoint.host.parse::<IpAddr>().is_ok();
    let mut reasons = Vec::new();
    let mut cause = FailureCause::NameUnknown;
    for address in addresses {
        let connected = timeout(limit, connect(address, settings)).await;
        match connected
            .map_err(late)
            .and_then(|made| made.map_err(|error| ConnectFailure::of_connect(&error)))
        {
            Ok(stream) => return Ok(Transport::Plain(stream)),
            Err(failure) => {
                cause = failure.cause;
                reasons.push(match is_address {
                    true => failure.reason,
                    false => format!("{}: {}", address.ip(), failure.reason),
                });
            }
        }
    }
    if reasons.is_empty() {
        return Err(ConnectFailure::new(cause, "its name has no address"));
    }
    Err(ConnectFailure::new(cause, reasons.join("; ")))
}

async fn connect(address: SocketAddr, settings: &ClientSettings) -> io::Result<TcpStream> {
    let socket = if address.is_ipv4() {
        TcpSocket::new_v4()?
    } else {
        TcpSocket::new_v6()?
    };
    // A negative size leaves it to the operating system.
    if let Ok(size) = u32::try_from(settings.send_buffer_bytes) {
        socket.set_send_buffer_size(size)?;
    }
    if let Ok(size) = u32::try_from(settings.receive_buffer_bytes) {
        socket.set_recv_buffer_size(size)?;
    }
    socket.set_keepalive(true)?;
    let stream = socket.connect(address).await?;
    // Where nobody listens on a local port, the system may give the socket that same port and connect it to itself.
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
