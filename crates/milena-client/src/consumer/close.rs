//! The end of a consumer.

use std::{sync::Arc, time::Duration};

use milena_machines::member::{CommitMode, Leave};
use tokio::time::Instant;

use super::{
    Consumer,
    error::{CommitError, PollError},
    group::committable,
    shared::Shared,
};
use crate::io;

/// How to close.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CloseOptions {
    /// How long brokers may take; the listener's time does not count.
    pub timeout: Duration,
    /// Whether the group hears of it: a dynamic member leaves unless told otherwise, a static one stays and is expected
    /// back.
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

/// What went wrong while closing. The consumer is closed all the same.
#[derive(Debug, thiserror::Error)]
pub enum CloseError {
    #[error("closed, but positions were not committed: {0}")]
    Commit(#[from] CommitError),
    #[error("closed, but: {0}")]
    Leave(#[from] PollError),
}

/// How long a consumer that was dropped goes on in the background.
const DROP_TIMEOUT: Duration = Duration::from_secs(5);

impl Consumer {
    /// Commits positions if commits are automatic, lets the listener hear what goes, leaves the group, waits for commits
    /// under way, and frees all connections. All of it is done even if a part fails; the first failure is returned.
    pub async fn close(self) -> Result<(), CloseError> {
        self.close_with(CloseOptions::default()).await
    }

    /// The same with a deadline and a way to leave.
    ///
    /// # Cancel safety
    ///
    /// If the future is dropped, what is left of it happens in the background, as if the consumer had been dropped.
    pub async fn close_with(mut self, options: CloseOptions) -> Result<(), CloseError> {
        let deadline = Instant::now().checked_add(options.timeout);
        let committed = self.commit_before_close(options.timeout).await;
        let left = self.leave_group(options.leave).await;
        self.parts.shared.wait_until_gone(deadline).await;
        self.tell_commits();
        self.parts.shared.close_sessions();
        self.parts.shared.shut_down();
        committed?;
        left?;
        Ok(())
    }

    async fn commit_before_close(&mut self, timeout: Duration) -> Result<(), CommitError> {
        if !self.parts.shared.config.enable_auto_commit {
            return Ok(());
        }
        let offsets = committable(self.parts.shared.core().consumed_of(None));
        if offsets.is_empty() {
            return Ok(());
        }
        let request_timeout = Duration::from_millis(u64::try_from(self.parts.shared.request_timeout_ms()).unwrap_or(0));
        self.commit_offsets_within(offsets, timeout.min(request_timeout)).await
    }

    /// Tells the listener what goes, then the group.
    pub(super) async fn leave_group(&mut self, how: Leave) -> Result<(), PollError> {
        let mut outcome = Ok(());
        {
            let mut core = self.parts.shared.core();
            let Some(group) = &mut core.group else {
                return Ok(());
            };
            group.member.leave(io::now_ms(), how);
            group.trouble = None;
            self.parts.shared.drive_locked(&mut core, io::now_ms());
        }
        loop {
            let event = self
                .parts
                .shared
                .core()
                .group
                .as_ref()
                .and_then(|group| group.event.clone());
            let Some(event) = event else { break };
            let told = self.run_event(event).await;
            outcome = outcome.and(told);
        }
        outcome
    }
}

impl Shared {
    /// Waits until the group has heard that we leave, and commits are answered.
    async fn wait_until_gone(self: &Arc<Self>, deadline: Option<Instant>) {
        loop {
            {
                let core = self.core();
                let Some(group) = &core.group else { return };
                if group.member.is_gone() && !group.offsets.has_commits() {
                    return;
                }
            }
            let Some(deadline) = deadline else {
                self.bell().rung().await;
                continue;
            };
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return;
            }
            let deadline_ms = io::now_ms().saturating_add(i64::try_from(left.as_millis()).unwrap_or(i64::MAX));
            let sleep = self.io.sleep_until(deadline_ms);
            tokio::select! {
                () = self.bell().rung() => {}
                () = sleep => return,
            }
        }
    }

    /// What is left to do when nobody is there to hear of it.
    async fn close_in_background(self: Arc<Self>) {
        let deadline = Instant::now().checked_add(DROP_TIMEOUT);
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
                    drop(group.commit(offsets, CommitMode::Sync { deadline_ms }));
                }
            }
        }
        self.wait_for_commits(deadline).await;
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

    async fn wait_for_commits(self: &Arc<Self>, deadline: Option<Instant>) {
        self.drive();
        while self
            .core()
            .group
            .as_ref()
            .is_some_and(|group| group.offsets.has_commits())
        {
            let left = deadline.map(|deadline| deadline.saturating_duration_since(Instant::now()));
            if left.is_some_and(|left| left.is_zero()) {
                return;
            }
            self.bell().rung().await;
        }
    }
}

impl Drop for Consumer {
    fn drop(&mut self) {
        let shared = Arc::clone(&self.parts.shared);
        if !shared.core().closed {
            let io = shared.io.clone();
            io.spawn(shared.close_in_background());
        }
    }
}
