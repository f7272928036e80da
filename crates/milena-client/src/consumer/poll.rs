//! `poll`: what the group wants from the application, then records.

use std::time::Duration;

use milena_machines::{
    TopicPartition,
    member::{CommitMode, MemberEvent},
};
use tokio::time::Instant;
use tracing::Instrument;

use super::{
    Consumer,
    error::PollError,
    fetched::{End, Fetched},
    group::committable,
    records::ConsumerRecords,
    shared::Core,
    subscription::Subscription,
};
use crate::{io, metrics::Listened};

impl Consumer {
    /// Waits for records, up to `timeout`, and hands out what is there; with a `timeout` of zero it does not wait.
    ///
    /// All that concerns the group happens here: joining, rebalances and their listener, automatic commits. So it must be
    /// called again within `max.poll.interval.ms`. Heartbeats and fetching go on in the background meanwhile.
    ///
    /// A call hands out at most `max.poll.records`; what was fetched beyond that waits for the next. It may return early
    /// without records if it only passed over what no application sees.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future loses nothing: the position moves only when records are returned. If it was running the
    /// rebalance listener, the next `poll` runs it again.
    pub async fn poll(&mut self, timeout: Duration) -> Result<ConsumerRecords, PollError> {
        self.poll_up_to(timeout, self.parts.shared.config.max_poll_records)
            .await
    }

    pub(super) async fn poll_up_to(&mut self, timeout: Duration, max: usize) -> Result<ConsumerRecords, PollError> {
        let _polling = self.parts.shared.enter_poll();
        let mut look = Look {
            max,
            now_ms: io::now_ms(),
            is_first: true,
        };
        // A clock costs as much as a record: one that comes at once needs no deadline.
        let mut deadline = None;
        loop {
            if self.parts.shared.bell().take_wakeup() {
                return Err(PollError::Wakeup);
            }
            self.tell_commits();
            match self.step(look)? {
                Step::Event(event) => {
                    let rebalance = tracing::info_span!("rebalance", client = %self.parts.shared.config.client_id);
                    self.run_event(event).instrument(rebalance).await?;
                }
                Step::Records(records) => return Ok(self.intercept(records)),
                Step::Again => {}
                Step::Wait => {
                    let deadline = *deadline.get_or_insert_with(|| Instant::now().checked_add(timeout));
                    if !self.parts.rung_before(deadline).await {
                        return Ok(ConsumerRecords::default());
                    }
                }
            }
            look.is_first = false;
            look.now_ms = io::now_ms();
        }
    }

    /// One look at everything; nothing is awaited.
    pub(super) fn step(&mut self, look: Look) -> Result<Step, PollError> {
        let Look { max, now_ms, is_first } = look;
        let shared = &self.parts.shared;
        let mut guard = shared.core();
        let core = &mut *guard;
        if core.closed {
            return Err(PollError::Closed);
        }
        if matches!(core.subscription, Subscription::None) {
            return Err(PollError::NotSubscribed);
        }
        if is_first {
            core.metrics.poll_began(now_ms);
        }
        core.metrics.poll_ended(now_ms);
        if let Some(group) = &mut core.group {
            if !matches!(core.subscription, Subscription::Manual) {
                group.member.handle_poll(now_ms);
            }
            if let Some(trouble) = group.trouble.take() {
                return Err(trouble.into());
            }
            shared.commit_if_due(core, now_ms);
        }
        shared.drive_if_needed(core, now_ms);
        if let Some(event) = core.group.as_ref().and_then(|group| group.event.clone()) {
            return Ok(Step::Event(event));
        }
        if let Some(records) = take_decoded(core, max) {
            return Ok(Step::Records(records));
        }
        let fetched = core.buffer.take(&core.positions);
        if let Some(fetched) = fetched {
            drop(guard);
            return self.collect(fetched, look);
        }
        if let Some(error) = core.positions.stuck() {
            return Err(PollError::Fetch(error.clone()));
        }
        if let Some(error) = self.topic_trouble(core) {
            return Err(error);
        }
        Ok(Step::Wait)
    }

