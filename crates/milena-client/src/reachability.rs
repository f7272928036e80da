//! Brokers that cannot be reached.
//!
//! A client retries for as long as it lives, and logs a warning per broker and cause (`event = "broker_unreachable"`).
//! A program that should rather exit waits for the first contact with a limit
//! ([`Admin::connect`](crate::admin::Admin::connect),
//! [`Consumer::connect`](crate::consumer::RebalanceConsumer::connect),
//! [`Producer::connect`](crate::producer::Producer::connect)). The brokers that fail now are available at any time
//! (`unreachable_brokers` of the same types).

use std::{fmt, time::Duration};

use tokio::{sync::mpsc, task::AbortHandle};

use milena_wire::messages::MetadataRequest;

use crate::{
    io::now_ms,
    metadata::{Metadata, VERSION_MIN},
    net::{CallError, Connection, SendOptions, Status},
};

/// The kind of a connection failure. Its text is the stable value of `cause` in log lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FailureCause {
    /// The host name has no address: `name_unknown`.
    NameUnknown,
    /// Nothing listens on the port: `refused`.
    Refused,
    /// There is no route to the host or network: `no_route`.
    NoRoute,
    /// No connection or no handshake in time: `timed_out`.
    TimedOut,
    /// The peer closed the connection during the handshake: `closed_in_handshake`.
    ClosedInHandshake,
    /// The peer does not speak Kafka's protocol, or speaks it over TLS: `wrong_protocol`.
    WrongProtocol,
    /// The broker refused the log-in, or one side refused the other's certificate: `authentication_failed`.
    AuthenticationFailed,
    /// There is no token to log in with: `no_token`.
    NoToken,
    /// A connection was lost while a request was in flight: `disconnected`.
    Disconnected,
    /// A connected broker did not respond in time: `request_timed_out`.
    RequestTimedOut,
    /// Any other failure of the operating system: `other`.
    Other,
}

impl FailureCause {
    /// The stable name, such as `name_unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NameUnknown => "name_unknown",
            Self::Refused => "refused",
            Self::NoRoute => "no_route",
            Self::TimedOut => "timed_out",
            Self::ClosedInHandshake => "closed_in_handshake",
            Self::WrongProtocol => "wrong_protocol",
            Self::AuthenticationFailed => "authentication_failed",
            Self::NoToken => "no_token",
            Self::Disconnected => "disconnected",
            Self::RequestTimedOut => "request_timed_out",
            Self::Other => "other",
        }
    }
}

impl fmt::Display for FailureCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// A broker or bootstrap server whose last connection attempt failed.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnreachableBroker {
    /// Host and port as configured or advertised.
    pub address: String,
    pub cause: FailureCause,
    /// The cause as text, with the message of the operating system.
    pub reason: String,
    /// Failures since it was last reachable; 0 while the first attempt is running.
    pub failures: u64,
    /// The time since the first failure.
    pub unreachable_for: Duration,
}

impl fmt::Display for UnreachableBroker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.address, self.reason)
    }
}

/// A topic for which the cluster returns an error in place of metadata.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct UnavailableTopic {
    pub topic: String,
    /// The error with its code, such as `UNKNOWN_TOPIC_OR_PARTITION (3)`.
    pub reason: String,
}

impl fmt::Display for UnavailableTopic {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "topic {} is unavailable: {}", self.topic, self.reason)
    }
}

/// No bootstrap server responded in time, or all refused the log-in.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct BootstrapError {
    /// The limit of the caller.
    pub within: Duration,
    /// Every bootstrap server, in the order of `bootstrap.servers`, with its failure.
    pub brokers: Vec<UnreachableBroker>,
}

impl BootstrapError {
    /// Whether every server refused the log-in or a certificate.
    pub fn is_refused(&self) -> bool {
        let is_refused = |broker: &UnreachableBroker| broker.cause == FailureCause::AuthenticationFailed;
        !self.brokers.is_empty() && self.brokers.iter().all(is_refused)
    }
}

impl fmt::Display for BootstrapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_refused() {
            f.write_str("no bootstrap server accepts the client")?;
        } else {
            write!(f, "no bootstrap server responded within {:?}", self.within)?;
        }
        for (index, broker) in self.brokers.iter().enumerate() {
            let separator = if index == 0 { ": " } else { "; " };
            write!(f, "{separator}{broker}")?;
        }
        Ok(())
    }
}

impl std::error::Error for BootstrapError {}

/// Waits until one bootstrap server has responded. All are tried at once, so that each has a reason if none does.
pub(crate) async fn connect(metadata: &Metadata, within: Duration) -> Result<(), BootstrapError> {
    if metadata.cache().brokers().len() > 0 {
        return Ok(());
    }
    let connections = metadata.connections();
    let servers = connections.bootstrap();
    let within_ms = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
    let deadline_ms = now_ms().saturating_add(within_ms);
    let (sender, mut responses) = mpsc::channel(1);
    let start = |server: &Connection| {
        let (server, sender) = (server.clone(), sender.clone());
        connections.io().spawn(async move {
            if responds(&server, deadline_ms).await {
                // One response is enough.
                let _ = sender.try_send(());
            }
        })
    };
    let _attempts = Attempts(servers.iter().map(start).collect());
    drop(sender);
    let is_reached = tokio::select! {
        biased;
        response = responses.recv() => response.is_some(),
        () = connections.io().sleep_until(deadline_ms) => false,
    };
    if is_reached {
        return Ok(());
    }
    let brokers = servers.iter().map(|server| reason(metadata, server, within)).collect();
    Err(BootstrapError { within, brokers })
}

/// Requests of the first contact. They are cancelled with it.
struct Attempts(Vec<AbortHandle>);

impl Drop for Attempts {
    fn drop(&mut self) {
        for attempt in &self.0 {
            attempt.abort();
        }
    }
}

/// Sends requests to one server until it responds. Returns `false` if it never will. The connection waits between
/// attempts.
async fn responds(server: &Connection, deadline_ms: i64) -> bool {
    loop {
        let left_ms = deadline_ms.saturating_sub(now_ms());
        if left_ms <= 0 {
            return false;
        }
        let request = MetadataRequest {
            topics: Some(vec![]),
            ..MetadataRequest::default()
        };
        let options = SendOptions::timeout_ms(left_ms).version_min(VERSION_MIN);
        match server.call(request, options).await {
            Ok(_) | Err(CallError::UnsupportedVersion { .. }) => return true,
            // A refused log-in is not repeated.
            Err(CallError::Closed | CallError::Authentication(_)) => return false,
            Err(_) => {}
        }
    }
}

fn reason(metadata: &Metadata, server: &Connection, within: Duration) -> UnreachableBroker {
    let address = server.endpoint().to_string();
    let known = metadata.connections().unreachable();
    if let Some(known) = known.into_iter().find(|broker| broker.address == address) {
        return known;
    }
    let reason = match server.status() {
        Status::Ready => format!("connected, but no response within {within:?}"),
        Status::Closed => "the client is closed".to_owned(),
        _ => format!("no connection within {within:?}"),
    };
    UnreachableBroker {
        address,
        cause: FailureCause::TimedOut,
        reason,
        failures: 0,
        unreachable_for: within,
    }
}
