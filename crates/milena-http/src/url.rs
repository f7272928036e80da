//! URLs of services: `http` and `https`, a host, a port, a path with its query.

use std::fmt;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scheme {
    Http,
    Https,
}

/// A URL with `http` or `https`. It has no user, no password and no fragment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Url {
    scheme: Scheme,
    /// Host, and the port if it was written.
    authority: String,
    /// Host without the brackets of an IPv6 address.
    host: String,
    port: u16,
    /// Path and query, with the slash at its start.
    path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{url:?} is not a URL such as http://127.0.0.1:8080/orders or https://orders.example")]
pub struct UrlError {
    pub url: String,
}

impl Url {
    pub fn parse(text: &str) -> Result<Self, UrlError> {
        Self::read(text).ok_or_else(|| UrlError { url: text.to_owned() })
    }

    fn read(text: &str) -> Option<Self> {
        // Whitespace and control characters would end the request line or begin a header.
        if text.contains(|c: char| c.is_whitespace() || c.is_control() || c == '#') {
            return None;
        }
        let (scheme, rest) = text.split_once("://")?;
        let (scheme, default) = match scheme.to_ascii_lowercase().as_str() {
            "http" => (Scheme::Http, 80),
            "https" => (Scheme::Https, 443),
            _ => return None,
        };
        let end = rest.find(['/', '?']).unwrap_or(rest.len());
        let (authority, path) = rest.split_at_checked(end)?;
        if authority.contains('@') {
            return None;
        }
        let (host, port) = split(authority)?;
        Some(Self {
            scheme,
            authority: authority.to_owned(),
            host: host.to_owned(),
            port: port.unwrap_or(default),
            path: if path.starts_with('/') {
                path.to_owned()
            } else {
                format!("/{path}")
            },
        })
    }

    pub fn scheme(&self) -> Scheme {
        self.scheme
    }

    /// The host without brackets: the name that a certificate must have.
    pub fn host(&self) -> &str {
        &self.host
    }

    pub fn port(&self) -> u16 {
        self.port
    }

    /// Host, and the port if it was written: the value of the header `Host`.
    pub fn authority(&self) -> &str {
        &self.authority
    }

    pub fn path(&self) -> &str {
        &self.path
    }
}

/// Splits host and port. `[::1]:80` has brackets, because its host has colons.
fn split(authority: &str) -> Option<(&str, Option<u16>)> {
    if let Some(rest) = authority.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        host.parse::<std::net::Ipv6Addr>().ok()?;
        let port = match rest.strip_prefix(':') {
            Some(port) => Some(port.parse().ok()?),
            None if rest.is_empty() => None,
            None => return None,
        };
        return Some((host, port));
    }
    let (host, port) = match authority.split_once(':') {
        Some((host, port)) => (host, Some(port.parse().ok()?)),
        None => (authority, None),
    };
    (!host.is_empty()).then_some((host, port))
}

impl fmt::Display for Url {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let scheme = match self.scheme {
            Scheme::Http => "http",
            Scheme::Https => "https",
        };
        write!(f, "{scheme}://{}{}", self.authority, self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_have_host_port_and_path() {
        for (text, host, port, path) in [
            ("http://127.0.0.1:8080/orders", "127.0.0.1", 8080, "/orders"),
            ("https://orders.example", "orders.example", 443, "/"),
            ("HTTPS://a?x=1", "a", 443, "/?x=1"),
            ("http://[::1]:81/x?y=/z", "::1", 81, "/x?y=/z"),
            ("https://[::1]", "::1", 443, "/"),
        ] {
            let url = Url::parse(text).unwrap();
            assert_eq!((url.host(), url.port(), url.path()), (host, port, path), "{text}");
        }
        let url = Url::parse("https://a.example:444/x").unwrap();
        assert_eq!((url.scheme(), url.authority()), (Scheme::Https, "a.example:444"));
        assert_eq!(url.to_string(), "https://a.example:444/x");
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "orders.example",
            "ftp://a/",
            "http://",
            "http:///x",
            "http://:80/",
            "http://a:b/",
            "http://a:70000/",
            "http://user:secret@a/",
            "http://a/x y",
            "http://a/\r\nHost: b",
            "http://a/#part",
            "http://[::1/",
            "http://[a]/",
            "http://[::1]80/",
            "http://::1/",
        ] {
            assert!(Url::parse(text).is_err(), "{text:?}");
        }
    }
}
