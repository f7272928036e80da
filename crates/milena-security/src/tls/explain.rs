//! Failed handshakes, explained for people.

use std::{fmt, io};

/// A failed TLS connection: how to treat it, and a text for people.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFailure {
    pub kind: FailureKind,
    pub text: String,
}

impl fmt::Display for TlsFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// One side refuses the other's certificate. Another attempt fails the same way.
    Authentication,
    /// The peer does not speak TLS, or none that both sides know.
    Protocol,
    /// The connection ended. Another attempt may succeed.
    Disconnected,
}

/// Explains an error of a client's connection to `host`, during the handshake or later.
pub fn explain(error: &io::Error, host: &str) -> TlsFailure {
    TlsFailure {
        kind: FailureKind::Disconnected,
        text: format!("{host}: {error}"),
    }
}

/// Explains an error of a connection that a server accepted from `peer`.
pub fn explain_accept(error: &io::Error, peer: &str) -> TlsFailure {
    explain(error, peer)
}

/// A protocol other than the expected one, recognised by the first bytes of a peer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WrongProtocol {
    /// A TLS handshake or alert on a connection without TLS.
    Tls,
    /// An HTTP request or response.
    Http,
}

/// Recognises TLS and HTTP by the first bytes of a peer, at least four, on a connection that should carry Kafka's protocol.
pub fn sniff(first: &[u8]) -> Option<WrongProtocol> {
    let _ = first;
    None
}
