//! Connections to services, plaintext or TLS.

use std::{io, sync::Arc};

use tokio::{
    io::{AsyncRead, AsyncWrite, BufReader},
    net::TcpStream,
};
use tokio_rustls::{
    TlsConnector,
    rustls::{self, CertificateError, ClientConfig, pki_types::ServerName},
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
    pub(super) fn secured(url: &Url, tls: &Arc<ClientConfig>) -> Result<Self, HttpError> {
        // Certificates never have the dot of an absolute name.
        let name = url.host().trim_end_matches('.').to_owned();
        let name = ServerName::try_from(name).map_err(|error| HttpError::Tls {
            host: url.authority().to_owned(),
            problem: error.to_string(),
            is_untrusted: false,
        })?;
        let mut config = ClientConfig::clone(tls);
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

/// Explains an error of the handshake, with a remedy.
fn tls_error(error: io::Error, host: String) -> HttpError {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<rustls::Error>());
    let Some(inner) = inner else {
        return HttpError::Unreachable { host, error };
    };
    let advice = match inner {
        rustls::Error::InvalidMessage(_) => "; the port may serve HTTP without TLS",
        _ => "",
    };
    let untrusted = rustls::Error::InvalidCertificate(CertificateError::UnknownIssuer);
    HttpError::Tls {
        host,
        problem: format!("{inner}{advice}"),
        is_untrusted: *inner == untrusted,
    }
}
