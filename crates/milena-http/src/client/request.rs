//! Requests: a method, headers and a body.

use std::{borrow::Cow, fmt};

use base64::{Engine, prelude::BASE64_STANDARD};

use super::HttpError;
use crate::url::Url;

/// A request. Its `Debug` shows neither values of headers nor the body, because they may be secrets.
#[derive(Clone)]
pub struct Request<'a> {
    method: &'static str,
    headers: Vec<(&'a str, Cow<'a, str>)>,
    body: Option<Cow<'a, [u8]>>,
}

impl<'a> Request<'a> {
    pub fn get() -> Self {
        Self {
            method: "GET",
            headers: vec![],
            body: None,
        }
    }

    pub fn post(content_type: &'a str, body: impl Into<Cow<'a, [u8]>>) -> Self {
        Self {
            method: "POST",
            headers: vec![("Content-Type", content_type.into())],
            body: Some(body.into()),
        }
    }

    /// A POST of a form, as OAuth has it.
    pub fn post_form<'f>(fields: impl IntoIterator<Item = (&'f str, &'f str)>) -> Self {
        Self::post("application/x-www-form-urlencoded", form::encode(fields).into_bytes())
    }

    #[must_use]
    pub fn header(mut self, name: &'a str, value: impl Into<Cow<'a, str>>) -> Self {
        self.headers.push((name, value.into()));
        self
    }

    /// The header `Authorization: Basic …`.
    #[must_use]
    pub fn basic_auth(self, user: &str, password: &str) -> Self {
        let credentials = BASE64_STANDARD.encode(format!("{user}:{password}"));
        self.header("Authorization", format!("Basic {credentials}"))
    }

    pub(super) fn to_bytes(&self, url: &Url) -> Result<Vec<u8>, HttpError> {
        let mut head = format!(
            "{} {} HTTP/1.1\r\nHost: {}\r\n",
            self.method,
            url.path(),
            url.authority()
        );
        for (name, value) in &self.headers {
            let is_token = !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-');
            if !is_token || value.contains(|c: char| c.is_control() && c != '\t') {
                return Err(HttpError::Header {
                    name: (*name).to_owned(),
                });
            }
            head.push_str(name);
            head.push_str(": ");
            head.push_str(value);
            head.push_str("\r\n");
        }
        if let Some(body) = &self.body {
            head.push_str(&format!("Content-Length: {}\r\n", body.len()));
        }
        head.push_str("\r\n");
        let mut bytes = head.into_bytes();
        bytes.extend_from_slice(self.body.as_deref().unwrap_or_default());
        Ok(bytes)
    }
}

impl fmt::Debug for Request<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> = self.headers.iter().map(|(name, _)| *name).collect();
        f.debug_struct("Request")
            .field("method", &self.method)
            .field("headers", &names)
            .finish_non_exhaustive()
    }
}

/// `application/x-www-form-urlencoded`, as Java's `URLEncoder` and browsers write it.
pub mod form {
    use std::fmt::Write;

    /// Encodes fields, as in `grant_type=client_credentials&scope=a+b`.
    pub fn encode<'f>(fields: impl IntoIterator<Item = (&'f str, &'f str)>) -> String {
        let mut text = String::new();
        for (name, value) in fields {
            if !text.is_empty() {
                text.push('&');
            }
            push(&mut text, name);
            text.push('=');
            push(&mut text, value);
        }
        text
    }

    /// Encodes one name or value.
    pub fn encode_value(value: &str) -> String {
        let mut text = String::with_capacity(value.len());
        push(&mut text, value);
        text
    }

    fn push(text: &mut String, value: &str) {
        for byte in value.bytes() {
            match byte {
                b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'.' | b'_' | b'*' => text.push(char::from(byte)),
                b' ' => text.push('+'),
                // Writing to a string cannot fail.
                _ => drop(write!(text, "%{byte:02X}")),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(request: &Request<'_>) -> String {
        let url = Url::parse("https://id.example/token?x=1").unwrap();
        String::from_utf8(request.to_bytes(&url).unwrap()).unwrap()
    }

    #[test]
    fn requests_as_a_token_endpoint_expects_them() {
        let request = Request::post_form([("grant_type", "client_credentials"), ("scope", "read all/ü")])
            .basic_auth("id", "sécret")
            .header("Accept", "application/json");
        assert_eq!(
            text(&request),
            "POST /token?x=1 HTTP/1.1\r\nHost: id.example\r\nContent-Type: application/x-www-form-urlencoded\r\n\
             Authorization: Basic aWQ6c8OpY3JldA==\r\nAccept: application/json\r\nContent-Length: 53\r\n\r\n\
             grant_type=client_credentials&scope=read+all%2F%C3%BC"
        );
        assert_eq!(
            text(&Request::get()),
            "GET /token?x=1 HTTP/1.1\r\nHost: id.example\r\n\r\n"
        );
        assert!(!format!("{request:?}").contains("aWQ6"), "{request:?}");
    }

    #[test]
    fn a_header_cannot_begin_another_one() {
        let url = Url::parse("http://a/").unwrap();
        for (name, value) in [("X", "a\r\nY: b"), ("X", "a\0"), ("", "a"), ("X: a\r\nY", "b")] {
            let request = Request::get().header(name, value);
            assert!(
                matches!(request.to_bytes(&url), Err(HttpError::Header { .. })),
                "{name:?} {value:?}"
            );
        }
    }
}
