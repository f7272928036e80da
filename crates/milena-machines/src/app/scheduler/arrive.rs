//! Records arrive, and are admitted to their queues.

use super::{
    super::{
        Acceptance, Arrival, Delivery, Keyed, PartitionId, RetryInfo, Role,
        gates::{gauge::Size, pauses::PauseReason},
        ids::{PartitionIndex, RecordIndex},
        queues::{Entry, State},
        retry_topic,
        tracker::DeliveryResult,
    },
    Scheduler, Timer,
};

/// How long before they are due records of retry topics are fetched.
const READ_AHEAD_MS: i64 = 2_000;

impl<T: Keyed> Scheduler<T> {
    /// A record was read, or a run of them. Those of a partition come by offset.
    pub fn accept(&mut self, now_ms: i64, partition: PartitionId, arrival: Arrival<T>) -> Acceptance {
        let found = self.partitions.find(partition);
        let Some(found) = found.filter(|found| found.is_active()) else {
            return Acceptance::Stale;
        };
        let count = arrival.payload.records();
        let is_run = self.is_kept_as_run(now_ms, found, count);
        if count > 1 && !is_run {
            return self.accept_each(now_ms, partition, arrival);
        }
        let Some(found) = self.partitions.at_mut(partition.index) else {
            return Acceptance::Stale;
        };
        let mut begins = false;
        if found.progress.pending() == 0 {
            found.progress.set_moved(now_ms);
            begins = found.guard.is_new();
        }
        let (offset, leader_epoch, bytes) = (arrival.offset, arrival.leader_epoch, u64::from(arrival.bytes));
        let delivered = if count == 1 {
            found.progress.deliver(offset, leader_epoch, bytes)
        } else if found.progress.deliver_run(offset, count, leader_epoch, bytes) {
            DeliveryResult::Pending
        } else {
            return self.accept_each(now_ms, partition, arrival);
        };
        match delivered {
            DeliveryResult::Twice => return Acceptance::Stale,
            DeliveryResult::Finished => {
                let source = found.source;
                self.totals.finished_before += 1;
                self.note_done(now_ms, source, 1);
                return Acceptance::Finished;
            }
            DeliveryResult::Pending => {}
        }
        let (handler, role, is_admitting) = (found.handler, found.role, found.guard.is_admitting());
        let size = Size {
            records: count,
            bytes: arrival.bytes,
        };
        let retry = arrival.retry;
        let record = self
            .queues
            .insert(partition.index, offset, arrival.bytes, arrival.payload);
        self.count_in(now_ms, partition.index, handler, size);
        match role {
            Role::HeldKeys => self.accept_held(now_ms, record.index, handler, retry),
            Role::Main if retry.is_some() => self.accept_returned(now_ms, record.index, retry),
            Role::Main | Role::RetryTopic { .. } => {}
        }
        let is_retry_topic = matches!(role, Role::RetryTopic { .. });
        if is_run {
            self.queues.enqueue_run(now_ms, record.index);
            self.limit_run_wait(now_ms, partition.index);
        } else if !is_retry_topic && self.config.delivery == Delivery::AtLeastOnce && !self.is_strict() && !is_admitting
        {
            self.queues.enqueue_single(record.index);
        } else {
            self.stage_record(now_ms, partition.index, record.index, retry);
        }
        if begins {
            self.announce_start(now_ms, partition.index);
        }
        Acceptance::Taken(record)
    }

    /// The consumer goes on at `next_offset`: offsets below that were not delivered do not exist.
    pub fn handle_position(&mut self, now_ms: i64, partition: PartitionId, next_offset: i64) {
        // A position of an assignment that is over is stale.
        let Some(found) = self.partitions.find_mut(partition) else {
            return;
        };
        if !found.is_active() || next_offset <= found.progress.end() {
            return;
        }
        found.progress.advance(next_offset);
        let source = found.source;
        if self.is_at_most_once() {
            return self.note_staged(now_ms, source);
        }
        self.note_done(now_ms, source, 1);
    }

