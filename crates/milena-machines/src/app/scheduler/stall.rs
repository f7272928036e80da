//! Partitions that do not move, and why.

use super::{
    super::{
        Action, Delivery, Failure, Keyed, PartitionId, PauseReason, RecordId, Role, StallReason, StopReason,
        WhenStalled,
        gates::Call,
        ids::{PartitionIndex, RecordIndex},
        queues::{Entry, State},
    },
    Scheduler, Timer,
    partition::Partition,
};

/// A publish without acknowledgement for so long counts as failing.
const PUBLISH_SLOW_MS: i64 = 5_000;

impl<T: Keyed> Scheduler<T> {
    /// The reason why a partition does not move.
    pub fn stall_reason(&self, now_ms: i64, partition: PartitionId) -> Option<StallReason> {
        let found = self.partitions.find(partition)?;
        if let Some(reason) = found.stopped {
            return Some(StallReason::Stopped(reason));
        }
        let frontier = found.progress.frontier();
        let entries = self
            .queues
            .of_partition(found.id.index)
            .filter_map(|record| self.queues.entry(record));
        let has_frontier = |entry: &&Entry<T>| {
            let end = entry.offset + i64::from(entry.count);
            (entry.offset..end).contains(&frontier)
        };
        Some(match entries.filter(has_frontier).last() {
            Some(entry) => self.stall_reason_of(now_ms, found, entry),
            None if !found.is_active() => StallReason::Revoking,
            None if found.pauses.contains(PauseReason::User) => StallReason::User,
            None => self
                .gates
                .unclosed_breaker(found.handler)
                .map_or(StallReason::Idle, StallReason::Breaker),
        })
    }

    fn stall_reason_of(&self, now_ms: i64, partition: &Partition, entry: &Entry<T>) -> StallReason {
        let history = &entry.history;
        match entry.state {
            State::InHandler => StallReason::InHandler {
                for_ms: now_ms.saturating_sub(history.since_ms),
                attempt: history.attempts,
            },
            State::Parked if partition.role == Role::HeldKeys => StallReason::NotDue {
                until_ms: history.since_ms,
            },
            State::Parked => StallReason::WaitsForRetry {
                until_ms: history.since_ms,
                attempt: history.attempts,
            },
            State::Publishing => StallReason::Publishing {
                failing: history.publish_failures > 0 || now_ms.saturating_sub(history.since_ms) >= PUBLISH_SLOW_MS,
            },
            State::Unpublished => StallReason::Publishing { failing: true },
            State::Staged if self.config.delivery == Delivery::AtMostOnce => StallReason::WaitsForCommit,
            State::Staged => match partition.role {
                Role::RetryTopic { .. } if history.since_ms > now_ms => StallReason::NotDue {
                    until_ms: history.since_ms,
                },
                _ if partition.guard.is_isolating() => StallReason::Isolating,
                _ if partition.pauses.contains(PauseReason::Map) => StallReason::WaitsForMap,
                _ if partition.guard.is_admitting() => StallReason::WaitsForCommit,
                _ => StallReason::WaitsForMap,
            },
            State::Waiting if partition.guard.blocks() => match partition.guard.is_isolating() {
                true => StallReason::Isolating,
                false => StallReason::WaitsForCommit,
            },
            State::Waiting | State::Free if partition.unpublished > 0 => StallReason::Publishing { failing: true },
            State::Waiting | State::Free => {
                let breaker = self.gates.unclosed_breaker(partition.handler);
                breaker.map_or(StallReason::WaitsForHandler, StallReason::Breaker)
            }
        }
    }

    /// Cancels the calls of a partition that have taken so long that it stalls. Their records get other ids, so that a late
    /// result of a cancelled call is not taken for a result of the next one.
    fn cancel_hanging(&mut self, now_ms: i64, partition: PartitionIndex) -> Vec<RecordId> {
        let since_ms = now_ms.saturating_sub(self.config.stall_ms);
        let is_hanging = |record: &RecordIndex| {
            let entry = self.queues.entry(*record);
            entry.is_some_and(|entry| entry.state == State::InHandler && entry.history.since_ms <= since_ms)
        };
        let hanging: Vec<RecordIndex> = self.queues.of_partition(partition).filter(is_hanging).collect();
        let handler = self.partitions.at(partition).map(|found| found.handler);
        let mut records = vec![];
        for record in hanging {
            let Some(entry) = self.queues.entry(record) else {
                continue;
            };
            let (call, serial, is_run) = (Call::of(entry), entry.serial, entry.is_run);
            self.totals.cancelled += u64::from(call.records);
            self.actions
                .push_back(Action::Cancel(RecordId { index: record, serial }));
            if let Some(handler) = handler {
                self.call_ended(now_ms, handler, call, None);
            }
            let singles = if is_run {
                self.queues.split_run(record)
            } else {
                vec![record]
            };
            for index in singles {
                let Some(entry) = self.queues.entry_mut(index) else {
                    continue;
                };
                entry.serial = entry.serial.wrapping_add(1);
                let serial = entry.serial;
                records.push(RecordId { index, serial });
            }
        }
        records
    }

    /// Treats a cancelled call as a failure.
    fn fail_hanging(&mut self, now_ms: i64, record: RecordIndex) {
        let partition = self.queues.entry(record).map(|entry| entry.partition);
        let found = partition.and_then(|partition| self.partitions.at(partition));
        if let Some(handler) = found.map(|found| found.handler) {
            self.failed(now_ms, record, handler, Failure::Retry);
        }
    }

    /// Reports every partition that has had records for long and not moved.
    pub(super) fn check_stalls(&mut self, now_ms: i64) {
        let stall_ms = self.config.stall_ms;
        for partition in self.partitions.indexes() {
            let found = self.partitions.at(partition);
            let Some(found) = found.filter(|found| found.gauge.records > 0) else {
                continue;
            };
            if !found.progress.is_stall_due(now_ms, stall_ms) {
                continue;
            }
            let (id, offset, since_ms) = (found.id, found.progress.frontier(), found.progress.moved_ms());
            match self.stall_reason(now_ms, id) {
                None | Some(StallReason::NotDue { .. } | StallReason::Idle) => continue,
                Some(reason) => self.report_stall(now_ms, id, offset, since_ms, reason),
            }
            self.check_barrier();
            if let Some(found) = self.partitions.at_mut(partition) {
                found.progress.set_reported(now_ms);
            }
        }
        if self.partitions.all().next().is_some() {
            self.timers
                .set(Timer::Stalls, now_ms.saturating_add((stall_ms / 4).max(1)));
        }
    }

    fn report_stall(&mut self, now_ms: i64, partition: PartitionId, offset: i64, since_ms: i64, reason: StallReason) {
        let is_hanging = matches!(reason, StallReason::InHandler { for_ms, .. } if for_ms >= self.config.stall_ms);
        let action = if is_hanging {
            self.config.when_stalled
        } else {
            WhenStalled::Report
        };
        let cancelled = match action {
            WhenStalled::Retry | WhenStalled::Stop => self.cancel_hanging(now_ms, partition.index),
            WhenStalled::Report | WhenStalled::End => vec![],
        };
        self.actions.push_back(Action::Stalled {
            partition,
            offset,
            reason,
            since_ms,
            action,
            cancelled: cancelled.clone(),
        });
        for record in cancelled {
            match action {
                WhenStalled::Stop => self.stop(now_ms, record.index, StopReason::Stalled),
                _ => self.fail_hanging(now_ms, record.index),
            }
        }
    }
}
