//! Retries of asynchronous commits.
//!
//! A retry after a newer commit would move the group back. Every commit has a sequence number, and a failed one is
//! retried only while its number is the newest.

use milena_machines::member::OffsetError;
use tokio::sync::oneshot;

use super::{api::Offsets, group::CommitResults, notices::first_error};

/// The newest sequence number of a member, and the retry that is waiting. It has no clock.
#[derive(Debug, Default)]
pub(super) struct CommitRetries {
    sequence: u64,
    waiting: Option<PendingRetry>,
}

/// A commit that may be retried.
#[derive(Debug)]
pub(super) struct RetriedCommit {
    pub(super) sequence: u64,
    /// The time of the last retry.
    pub(super) deadline_ms: i64,
    pub(super) offsets: Offsets,
    pub(super) done: oneshot::Sender<CommitResults>,
}

#[derive(Debug)]
struct PendingRetry {
    due_ms: i64,
    commit: RetriedCommit,
    /// The results of the last attempt.
    results: CommitResults,
}

impl CommitRetries {
    /// Starts a new commit and returns its sequence number. A waiting retry ends with the results of its last attempt.
    pub(super) fn handle_new(&mut self) -> u64 {
        self.sequence += 1;
        if let Some(waiting) = self.waiting.take() {
            // An overtaken commit without an observer is not logged.
            let _ = waiting.commit.done.send(waiting.results);
        }
        self.sequence
    }

    /// Handles the results of an attempt. Keeps the commit for a retry, or returns it with its results.
    pub(super) fn handle_results(
        &mut self,
        now_ms: i64,
        backoff_ms: i64,
        commit: RetriedCommit,
        results: CommitResults,
    ) -> Option<(RetriedCommit, CommitResults)> {
        let due_ms = now_ms.saturating_add(backoff_ms);
        let errors = results.values().filter_map(|result| result.as_ref().err());
        let is_retriable = errors
            .into_iter()
            .all(|error| matches!(error, OffsetError::Retriable(_)));
        let is_newest = commit.sequence == self.sequence;
        if first_error(&results).is_none() || !is_retriable || !is_newest || due_ms >= commit.deadline_ms {
            return Some((commit, results));
        }
        self.waiting = Some(PendingRetry {
            due_ms,
            commit,
            results,
        });
        None
    }

    /// Takes the commit to send again now.
    pub(super) fn poll_commit(&mut self, now_ms: i64) -> Option<RetriedCommit> {
        let due = self.waiting.take_if(|waiting| waiting.due_ms <= now_ms)?;
        Some(due.commit)
    }

    pub(super) fn poll_timeout(&self) -> Option<i64> {
        self.waiting.as_ref().map(|waiting| waiting.due_ms)
    }
}

#[cfg(test)]
mod tests {
    use milena_machines::{
        TopicPartition,
        member::{CallCause, CallFailure, OffsetAndMetadata},
    };

    use super::*;

    const BACKOFF_MS: i64 = 100;

    fn commit(retries: &mut CommitRetries) -> (RetriedCommit, oneshot::Receiver<CommitResults>) {
        let (done, results) = oneshot::channel();
        let commit = RetriedCommit {
            sequence: retries.handle_new(),
            deadline_ms: 1_000,
            offsets: Offsets::from([(partition(), OffsetAndMetadata::new(7))]),
            done,
        };
        (commit, results)
    }

    fn partition() -> TopicPartition {
        TopicPartition::new("letters", 0)
    }

    fn failed(error: OffsetError) -> CommitResults {
        CommitResults::from([(partition(), Err(error))])
    }

    fn lost() -> CommitResults {
        failed(OffsetError::Retriable(CallCause::NoResponse(CallFailure::Disconnected)))
    }

    #[test]
    fn the_newest_is_tried_again_after_a_pause() {
        let mut retries = CommitRetries::default();
        let (first, _results) = commit(&mut retries);
        assert!(retries.handle_results(0, BACKOFF_MS, first, lost()).is_none());
        assert_eq!(retries.poll_timeout(), Some(BACKOFF_MS));
        assert!(retries.poll_commit(BACKOFF_MS - 1).is_none());
        let again = retries.poll_commit(BACKOFF_MS).unwrap();
        assert_eq!(again.offsets[&partition()].offset, 7);
        assert!(retries.poll_timeout().is_none());
        let done = CommitResults::from([(partition(), Ok(()))]);
        let (_, results) = retries.handle_results(200, BACKOFF_MS, again, done).unwrap();
        assert!(first_error(&results).is_none());
    }

    #[test]
    fn one_that_was_overtaken_is_not_sent_again() {
        let mut retries = CommitRetries::default();
        let (first, mut results) = commit(&mut retries);
        assert!(retries.handle_results(0, BACKOFF_MS, first, lost()).is_none());
        let (second, _) = commit(&mut retries);
        assert!(retries.poll_commit(i64::MAX).is_none());
        assert_eq!(results.try_recv().unwrap(), lost(), "the results of the last attempt");
        let (third, _) = commit(&mut retries);
        assert!(
            retries.handle_results(0, BACKOFF_MS, second, lost()).is_some(),
            "it is the third by then"
        );
        assert!(retries.handle_results(0, BACKOFF_MS, third, lost()).is_none());
    }

    #[test]
    fn an_error_that_stays_and_a_deadline_end_it() {
        let mut retries = CommitRetries::default();
        let (first, _results) = commit(&mut retries);
        let refused = failed(OffsetError::RebalanceInProgress);
        let (first, _) = retries.handle_results(0, BACKOFF_MS, first, refused).unwrap();
        assert!(retries.handle_results(950, BACKOFF_MS, first, lost()).is_some());
    }
}
