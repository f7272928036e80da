//! `poll`: group events, then records.

use std::time::Duration;

use milena_machines::{
    TopicPartition,
    member::{CommitMode, MemberEvent},
};
use tokio::time::Instant;
use tracing::Instrument;

use super::{
    Consumer,
    completed_fetch::{CompletedFetch, DeliveredCount, FetchEnd},
    error::PollError,
    group::committable,
    records::ConsumerRecords,
    shared::ConsumerCore,
    subscription::Subscription,
};
use crate::{io, metrics::RebalanceCallback};

impl Consumer {
    /// Returns buffered records, or waits for records up to `timeout`. A `timeout` of zero does not wait.
    ///
    /// Group events are handled here: joining, rebalances and their listener, automatic commits. It must be called
    /// again within `max.poll.interval.ms`. Heartbeats and fetches continue in the background.
    ///
    /// A call returns at most `max.poll.records`; further records stay buffered. It may return early without records if
    /// it only skipped control records or aborted transactions.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: the position moves only when records are returned. If it was running the
    /// rebalance listener, the next `poll` runs it again.
    pub async fn poll(&mut self, timeout: Duration) -> Result<ConsumerRecords, PollError> {
        self.poll_up_to(timeout, self.inner.shared.config.max_poll_records)
            .await
    }

    pub(super) async fn poll_up_to(&mut self, timeout: Duration, max: usize) -> Result<ConsumerRecords, PollError> {
        let _polling = self.inner.shared.enter_poll();
        let mut input = StepInput {
            max,
            now_ms: io::now_ms(),
            is_first: true,
        };
        // Reading the clock costs as much as a record; records that are buffered need no deadline.
        let mut deadline = None;
        loop {
            if self.inner.shared.signal().take_wakeup() {
                return Err(PollError::Wakeup);
            }
            if let Some(error) = self.inner.shared.take_refusal() {
                return Err(PollError::Authentication(error));
            }
            self.report_commits();
            match self.step(input)? {
                StepOutcome::Event(event) => {
                    let rebalance = tracing::info_span!("rebalance", client = %self.inner.shared.config.client_id);
                    self.run_event(event).instrument(rebalance).await?;
                }
                StepOutcome::Records(records) => return Ok(self.intercept(records)),
                StepOutcome::Again => {}
                StepOutcome::Wait => {
                    let deadline = *deadline.get_or_insert_with(|| Instant::now().checked_add(timeout));
                    if !self.inner.notified_before(deadline).await {
                        return Ok(ConsumerRecords::default());
                    }
                }
            }
            input.is_first = false;
            input.now_ms = io::now_ms();
        }
    }

    /// One step of `poll`; it awaits nothing.
    pub(super) fn step(&mut self, input: StepInput) -> Result<StepOutcome, PollError> {
        let StepInput { max, now_ms, is_first } = input;
        let shared = &self.inner.shared;
        let mut guard = shared.core();
        let core = &mut *guard;
        if core.closed {
            return Err(PollError::Closed);
        }
        if matches!(core.subscription, Subscription::None) {
            return Err(PollError::NotSubscribed);
        }
        if is_first {
            core.metrics.record_poll_start(now_ms);
        }
        core.metrics.record_poll_end(now_ms);
        if let Some(group) = &mut core.group {
            if !matches!(core.subscription, Subscription::Manual) {
                group.member.handle_poll(now_ms);
            }
            if let Some(error) = group.coordinator_error.take() {
                return Err(error.into());
            }
            shared.commit_if_due(core, now_ms);
        }
        let driven = shared.drive_if_needed(core, now_ms);
        if let Some(event) = core.group.as_ref().and_then(|group| group.event.clone()) {
            return Ok(StepOutcome::Event(event));
        }
        if let Some(records) = take_decoded(core, max) {
            return Ok(StepOutcome::Records(records));
        }
        let completed = core.buffer.take(&core.positions);
        if let Some(completed) = completed {
            drop(guard);
            return self.collect(completed, input);
        }
        if let Some(error) = core.positions.stuck() {
            return Err(PollError::Fetch(error.clone()));
        }
        if let Some(error) = self.fatal_topic_error(core) {
            return Err(error);
        }
        // The member may have learned just now that the application polls, and wants to join: before a wait its requests must
        // leave, however short ago the last drive was. An event that this drive finds ends the wait.
        if !driven && core.group.is_some() {
            shared.drive_locked(core, now_ms);
        }
        Ok(StepOutcome::Wait)
    }

