//! Brokers that cannot be reached, and why.
//!
//! A client tries again for as long as it lives, and logs a warning about each broker and cause (`event =
//! "broker_unreachable"`). A program that would rather end asks for the first contact with a limit
//! ([`Admin::connect`](crate::admin::Admin::connect), [`Consumer::connect`](crate::consumer::RebalanceConsumer::connect),
//! [`Producer::connect`](crate::producer::Producer::connect)), or looks at the brokers that fail at any time
//! (`unreachable_brokers` of the same types).

use std::{fmt, time::Duration};

use tokio::{sync::mpsc, task::AbortHandle};

use milena_wire::messages::MetadataRequest;

use crate::{
    io::now_ms,
    metadata::{Metadata, VERSION_MIN},
    net::{CallError, Connection, SendOptions, Status},
};

/// The kind of a connection failure. Its text is the stable name that log lines have as `cause`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum FailureCause {
    /// The host name has no address: `name_unknown`.
    NameUnknown,
    /// Nothing listens on the port: `refused`.
    Refused,
    /// There is no route to the host or network: `no_route`.
    NoRoute,
    /// There was no connection, or no handshake, in time: `timed_out`.
    TimedOut,
    /// The peer closed the connection before it had said which versions it speaks: `closed_in_handshake`.
    ClosedInHandshake,
    /// The peer does not speak Kafka's protocol, or speaks it over TLS: `wrong_protocol`.
    WrongProtocol,
    /// A connection was lost while a request was in flight: `disconnected`.
    Disconnected,
    /// A connected broker did not answer a request in time: `request_timed_out`.
    RequestTimedOut,
    /// Any other failure of the operating system: `other`.
    Other,
}

impl FailureCause {
    /// The stable name, as in `name_unknown`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::NameUnknown => "name_unknown",
            Self::Refused => "refused",
            Self::NoRoute => "no_route",
            Self::TimedOut => "timed_out",
            Self::ClosedInHandshake => "closed_in_handshake",
            Self::WrongProtocol => "wrong_protocol",
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
    /// Its host and port, as they were configured or advertised.
    pub address: String,
    pub cause: FailureCause,
    /// The cause in words, with the operating system's text.
    pub reason: String,
    /// Failures since it was last reachable; 0 if the first attempt is still under way.
    pub failures: u64,
    /// The time since the first of them.
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

/// No bootstrap server answered in time.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct ConnectError {
    /// The limit that was given.
    pub within: Duration,
    /// Every bootstrap server, in the order of `bootstrap.servers`, with the reason why it did not answer.
    pub brokers: Vec<UnreachableBroker>,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "no bootstrap server answered within {:?}", self.within)?;
        for (place, broker) in self.brokers.iter().enumerate() {
            let separator = if place == 0 { ": " } else { "; " };
            write!(f, "{separator}{broker}")?;
        }
        Ok(())
    }
}

impl std::error::Error for ConnectError {}

/// Waits until one bootstrap server has answered. All of them are asked at once, so that each has a reason if none does.
pub(crate) async fn connect(metadata: &Metadata, within: Duration) -> Result<(), ConnectError> {
    if metadata.cache().brokers().len() > 0 {
        return Ok(());
    }
    let connections = metadata.connections();
    let servers = connections.bootstrap();
    let within_ms = i64::try_from(within.as_millis()).unwrap_or(i64::MAX);
    let deadline_ms = now_ms().saturating_add(within_ms);
    let (answered, mut answers) = mpsc::channel(1);
    let ask = |server: &Connection| {
        let (server, answered) = (server.clone(), answered.clone());
        connections.io().spawn(async move {
            if asked(&server, deadline_ms).await {
                // A second answer is not needed.
                let _ = answered.try_send(());
            }
        })
    };
    let _attempts = Attempts(servers.iter().map(ask).collect());
    drop(answered);
    let is_reached = tokio::select! {
        biased;
        answer = answers.recv() => answer.is_some(),
        () = connections.io().sleep_until(deadline_ms) => false,
    };
    if is_reached {
        return Ok(());
    }
    let brokers = servers.iter().map(|server| reason(metadata, server, within)).collect();
    Err(ConnectError { within, brokers })
}

/// Requests of a first contact. They end with it.
struct Attempts(Vec<AbortHandle>);

impl Drop for Attempts {
    fn drop(&mut self) {
        for attempt in &self.0 {
            attempt.abort();
        }
    }
}

/// Asks one server until it has answered. `false` if it never will. The connection itself waits between attempts.
async fn asked(server: &Connection, deadline_ms: i64) -> bool {
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
            Err(CallError::Closed) => return false,
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
        Status::Ready => format!("connected, but it did not answer within {within:?}"),
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
