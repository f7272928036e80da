//! A service that gets a request for each record.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use tokio::{
    io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader},
    net::TcpStream,
};

use super::message::{Answer, Request};
use crate::handler::{Cx, Done, Fault};

/// Connections that wait for the next request; more are closed.
const IDLE_MAX: usize = 64;
/// What a service may answer with.
const ANSWER_BYTES_MAX: usize = 16 << 20;
const HEAD_BYTES_MAX: u64 = 64 << 10;

/// Why a service did not handle a record.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HttpHandlerError {
    #[error("{address:?} is not an address such as http://127.0.0.1:8080/orders; https needs a proxy")]
    Address { address: String },
    #[error("{host} cannot be reached: {error}")]
    Io { host: String, error: std::io::Error },
    #[error("{host} does not speak HTTP/1.1: {line:?}")]
    NoHttp { host: String, line: String },
    #[error("{host} answered {status}: {text}")]
    Status { host: String, status: u16, text: String },
    #[error("{host} answered what is no outcome: {error}")]
    NoOutcome { host: String, error: serde_json::Error },
}

/// A handler behind an address: `POST` with a record as JSON. The answer 204, or 200 without a body, means that it is done;
/// a body says more. 4xx is poison, but for 408, 425 and 429; all else is tried again.
#[derive(Debug)]
pub struct HttpHandler {
    host: String,
    path: String,
    idle: Mutex<Vec<BufReader<TcpStream>>>,
}

impl HttpHandler {
    pub fn new(address: &str) -> Result<Self, HttpHandlerError> {
        let bad = || HttpHandlerError::Address {
            address: address.to_owned(),
        };
        let rest = address.strip_prefix("http://").ok_or_else(bad)?;
        let (host, path) = rest.split_once('/').unwrap_or((rest, ""));
        if host.is_empty() || host.contains('@') || rest.contains(char::is_whitespace) {
            return Err(bad());
        }
        let port = host.rsplit_once(':').filter(|(_, port)| port.parse::<u16>().is_ok());
        Ok(Self {
            host: port.map_or_else(|| format!("{host}:80"), |_| host.to_owned()),
            path: format!("/{path}"),
            idle: Mutex::default(),
        })
    }

    /// Sends a record and waits for the answer.
    pub async fn handle(self: Arc<Self>, cx: Cx) -> Result<Done, Fault> {
        let body = serde_json::to_vec(&Request::new(0, &cx)).map_err(Fault::poison)?;
        let (status, text) = match self.idle() {
            // The service may have closed a connection that was idle; then a new one is worth a try.
            Some(idle) => match self.exchange(idle, &body).await {
                Err(HttpHandlerError::Io { .. }) => self.exchange(self.connect().await?, &body).await?,
                exchanged => exchanged?,
            },
            None => self.exchange(self.connect().await?, &body).await?,
        };
        if !(200..300).contains(&status) {
            return Err(self.refused(status, text));
        }
        if text.trim_ascii().is_empty() {
            return Ok(Done::Ok);
        }
        let answer: Answer = serde_json::from_slice(&text).map_err(|error| HttpHandlerError::NoOutcome {
            host: self.host.clone(),
            error,
        })?;
        answer.outcome()
    }

    fn refused(&self, status: u16, text: Vec<u8>) -> Fault {
        let error = HttpHandlerError::Status {
            host: self.host.clone(),
            status,
            text: String::from_utf8_lossy(&text).chars().take(1024).collect(),
        };
        match status {
            408 | 425 | 429 => Fault::retry(error),
            400..500 => Fault::poison(error),
            _ => Fault::retry(error),
        }
    }

    fn idle(&self) -> Option<BufReader<TcpStream>> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    async fn connect(&self) -> Result<BufReader<TcpStream>, HttpHandlerError> {
        let connected = tokio::time::timeout(Duration::from_secs(5), TcpStream::connect(&self.host)).await;
        let connected = connected.unwrap_or_else(|_| Err(std::io::ErrorKind::TimedOut.into()));
        let stream = connected.map_err(|error| self.io(error))?;
        stream.set_nodelay(true).map_err(|error| self.io(error))?;
        Ok(BufReader::new(stream))
    }

    fn io(&self, error: std::io::Error) -> HttpHandlerError {
        HttpHandlerError::Io {
            host: self.host.clone(),
            error,
        }
    }

    async fn exchange(
        &self,
        mut connection: BufReader<TcpStream>,
        body: &[u8],
    ) -> Result<(u16, Vec<u8>), HttpHandlerError> {
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n",
            self.path,
            self.host,
            body.len()
        );
        let mut request = head.into_bytes();
        request.extend_from_slice(body);
        connection.write_all(&request).await.map_err(|error| self.io(error))?;
        let head = self.head(&mut connection).await?;
        let mut text = vec![];
        match head.length {
            Length::Known(length) => {
                let length = length.min(ANSWER_BYTES_MAX);
                text.resize(length, 0);
                connection.read_exact(&mut text).await.map_err(|error| self.io(error))?;
            }
            Length::Chunked => self.chunks(&mut connection, &mut text).await?,
            Length::UntilClosed => {
                let mut rest = connection.take(ANSWER_BYTES_MAX as u64);
                rest.read_to_end(&mut text).await.map_err(|error| self.io(error))?;
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

    async fn line(&self, connection: &mut BufReader<TcpStream>) -> Result<String, HttpHandlerError> {
        let mut line = String::new();
        let read = connection.take(HEAD_BYTES_MAX).read_line(&mut line).await;
        match read {
            Ok(0) => Err(self.io(std::io::ErrorKind::UnexpectedEof.into())),
            Ok(_) => Ok(line.trim_end().to_owned()),
            Err(error) => Err(self.io(error)),
        }
    }

    async fn head(&self, connection: &mut BufReader<TcpStream>) -> Result<Head, HttpHandlerError> {
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

    async fn chunks(&self, connection: &mut BufReader<TcpStream>, text: &mut Vec<u8>) -> Result<(), HttpHandlerError> {
        loop {
            let line = self.line(connection).await?;
            let size = line.split(';').next().unwrap_or_default();
            let Ok(size) = usize::from_str_radix(size.trim(), 16) else {
                let host = self.host.clone();
                return Err(HttpHandlerError::NoHttp { host, line });
            };
            if size == 0 || text.len().saturating_add(size) > ANSWER_BYTES_MAX {
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