    /// Delivers a completed fetch, and then more, up to `max` records. The lock is not held while batches are decoded.
    fn collect(&mut self, first: CompletedFetch, input: StepInput) -> Result<StepOutcome, PollError> {
        let StepInput { max, now_ms, .. } = input;
        let mut records = ConsumerRecords::default();
        let mut has_moved = false;
        let mut next = Some(first);
        let reads_committed = self.inner.shared.reads_committed();
        while let Some(mut completed) = next {
            let before = completed.position();
            let outcome = completed.take(max - records.len(), &mut self.reader, &mut records);
            let after = completed.position();
            let mut guard = self.inner.shared.core();
            let core = &mut *guard;
            if after != before {
                has_moved = true;
                core.positions
                    .handle_delivered(&completed.partition, completed.epoch, after);
                records.set_next(&completed.partition, after);
            }
            if let Some(count) = completed.take_count() {
                count_delivered(core, now_ms, &completed.partition, count, reads_committed);
            }
            match outcome {
                Ok(true) => core.buffer.put_back(completed),
                // Records first; the error is returned by the next poll.
                Ok(false) if completed.ends_with_error() && !records.is_empty() => {
                    core.buffer.put_back(completed);
                    break;
                }
                Ok(false) => {
                    if let Some(error) = finish(core, &completed) {
                        return Err(error);
                    }
                }
                Err(error) => {
                    // Refetch it: the bytes may have been damaged on the way.
                    core.positions.refetch(&completed.partition, completed.epoch);
                    core.buffer.finish(&completed);
                    core.is_dirty = true;
                    if records.is_empty() {
                        let next = completed.after_unreadable();
                        return Err(PollError::unreadable(&completed.partition, &error, next));
                    }
                    break;
                }
            }
            next = (records.len() < max)
                .then(|| core.buffer.take(&core.positions))
                .flatten();
        }
        records.group();
        let shared = &self.inner.shared;
        let mut core = shared.core();
        if core.is_dirty {
            shared.drive_locked(&mut core, io::now_ms());
        }
        drop(core);
        if records.is_empty() && !has_moved {
            // Only stale fetches were dropped, or a partition reached its end.
            return Ok(StepOutcome::Again);
        }
        Ok(StepOutcome::Records(records))
    }

    /// A fatal error of a topic in the subscription list.
    fn fatal_topic_error(&self, core: &ConsumerCore) -> Option<PollError> {
        let Subscription::Topics(topics) = &core.subscription else {
            return None;
        };
        let cluster = self.inner.shared.metadata.cache();
        topics.iter().find_map(|topic| {
            let code = cluster.topic_error(topic)?;
            // A missing topic may be created later.
            (!code.is_retriable()).then(|| PollError::Topic {
                topic: topic.to_string(),
                code,
            })
        })
    }

    /// Handles a group event with the listener. The event is completed only after the callback.
    pub(super) async fn run_event(&mut self, event: MemberEvent) -> Result<(), PollError> {
        let began_ms = io::now_ms();
        let outcome = match &event {
            MemberEvent::Revoked(partitions) => {
                tracing::info!(event = "partitions_revoked", partitions = %names(partitions), "partitions revoked");
                self.block(partitions, true);
                self.commit_revoked(partitions).await;
                self.listener.revoked(&mut self.inner, partitions).await
            }
            MemberEvent::Lost(partitions) => {
                self.block(partitions, true);
                tracing::warn!(
                    event = "partitions_lost",
                    partitions = %names(partitions),
                    "partitions lost: the member was removed from the group"
                );
                self.listener.lost(&mut self.inner, partitions).await
            }
            MemberEvent::Assigned { added, all } => {
                tracing::info!(
                    event = "partitions_assigned",
                    added = %names(added),
                    partitions = all.len(),
                    "partitions assigned"
                );
                self.take_assignment(added, all);
                self.listener.assigned(&mut self.inner, added).await
            }
            MemberEvent::Error(_) | MemberEvent::Fatal(_) => Ok(()),
        };
        self.finish_event(&event, began_ms);
        match event {
            MemberEvent::Error(error) | MemberEvent::Fatal(error) => Err(PollError::Group(error.into())),
            _ => outcome.map_err(PollError::Listener),
        }
    }

    fn block(&self, partitions: &[TopicPartition], blocked: bool) {
        self.inner.shared.core().positions.block(partitions, blocked);
    }

    /// Commits the delivered positions of revoked partitions, with `enable.auto.commit`.
    async fn commit_revoked(&mut self, partitions: &[TopicPartition]) {
        let shared = &self.inner.shared;
        if !shared.config.enable_auto_commit || partitions.is_empty() {
            return;
        }
        let deadline_ms = io::now_ms() + i64::from(shared.config.max_poll_interval_ms);
        let results = {
            let mut core = shared.core();
            let offsets = committable(core.consumed_of(Some(partitions)));
            let Some(group) = &mut core.group else { return };
            let results = group.commit(offsets, CommitMode::Last { deadline_ms });
            shared.drive_locked(&mut core, io::now_ms());
            results
        };
        let failed = results.await.unwrap_or_default().into_iter();
        for (partition, result) in failed {
            if let Err(error) = result {
                tracing::warn!(
                    event = "revocation_commit_failed",
                    %partition,
                    %error,
                    "commit before the revocation of {partition} failed: {error}"
                );
            }
        }
    }

