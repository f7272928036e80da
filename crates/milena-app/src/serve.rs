//! HTTP endpoints of an application: `/metrics`, `/healthz`, `/readyz` and `/status`.
//!
//! It serves GET and HEAD, one request per connection. Size and duration of a request, and the number of connections,
//! are bounded.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};

use crate::{error::StartError, status::Status, view::View};

/// Bound of a request's size.
const REQUEST_BYTES_MAX: usize = 8 * 1024;
/// Bound of the time for a request and its response.
const REQUEST_TIME: Duration = Duration::from_secs(10);
/// Bound of concurrent connections. Others wait in the listen queue.
const CONNECTIONS_MAX: usize = 64;
/// Wait after an accept error, such as too many open files.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

const TEXT: &str = "text/plain; charset=utf-8";
/// Content type of Prometheus' text format.
const METRICS: &str = "text/plain; version=0.0.4; charset=utf-8";
const JSON: &str = "application/json";

/// Paths that an endpoint serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Paths {
    All,
    /// `/metrics` only.
    Metrics,
}

/// A bound endpoint.
pub(crate) struct Endpoint {
    pub(crate) address: SocketAddr,
    pub(crate) paths: Paths,
    listener: TcpListener,
}

impl Endpoint {
    /// Binds the address. Fails if it is in use.
    pub(crate) async fn bind(address: &str, paths: Paths) -> Result<Self, StartError> {
        let error = |error: io::Error| StartError::Serve {
            address: address.to_owned(),
            error,
        };
        let listener = TcpListener::bind(address).await.map_err(error)?;
        let address = listener.local_addr().map_err(error)?;
        Ok(Self {
            address,
            paths,
            listener,
        })
    }

    /// Serves requests until the task is aborted.
    pub(crate) async fn run(self, view: Arc<View>) {
        let (paths, permits) = (self.paths, Arc::new(Semaphore::new(CONNECTIONS_MAX)));
        while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(event = "endpoint_accept_failed", %error, "the HTTP endpoint cannot accept connections: {error}");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                    continue;
                }
            };
            let view = Arc::clone(&view);
            tokio::spawn(async move {
                // A client that disconnects or is too slow needs no report.
                let _ = timeout(REQUEST_TIME, serve(stream, paths, &view)).await;
                drop(permit);
            });
        }
    }
}

async fn serve(mut stream: TcpStream, paths: Paths, view: &View) -> io::Result<()> {
    let mut request = Vec::with_capacity(1024);
    let response = loop {
        if let Some(head) = head(&request) {
            break respond(head, paths, view);
        }
        if request.len() >= REQUEST_BYTES_MAX {
            break Response::text(431, "request too large");
        }
        let room = REQUEST_BYTES_MAX - request.len();
        let mut limited = (&mut stream).take(room as u64);
        if limited.read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    };
    stream.write_all(&response.bytes()).await?;
    stream.shutdown().await
}

/// Returns the request without its body, once all of it is there.
fn head(request: &[u8]) -> Option<&[u8]> {
    let end = request.windows(4).position(|window| window == b"\r\n\r\n")?;
    request.get(..end)
}

#[derive(Debug, PartialEq, Eq)]
struct Response {
    code: u16,
    kind: &'static str,
    body: String,
    /// HEAD: the body is left out.
    is_head: bool,
}

impl Response {
    fn text(code: u16, body: impl Into<String>) -> Self {
        let mut body: String = body.into();
        body.push('\n');
        Self {
            code,
            kind: TEXT,
            body,
            is_head: false,
        }
    }

    fn bytes(&self) -> Vec<u8> {
        let reason = match self.code {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            _ => "Service Unavailable",
        };
        let Self { code, kind, body, .. } = self;
        let allow = if *code == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {code} {reason}\r\nContent-Type: {kind}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\n{allow}Connection: close\r\n\r\n"
        );
        let mut bytes = head.into_bytes();
        if !self.is_head {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }
}

fn respond(head: &[u8], paths: Paths, view: &View) -> Response {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let words: Vec<&str> = match std::str::from_utf8(line) {
        Ok(line) => line.split(' ').collect(),
        Err(_) => vec![],
    };
    let [method, target, "HTTP/1.1" | "HTTP/1.0"] = words.as_slice() else {
        return Response::text(400, "not an HTTP/1.1 request");
    };
    if !matches!(*method, "GET" | "HEAD") {
        return Response::text(405, "use GET");
    }
    let path = target.split('?').next().unwrap_or_default();
    let response = match path {
        "/metrics" => Response {
            kind: METRICS,
            body: view.to_prometheus(),
            ..Response::text(200, "")
        },
        _ if paths == Paths::Metrics => Response::text(404, "use /metrics"),
        "/healthz" => health(&view.status(), Status::is_healthy),
        "/readyz" => health(&view.status(), Status::is_ready),
        "/status" => Response {
            kind: JSON,
            ..Response::text(200, view.status().to_json().to_string())
        },
        _ => Response::text(404, "use /metrics, /healthz, /readyz or /status"),
    };
    Response {
        is_head: *method == "HEAD",
        ..response
    }
}

/// 200 if the condition holds, otherwise 503 with the reasons.
fn health(status: &Status, is_well: fn(&Status) -> bool) -> Response {
    if is_well(status) {
        return Response::text(200, "ok");
    }
    let mut reasons: Vec<String> = status.failure.iter().cloned().collect();
    reasons.extend(status.stuck().map(ToString::to_string));
    if reasons.is_empty() {
        reasons.push("not a member of its group yet".to_owned());
    }
    Response::text(503, reasons.join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn code(request: &str) -> u16 {
        respond(request.as_bytes(), Paths::All, &View::new(&[])).code
    }

    #[test]
    fn only_complete_requests_to_known_paths_are_served() {
        assert_eq!(head(b"GET / HTTP/1.1\r\nHost: a\r\n"), None);
        assert_eq!(head(b"GET / HTTP/1.1\r\n\r\nbody"), Some(&b"GET / HTTP/1.1"[..]));
        assert_eq!(code("GET /metrics HTTP/1.1\r\nHost: a"), 200);
        assert_eq!(code("GET /healthz?verbose HTTP/1.0"), 200);
        assert_eq!(code("GET /other HTTP/1.1"), 404);
        assert_eq!(code("POST /metrics HTTP/1.1"), 405);
        assert_eq!(code("GET /metrics"), 400);
        assert_eq!(code("GET  /metrics HTTP/1.1"), 400);
        assert_eq!(code("\u{7f}"), 400);
    }

    #[test]
    fn a_metrics_endpoint_serves_nothing_else() {
        let code = |request: &str| respond(request.as_bytes(), Paths::Metrics, &View::new(&[])).code;
        assert_eq!(code("GET /metrics HTTP/1.1"), 200);
        for path in ["/", "/healthz", "/readyz", "/status"] {
            assert_eq!(code(&format!("GET {path} HTTP/1.1")), 404, "{path}");
        }
    }

    #[test]
    fn a_head_has_the_length_and_not_the_body() {
        let response = respond(b"HEAD /healthz HTTP/1.1", Paths::All, &View::new(&[]));
        let bytes = String::from_utf8(response.bytes()).unwrap();
        assert!(bytes.contains("Content-Length: 3\r\n"), "{bytes}");
        assert!(bytes.ends_with("\r\n\r\n"), "{bytes}");
    }
}
