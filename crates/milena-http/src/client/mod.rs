//! The client of one URL: bounded responses, timeouts, and connections that are kept open between requests.
//!
//! Redirects are not followed: a token or a password would go to a host that the caller has not named. The response has the
//! target.

mod connection;
mod request;
mod response;

use std::{
    fmt, io,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::io::AsyncWriteExt;
use tokio_rustls::rustls::ClientConfig;

use self::connection::{Connection, Transport};
pub use self::{
    request::{Request, form},
    response::Response,
};
use crate::url::{Scheme, Url, UrlError};

/// Bounds of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientOptions {
    /// Timeout of connecting, including the TLS handshake.
    pub connect_timeout: Duration,
    /// Timeout of a request and its whole response on an open connection; `None` waits for ever.
    pub response_timeout: Option<Duration>,
    /// The largest body of a response. A larger one is an error.
    pub response_bytes_max: usize,
    /// Connections that are kept between requests; excess ones are closed.
    pub idle_max: usize,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            connect_timeout: Duration::from_secs(5),
            response_timeout: Some(Duration::from_secs(10)),
            response_bytes_max: 1 << 20,
            idle_max: 1,
        }
    }
}

/// Reason why there is no response. It never contains a header or a body of the request.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpError {
    #[error(transparent)]
    Url(#[from] UrlError),
    #[error("{url} is https, but the client has no TLS configuration")]
    NoTls { url: String },
    #[error("{url} is http, but TLS is configured; use https")]
    NotTls { url: String },
    #[error("{name} is not a valid header: its name is no token, or its value has control characters")]
    Header { name: String },
    #[error("TLS with {host} fails: {problem}")]
    Tls {
        host: String,
        problem: String,
        /// The certificate of the service is refused here.
        is_untrusted: bool,
    },
    #[error("{host} cannot be reached: {error}")]
    Unreachable { host: String, error: io::Error },
    #[error("the connection to {host} was lost before the response: {error}")]
    Disconnected { host: String, error: io::Error },
    #[error("{host} did not respond within {} ms", limit.as_millis())]
    TimedOut { host: String, limit: Duration },
    #[error("{host} does not speak HTTP/1.1: {line:?}")]
    NotHttp { host: String, line: String },
    #[error("the response of {host} is larger than {limit} bytes")]
    TooLarge { host: String, limit: usize },
}

/// A client of one URL. Clones of an [`Arc`] share its connections.
pub struct Client {
    url: Url,
    options: ClientOptions,
    transport: Mutex<Transport>,
    idle: Mutex<Vec<Connection>>,
}

impl Client {
    /// A client of an `http` URL.
    pub fn plain(url: Url, options: ClientOptions) -> Result<Self, HttpError> {
        match url.scheme() {
            Scheme::Http => Ok(Self::with(url, options, Transport::Plain)),
            Scheme::Https => Err(HttpError::NoTls { url: url.to_string() }),
        }
    }

    /// A client of an `https` URL.
    pub fn secured(url: Url, options: ClientOptions, tls: &Arc<ClientConfig>) -> Result<Self, HttpError> {
        if url.scheme() == Scheme::Http {
            return Err(HttpError::NotTls { url: url.to_string() });
        }
        let transport = Transport::secured(&url, tls)?;
        Ok(Self::with(url, options, transport))
    }

    fn with(url: Url, options: ClientOptions, transport: Transport) -> Self {
        Self {
            url,
            options,
            transport: Mutex::new(transport),
            idle: Mutex::default(),
        }
    }

    /// Timeouts of connecting and of a response, instead of those in the options.
    pub fn set_timeouts(&mut self, connect: Duration, response: Option<Duration>) {
        (self.options.connect_timeout, self.options.response_timeout) = (connect, response);
    }

    pub fn url(&self) -> &Url {
        &self.url
    }

    /// Takes a new TLS configuration for the connections from now on: certificates were reloaded.
    pub fn replace_tls(&self, tls: &Arc<ClientConfig>) -> Result<(), HttpError> {
        if self.url.scheme() == Scheme::Https {
            let transport = Transport::secured(&self.url, tls)?;
            *self.transport.lock().unwrap_or_else(PoisonError::into_inner) = transport;
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        Ok(())
    }

    /// Sends a request and returns the response, whatever its status.
    ///
    /// If a kept connection turns out to be closed, the request is sent once more on a new one. A service may therefore
    /// see a request twice.
    pub async fn send(&self, request: &Request<'_>) -> Result<Response, HttpError> {
        let bytes = request.to_bytes(&self.url)?;
        if let Some(idle) = self.idle() {
            match self.exchange_in_time(idle, &bytes).await {
                // The service may have closed an idle connection.
                Err(HttpError::Disconnected { .. }) => {}
                exchanged => return exchanged,
            }
        }
        let connection = self.connect().await?;
        self.exchange_in_time(connection, &bytes).await
    }

    fn idle(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    async fn connect(&self) -> Result<Connection, HttpError> {
        let transport = self.transport.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let connecting = transport.connect(&self.url);
        let connected = tokio::time::timeout(self.options.connect_timeout, connecting).await;
        connected.unwrap_or_else(|_| {
            Err(HttpError::Unreachable {
                host: self.url.authority().to_owned(),
                error: io::ErrorKind::TimedOut.into(),
            })
        })
    }

    async fn exchange_in_time(&self, connection: Connection, request: &[u8]) -> Result<Response, HttpError> {
        let exchange = self.exchange(connection, request);
        let Some(limit) = self.options.response_timeout else {
            return exchange.await;
        };
        let in_time = tokio::time::timeout(limit, exchange).await;
        in_time.unwrap_or_else(|_| {
            Err(HttpError::TimedOut {
                host: self.url.authority().to_owned(),
                limit,
            })
        })
    }

    async fn exchange(&self, mut connection: Connection, request: &[u8]) -> Result<Response, HttpError> {
        let host = self.url.authority();
        let lost = |error| connection::lost(error, host);
        connection.write_all(request).await.map_err(lost)?;
        connection.flush().await.map_err(lost)?;
        let mut reader = response::Reader::new(host, self.options.response_bytes_max, &mut connection);
        let (response, is_reusable) = reader.read().await?;
        if is_reusable {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < self.options.idle_max {
                idle.push(connection);
            }
        }
        Ok(response)
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client")
            .field("url", &self.url)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