    /// Hands out what was taken from the buffer, and then more, up to `max`. The lock is held only in
    /// between: decoding takes its time.
    fn collect(&mut self, first: Fetched, look: Look) -> Result<Step, PollError> {
        let Look { max, now_ms, .. } = look;
        let mut records = ConsumerRecords::default();
        let mut has_moved = false;
        let mut next = Some(first);
        let reads_committed = self.parts.shared.reads_committed();
        while let Some(mut fetched) = next {
            let before = fetched.position();
            let outcome = fetched.take(max - records.len(), &mut self.reading, &mut records);
            let after = fetched.position();
            let mut guard = self.parts.shared.core();
            let core = &mut *guard;
            if after != before {
                has_moved = true;
                core.positions.handle_delivered(&fetched.partition, fetched.turn, after);
                records.set_next(&fetched.partition, after);
            }
            if let Some(count) = fetched.take_count() {
                count_delivered(core, now_ms, &fetched.partition, count, reads_committed);
            }
            match outcome {
                Ok(true) => core.buffer.put_back(fetched),
                // Records come first; what is to be told comes with the next poll.
                Ok(false) if fetched.is_to_be_told() && !records.is_empty() => {
                    core.buffer.put_back(fetched);
                    break;
                }
                Ok(false) => {
                    if let Some(error) = finish(core, &fetched) {
                        return Err(error);
                    }
                }
                Err(error) => {
                    // It is fetched again: what went wrong may have gone wrong on the way.
                    core.positions.refetch(&fetched.partition, fetched.turn);
                    core.buffer.finish(&fetched);
                    core.is_dirty = true;
                    if records.is_empty() {
                        let next = fetched.after_unreadable();
                        return Err(PollError::unreadable(&fetched.partition, &error, next));
                    }
                    break;
                }
            }
            next = (records.len() < max)
                .then(|| core.buffer.take(&core.positions))
                .flatten();
        }
        records.group();
        let shared = &self.parts.shared;
        let mut core = shared.core();
        if core.is_dirty {
            shared.drive_locked(&mut core, io::now_ms());
        }
        drop(core);
        if records.is_empty() && !has_moved {
            // What was stale is gone, or a partition has come to its end: that may be all there is to say.
            return Ok(Step::Again);
        }
        Ok(Step::Records(records))
    }

    /// What is wrong with a topic that was named in so many words.
    fn topic_trouble(&self, core: &Core) -> Option<PollError> {
        let Subscription::Topics(topics) = &core.subscription else {
            return None;
        };
        let cluster = self.parts.shared.metadata.cache();
        topics.iter().find_map(|topic| {
            let code = cluster.topic_error(topic)?;
            // One that does not exist may come.
            (!code.is_retriable()).then(|| PollError::Topic {
                topic: topic.to_string(),
                code,
            })
        })
    }

    /// Lets the application hear of what happens to its partitions. The event is over only when all of it is done.
    pub(super) async fn run_event(&mut self, event: MemberEvent) -> Result<(), PollError> {
        let began_ms = io::now_ms();
        let outcome = match &event {
            MemberEvent::Revoked(partitions) => {
                tracing::info!(partitions = %names(partitions), "partitions revoked");
                self.hold(partitions, true);
                self.commit_revoked(partitions).await;
                self.listener.revoked(&mut self.parts, partitions).await
            }
            MemberEvent::Lost(partitions) => {
                self.hold(partitions, true);
                tracing::warn!(partitions = %names(partitions), "partitions lost: the group went on without us");
                self.listener.lost(&mut self.parts, partitions).await
            }
            MemberEvent::Assigned { added, all } => {
                tracing::info!(added = %names(added), partitions = all.len(), "partitions assigned");
                self.take_assignment(added, all);
                self.listener.assigned(&mut self.parts, added).await
            }
            MemberEvent::Error(_) | MemberEvent::Fatal(_) => Ok(()),
        };
        self.finish_event(&event, began_ms);
        match event {
            MemberEvent::Error(error) | MemberEvent::Fatal(error) => Err(PollError::Group(error.into())),
            _ => outcome.map_err(PollError::Listener),
        }
    }

