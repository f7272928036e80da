//! Connections that fail before they are served: kinds, hints for operators, and log lines at a bounded rate.

use std::{
    fmt,
    sync::{Mutex, PoisonError},
    time::Duration,
};

use milena_security::tls::{WrongProtocol, sniff};
use tokio::time::Instant;

use super::{Peer, endpoint::Endpoint};

/// The kind of a failure, as metrics label it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum FailureKind {
    /// A TLS handshake on a listener without TLS.
    TlsOnPlaintext,
    /// A request of Kafka's protocol, in clear, on a listener with TLS.
    PlaintextOnTls,
    /// An HTTP request.
    Http,
    TlsHandshake,
    /// A certificate of the client that is refused, missing, or has no principal.
    Certificate,
    /// A log-in that was refused.
    Login,
    /// A client of a SASL listener that does not log in.
    NoLogin,
    /// A handshake or log-in that took too long.
    Timeout,
    /// Closed for newer connections, because too many had not logged in.
    Evicted,
}

impl FailureKind {
    pub(crate) const ALL: [Self; 9] = [
        Self::TlsOnPlaintext,
        Self::PlaintextOnTls,
        Self::Http,
        Self::TlsHandshake,
        Self::Certificate,
        Self::Login,
        Self::NoLogin,
        Self::Timeout,
        Self::Evicted,
    ];

    /// The label in metrics and log lines.
    pub(crate) fn label(self) -> &'static str {
        match self {
            Self::TlsOnPlaintext => "tls_on_plaintext",
            Self::PlaintextOnTls => "plaintext_on_tls",
            Self::Http => "http",
            Self::TlsHandshake => "tls_handshake",
            Self::Certificate => "certificate",
            Self::Login => "login",
            Self::NoLogin => "no_login",
            Self::Timeout => "timeout",
            Self::Evicted => "evicted",
        }
    }

    /// Whether it counts as a failed authentication.
    pub(crate) fn is_authentication(self) -> bool {
        match self {
            Self::TlsHandshake | Self::Certificate | Self::Login | Self::NoLogin | Self::PlaintextOnTls => true,
            Self::TlsOnPlaintext | Self::Http | Self::Timeout | Self::Evicted => false,
        }
    }
}

/// A failure with the reason for people. It never has a secret.
#[derive(Debug)]
pub(super) struct ConnectionFailure {
    pub(super) kind: FailureKind,
    pub(super) reason: String,
}

impl ConnectionFailure {
    pub(super) fn new(kind: FailureKind, reason: impl Into<String>) -> Self {
        let reason = reason.into();
        Self { kind, reason }
    }

    /// Recognizes the protocol of a client that sent no frame of Kafka, on a listener without TLS.
    pub(super) fn sniff(first: &[u8]) -> Option<Self> {
        match sniff(first)? {
            WrongProtocol::Tls => Some(Self::new(
                FailureKind::TlsOnPlaintext,
                "the client speaks TLS, but the listener does not; set security.protocol of the client to PLAINTEXT or \
                 SASL_PLAINTEXT, or use the port of an SSL or SASL_SSL listener",
            )),
            WrongProtocol::Http => Some(Self::http()),
        }
    }

    /// Recognizes the protocol of a client on a listener with TLS that sent something else.
    pub(super) fn sniff_on_tls(first: &[u8]) -> Option<Self> {
        if sniff(first) == Some(WrongProtocol::Http) {
            return Some(Self::http());
        }
        // The length of a frame, which is below 16 MiB in a first request, then the key and version of its API.
        matches!(first, [0, _, _, _, 0, ..]).then(|| {
            Self::new(
                FailureKind::PlaintextOnTls,
                "the client does not speak TLS, but the listener does; set security.protocol of the client to SSL or \
                 SASL_SSL",
            )
        })
    }

    fn http() -> Self {
        let reason = "the client sent an HTTP request; this port serves Kafka's protocol only";
        Self::new(FailureKind::Http, reason)
    }

    /// Counts the failure and logs it, unless too many were logged just before.
    pub(super) fn report(&self, peer: &Peer, endpoint: &Endpoint) {
        endpoint.metrics.failed(self.kind);
        let Some(suppressed) = endpoint.failure_log.admit(Instant::now()) else {
            return;
        };
        tracing::warn!(
            event = "connection_failed",
            peer = %peer.address,
            listener = %peer.listener,
            kind = self.kind.label(),
            reason = %self.reason,
            suppressed,
            "connection failed"
        );
    }
}

impl fmt::Display for ConnectionFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.reason)
    }
}

/// Bounds log lines that strangers can cause.
#[derive(Debug, Default)]
pub(super) struct LogLimit {
    window: Mutex<Window>,
}

#[derive(Debug, Default)]
struct Window {
    began: Option<Instant>,
    lines: u32,
    suppressed: u64,
}

impl LogLimit {
    /// Whether a line may be written; then the number of those that were not since the last one.
    pub(super) fn admit(&self, now: Instant) -> Option<u64> {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        if window.began.is_none_or(|began| now.duration_since(began) >= LOG_WINDOW) {
            window.began = Some(now);
            window.lines = 0;
        }
        if window.lines == LINES_MAX {
            window.suppressed += 1;
            return None;
        }
        window.lines += 1;
        Some(std::mem::take(&mut window.suppressed))
    }
}

const LOG_WINDOW: Duration = Duration::from_secs(10);
/// Lines of one listener in a window.
const LINES_MAX: u32 = 10;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_suppressed_and_counted() {
        let limit = LogLimit::default();
        let start = Instant::now();
        for _ in 0..LINES_MAX {
            assert_eq!(limit.admit(start), Some(0));
        }
        assert_eq!(limit.admit(start), None);
        assert_eq!(limit.admit(start), None);
        assert_eq!(limit.admit(start + LOG_WINDOW), Some(2));
        assert_eq!(limit.admit(start + LOG_WINDOW), Some(0));
    }

    #[test]
    fn a_request_in_clear_is_recognized_on_a_listener_with_tls() {
        let api_versions = [0, 0, 0, 0x31, 0, 18, 0, 4];
        let failure = ConnectionFailure::sniff_on_tls(&api_versions).unwrap();
        assert_eq!(failure.kind, FailureKind::PlaintextOnTls);
        assert!(ConnectionFailure::sniff_on_tls(&[0x16, 3, 1, 2, 0, 1]).is_none());
    }
}
