//! Log lines about coordinators that cannot be found.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::{CoordinatorKind, FindCoordinatorError, FindFailure};
use crate::{
    metadata::Broker,
    net::CallError,
    outages::{Failure, Outages},
};

/// Connection failures have warnings of their own. After this time there is one about the coordinator too.
const UNREACHABLE_GRACE_MS: i64 = 5_000;
/// The first group of a new cluster may wait this long for its coordinator.
const NEW_GRACE_MS: i64 = 1_000;

/// The outages of one coordinator.
#[derive(Debug, Default)]
pub(super) struct CoordinatorNotices {
    outages: Mutex<Outages<(), &'static str>>,
}

/// The coordinator that log lines are about.
pub(super) struct Subject<'a> {
    pub(super) client: &'a str,
    pub(super) kind: CoordinatorKind,
    pub(super) key: &'a str,
}

impl CoordinatorNotices {
    pub(super) fn handle_failure(&self, now_ms: i64, of: &Subject<'_>, failure: &FindFailure) {
        let (cause, grace_ms, reason) = match failure {
            FindFailure::Call(error @ CallError::MalformedResponse { .. }) => ("bad_response", 0, error.to_string()),
            FindFailure::Call(error) => ("unreachable", UNREACHABLE_GRACE_MS, error.to_string()),
            FindFailure::NotAvailable(code) => ("not_available", NEW_GRACE_MS, code.to_string()),
        };
        self.warn(now_ms, of, cause, grace_ms, reason);
    }

    pub(super) fn handle_refusal(&self, now_ms: i64, of: &Subject<'_>, error: &FindCoordinatorError) {
        // Closing the client is no outage.
        if !matches!(error, FindCoordinatorError::Call(CallError::Closed)) {
            self.warn(now_ms, of, "refused", 0, error.to_string());
        }
    }

    pub(super) fn handle_found(&self, now_ms: i64, of: &Subject<'_>, broker: &Broker) {
        let Some(recovery) = self.outages().handle_success(now_ms, &()) else {
            return;
        };
        let what = of.what();
        tracing::info!(
            event = "coordinator_found",
            client = of.client,
            kind = of.kind.name(),
            key = of.key,
            node = broker.id,
            failures = recovery.failures,
            missing_ms = recovery.for_ms,
            "found the coordinator of {what}: broker {}",
            broker.id
        );
    }

    fn warn(&self, now_ms: i64, of: &Subject<'_>, cause: &'static str, grace_ms: i64, reason: String) {
        let failure = Failure {
            cause,
            reason: reason.clone(),
            grace_ms,
        };
        let Some(warning) = self.outages().handle_failure(now_ms, &(), failure) else {
            return;
        };
        let what = of.what();
        tracing::warn!(
            event = "coordinator_missing",
            client = of.client,
            kind = of.kind.name(),
            key = of.key,
            cause,
            failures = warning.failures,
            missing_ms = warning.for_ms,
            "no coordinator of {what} for {} ms: {reason}",
            warning.for_ms
        );
    }

    fn outages(&self) -> MutexGuard<'_, Outages<(), &'static str>> {
        self.outages.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Subject<'_> {
    fn what(&self) -> String {
        match self.kind {
            CoordinatorKind::Group => format!("group {}", self.key),
            CoordinatorKind::Transaction => format!("transactional id {}", self.key),
        }
    }
}

impl CoordinatorKind {
    fn name(self) -> &'static str {
        match self {
            Self::Group => "group",
            Self::Transaction => "transaction",
        }
    }
}
