//! Responses: a head of bounded size, then a body of bounded size.

use std::io;

use tokio::io::{AsyncBufReadExt, AsyncReadExt};

use super::{
    HttpError,
    connection::{self, Connection},
};

/// Bound of the head, and of all chunk heads and trailers together.
const HEAD_BYTES_MAX: usize = 64 << 10;
/// Bound of interim responses (1xx) before the real one.
const INTERIM_MAX: usize = 8;
/// Longest part of a bad line that an error shows.
const LINE_CHARS_MAX: usize = 200;

/// A response of any status.
#[derive(Clone, PartialEq, Eq)]
pub struct Response {
    pub status: u16,
    pub body: Vec<u8>,
    /// Target of a redirect, which is not followed.
    pub location: Option<String>,
}

impl Response {
    pub fn is_success(&self) -> bool {
        (200..300).contains(&self.status)
    }

    /// The beginning of the body as text, for messages.
    pub fn text(&self, chars_max: usize) -> String {
        String::from_utf8_lossy(&self.body).chars().take(chars_max).collect()
    }
}

impl std::fmt::Debug for Response {
    /// Without the body, which may be a token.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Response")
            .field("status", &self.status)
            .field("body_bytes", &self.body.len())
            .field("location", &self.location)
            .finish()
    }
}

/// Reads one response from a connection.
pub(super) struct Reader<'a> {
    host: &'a str,
    body_bytes_max: usize,
    connection: &'a mut Connection,
    /// Bytes of lines that may still come.
    line_bytes_left: usize,
}

struct Head {
    status: u16,
    length: Length,
    keeps_open: bool,
    location: Option<String>,
}

#[derive(Clone, Copy)]
enum Length {
    Known(usize),
    Chunked,
    UntilClosed,
}

impl<'a> Reader<'a> {
    pub(super) fn new(host: &'a str, body_bytes_max: usize, connection: &'a mut Connection) -> Self {
        Self {
            host,
            body_bytes_max,
            connection,
            line_bytes_left: HEAD_BYTES_MAX,
        }
    }

    /// Returns the response, and whether the connection can carry another request.
    pub(super) async fn read(&mut self) -> Result<(Response, bool), HttpError> {
        let mut head = self.head().await?;
        for _ in 0..INTERIM_MAX {
            if !(100..200).contains(&head.status) {
                break;
            }
            head = self.head().await?;
        }
        let mut body = vec![];
        match head.length {
            Length::Known(length) => self.exactly(length, &mut body).await?,
            Length::Chunked => self.chunks(&mut body).await?,
            Length::UntilClosed => self.rest(&mut body).await?,
        }
        let is_reusable = head.keeps_open && !matches!(head.length, Length::UntilClosed);
        let response = Response {
            status: head.status,
            body,
            location: head.location,
        };
        // Bytes behind the response belong to no request of ours.
        Ok((response, is_reusable && self.connection.buffer().is_empty()))
    }

    async fn head(&mut self) -> Result<Head, HttpError> {
        let first = self.line().await?;
        let status = first
            .strip_prefix("HTTP/1.")
            .and_then(|rest| rest.split(' ').nth(1))
            .and_then(|status| status.parse().ok())
            .filter(|status| (100..1000).contains(status));
        let status: u16 = status.ok_or_else(|| self.not_http(&first))?;
        let has_body = !matches!(status, 100..200 | 204 | 304);
        let mut keeps_open = first.starts_with("HTTP/1.1");
        let (mut known, mut is_chunked, mut location) = (None, false, None);
        loop {
            let line = self.line().await?;
            if line.is_empty() {
                break;
            }
            let (name, value) = line.split_once(':').ok_or_else(|| self.not_http(&line))?;
            let value = value.trim();
            match name.to_ascii_lowercase().as_str() {
                "content-length" => {
                    let length: usize = value.parse().map_err(|_| self.not_http(&line))?;
                    if known.is_some_and(|known| known != length) {
                        return Err(self.not_http(&line));
                    }
                    known = Some(length);
                }
                "transfer-encoding" if value.eq_ignore_ascii_case("chunked") => is_chunked = true,
                "transfer-encoding" => return Err(self.not_http(&line)),
                "connection" => keeps_open = !value.eq_ignore_ascii_case("close"),
                "location" => location = Some(value.chars().take(LINE_CHARS_MAX).collect()),
                _ => {}
            }
        }
        let length = match known {
            _ if !has_body => Length::Known(0),
            // The length of a chunked body is in its chunks, whatever else the head says.
            _ if is_chunked => Length::Chunked,
            Some(length) => Length::Known(length),
            None => Length::UntilClosed,
        };
        Ok(Head {
            status,
            length,
            keeps_open,
            location,
        })
    }

