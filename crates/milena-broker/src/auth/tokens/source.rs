//! The source of an issuer's keys: a file or a URL.

use std::{
    fs::File,
    io::{self, Read},
    path::{Path, PathBuf},
    time::Duration,
};

use milena_http::{Client, ClientOptions, HttpError, Request, Scheme};
use milena_security::{
    jwt::{Jwks, JwtError},
    tls::{ClientTls, TlsError},
};
use tokio::time::Instant;

use crate::config::{JwksOptions, JwksSource};

/// The largest key set.
const KEYS_BYTES_MAX: usize = 1 << 20;
/// Characters of an error response in an error.
const ERROR_CHARS_MAX: usize = 200;

/// A source that can be read again and again.
#[derive(Debug)]
pub(super) struct KeySource {
    reader: Reader,
    backoff: Duration,
    /// The time for all attempts.
    attempts_time: Duration,
}

enum Reader {
    File(PathBuf),
    Http {
        client: Box<Client>,
        tls: Option<Box<ClientTls>>,
    },
}

/// A key set that cannot be read.
#[derive(Debug, thiserror::Error)]
pub(super) enum SourceError {
    #[error("cannot read {}: {source}", path.display())]
    File { path: PathBuf, source: io::Error },
    #[error(transparent)]
    Http(#[from] HttpError),
    #[error("{url} responds with status {status}: {text}")]
    Status { url: String, status: u16, text: String },
    #[error(transparent)]
    Tls(#[from] TlsError),
    #[error(transparent)]
    Keys(#[from] JwtError),
}

impl KeySource {
    pub(super) fn open(options: &JwksOptions) -> Result<Self, SourceError> {
        let reader = match &options.source {
            JwksSource::File(path) => Reader::File(path.clone()),
            JwksSource::Url(url) => {
                let bounds = ClientOptions {
                    response_bytes_max: KEYS_BYTES_MAX,
                    ..ClientOptions::default()
                };
                match url.scheme() {
                    Scheme::Http => Reader::Http {
                        client: Box::new(Client::plain(url.clone(), bounds)?),
                        tls: None,
                    },
                    Scheme::Https => {
                        let tls = ClientTls::new(&options.tls)?;
                        Reader::Http {
                            client: Box::new(Client::secured(url.clone(), bounds, &tls.config())?),
                            tls: Some(Box::new(tls)),
                        }
                    }
                }
            }
        };
        Ok(Self {
            reader,
            backoff: Duration::from_millis(options.backoff_ms.max(1)),
            attempts_time: Duration::from_millis(options.backoff_ms_max),
        })
    }

    /// Whether the keys can be replaced on their way.
    pub(super) fn is_in_clear(&self) -> bool {
        matches!(&self.reader, Reader::Http { tls: None, .. })
    }

    /// Reads the keys, with further attempts after errors.
    pub(super) async fn read(&self) -> Result<Jwks, SourceError> {
        let end = Instant::now() + self.attempts_time;
        let mut wait = self.backoff;
        loop {
            let error = match self.read_once().await {
                Ok(keys) => return Ok(keys),
                Err(error) => error,
            };
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(error);
            }
            tokio::time::sleep(wait.min(left)).await;
            wait = wait.saturating_mul(2);
        }
    }

    async fn read_once(&self) -> Result<Jwks, SourceError> {
        let bytes = match &self.reader {
            Reader::File(path) => {
                let failed = |source| SourceError::File {
                    path: path.clone(),
                    source,
                };
                let own = path.clone();
                let read = tokio::task::spawn_blocking(move || read_file(&own)).await;
                read.map_err(|error| failed(io::Error::other(error)))?.map_err(failed)?
            }
            Reader::Http { client, tls } => {
                if let Some(tls) = tls
                    && tls.reload_if_changed()?
                {
                    client.replace_tls(&tls.config())?;
                }
                let response = client
                    .send(&Request::get().header("Accept", "application/json"))
                    .await?;
                if response.status != 200 {
                    return Err(SourceError::Status {
                        url: client.url().to_string(),
                        status: response.status,
                        text: response.text(ERROR_CHARS_MAX),
                    });
                }
                response.body
            }
        };
        Ok(Jwks::parse(&bytes)?)
    }
}

fn read_file(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = vec![];
    File::open(path)?
        .take(KEYS_BYTES_MAX as u64 + 1)
        .read_to_end(&mut bytes)?;
    if bytes.len() > KEYS_BYTES_MAX {
        return Err(io::Error::other(format!("it is larger than {KEYS_BYTES_MAX} bytes")));
    }
    Ok(bytes)
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

impl std::fmt::Display for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::File(path) => write!(f, "{}", path.display()),
            Self::Http { client, .. } => write!(f, "{}", client.url()),
        }
    }
}

impl std::fmt::Display for KeySource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.reader.fmt(f)
    }
}
