//! The end of a consumer.

use std::{sync::Arc, time::Duration};

use milena_machines::member::{CommitMode, Leave, Membership};
use tokio::time::Instant;

use super::{
    Consumer,
    error::{CommitError, PollError},
    group::{Group, committable},
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
    ///
    /// In the middle of a rebalance positions cannot be committed: then this waits for its end first.
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
        let shared = Arc::clone(&self.parts.shared);
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
            // Nobody can commit in the middle of a rebalance. It goes on without the application.
            shared.wait_while(deadline, is_rebalancing).await;
            let left = deadline.map_or(timeout, |deadline| deadline.saturating_duration_since(Instant::now()));
            let left_ms = i64::try_from(left.as_millis()).unwrap_or(i64::MAX);
            let deadline_ms = io::now_ms().saturating_add(left_ms);
            match self.start_commit(offsets, CommitMode::Last { deadline_ms })?.await {
                // Another one began before the commit was there.
                Err(error) if error.is_rebalance() && !left.is_zero() => {}
                Err(error) => return error.without_gone_topics(),
                Ok(()) => return Ok(()),
            }
        }
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
    async fn wait_until_gone(&self, deadline: Option<Instant>) {
        self.wait_while(deadline, |group| !group.member.is_gone() || group.offsets.has_commits())
            .await;
    }

    /// Waits as long as something holds of the group, up to the deadline.
    async fn wait_while(&self, deadline: Option<Instant>, holds: impl Fn(&Group) -> bool) {
        while self.core().group.as_ref().is_some_and(&holds) {
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
        let shared = Arc::clone(&self.parts.shared);
        if !shared.core().closed {
            let io = shared.io.clone();
            io.spawn(shared.close_in_background());
        }
    }
}
