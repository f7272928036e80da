//! Handlers that are HTTP services.

use std::{
    borrow::Cow,
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt};

use super::{
    connection::{Connection, TIMEOUT, Way, explain},
    duration_text,
    message::{OutcomeMessage, Request},
};
use crate::handler::{Cx, Done, Fault};

/// Bound of idle connections; excess ones are closed.
const IDLE_MAX: usize = 64;
/// Bound of a response's size.
const RESPONSE_BYTES_MAX: usize = 16 << 20;
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// Reason why a service did not handle a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpHandlerError {
    #[error("{address:?} is not an address such as http://127.0.0.1:8080/orders or https://orders.example")]
    Address { address: String },
    #[error("{address:?} is https, but this build has no TLS; build it with the feature tls")]
    NoTls { address: String },
    #[error("http_ca is {path}, but {address:?} is not https; remove http_ca")]
    NotTls { address: String, path: PathBuf },
    #[error("reading CA certificates from {path} failed: {problem}")]
    Authority { path: PathBuf, problem: String },
    #[error("no trusted CA certificates found; install ca-certificates, or set http_ca")]
    NoAuthorities,
    #[error("TLS with {host} fails: {problem}")]
    Tls { host: String, problem: String },
    #[error("{host} cannot be reached: {error}")]
    Unreachable { host: String, error: std::io::Error },
    #[error("the connection to {host} was lost before the response: {error}")]
    Io { host: String, error: std::io::Error },
    #[error("{host} timed out after {limit} ({setting})")]
    TimedOut {
        host: String,
        limit: String,
        setting: String,
    },
    #[error("{host} does not speak HTTP/1.1: {line:?}")]
    NoHttp { host: String, line: String },
    #[error("{host} responded with {status}: {text}")]
    Status { host: String, status: u16, text: String },
    #[error("the response of {host} is larger than {limit} bytes")]
    TooLarge { host: String, limit: usize },
    #[error("the response of {host} is not a valid outcome: {error}")]
    NoOutcome { host: String, error: serde_json::Error },
}

impl HttpHandlerError {
    /// Class of the failure for dead letters.
    fn class(&self) -> Cow<'static, str> {
        Cow::Borrowed(match self {
            Self::Status { status, .. } => return format!("http.{status}").into(),
            Self::Unreachable { .. } => "http.unreachable",
            Self::Tls { .. } => "http.tls",
            Self::Io { .. } => "http.disconnected",
            Self::TimedOut { .. } => "http.timeout",
            Self::NoHttp { .. } => "http.protocol",
            Self::TooLarge { .. } => "http.too_large",
            Self::NoOutcome { .. } => "http.invalid_reply",
            Self::Address { .. }
            | Self::NoTls { .. }
            | Self::NotTls { .. }
            | Self::Authority { .. }
            | Self::NoAuthorities => "http.configuration",
        })
    }

    /// Returns whether the service is down, so that the record is not at fault.
    fn is_down(&self) -> bool {
        match self {
            Self::Unreachable { .. } | Self::Tls { .. } => true,
            Self::Status { status, .. } => matches!(status, 502..=504),
            _ => false,
        }
    }
}

/// An HTTP service that handles records: `POST` with a record as JSON. 204, or 200 without a body, means done; a body
/// has the outcome. 4xx is poison, except 408, 425 and 429. Everything else is retried. With a
/// [breaker](Self::breaker), 502, 503, 504 and a service that cannot be reached are not failures of the record.
#[derive(Debug)]
pub struct HttpHandler {
    host: String,
    path: String,
    way: Way,
    timeout: Option<Duration>,
    /// Path of the handler in its file, for messages.
    place: String,
    breaker: Option<String>,
    idle: Mutex<Vec<Connection>>,
}

impl HttpHandler {
    /// A service at a URL. With https, its certificate must be signed by a CA that the system trusts.
    pub fn new(address: &str) -> Result<Self, HttpHandlerError> {
        Self::with_authority(address, None)
    }

    /// A service with additional CA certificates from a PEM file.
    pub fn with_authority(address: &str, authority: Option<&Path>) -> Result<Self, HttpHandlerError> {
        let owned = || address.to_owned();
        let plain = address.strip_prefix("http://").map(|rest| (rest, 80));
        let secured = || address.strip_prefix("https://").map(|rest| (rest, 443));
        let found = plain.or_else(secured);
        let (rest, port) = found.ok_or_else(|| HttpHandlerError::Address { address: owned() })?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() || host.contains('@') || rest.contains(char::is_whitespace) {
            return Err(HttpHandlerError::Address { address: owned() });
        }
        let named = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        let name = named.map_or(host, |(name, _)| name);
        let way = match (plain.is_some(), authority) {
            (true, None) => Way::Plain,
            (true, Some(path)) => {
                let path = path.to_owned();
                return Err(HttpHandlerError::NotTls { address: owned(), path });
            }
            (false, authority) => Way::secured(address, name.trim_matches(['[', ']']), authority)?,
        };
        Ok(Self {
            host: named.map_or_else(|| format!("{host}:{port}"), |_| host.to_owned()),
            path: format!("/{path}"),
            way,
            timeout: None,
            place: "handler".to_owned(),
            breaker: None,
            idle: Mutex::default(),
        })
    }

