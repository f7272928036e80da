//! An HTTP endpoint for metrics and health: GET and HEAD, one request per connection.
//!
//! The cost of a client is bounded: the size of its request, the time that it takes, and the number of connections.

use std::{borrow::Cow, io, net::SocketAddr, sync::Arc, time::Duration};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::Semaphore,
    time::timeout,
};

/// Bound of a request's size.
const REQUEST_BYTES_MAX: usize = 8 << 10;
/// Bound of the time for a request and its response.
const REQUEST_TIME_MAX: Duration = Duration::from_secs(10);
/// Backoff after an error of the listener, such as too many open files.
const ACCEPT_BACKOFF: Duration = Duration::from_millis(100);

/// A bound endpoint.
#[derive(Debug)]
pub struct Endpoint {
    listener: TcpListener,
    address: SocketAddr,
    connections_max: usize,
}

impl Endpoint {
    /// Binds the address. Connections beyond `connections_max` wait in the listen queue.
    pub async fn bind(address: &str, connections_max: usize) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok(Self {
            listener,
            address,
            connections_max,
        })
    }

    /// The bound address, with the port that the system chose for port 0.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Serves until the task is aborted. `render` gets the path of a request, without its query.
    pub async fn run<F, R>(self, render: F)
    where
        F: Fn(String) -> R + Send + Sync + 'static,
        R: Future<Output = Page> + Send + 'static,
    {
        let render = Arc::new(render);
        let permits = Arc::new(Semaphore::new(self.connections_max));
        while let Ok(permit) = Arc::clone(&permits).acquire_owned().await {
            let stream = match self.listener.accept().await {
                Ok((stream, _)) => stream,
                Err(error) => {
                    tracing::warn!(event = "endpoint_accept_failed", %error, "the HTTP endpoint cannot accept connections: {error}");
                    tokio::time::sleep(ACCEPT_BACKOFF).await;
                    continue;
                }
            };
            let render = Arc::clone(&render);
            tokio::spawn(async move {
                // A client that disconnects or is too slow needs no report.
                let _ = timeout(REQUEST_TIME_MAX, serve(stream, &*render)).await;
                drop(permit);
            });
        }
    }
}

async fn serve<F, R>(mut stream: TcpStream, render: &F) -> io::Result<()>
where
    F: Fn(String) -> R,
    R: Future<Output = Page>,
{
    let mut request = Vec::with_capacity(1024);
    let (page, method) = loop {
        if let Some(head) = head(&request) {
            break match parse(head) {
                Ok((method, path)) => (render(path).await, method),
                Err(refusal) => (refusal, Method::Get),
            };
        }
        if request.len() >= REQUEST_BYTES_MAX {
            break (Page::text(431, "request too large"), Method::Get);
        }
        let limit = REQUEST_BYTES_MAX - request.len();
        if (&mut stream).take(limit as u64).read_buf(&mut request).await? == 0 {
            return Ok(());
        }
    };
    stream.write_all(&page.to_bytes(method)).await?;
    stream.shutdown().await
}

/// Returns the request without its body, once all of it is there.
fn head(request: &[u8]) -> Option<&[u8]> {
    let end = request.windows(4).position(|window| window == b"\r\n\r\n")?;
    request.get(..end)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Method {
    Get,
    /// The response has no body.
    Head,
}

/// Returns method and path, or the response to a bad request.
fn parse(head: &[u8]) -> Result<(Method, String), Page> {
    let line = head.split(|byte| *byte == b'\r').next().unwrap_or_default();
    let line = std::str::from_utf8(line).unwrap_or_default();
    let words: Vec<&str> = line.split(' ').collect();
    let [method, target, "HTTP/1.1" | "HTTP/1.0"] = *words else {
        return Err(Page::text(400, "not an HTTP/1.1 request"));
    };
    let method = match method {
        "GET" => Method::Get,
        "HEAD" => Method::Head,
        _ => return Err(Page::text(405, "use GET")),
    };
    let path = target.split('?').next().unwrap_or_default();
    Ok((method, path.to_owned()))
}

/// A response of an endpoint.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Page {
    pub status: u16,
    pub content_type: Cow<'static, str>,
    pub body: String,
}