    async fn chunks(&mut self, body: &mut Vec<u8>) -> Result<(), HttpError> {
        loop {
            let line = self.line().await?;
            let digits = line.split(';').next().unwrap_or_default().trim();
            // A sign is valid for `from_str_radix`, but not here.
            let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
            let size = usize::from_str_radix(digits, 16).ok().filter(|_| is_hex);
            let size = size.ok_or_else(|| self.not_http(&line))?;
            if size == 0 {
                // Trailers end with an empty line.
                while !self.line().await?.is_empty() {}
                return Ok(());
            }
            self.exactly(size, body).await?;
            let end = self.line().await?;
            if !end.is_empty() {
                return Err(self.not_http(&end));
            }
        }
    }

    /// Appends exactly `length` bytes. The memory grows as they come, not as they are announced.
    async fn exactly(&mut self, length: usize, body: &mut Vec<u8>) -> Result<(), HttpError> {
        if length > self.body_bytes_max.saturating_sub(body.len()) {
            return Err(self.too_large());
        }
        let begin = body.len();
        let read = (&mut *self.connection).take(length as u64).read_to_end(body).await;
        match read {
            Ok(_) if body.len() - begin == length => Ok(()),
            Ok(_) => Err(self.lost(io::ErrorKind::UnexpectedEof.into())),
            Err(error) => Err(self.lost(error)),
        }
    }

    async fn rest(&mut self, body: &mut Vec<u8>) -> Result<(), HttpError> {
        let bound = self.body_bytes_max.saturating_add(1) as u64;
        let read = (&mut *self.connection).take(bound).read_to_end(body).await;
        read.map_err(|error| self.lost(error))?;
        if body.len() > self.body_bytes_max {
            return Err(self.too_large());
        }
        Ok(())
    }

    async fn line(&mut self) -> Result<String, HttpError> {
        let mut line = vec![];
        let bound = self.line_bytes_left as u64;
        let read = (&mut *self.connection).take(bound).read_until(b'\n', &mut line).await;
        let read = read.map_err(|error| self.lost(error))?;
        self.line_bytes_left -= read;
        let text = String::from_utf8_lossy(&line);
        if !text.ends_with('\n') {
            return Err(match self.line_bytes_left {
                0 => HttpError::TooLarge {
                    host: self.host.to_owned(),
                    limit: HEAD_BYTES_MAX,
                },
                _ if line.is_empty() => self.lost(io::ErrorKind::UnexpectedEof.into()),
                _ => self.not_http(&text),
            });
        }
        Ok(text.trim_end().to_owned())
    }

    fn not_http(&self, line: &str) -> HttpError {
        HttpError::NotHttp {
            host: self.host.to_owned(),
            line: line.chars().take(LINE_CHARS_MAX).collect(),
        }
    }

    fn lost(&self, error: io::Error) -> HttpError {
        connection::lost(error, self.host)
    }

    fn too_large(&self) -> HttpError {
        HttpError::TooLarge {
            host: self.host.to_owned(),
            limit: self.body_bytes_max,
        }
    }
}