    fn hold(&self, partitions: &[TopicPartition], held: bool) {
        self.parts.shared.core().positions.block(partitions, held);
    }

    /// What was handed out of these counts as done when they go, if commits are automatic.
    async fn commit_revoked(&mut self, partitions: &[TopicPartition]) {
        let shared = &self.parts.shared;
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
                tracing::warn!(%partition, %error, "the last offset before a revocation was not committed");
            }
        }
    }

    fn take_assignment(&self, added: &[TopicPartition], all: &[TopicPartition]) {
        let shared = &self.parts.shared;
        let mut core = shared.core();
        core.positions.assign(all.iter().cloned());
        core.positions.block(added, true);
        shared.notice_recreated(&mut core);
        shared.want_topics(&core);
    }

    fn finish_event(&self, event: &MemberEvent, began_ms: i64) {
        let shared = &self.parts.shared;
        let now_ms = io::now_ms();
        let mut guard = shared.core();
        let core = &mut *guard;
        let listened = match event {
            MemberEvent::Revoked(_) => Some(Listened::Revoked),
            MemberEvent::Lost(_) => Some(Listened::Lost),
            MemberEvent::Assigned { .. } => Some(Listened::Assigned),
            MemberEvent::Error(_) | MemberEvent::Fatal(_) => None,
        };
        if let Some(listened) = listened {
            core.metrics.listened(now_ms, listened, now_ms - began_ms);
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
                core.metrics.rebalanced(now_ms);
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
    core: &mut Core,
    now_ms: i64,
    partition: &TopicPartition,
    count: (usize, usize),
    reads_committed: bool,
) {
    core.metrics.delivered(now_ms, partition, count.0, count.1);
    let lag = core.positions.lag(partition, reads_committed);
    core.metrics
        .placed(now_ms, partition, lag, core.positions.lead(partition));
}

/// Records of a batch that is decoded, if it has more than `max` left. That takes no time, so the lock is kept: it is
/// what most calls find that ask for few at once.
fn take_decoded(core: &mut Core, max: usize) -> Option<ConsumerRecords> {
    let fetched = core.buffer.first_decoded(&core.positions, max)?;
    let mut records = ConsumerRecords::default();
    fetched.take_decoded(max, &mut records);
    let position = fetched.position();
    core.positions
        .handle_delivered(&fetched.partition, fetched.turn, position);
    records.set_next(&fetched.partition, position);
    Some(records)
}

/// How one look at everything is meant.
#[derive(Debug, Clone, Copy)]
pub(super) struct Look {
    /// How many records may be handed out.
    pub(super) max: usize,
    pub(super) now_ms: i64,
    /// A call of `poll` begins with it.
    pub(super) is_first: bool,
}

impl Look {
    /// For one record, outside of `poll`.
    pub(super) fn once() -> Self {
        Self {
            max: 1,
            now_ms: io::now_ms(),
            is_first: false,
        }
    }
}

pub(super) enum Step {
    Event(MemberEvent),
    Records(ConsumerRecords),
    /// Nothing for the application, but things have changed.
    Again,
    Wait,
}

/// What was fetched is handed out to its end. What comes then may be for the application.
fn finish(core: &mut Core, fetched: &Fetched) -> Option<PollError> {
    core.is_dirty = true;
    core.buffer.finish(fetched);
    let (partition, turn) = (&fetched.partition, fetched.turn);
    match fetched.end() {
        End::Open => None,
        End::OutOfRange => {
            core.positions.handle_end_of_range(partition, turn);
            None
        }
        End::Error(error) => Some(PollError::Fetch(error.clone())),
        End::Unreadable => {
            core.positions.refetch(partition, turn);
            Some(PollError::Unreadable {
                partition: partition.clone(),
                offset: fetched.position().offset,
                next_offset: fetched.position().offset.saturating_add(1),
                problem: "the broker sent what is not a whole batch of records".to_owned(),
            })
        }
    }
}
