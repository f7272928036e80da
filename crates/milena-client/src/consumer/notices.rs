//! Log lines about a member: failed commits and missing polls.

use std::sync::{Mutex, MutexGuard, PoisonError};

use milena_machines::member::OffsetError;

use super::group::CommitResults;
use crate::{
    config::ConsumerConfig,
    outages::{Failure, Outages},
};

/// Grace period of automatic commits, which are retried.
const AUTO_GRACE_MS: i64 = 5_000;

/// The log lines of one member.
#[derive(Debug)]
pub(super) struct MemberNotices {
    client: String,
    group: String,
    commits: Mutex<Outages<(), &'static str>>,
}

impl MemberNotices {
    pub(super) fn new(config: &ConsumerConfig) -> Self {
        Self {
            client: config.client_id.clone(),
            group: config.group_id.clone().unwrap_or_default(),
            commits: Mutex::default(),
        }
    }

    /// Handles a commit whose result is not observed.
    pub(super) fn handle_unobserved(&self, now_ms: i64, results: &CommitResults) {
        if let Some(error) = first_error(results) {
            self.warn(now_ms, "asynchronous", 0, results, error);
        }
    }

    pub(super) fn handle_auto_commit(&self, now_ms: i64, results: &CommitResults) {
        if let Some(error) = first_error(results) {
            let grace_ms = match error {
                OffsetError::Retriable(_) => AUTO_GRACE_MS,
                _ => 0,
            };
            self.warn(now_ms, "automatic", grace_ms, results, error);
        }
    }

    /// Handles a successful commit of any kind.
    pub(super) fn handle_committed(&self, now_ms: i64) {
        let Some(recovery) = self.commits().handle_success(now_ms, &()) else {
            return;
        };
        tracing::info!(
            event = "commit_recovered",
            client = self.client,
            group = self.group,
            failures = recovery.failures,
            failing_ms = recovery.for_ms,
            "commits of group {} succeed again",
            self.group
        );
    }

    pub(super) fn handle_poll_expired(&self, max_poll_interval_ms: i32, since_last_poll_ms: i64) {
        tracing::warn!(
            event = "max_poll_interval_exceeded",
            client = self.client,
            group = self.group,
            max_poll_interval_ms,
            since_last_poll_ms,
            "the consumer leaves group {}: its last poll was {since_last_poll_ms} ms ago, and \
             max.poll.interval.ms={max_poll_interval_ms}; its partitions go to other members until it polls again; \
             poll more often, lower max.poll.records, or raise max.poll.interval.ms",
            self.group
        );
    }

    fn warn(&self, now_ms: i64, kind: &'static str, grace_ms: i64, results: &CommitResults, error: &OffsetError) {
        let cause = cause(error);
        let failure = Failure {
            cause,
            reason: error.to_string(),
            grace_ms,
        };
        let Some(warning) = self.commits().handle_failure(now_ms, &(), failure) else {
            return;
        };
        let partitions = results.values().filter(|result| result.is_err()).count();
        tracing::warn!(
            event = "commit_failed",
            client = self.client,
            group = self.group,
            kind,
            cause,
            partitions,
            failures = warning.failures,
            failing_ms = warning.for_ms,
            "{kind} commit of group {} failed for {partitions} partitions: {error}",
            self.group
        );
    }

    fn commits(&self) -> MutexGuard<'_, Outages<(), &'static str>> {
        self.commits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The first error of a commit; `None` if it succeeded.
pub(super) fn first_error(results: &CommitResults) -> Option<&OffsetError> {
    results.values().find_map(|result| result.as_ref().err())
}

fn cause(error: &OffsetError) -> &'static str {
    match error {
        OffsetError::CommitFailed => "not_a_member",
        OffsetError::RebalanceInProgress => "rebalance_in_progress",
        OffsetError::FencedInstance => "fenced_instance",
        OffsetError::Retriable(_) => "retriable",
        OffsetError::TimedOut { .. } => "timed_out",
        OffsetError::Refused(_) => "refused",
        OffsetError::Unsupported { .. } => "unsupported",
    }
}
