//! Log lines about brokers that cannot be reached.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use super::Endpoint;
use crate::{
    outages::{Failure, Outages},
    reachability::{FailureCause, UnreachableBroker},
};

/// The brokers of one client that fail now. Connections of all roles to the same address count as one.
#[derive(Debug, Default)]
pub(super) struct Failures {
    outages: Mutex<Outages<Endpoint, FailureCause>>,
}

/// The broker that a log line is about.
#[derive(Debug, Clone, Copy)]
pub(super) struct FailureSubject<'a> {
    pub(super) client: &'a str,
    pub(super) node_id: i32,
    pub(super) address: &'a Endpoint,
}

impl FailureSubject<'_> {
    /// `None` for a bootstrap server, whose node id is not known.
    fn node(&self) -> Option<i32> {
        Some(self.node_id).filter(|id| *id >= 0)
    }
}

impl Failures {
    pub(super) fn handle_failure(&self, now_ms: i64, subject: FailureSubject<'_>, cause: FailureCause, reason: String) {
        let failure = Failure {
            cause,
            reason: reason.clone(),
            grace_ms: 0,
        };
        let address = subject.address;
        let Some(warning) = self.outages().handle_failure(now_ms, address, failure) else {
            return;
        };
        if cause == FailureCause::AuthenticationFailed {
            // A target of its own, so that a program which reports the error of the call can hide this.
            tracing::warn!(
                target: "milena_client::authentication",
                event = "authentication_failed",
                client = subject.client,
                node = subject.node(),
                address = %address,
                failures = warning.failures,
                unreachable_ms = warning.for_ms,
                "{reason}; mend the credentials or certificates"
            );
            return;
        }
        tracing::warn!(
            event = "broker_unreachable",
            client = subject.client,
            node = subject.node(),
            address = %address,
            cause = cause.as_str(),
            failures = warning.failures,
            unreachable_ms = warning.for_ms,
            "cannot reach broker {address}: {reason}; retrying"
        );
    }

    pub(super) fn handle_connected(&self, now_ms: i64, subject: FailureSubject<'_>) {
        let address = subject.address;
        let Some(recovery) = self.outages().handle_success(now_ms, address) else {
            return;
        };
        tracing::info!(
            event = "broker_reachable",
            client = subject.client,
            node = subject.node(),
            address = %address,
            failures = recovery.failures,
            unreachable_ms = recovery.for_ms,
            "broker {address} is reachable again after {} ms",
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
