//! Connections to services, plaintext or TLS.

use std::{fmt, io, path::Path, time::Duration};

use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader},
    net::TcpStream,
};

use super::HttpHandlerError;
#[cfg(feature = "tls")]
use super::tls::Tls;

/// Timeout of connecting, including the TLS handshake.
pub(super) const TIMEOUT: Duration = Duration::from_secs(5);

pub(super) type Connection = BufReader<Box<dyn Stream>>;

/// A bidirectional byte stream.
pub(super) trait Stream: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + fmt::Debug + Send + Unpin> Stream for S {}

/// Transport of a connection.
#[derive(Debug)]
pub(super) enum Way {
    Plain,
    #[cfg(feature = "tls")]
    Secured(Tls),
}

impl Way {
    #[cfg(feature = "tls")]
    pub(super) fn secured(address: &str, name: &str, authority: Option<&Path>) -> Result<Self, HttpHandlerError> {
        Tls::new(address, name, authority).map(Self::Secured)
    }

    #[cfg(not(feature = "tls"))]
    pub(super) fn secured(address: &str, _name: &str, _authority: Option<&Path>) -> Result<Self, HttpHandlerError> {
        Err(HttpHandlerError::NoTls {
            address: address.to_owned(),
        })
    }

    pub(super) async fn connect(&self, host: &str, limit: Duration) -> io::Result<Connection> {
        let connecting = async {
            let stream = TcpStream::connect(host).await?;
            stream.set_nodelay(true)?;
            let stream: Box<dyn Stream> = match self {
                Self::Plain => Box::new(stream),
                #[cfg(feature = "tls")]
                Self::Secured(tls) => Box::new(tls.connect(stream).await?),
            };
            Ok(BufReader::new(stream))
        };
        let connected = tokio::time::timeout(limit, connecting).await;
        connected.unwrap_or_else(|_| Err(io::ErrorKind::TimedOut.into()))
    }
}

/// Explanation of a TLS error; `None` for other errors.
#[cfg(feature = "tls")]
pub(super) fn explain(error: &io::Error) -> Option<String> {
    super::tls::explain(error)
}

#[cfg(not(feature = "tls"))]
pub(super) fn explain(_error: &io::Error) -> Option<String> {
    None
}