    /// Timeout of a response. `place` names the handler in messages, such as `handlers[0]`.
    #[must_use]
    pub fn timeout(mut self, limit: Option<Duration>, place: impl Into<String>) -> Self {
        (self.timeout, self.place) = (limit, place.into());
        self
    }

    /// Counts 502, 503, 504 and connection failures in this breaker; meanwhile the record waits.
    #[must_use]
    pub fn breaker(mut self, name: impl Into<String>) -> Self {
        self.breaker = Some(name.into());
        self
    }

    /// Sends a record and waits for the response.
    pub async fn handle(self: Arc<Self>, cx: Cx) -> Result<Done, Fault> {
        let body = serde_json::to_vec(&Request::new(0, &cx)).map_err(Fault::poison)?;
        let (status, text) = self.post(&body).await.map_err(|error| self.fault(error))?;
        if !(200..300).contains(&status) {
            return Err(self.fault(self.refused(status, text)));
        }
        if text.trim_ascii().is_empty() {
            return Ok(Done::Ok);
        }
        let response: Result<OutcomeMessage, _> = serde_json::from_slice(&text);
        let response = response.map_err(|error| {
            let host = self.host.clone();
            self.fault(HttpHandlerError::NoOutcome { host, error })
        })?;
        response.outcome()
    }

    async fn post(&self, body: &[u8]) -> Result<(u16, Vec<u8>), HttpHandlerError> {
        if let Some(idle) = self.idle() {
            match self.exchange_in_time(idle, body).await {
                // The service may have closed an idle connection; a new one is worth a try.
                Err(HttpHandlerError::Io { .. }) => {}
                exchanged => return exchanged,
            }
        }
        let connection = self.connect().await?;
        self.exchange_in_time(connection, body).await
    }

    async fn exchange_in_time(&self, connection: Connection, body: &[u8]) -> Result<(u16, Vec<u8>), HttpHandlerError> {
        let exchange = self.exchange(connection, body);
        let Some(limit) = self.timeout else {
            return exchange.await;
        };
        let in_time = tokio::time::timeout(limit, exchange).await;
        in_time.unwrap_or_else(|_| {
            Err(HttpHandlerError::TimedOut {
                host: self.host.clone(),
                limit: duration_text(limit),
                setting: format!("{}.timeout", self.place),
            })
        })
    }

    fn refused(&self, status: u16, text: Vec<u8>) -> HttpHandlerError {
        HttpHandlerError::Status {
            host: self.host.clone(),
            status,
            text: String::from_utf8_lossy(&text).chars().take(1024).collect(),
        }
    }

    fn fault(&self, error: HttpHandlerError) -> Fault {
        let class = error.class();
        let fault = match (&self.breaker, &error) {
            (Some(name), error_) if error_.is_down() => Fault::dependency(name.clone())(error),
            (_, HttpHandlerError::Status { status, .. }) => match status {
                408 | 425 | 429 => Fault::retry(error),
                400..500 => Fault::poison(error),
                _ => Fault::retry(error),
            },
            _ => Fault::retry(error),
        };
        fault.with_class(class)
    }

    fn idle(&self) -> Option<Connection> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    async fn connect(&self) -> Result<Connection, HttpHandlerError> {
        let limit = self.timeout.map_or(TIMEOUT, |limit| limit.min(TIMEOUT));
        let connected = self.way.connect(&self.host, limit).await;
        connected.map_err(|error| match explain(&error) {
            Some(problem) => HttpHandlerError::Tls {
                host: self.host.clone(),
                problem,
            },
            None => HttpHandlerError::Unreachable {
                host: self.host.clone(),
                error,
            },
        })
    }

    fn io(&self, error: std::io::Error) -> HttpHandlerError {
        HttpHandlerError::Io {
            host: self.host.clone(),
            error,
        }
    }