    /// Keeps a record out of its queue until it is due, committed, or within the commit map.
    fn stage_record(&mut self, now_ms: i64, partition: PartitionIndex, record: RecordIndex, retry: Option<RetryInfo>) {
        let Some(found) = self.partitions.at_mut(partition) else {
            return;
        };
        found.staged.push_back(record);
        let (role, source, is_first) = (found.role, found.source, found.staged.len() == 1);
        if let Role::RetryTopic { delay_ms, .. } = role
            && let Some(entry) = self.queues.entry_mut(record)
        {
            let (attempts, first_failed_ms) = retry_topic::history(now_ms, retry);
            entry.history.attempts = attempts;
            entry.history.first_failed_ms = first_failed_ms;
            entry.history.since_ms = retry_topic::due_ms(now_ms, delay_ms, retry);
        }
        if self.is_at_most_once() {
            return self.note_staged(now_ms, source);
        }
        if is_first {
            self.admit(now_ms, partition);
        } else {
            self.check_read_ahead(now_ms, partition);
        }
    }

    /// Fetches records of a retry topic shortly before they are due: a fetch that began when they are due might have to wait
    /// for another. Those that are due later stay in the broker.
    pub(super) fn check_read_ahead(&mut self, now_ms: i64, partition: PartitionIndex) {
        let found = self.partitions.at(partition);
        let Some(found) = found.filter(|found| found.is_retry_topic()) else {
            return;
        };
        let last = found.staged.back().and_then(|last| self.queues.entry(*last));
        let fetch_at_ms = last.map_or(now_ms, |last| last.history.since_ms.saturating_sub(READ_AHEAD_MS));
        self.set_pause(now_ms, partition, PauseReason::NotDue, fetch_at_ms > now_ms);
        if fetch_at_ms > now_ms {
            self.timers.set_no_later(Timer::Due(partition), fetch_at_ms);
        }
    }

    /// Admits the staged records of a partition to their queues, up to the first that must wait.
    pub(super) fn admit(&mut self, now_ms: i64, partition: PartitionIndex) {
        let found = self.partitions.at(partition);
        if found.is_some_and(|found| found.guard.is_isolating()) {
            return self.isolate_next(now_ms, partition);
        }
        let mut waits_for_map = false;
        let mut due_ms = None;
        while let Some(found) = self.partitions.at(partition)
            && let Some(record) = found.staged.front().copied()
            && let Some(entry) = self.queues.entry(record)
        {
            due_ms = Some(entry.history.since_ms).filter(|due_ms| found.is_retry_topic() && *due_ms > now_ms);
            let room = i64::try_from(self.commits.room().offsets()).unwrap_or(i64::MAX).max(1);
            waits_for_map = self.is_strict() && entry.offset >= found.progress.frontier().saturating_add(room);
            let is_uncommitted = self.is_at_most_once() && entry.offset >= found.progress.cleared();
            let offset = entry.offset;
            if due_ms.is_some() || waits_for_map || is_uncommitted || entry.state != State::Staged {
                break;
            }
            if !self.guard_admits(now_ms, partition, offset) {
                break;
            }
            self.enqueue_staged(now_ms, partition);
        }
        self.set_pause(now_ms, partition, PauseReason::Map, waits_for_map);
        if let Some(due_ms) = due_ms {
            self.timers.set(Timer::Due(partition), due_ms);
        }
        self.check_read_ahead(now_ms, partition);
    }

    /// Moves the first staged record of a partition to its queue.
    pub(super) fn enqueue_staged(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(found) = self.partitions.at_mut(partition) else {
            return;
        };
        let is_retry_topic = found.is_retry_topic();
        let Some(record) = found.staged.pop_front() else {
            return;
        };
        let size = self.queues.entry(record).map(Entry::size);
        self.queues.enqueue(record);
        if let Some(size) = size.filter(|_| is_retry_topic) {
            self.count_due(now_ms, partition, size);
        }
    }
}