    fn take_assignment(&self, added: &[TopicPartition], all: &[TopicPartition]) {
        let shared = &self.inner.shared;
        let mut core = shared.core();
        core.positions.assign(all.iter().cloned());
        core.positions.block(added, true);
        shared.notice_recreated(&mut core);
        shared.select_topics(&core);
    }

    fn finish_event(&self, event: &MemberEvent, began_ms: i64) {
        let shared = &self.inner.shared;
        let now_ms = io::now_ms();
        let mut guard = shared.core();
        let core = &mut *guard;
        let listened = match event {
            MemberEvent::Revoked(_) => Some(RebalanceCallback::Revoked),
            MemberEvent::Lost(_) => Some(RebalanceCallback::Lost),
            MemberEvent::Assigned { .. } => Some(RebalanceCallback::Assigned),
            MemberEvent::Error(_) | MemberEvent::Fatal(_) => None,
        };
        if let Some(listened) = listened {
            core.metrics.record_callback(now_ms, listened, now_ms - began_ms);
        }
        match event {
            MemberEvent::Revoked(gone) | MemberEvent::Lost(gone) => {
                let stay = core
                    .positions
                    .assignment()
                    .filter(|partition| !gone.contains(partition));
                let stay: Vec<TopicPartition> = stay.cloned().collect();
                core.positions.assign(stay);
                core.buffer.retain_current(&core.positions);
            }
            MemberEvent::Assigned { added, .. } => {
                core.positions.block(added, false);
                core.metrics.record_rebalance(now_ms);
                if let Some(auto_commit) = core.group.as_mut().and_then(|group| group.auto_commit.as_mut()) {
                    auto_commit.restart(now_ms);
                }
            }
            MemberEvent::Error(_) | MemberEvent::Fatal(_) => {}
        }
        if let Some(group) = &mut core.group {
            group.event = None;
            group.member.handle_event_done(now_ms);
        }
        shared.drive_locked(core, now_ms);
    }
}

fn names(partitions: &[TopicPartition]) -> String {
    let names: Vec<String> = partitions.iter().map(ToString::to_string).collect();
    names.join(", ")
}

fn count_delivered(
    core: &mut ConsumerCore,
    now_ms: i64,
    partition: &TopicPartition,
    count: DeliveredCount,
    reads_committed: bool,
) {
    core.metrics
        .record_polled(now_ms, partition, count.records, count.bytes);
    let lag = core.positions.lag(partition, reads_committed);
    core.metrics
        .record_position(now_ms, partition, lag, core.positions.lead(partition));
}

/// Takes records of a decoded batch, if it has more than `max` left. This is quick, so the lock is kept: the common
/// case of small polls.
fn take_decoded(core: &mut ConsumerCore, max: usize) -> Option<ConsumerRecords> {
    let completed = core.buffer.first_decoded(&core.positions, max)?;
    let mut records = ConsumerRecords::default();
    completed.take_decoded(max, &mut records);
    let position = completed.position();
    core.positions
        .handle_delivered(&completed.partition, completed.epoch, position);
    records.set_next(&completed.partition, position);
    Some(records)
}

/// The input of one step.
#[derive(Debug, Clone, Copy)]
pub(super) struct StepInput {
    /// The maximum number of records to deliver.
    pub(super) max: usize,
    pub(super) now_ms: i64,
    /// Whether it is the first step of a `poll`.
    pub(super) is_first: bool,
}

impl StepInput {
    /// For one record, outside of `poll`.
    pub(super) fn once() -> Self {
        Self {
            max: 1,
            now_ms: io::now_ms(),
            is_first: false,
        }
    }
}

pub(super) enum StepOutcome {
    Event(MemberEvent),
    Records(ConsumerRecords),
    /// No records, but the state has changed.
    Again,
    Wait,
}

/// Completes a fetch whose records were all delivered. Returns the error at its end, if any.
fn finish(core: &mut ConsumerCore, completed: &CompletedFetch) -> Option<PollError> {
    core.is_dirty = true;
    core.buffer.finish(completed);
    let (partition, epoch) = (&completed.partition, completed.epoch);
    match completed.end() {
        FetchEnd::Open => None,
        FetchEnd::OutOfRange => {
            core.positions.handle_end_of_range(partition, epoch);
            None
        }
        FetchEnd::Error(error) => Some(PollError::Fetch(error.clone())),
        FetchEnd::Unreadable => {
            core.positions.refetch(partition, epoch);
            Some(PollError::Unreadable {
                partition: partition.clone(),
                offset: completed.position().offset,
                next_offset: completed.position().offset.saturating_add(1),
                problem: "the bytes are not a whole record batch".to_owned(),
            })
        }
    }
}
