//! Responses as services send them, and as they should not.

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpListener,
};

use super::*;

const LIMIT: usize = 100;

fn options() -> ClientOptions {
    ClientOptions {
        response_bytes_max: LIMIT,
        ..ClientOptions::default()
    }
}

/// Sends one request to a service that responds with these bytes and closes the connection.
async fn response(bytes: &[u8]) -> (Result<Response, HttpError>, bool) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let client = Client::plain(Url::parse(&url).unwrap(), options()).unwrap();
    let service = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = [0; 1024];
        assert!(stream.read(&mut request).await.unwrap() > 0);
        // The client may have seen enough.
        let _ = stream.write_all(bytes).await;
        let _ = stream.shutdown().await;
        stream
    };
    let request = Request::get();
    let (response, _stream) = tokio::join!(client.send(&request), service);
    (response, client.idle().is_some())
}

#[tokio::test]
async fn bodies_come_with_a_length_in_chunks_or_until_the_end() {
    for (bytes, status, body, is_kept) in [
        ("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", true),
        (
            "HTTP/1.1 200 OK\r\ncontent-length:2\r\nConnection: close\r\n\r\nhi",
            200,
            "hi",
            false,
        ),
        ("HTTP/1.0 200 OK\r\nContent-Length: 2\r\n\r\nhi", 200, "hi", false),
        ("HTTP/1.1 200 OK\r\n\r\nhi", 200, "hi", false),
        ("HTTP/1.1 204 No Content\r\n\r\n", 204, "", true),
        (
            "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 201\r\nContent-Length: 0\r\n\r\n",
            201,
            "",
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nContent-Length: 7\r\n\r\n1;x=y\r\nh\r\n1\r\ni\r\n0\r\nTrailer: a\r\n\r\n",
            200,
            "hi",
            true,
        ),
        (
            "HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi and more",
            200,
            "hi",
            false,
        ),
    ] {
        let (response, kept) = response(bytes.as_bytes()).await;
        let response = response.unwrap();
        assert_eq!(
            (response.status, response.text(9).as_str(), kept),
            (status, body, is_kept),
            "{bytes}"
        );
    }
    let (latin, _) = response(b"HTTP/1.1 200 gut f\xfcr dich\r\nContent-Length: 0\r\n\r\n").await;
    assert!(latin.unwrap().is_success());
}

#[tokio::test]
async fn a_response_that_is_too_large_is_refused() {
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "A: b\r\n".repeat(20_000));
    let long = format!("HTTP/1.1 200 OK\r\nA: {}", "b".repeat(100_000));
    let trailers = format!(
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n{}",
        "A: b\r\n".repeat(20_000)
    );
    let closed = format!("HTTP/1.1 200 OK\r\n\r\n{}", "b".repeat(LIMIT + 1));
    for bytes in [
        "HTTP/1.1 200 OK\r\nContent-Length: 101\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 18446744073709551615\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n65\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\na\r\nffffffffffffffff\r\n",
        &many,
        &long,
        &trailers,
        &closed,
    ] {
        let (response, is_kept) = response(bytes.as_bytes()).await;
        assert!(matches!(response, Err(HttpError::TooLarge { .. })), "{response:?}");
        assert!(!is_kept, "the rest of it may still come");
    }
}

#[tokio::test]
async fn bytes_that_are_not_http_are_refused() {
    for bytes in [
        "",
        "SSH-2.0-OpenSSH\r\n",
        "HTTP/2 200\r\n\r\n",
        "HTTP/1.1 abc\r\n\r\n",
        "HTTP/1.1 20\r\n\r\n",
        "HTTP/1.1 200 OK\r\nno colon\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n",
        "HTTP/1.1 200 OK\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nContent-Length: 3\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: gzip\r\n\r\nab",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n+1\r\na\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n1\r\nab\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\nConte",
    ] {
        let (response, _) = response(bytes.as_bytes()).await;
        let is_expected = matches!(
            response,
            Err(HttpError::NotHttp { .. } | HttpError::Disconnected { .. })
        );
        assert!(is_expected, "{bytes:?}: {response:?}");
    }
}

#[tokio::test]
async fn a_redirect_is_reported_and_not_followed() {
    let (response, _) =
        response(b"HTTP/1.1 302 Found\r\nLocation: http://elsewhere/\r\nContent-Length: 0\r\n\r\n").await;
    let response = response.unwrap();
    assert_eq!(
        (response.status, response.location.as_deref()),
        (302, Some("http://elsewhere/"))
    );
}

#[tokio::test]
async fn a_kept_connection_that_was_closed_is_replaced() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let client = Client::plain(Url::parse(&url).unwrap(), options()).unwrap();
    let service = async {
        for _ in 0..2 {
            let (mut stream, _) = listener.accept().await.unwrap();
            let mut request = [0; 1024];
            assert!(stream.read(&mut request).await.unwrap() > 0);
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        }
    };
    let requests = async {
        for _ in 0..2 {
            assert_eq!(client.send(&Request::get()).await.unwrap().status, 204);
        }
    };
    tokio::join!(requests, service);
}

#[tokio::test]
async fn a_service_that_does_not_respond_is_given_up() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let options = ClientOptions {
        response_timeout: Some(Duration::from_millis(10)),
        ..options()
    };
    let client = Client::plain(Url::parse(&url).unwrap(), options).unwrap();
    let response = client.send(&Request::get()).await;
    assert!(matches!(response, Err(HttpError::TimedOut { .. })), "{response:?}");
}

#[test]
fn tls_and_the_scheme_must_agree() {
    let url = Url::parse("https://a/").unwrap();
    assert!(matches!(Client::plain(url, options()), Err(HttpError::NoTls { .. })));
}
