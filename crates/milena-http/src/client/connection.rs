//! Connections to services, plaintext or TLS.

use std::{io, sync::Arc};

use milena_security::tls;
use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{self, ClientConfig, pki_types::ServerName},
};

use super::HttpError;
use crate::url::Url;

pub(super) type Connection = BufReader<Box<dyn Stream>>;

/// A bidirectional byte stream.
pub(super) trait Stream: AsyncRead + AsyncWrite + Send + Unpin {}

impl<S: AsyncRead + AsyncWrite + Send + Unpin> Stream for S {}

/// The way to a service.
#[derive(Clone)]
pub(super) enum Transport {
    Plain,
    Secured {
        connector: TlsConnector,
        /// The name that the certificate must have.
        name: ServerName<'static>,
    },
}

impl Transport {
    pub(super) fn secured(url: &Url, config: &Arc<ClientConfig>) -> Result<Self, HttpError> {
        let name = tls::server_name(url.host()).map_err(|error| HttpError::Tls {
            host: url.authority().to_owned(),
            problem: error.to_string(),
            is_untrusted: false,
        })?;
        let mut config = ClientConfig::clone(config);
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self::Secured {
            connector: TlsConnector::from(Arc::new(config)),
            name,
        })
    }

    pub(super) async fn connect(self, url: &Url) -> Result<Connection, HttpError> {
        let host = || url.authority().to_owned();
        let unreachable = |error| HttpError::Unreachable { host: host(), error };
        let connecting = TcpStream::connect((url.host(), url.port()));
        let stream = connecting.await.map_err(unreachable)?;
        stream.set_nodelay(true).map_err(unreachable)?;
        let stream: Box<dyn Stream> = match self {
            Self::Plain => Box::new(stream),
            Self::Secured { connector, name } => {
                let handshake = connector.connect(name, stream).await;
                Box::new(handshake.map_err(|error| tls_error(error, host()))?)
            }
        };
        Ok(BufReader::new(stream))
    }
}

/// The error of a request whose connection failed. With TLS 1.3, a service refuses a client's certificate only here.
pub(super) fn lost(error: io::Error, host: &str) -> HttpError {
    let host = host.to_owned();
    match cause(&error) {
        Some(_) => tls_error(error, host),
        None => HttpError::Disconnected { host, error },
    }
}

fn cause(error: &io::Error) -> Option<&rustls::Error> {
    error.get_ref()?.downcast_ref()
}

/// Explains an error of TLS, with a remedy.
fn tls_error(error: io::Error, host: String) -> HttpError {
    let Some(inner) = cause(&error) else {
        return HttpError::Unreachable { host, error };
    };
    let problem = match inner {
        rustls::Error::InvalidMessage(_) => format!("{inner}; the port may serve HTTP without TLS"),
        rustls::Error::InvalidCertificate(_) | rustls::Error::AlertReceived(_) => tls::explain(&error, &host).text,
        _ => inner.to_string(),
    };
    HttpError::Tls {
        is_untrusted: matches!(inner, rustls::Error::InvalidCertificate(_)),
        host,
        problem,
    }
}
