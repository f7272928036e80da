//! A token endpoint that follows a script.

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpListener,
};

use super::*;

fn jwt(subject: &str) -> String {
    let part = |text: &str| URL_SAFE_NO_PAD.encode(text);
    let claims = format!("{{\"sub\":\"{subject}\",\"iat\":1000,\"exp\":4000000000,\"scope\":[\"a\"]}}");
    format!(
        "{}.{}.{}",
        part("{\"alg\":\"RS256\"}"),
        part(&claims),
        part("signature")
    )
}

fn endpoint(url: &str, grant: Grant) -> TokenEndpoint {
    TokenEndpoint {
        url: Url::parse(url).unwrap(),
        grant,
        scope: Some("read write".to_owned()),
        claims: JwtClaimNames {
            scope: "scope".to_owned(),
            subject: "sub".to_owned(),
        },
        extensions: BTreeMap::from([("team".to_owned(), "blue".to_owned())]),
        tls: None,
        connect_timeout: Duration::from_secs(10),
        read_timeout: Duration::from_secs(10),
        retries: EndpointRetries {
            backoff_ms: 1,
            within_ms: 5_000,
        },
    }
}

fn secret(is_encoded: bool) -> Grant {
    Grant::ClientCredentials(ClientAuthentication::Secret {
        id: "me@home".to_owned(),
        secret: "s3c:ret".into(),
        is_encoded,
    })
}

/// Responds to one request after the other. Returns the requests.
async fn serve(listener: TcpListener, responses: Vec<String>) -> Vec<String> {
    let mut requests = vec![];
    for response in responses {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut request = Vec::new();
        loop {
            let text = String::from_utf8_lossy(&request).into_owned();
            let lower = text.to_lowercase();
            if let Some((head, body)) = lower.split_once("\r\n\r\n") {
                let length = head.split("content-length: ").nth(1).unwrap();
                let length: usize = length.split("\r\n").next().unwrap().parse().unwrap();
                if body.len() >= length {
                    requests.push(text);
                    break;
                }
            }
            assert!(stream.read_buf(&mut request).await.unwrap() > 0);
        }
        let length = response.split_once("\r\n\r\n").map_or(0, |(_, body)| body.len());
        let response = response.replacen("\r\n\r\n", &format!("\r\nContent-Length: {length}\r\n\r\n"), 1);
        stream.write_all(response.as_bytes()).await.unwrap();
    }
    requests
}

fn ok(body: &str) -> String {
    format!("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n{body}")
}

fn status(status: u16, body: &str) -> String {
    format!("HTTP/1.1 {status} Reason\r\nContent-Type: application/json\r\n\r\n{body}")
}

/// The token or error that this grant gets from these responses, and the requests.
async fn fetch(grant: Grant, responses: Vec<String>) -> (Result<Token, TokenError>, Vec<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/token", listener.local_addr().unwrap());
    let endpoint = endpoint(&url, grant);
    let (token, requests) = tokio::join!(endpoint.token(), serve(listener, responses));
    (token, requests)
}

#[tokio::test]
async fn client_credentials_are_sent_as_basic_authorization() {
    for (is_encoded, expected) in [(false, "me@home:s3c:ret"), (true, "me%40home:s3c%3Aret")] {
        let response = ok(&format!("{{\"access_token\":\"{}\"}}", jwt("alice")));
        let (token, requests) = fetch(secret(is_encoded), vec![response]).await;
        let token = token.unwrap();
        assert_eq!(token.principal.as_deref(), Some("alice"));
        assert_eq!(
            (token.expires_at_ms, token.issued_at_ms),
            (4_000_000_000_000, Some(1_000_000))
        );
        assert_eq!(token.extensions.get("team").map(String::as_str), Some("blue"));
        let request = &requests[0];
        assert!(request.starts_with("POST /token HTTP/1.1\r\n"), "{request}");
        assert!(
            request.ends_with("\r\n\r\ngrant_type=client_credentials&scope=read+write"),
            "{request}"
        );
        let basic = base64::engine::general_purpose::STANDARD.encode(expected);
        assert!(request.contains(&format!("Basic {basic}\r\n")), "{request}");
    }
}

#[tokio::test]
async fn assertions_are_sent_in_the_form() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("assertion");
    std::fs::write(&path, "signed.by.me\n").unwrap();
    let assertion = || Assertion::File(path.clone());
    let response = || ok(&format!("{{\"id_token\":\"{}\"}}", jwt("bob")));
    let credentials = Grant::ClientCredentials(ClientAuthentication::Assertion {
        client_id: Some("me".to_owned()),
        assertion: assertion(),
    });
    let (token, requests) = fetch(credentials, vec![response()]).await;
    assert_eq!(token.unwrap().principal.as_deref(), Some("bob"));
    let form = "grant_type=client_credentials&client_assertion_type=urn%3Aietf%3Aparams%3Aoauth%3Aclient-assertion-type\
                %3Ajwt-bearer&client_assertion=signed.by.me&client_id=me&scope=read+write";
    assert!(requests[0].ends_with(form), "{}", requests[0]);
    assert!(!requests[0].contains("Authorization"), "{}", requests[0]);
    let (token, requests) = fetch(Grant::JwtBearer(assertion()), vec![response()]).await;
    token.unwrap();
    let form =
        "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=signed.by.me&scope=read+write";
    assert!(requests[0].ends_with(form), "{}", requests[0]);
}

#[tokio::test]
async fn a_refusal_is_final_and_an_outage_is_not() {
    let refused = status(
        401,
        r#"{"error":"invalid_client","error_description":"unknown client"}"#,
    );
    let (token, requests) = fetch(secret(false), vec![refused]).await;
    let error = token.unwrap_err();
    assert!(matches!(error, TokenError::Refused(_)), "{error}");
    let text = error.to_string();
    assert!(
        text.ends_with("/token responded with status 401 (invalid_client: unknown client)"),
        "{text}"
    );
    assert!(!text.contains("s3c") && requests.len() == 1, "{text}");
    let good = ok(&format!("{{\"access_token\":\"{}\"}}", jwt("alice")));
    let (token, requests) = fetch(secret(false), vec![status(503, ""), status(429, "{}"), good]).await;
    token.unwrap();
    assert_eq!(requests.len(), 3);
}

#[tokio::test]
async fn a_response_without_a_usable_token_says_so_without_showing_it() {
    for (body, problem) in [
        ("{}", "has neither `access_token` nor `id_token`"),
        ("no json", "has neither `access_token` nor `id_token`"),
        (r#"{"access_token":"hunter2"}"#, "cannot be used"),
    ] {
        let (token, _) = fetch(secret(false), vec![ok(body)]).await;
        let text = token.unwrap_err().to_string();
        assert!(text.contains(problem), "{text}");
        assert!(!text.contains("hunter2"), "{text}");
    }
}