impl Page {
    /// A line of plain text.
    pub fn text(status: u16, line: impl Into<String>) -> Self {
        let mut body: String = line.into();
        body.push('\n');
        Self {
            status,
            content_type: "text/plain; charset=utf-8".into(),
            body,
        }
    }

    /// A page with status 200.
    pub fn ok(content_type: impl Into<Cow<'static, str>>, body: impl Into<String>) -> Self {
        Self {
            status: 200,
            content_type: content_type.into(),
            body: body.into(),
        }
    }

    fn to_bytes(&self, method: Method) -> Vec<u8> {
        let reason = match self.status {
            200 => "OK",
            400 => "Bad Request",
            404 => "Not Found",
            405 => "Method Not Allowed",
            431 => "Request Header Fields Too Large",
            _ => "Service Unavailable",
        };
        let Self {
            status,
            content_type,
            body,
        } = self;
        let allow = if *status == 405 { "Allow: GET, HEAD\r\n" } else { "" };
        let length = body.len();
        let head = format!(
            "HTTP/1.1 {status} {reason}\r\nContent-Type: {content_type}\r\nContent-Length: {length}\r\nCache-Control: no-store\r\n\
             X-Content-Type-Options: nosniff\r\n{allow}Connection: close\r\n\r\n"
        );
        let mut bytes = head.into_bytes();
        if method == Method::Get {
            bytes.extend_from_slice(body.as_bytes());
        }
        bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_complete_requests_are_served() {
        assert_eq!(head(b"GET / HTTP/1.1\r\nHost: a\r\n"), None);
        assert_eq!(head(b"GET / HTTP/1.1\r\n\r\nbody"), Some(&b"GET / HTTP/1.1"[..]));
        let status = |request: &[u8]| parse(request).map_err(|page| page.status);
        assert_eq!(
            status(b"GET /metrics HTTP/1.1\r\nHost: a"),
            Ok((Method::Get, "/metrics".to_owned()))
        );
        assert_eq!(
            status(b"HEAD /metrics?a=b HTTP/1.0"),
            Ok((Method::Head, "/metrics".to_owned()))
        );
        for (request, expected) in [
            (&b"POST /metrics HTTP/1.1"[..], 405),
            (b"GET /metrics", 400),
            (b"GET  /metrics HTTP/1.1", 400),
            (b"\x7f", 400),
            (b"\xff\xff", 400),
            (b"", 400),
        ] {
            assert_eq!(status(request), Err(expected), "{request:?}");
        }
    }

    #[test]
    fn a_head_has_the_length_and_not_the_body() {
        let bytes = String::from_utf8(Page::text(200, "ok").to_bytes(Method::Head)).unwrap();
        assert!(bytes.contains("Content-Length: 3\r\n"), "{bytes}");
        assert!(bytes.ends_with("\r\n\r\n"), "{bytes}");
    }

    /// The bytes that an endpoint sends to a client.
    async fn exchange(request: &[u8]) -> String {
        let endpoint = Endpoint::bind("127.0.0.1:0", 2).await.unwrap();
        let address = endpoint.address();
        let serving = tokio::spawn(endpoint.run(async |path: String| match path.as_str() {
            "/metrics" => Page::ok("text/plain", "up 1\n"),
            _ => Page::text(404, "use /metrics"),
        }));
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request).await.unwrap();
        let mut response = String::new();
        stream.read_to_string(&mut response).await.unwrap();
        serving.abort();
        response
    }

    #[tokio::test]
    async fn pages_and_refusals_reach_the_client() {
        let page = exchange(b"GET /metrics?now HTTP/1.1\r\n\r\n").await;
        assert!(
            page.starts_with("HTTP/1.1 200 OK\r\n") && page.ends_with("\r\n\r\nup 1\n"),
            "{page}"
        );
        let missing = exchange(b"GET / HTTP/1.1\r\n\r\n").await;
        assert!(missing.starts_with("HTTP/1.1 404"), "{missing}");
        let long = exchange(&vec![b'a'; REQUEST_BYTES_MAX]).await;
        assert!(long.starts_with("HTTP/1.1 431"), "{long}");
    }
}
