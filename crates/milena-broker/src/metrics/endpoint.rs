//! The HTTP endpoint of the metrics: `GET /metrics`, one request for each connection.
//!
//! The cost of a client is bounded: the length of its request, the time that it takes, and the number of connections.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};

use super::{collect::render, text::CONTENT_TYPE};
use crate::node::Node;

const REQUEST_BYTES_MAX: usize = 8 << 10;
/// The longest time of a request and its response.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// Connections that are served at once; others wait to be accepted.
const CONNECTIONS_MAX: usize = 16;
/// The backoff after an error of the listener, such as too many open files.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

pub(crate) async fn bind(address: &str) -> io::Result<(TcpListener, SocketAddr)> {
    let listener = TcpListener::bind(address).await?;
    let address = listener.local_addr()?;
    Ok((listener, address))
}

/// Serves until it is aborted.
pub(crate) async fn serve(listener: TcpListener, node: Arc<Node>) {
    let permits = Arc::new(Semaphore::new(CONNECTIONS_MAX));
    while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
        let stream = match listener.accept().await {
            Ok((stream, _)) => stream,
            Err(error) => {
                tracing::warn!(event = "metrics_accept_failed", %error, "metrics endpoint cannot accept a connection");
                tokio::time::sleep(ACCEPT_BACKOFF).await;
                continue;
            }
        };
        let node = Arc::clone(&node);
        tokio::spawn(async move {
            // A client that goes away or is too slow is no error of the broker.
            let _ = timeout(REQUEST_TIME_MAX, respond(stream, &node)).await;
            drop(permit);
        });
    }
}

async fn respond(mut stream: TcpStream, node: &Arc<Node>) -> io::Result<()> {
    let mut request = Vec::with_capacity(1024);
    let route = loop {
        if let Some(head) = head(&request) {
            break route(head);
        }
        if request.len() >= REQUEST_BYTES_MAX {
            break Route::Refuse("431 Request Header Fields Too Large", "the request is too long\n");
        }
        let limit = REQUEST_BYTES_MAX - request.len();
        if (&mut stream).take(limit as u64).read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    };
    let (status, content_type, body) = match &route {
        Route::Metrics { .. } => ("200 OK", CONTENT_TYPE, render(node).await),
        Route::Refuse(status, reason) => (*status, "text/plain; charset=utf-8", (*reason).to_owned()),
    };
    let mut response = format!(
        "HTTP/1.1 {status}\r\nContent-Type: {content_type}\r\nContent-Length: {}\r\nCache-Control: no-store\r\nConnection: \
         close\r\n\r\n",
        body.len()
    );
    if !matches!(route, Route::Metrics { is_head: true }) {
        response.push_str(&body);
    }
    stream.write_all(response.as_bytes()).await?;
    stream.shutdown().await
}

/// The request up to its body, if all of it is there.
fn head(request: &[u8]) -> Option<&[u8]> {
    let end = request.windows(4).position(|window| window == b"\r\n\r\n")?;
    request.get(..end)
}

#[derive(Debug, PartialEq, Eq)]
enum Route {
    Metrics {
        /// The client wants the headers only.
        is_head: bool,
    },
    /// Status line and reason.
    Refuse(&'static str, &'static str),
}

fn route(head: &[u8]) -> Route {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = std::str::from_utf8(line).unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.1" | "HTTP/1.0"] = *words else {
        return Route::Refuse("400 Bad Request", "this is not an HTTP/1.1 request\n");
    };
    match (method, target.split('?').next()) {
        ("GET" | "HEAD", Some("/metrics")) => Route::Metrics {
            is_head: method == "HEAD",
        },
        ("GET" | "HEAD", _) => Route::Refuse("404 Not Found", "metrics are at /metrics\n"),
        _ => Route::Refuse("405 Method Not Allowed", "use GET\n"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_requests_for_metrics_are_served() {
        assert_eq!(head(b"GET /metrics HTTP/1.1\r\nHost: a\r\n"), None);
        assert_eq!(head(b"GET / HTTP/1.1\r\n\r\nbody"), Some(&b"GET / HTTP/1.1"[..]));
        let status = |request: &str| match route(request.as_bytes()) {
            Route::Metrics { is_head } => format!("metrics {is_head}"),
            Route::Refuse(status, _) => status[..3].to_owned(),
        };
        for (request, expected) in [
            ("GET /metrics HTTP/1.1\r\nHost: a", "metrics false"),
            ("HEAD /metrics?a=b HTTP/1.0", "metrics true"),
            ("GET / HTTP/1.1", "404"),
            ("POST /metrics HTTP/1.1", "405"),
            ("GET /metrics", "400"),
            ("GET  /metrics HTTP/1.1", "400"),
            ("\u{7f}", "400"),
        ] {
            assert_eq!(status(request), expected, "{request}");
        }
        assert!(matches!(route(b"\xff\xff"), Route::Refuse(..)));
    }
}
