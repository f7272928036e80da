//! Closing a consumer.

use std::{sync::Arc, time::Duration};

use milena_machines::member::{CommitMode, Leave, Membership};
use tokio::time::Instant;

use super::{
    Consumer,
    error::{CommitError, PollError},
    group::{Group, committable},
    shared::ConsumerShared,
};
use crate::io;

/// Options of [`Consumer::close_with`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseOptions {
    /// Limit for the brokers; the time of the listener does not count.
    pub timeout: Duration,
    /// Whether to leave the group. By default a dynamic member leaves; a static one stays and is expected back.
    pub leave: Leave,
}

impl Default for CloseOptions {
    fn default() -> Self {
        Self {
            timeout: Duration::from_secs(30),
            leave: Leave::Default,
        }
    }
}

/// An error while closing. The consumer is closed nevertheless.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    #[error("closed, but positions were not committed: {0}")]
    Commit(#[from] CommitError),
    #[error("closed, but leaving the group failed: {0}")]
    Leave(#[from] PollError),
}

/// Limit for the background work of a dropped consumer.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

impl Consumer {
    /// Closes the consumer and returns the first failure. It commits positions with `enable.auto.commit`, calls the
    /// listener, leaves the group, waits for commits in flight, and closes all connections. A failure does not stop the
    /// remaining steps.
    ///
    /// During a rebalance positions cannot be committed, so this waits for its end first.
    pub async fn close(self) -> Result<(), CloseError> {
        self.close_with(CloseOptions::default()).await
    }

    /// As [`close`](Self::close), with a timeout and a way to leave.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, the remaining steps happen in the background, as after a drop of the consumer.
    pub async fn close_with(mut self, options: CloseOptions) -> Result<(), CloseError> {
        let deadline = Instant::now().checked_add(options.timeout);
        let committed = self.commit_before_close(options.timeout).await;
        let left = self.leave_group(options.leave).await;
        self.inner.shared.wait_until_gone(deadline).await;
        self.report_commits();
        self.inner.shared.close_sessions();
        self.inner.shared.shut_down();
        committed?;
        left?;
        Ok(())
    }

    async fn commit_before_close(&mut self, timeout: Duration) -> Result<(), CommitError> {
        let shared = Arc::clone(&self.inner.shared);
        if !shared.config.enable_auto_commit {
            return Ok(());
        }
        let request_timeout = Duration::from_millis(u64::try_from(shared.request_timeout_ms()).unwrap_or(0));
        let timeout = timeout.min(request_timeout);
        let deadline = Instant::now().checked_add(timeout);
        loop {
            let offsets = committable(shared.core().consumed_of(None));
            if offsets.is_empty() {
                return Ok(());
            }
            // Commits fail during a rebalance. The rebalance continues without the application.
            shared.wait_while(deadline, is_rebalancing).await;
            let left = deadline.map_or(timeout, |deadline| deadline.saturating_duration_since(Instant::now()));
            let left_ms = i64::try_from(left.as_millis()).unwrap_or(i64::MAX);
            let deadline_ms = io::now_ms().saturating_add(left_ms);
            match self.start_commit(offsets, CommitMode::Last { deadline_ms })?.await {
                // Another rebalance started before the commit arrived.
                Err(error) if error.is_rebalance() && !left.is_zero() => {}
                Err(error) => return error.without_gone_topics(),
                Ok(()) => return Ok(()),
            }
        }
    }

    /// Calls the listener for the assigned partitions, then leaves the group.
    pub(super) async fn leave_group(&mut self, how: Leave) -> Result<(), PollError> {
        let mut outcome = Ok(());
        {
            let mut core = self.inner.shared.core();
            let Some(group) = &mut core.group else {
                return Ok(());
            };
            group.member.leave(io::now_ms(), how);
            group.coordinator_error = None;
            self.inner.shared.drive_locked(&mut core, io::now_ms());
        }
        loop {
            let event = self
                .inner
                .shared
                .core()
                .group
                .as_ref()
                .and_then(|group| group.event.clone());
            let Some(event) = event else { break };
            let event_outcome = self.run_event(event).await;
            outcome = outcome.and(event_outcome);
        }
        outcome
    }
}

impl ConsumerShared {
    /// Waits until the leave request and all commits have responses.
    async fn wait_until_gone(&self, deadline: Option<Instant>) {
        self.wait_while(deadline, |group| !group.member.is_gone() || group.offsets.has_commits())
            .await;
    }

    /// Waits while the condition holds, up to the deadline.
    async fn wait_while(&self, deadline: Option<Instant>, holds: impl Fn(&Group) -> bool) {
        while self.core().group.as_ref().is_some_and(&holds) {
            let Some(deadline) = deadline else {
                self.signal().notified().await;
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let deadline_ms = io::now_ms().saturating_add(i64::try_from(left.as_millis()).unwrap_or(i64::MAX));
            let sleep = self.io.sleep_until(deadline_ms);
            tokio::select! {
                () = self.signal().notified() => {}
                () = sleep => return,
            }
        }
    }

    /// Closes a consumer that was dropped, without its listener.
    async fn close_in_background(self: Arc<Self>) {
        let deadline = Instant::now().checked_add(DROP_TIMEOUT);
        if self.config.enable_auto_commit {
            self.wait_while(deadline, is_rebalancing).await;
        }
        let now_ms = io::now_ms();
        {
            let mut guard = self.core();
            let core = &mut *guard;
            if core.closed {
                return;
            }
            let offsets = committable(core.consumed_of(None));
            if let Some(group) = &mut core.group {
                let deadline_ms = now_ms + i64::try_from(DROP_TIMEOUT.as_millis()).unwrap_or(0);
                if self.config.enable_auto_commit && !offsets.is_empty() {
                    drop(group.commit(offsets, CommitMode::Last { deadline_ms }));
                }
            }
        }
        self.drive();
        self.wait_while(deadline, |group| group.offsets.has_commits()).await;
        {
            let mut core = self.core();
            if let Some(group) = &mut core.group {
                group.member.leave(now_ms, Leave::Default);
                group.event = None;
                while group.member.poll_event().is_some() {
                    group.member.handle_event_done(now_ms);
                }
                group.member.handle_event_done(now_ms);
            }
            self.drive_locked(&mut core, io::now_ms());
        }
        self.wait_until_gone(deadline).await;
        self.close_sessions();
        self.shut_down();
    }
}

fn is_rebalancing(group: &Group) -> bool {
    matches!(group.member.membership(), Membership::Rebalancing)
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.inner.shared);
        if !shared.core().closed {
            let io = shared.io.clone();
            io.spawn(shared.close_in_background());
        }
    }
}
