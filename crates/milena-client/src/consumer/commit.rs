//! Commits.

use std::{
    collections::BTreeMap,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
    time::{Duration, Instant},
};

use milena_machines::member::CommitMode;
use tokio::sync::oneshot;
use tracing::Instrument;

use super::{
    api::Offsets,
    error::CommitError,
    group::{CommitResults, committable},
    notices::MemberNotices,
    rebalance_consumer::RebalanceConsumer,
};
use crate::io;

impl RebalanceConsumer {
    /// Commits the position of every partition: all records that earlier calls of `poll` returned. Retries until it
    /// succeeds, fails for good, or `default.api.timeout.ms` is over.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not cancel the commit.
    pub async fn commit_sync(&mut self) -> Result<(), CommitError> {
        let offsets = committable(self.shared.core().consumed_of(None));
        self.commit_offsets(offsets).await
    }

    /// Commits these offsets: for each partition, the offset of the next record to read.
    pub async fn commit_offsets(&mut self, offsets: Offsets) -> Result<(), CommitError> {
        let timeout_ms = u64::try_from(self.shared.config.default_api_timeout_ms).unwrap_or(0);
        self.commit_offsets_within(offsets, Duration::from_millis(timeout_ms))
            .await
    }

    /// As [`commit_offsets`](Self::commit_offsets), with a timeout.
    pub async fn commit_offsets_within(&mut self, offsets: Offsets, timeout: Duration) -> Result<(), CommitError> {
        let timeout_ms = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        let deadline_ms = io::now_ms().saturating_add(timeout_ms);
        let began = Instant::now();
        let commit = tracing::debug_span!("commit", client = %self.shared.config.client_id);
        let refusals = self.shared.connections.authentication().last();
        let commit = self
            .start_commit(offsets, CommitMode::Sync { deadline_ms })?
            .instrument(commit);
        let state = tokio::select! {
            biased;
            state = commit => state,
            error = self.shared.connections.authentication().refused_after(refusals) => Err(CommitError::Authentication(error)),
        };
        let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shared.core().metrics.commit_sync_ns += took_ns;
        state
    }

    /// Commits the position of every partition without waiting. Commits are sent in the order of the calls and never
    /// retried, so that an old commit cannot overwrite a newer one.
    ///
    /// Returns a future of the result, which need not be awaited. An unobserved failure is logged (`event =
    /// "commit_failed"`) and counted (`failed-commit-total`).
    pub fn commit_async(&mut self) -> Result<CommitFuture, CommitError> {
        let offsets = committable(self.shared.core().consumed_of(None));
        self.commit_offsets_async(offsets)
    }

    /// As [`commit_async`](Self::commit_async), for these offsets.
    pub fn commit_offsets_async(&mut self, offsets: Offsets) -> Result<CommitFuture, CommitError> {
        self.start_commit(offsets, CommitMode::Async)
    }

    /// Commits the position of every partition without waiting, with retries. It is retried after `retry.backoff.ms`,
    /// up to `default.api.timeout.ms`, as long as no newer commit starts: an old commit must not move the group back. A
    /// commit that was overtaken has the result of its last attempt.
    pub fn commit_async_retrying(&mut self) -> Result<CommitFuture, CommitError> {
        let mut core = self.shared.core();
        let offsets = committable(core.consumed_of(None));
        if core.closed {
            return Err(CommitError::Closed);
        }
        let now_ms = io::now_ms();
        let deadline_ms = now_ms.saturating_add(i64::from(self.shared.config.default_api_timeout_ms));
        let group = core.group.as_mut().ok_or(CommitError::NoGroup)?;
        let state = CommitState::UnderWay {
            results: group.commit_retried(offsets, deadline_ms),
            notices: Arc::clone(&group.notices),
        };
        self.shared.drive_locked(&mut core, now_ms);
        Ok(CommitFuture { state })
    }

    pub(super) fn start_commit(&mut self, offsets: Offsets, mode: CommitMode) -> Result<CommitFuture, CommitError> {
        let negative = offsets.iter().find(|(_, committed)| committed.offset < 0);
        if let Some((partition, committed)) = negative {
            return Err(CommitError::NegativeOffset {
                partition: partition.clone(),
                offset: committed.offset,
            });
        }
        let mut core = self.shared.core();
        if core.closed {
            return Err(CommitError::Closed);
        }
        let group = core.group.as_mut().ok_or(CommitError::NoGroup)?;
        let state = CommitState::UnderWay {
            results: group.commit(offsets, mode),
            notices: Arc::clone(&group.notices),
        };
        self.shared.drive_locked(&mut core, io::now_ms());
        Ok(CommitFuture { state })
    }
}

/// The future result of a commit.
#[derive(Debug)]
pub struct CommitFuture {
    state: CommitState,
}

#[derive(Debug)]
enum CommitState {
    UnderWay {
        results: oneshot::Receiver<CommitResults>,
        notices: Arc<MemberNotices>,
    },
    /// `None` after the result was returned.
    Known(Option<Result<(), CommitError>>),
}

impl CommitFuture {
    /// A completed commit, for test doubles of the consumer.
    pub fn ready(result: Result<(), CommitError>) -> Self {
        Self {
            state: CommitState::Known(Some(result)),
        }
    }
}

impl Future for CommitFuture {
    type Output = Result<(), CommitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let results = match &mut self.state {
            CommitState::Known(result) => return Poll::Ready(result.take().unwrap_or(Err(CommitError::Closed))),
            CommitState::UnderWay { results, .. } => results,
        };
        let results = std::task::ready!(Pin::new(results).poll(context));
        self.state = CommitState::Known(None);
        let results = results.map_err(|_| CommitError::Closed)?;
        let failed: BTreeMap<_, _> = results
            .into_iter()
            .filter_map(|(partition, result)| Some((partition, result.err()?)))
            .collect();
        Poll::Ready(if failed.is_empty() {
            Ok(())
        } else {
            Err(CommitError::Partitions(failed))
        })
    }
}

/// Logs a failure that was not observed.
impl Drop for CommitFuture {
    fn drop(&mut self) {
        if let CommitState::UnderWay { results, notices } = &mut self.state {
            // A result that arrives later finds the channel closed.
            results.close();
            if let Ok(results) = results.try_recv() {
                notices.handle_unobserved(io::now_ms(), &results);
            }
        }
    }
}