    async fn exchange(&self, mut connection: Connection, body: &[u8]) -> Result<(u16, Vec<u8>), HttpHandlerError> {
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.path,
            self.host,
            body.len()
        );
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        connection.write_all(&request).await.map_err(|error| self.io(error))?;
        connection.flush().await.map_err(|error| self.io(error))?;
        let head = self.head(&mut connection).await?;
        let mut text = vec![];
        match head.length {
            Length::Known(length) => {
                self.check(length)?;
                text.resize(length, 0);
                connection.read_exact(&mut text).await.map_err(|error| self.io(error))?;
            }
            Length::Chunked => self.chunks(&mut connection, &mut text).await?,
            Length::UntilClosed => {
                let mut rest = connection.take(RESPONSE_BYTES_MAX as u64 + 1);
                rest.read_to_end(&mut text).await.map_err(|error| self.io(error))?;
                self.check(text.len())?;
                return Ok((head.status, text));
            }
        }
        if head.keeps_open {
            let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
            if idle.len() < IDLE_MAX {
                idle.push(connection);
            }
        }
        Ok((head.status, text))
    }

    /// A truncated response is an error; its rest would be read as the next response.
    fn check(&self, length: usize) -> Result<(), HttpHandlerError> {
        if length <= RESPONSE_BYTES_MAX {
            return Ok(());
        }
        Err(HttpHandlerError::TooLarge {
            host: self.host.clone(),
            limit: RESPONSE_BYTES_MAX,
        })
    }

    async fn line(&self, connection: &mut Connection) -> Result<String, HttpHandlerError> {
        let mut line = String::new();
        let read = connection.take(HEAD_BYTES_MAX).read_line(&mut line).await;
        match read {
            Ok(0) => Err(self.io(std::io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(self.io(error)),
        }
    }

    async fn head(&self, connection: &mut Connection) -> Result<Head, HttpHandlerError> {
        let first = self.line(connection).await?;
        let status = first
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split(' ').nth(1))
            .and_then(|status| status.parse().ok());
        let Some(status) = status else {
            let (host, line) = (self.host.clone(), first);
            return Err(HttpHandlerError::NoHttp { host, line });
        };
        let has_body = status != 204 && status != 304;
        let mut head = Head {
            status,
            length: if has_body {
                Length::UntilClosed
            } else {
                Length::Known(0)
            },
            keeps_open: first.starts_with("HTTP/1.1"),
        };
        loop {
            let line = self.line(connection).await?;
            let Some((name, value)) = line.split_once(':') else {
                return Ok(head);
            };
            let value = value.trim();
            if name.eq_ignore_ascii_case("content-length") && has_body {
                head.length = value.parse().map_or(Length::UntilClosed, Length::Known);
            } else if name.eq_ignore_ascii_case("transfer-encoding") && value.eq_ignore_ascii_case("chunked") {
                head.length = Length::Chunked;
            } else if name.eq_ignore_ascii_case("connection") {
                head.keeps_open = !value.eq_ignore_ascii_case("close");
            }
        }
    }

    async fn chunks(&self, connection: &mut Connection, text: &mut Vec<u8>) -> Result<(), HttpHandlerError> {
        loop {
            let line = self.line(connection).await?;
            let size = line.split(';').next().unwrap_or_default();
            let Ok(size) = usize::from_str_radix(size.trim(), 16) else {
                let host = self.host.clone();
                return Err(HttpHandlerError::NoHttp { host, line });
            };
            self.check(text.len().saturating_add(size))?;
            if size == 0 {
                // Trailers end with an empty line.
                while !self.line(connection).await?.is_empty() {}
                return Ok(());
            }
            let begin = text.len();
            text.resize(begin + size, 0);
            let chunk = text.get_mut(begin..).unwrap_or_default();
            connection.read_exact(chunk).await.map_err(|error| self.io(error))?;
            self.line(connection).await?;
        }
    }
}

struct Head {
    status: u16,
    length: Length,
    keeps_open: bool,
}

enum Length {
    Known(usize),
    Chunked,
    UntilClosed,
}

#[cfg(test)]
mod tests {
    use tokio::net::TcpListener;

    use super::*;

    #[tokio::test]
    async fn a_response_that_is_too_large_is_refused() {
        for head in [
            "Content-Length: 16777217\r\n\r\n",
            "Transfer-Encoding: chunked\r\n\r\n1000001\r\n",
        ] {
            let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
            let handler = HttpHandler::new(&format!("http://{}/", listener.local_addr().unwrap())).unwrap();
            let service = async {
                let (mut stream, _) = listener.accept().await.unwrap();
                let response = format!("HTTP/1.1 200 OK\r\n{head}");
                stream.write_all(response.as_bytes()).await.unwrap();
                stream
            };
            let ask = async { handler.exchange(handler.connect().await?, b"{}").await };
            let (response, _stream) = tokio::join!(ask, service);
            assert!(
                matches!(response, Err(HttpHandlerError::TooLarge { .. })),
                "{response:?}"
            );
            assert!(handler.idle().is_none(), "the rest of it may still come");
        }
    }

    #[cfg(not(feature = "tls"))]
    #[test]
    fn a_build_without_tls_says_so() {
        let refused = HttpHandler::new("https://orders.example/");
        assert!(matches!(refused, Err(HttpHandlerError::NoTls { .. })), "{refused:?}");
    }
}
