//! Connection failures: what they are called, and the log lines about them.

use std::{
    io,
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::{Endpoint, receive::ReceiveError};
use crate::{
    outages::{Failure, Outages},
    reachability::{FailureCause, UnreachableBroker},
};

/// A reason for which there is no connection, or none any more.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ConnectFailure {
    pub(super) cause: FailureCause,
    pub(super) reason: String,
}

impl ConnectFailure {
    pub(super) fn new(cause: FailureCause, reason: impl Into<String>) -> Self {
        Self {
            cause,
            reason: reason.into(),
        }
    }

    /// A failed connect of the operating system.
    pub(super) fn of_connect(error: &io::Error) -> Self {
        let cause = match error.kind() {
            io::ErrorKind::ConnectionRefused => FailureCause::Refused,
            io::ErrorKind::HostUnreachable | io::ErrorKind::NetworkUnreachable => FailureCause::NoRoute,
            io::ErrorKind::TimedOut => FailureCause::TimedOut,
            _ => FailureCause::Other,
        };
        Self::new(cause, error.to_string())
    }

    /// A failure to read before both sides had agreed on versions.
    pub(super) fn of_handshake(error: &ReceiveError) -> Self {
        let cause = match error {
            ReceiveError::Frame(_) | ReceiveError::Tls => FailureCause::WrongProtocol,
            ReceiveError::Eof | ReceiveError::EofInside | ReceiveError::Io(_) => FailureCause::ClosedInHandshake,
        };
        let reason = match cause {
            FailureCause::ClosedInHandshake => format!("{error} during the handshake"),
            _ => error.to_string(),
        };
        Self::new(cause, reason)
    }
}

/// The brokers of one client that fail now. Connections of all roles to the same address count as one.
#[derive(Debug, Default)]
pub(super) struct Failures {
    outages: Mutex<Outages<Endpoint, FailureCause>>,
}

impl Failures {
    pub(super) fn handle_failure(&self, now_ms: i64, client: &str, node_id: i32, at: &Endpoint, why: ConnectFailure) {
        let ConnectFailure { cause, reason } = why;
        let failure = Failure {
            cause,
            reason: reason.clone(),
            grace_ms: 0,
        };
        let Some(warning) = self.outages().handle_failure(now_ms, at, failure) else {
            return;
        };
        let node = (node_id >= 0).then_some(node_id);
        tracing::warn!(
            event = "broker_unreachable",
            client,
            node,
            address = %at,
            cause = cause.as_str(),
            failures = warning.failures,
            unreachable_ms = warning.for_ms,
            "cannot reach broker {at}: {reason}; trying again"
        );
    }

    pub(super) fn handle_connected(&self, now_ms: i64, client: &str, node_id: i32, at: &Endpoint) {
        let Some(recovery) = self.outages().handle_success(now_ms, at) else {
            return;
        };
        let node = (node_id >= 0).then_some(node_id);
        tracing::info!(
            event = "broker_reachable",
            client,
            node,
            address = %at,
            failures = recovery.failures,
            unreachable_ms = recovery.for_ms,
            "broker {at} is reachable again after {} ms",
            recovery.for_ms
        );
    }

    pub(super) fn current(&self, now_ms: i64) -> Vec<UnreachableBroker> {
        let outages = self.outages();
        let failing = outages.all_failing().map(|(address, failing)| UnreachableBroker {
            address: address.to_string(),
            cause: failing.cause,
            reason: failing.reason.clone(),
            failures: failing.failures,
            unreachable_for: Duration::from_millis(u64::try_from(now_ms - failing.since_ms).unwrap_or(0)),
        });
        failing.collect()
    }

    /// Forgets addresses that no broker has any more.
    pub(super) fn retain(&self, keep: impl Fn(&Endpoint) -> bool) {
        self.outages().retain(keep);
    }

    fn outages(&self) -> MutexGuard<'_, Outages<Endpoint, FailureCause>> {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
