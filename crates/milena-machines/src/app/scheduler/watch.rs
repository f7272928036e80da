//! Who does not move, and why; and how much of everything there is.

use super::{
    super::{
        Action, BreakerId, BreakerState, Failure, HandlerId, Keyed, PartitionId, PauseReason, RecordId, Role,
        StallReason, StopReason, WhenStalled,
        queues::{Entry, State},
    },
    Scheduler, Timer,
    finish::Call,
    partition::{Partition, Phase},
};
use crate::app::Delivery;
use crate::app::ids::{PartitionIndex, RecordIndex};

/// What is not acknowledged for so long does not look as if it will be.
const PUBLISH_SLOW_MS: i64 = 5_000;

/// What has happened since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub done: u64,
    pub skipped: u64,
    pub duplicates: u64,
    pub emitted: u64,
    /// Attempts again in their place.
    pub retries: u64,
    pub to_retry_topics: u64,
    /// Sent back from a retry topic to their own.
    pub returned: u64,
    /// Written to the held topic.
    pub held: u64,
    pub dead_letters: u64,
    /// Not handed out any more, because owners died that had them; in whatever way that ended.
    pub quarantined: u64,
    /// Nothing was left to try, and the policy skips.
    pub given_up: u64,
    pub publish_failures: u64,
    pub cancelled: u64,
    /// At most once: committed, and not done when their partition went.
    pub lost: u64,
    /// Read again, but the commit said that they are done.
    pub finished_before: u64,
    pub commits: u64,
    pub commit_failures: u64,
}

/// How much there is now.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchedulerStatus {
    pub records: u64,
    pub bytes: u64,
    pub in_handlers: u64,
    pub publishing: u64,
    /// Waiting to be tried or published again.
    pub parked: u64,
    /// Keys that have records.
    pub keys: usize,
    pub totals: Totals,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartitionStatus {
    pub committed: Option<i64>,
    /// The lowest unfinished offset.
    pub frontier: i64,
    /// The next offset that can come.
    pub end: i64,
    pub records: u64,
    pub bytes: u64,
    /// So many done records would be done again after a crash, or more if `map_cut`.
    pub replay_if_crashed_now: u64,
    /// The last commit could not tell all that is done.
    pub map_cut: bool,
    /// When the frontier last moved.
    pub moved_ms: i64,
    /// One record is handed out at a time, because owners died here.
    pub is_isolating: bool,
}

impl<T: Keyed> Scheduler<T> {
    pub fn status(&self) -> SchedulerStatus {
        let counts = self.queues.counts();
        SchedulerStatus {
            records: self.global.records,
            bytes: self.global.bytes,
            in_handlers: counts.in_handler,
            publishing: counts.publishing,
            parked: counts.parked,
            keys: self.queues.keys(),
            totals: self.totals,
        }
    }

    pub fn partition_status(&self, partition: PartitionId) -> Option<PartitionStatus> {
        let partition = self.find(partition)?;
        Some(PartitionStatus {
            committed: partition.commit.offset,
            frontier: partition.tracker.frontier(),
            end: partition.tracker.end(),
            records: partition.gauge.records,
            bytes: partition.gauge.bytes,
            replay_if_crashed_now: partition.commit.done_since,
            map_cut: partition.commit.cut,
            moved_ms: partition.progress.moved_ms,
            is_isolating: partition.guard.is_isolating(),
        })
    }

    /// Why a partition is not moving.
    pub fn why(&self, now_ms: i64, partition: PartitionId) -> Option<StallReason> {
        let partition = self.find(partition)?;
        if let Some(why) = partition.stopped {
            return Some(StallReason::Stopped(why));
        }
        let frontier = partition.tracker.frontier();
        let entries = self
            .queues
            .of_partition(partition.id.index)
            .filter_map(|index| self.queues.entry(index));
        let has_it = |entry: &&Entry<T>| (entry.offset..entry.offset + i64::from(entry.count)).contains(&frontier);
        let first = entries.filter(has_it).last();
        Some(match first {
            Some(entry) => self.why_entry(now_ms, partition, entry),
            None if partition.phase != Phase::Active => StallReason::Revoking,
            None if partition.pauses.contains(PauseReason::User) => StallReason::User,
            None => self
                .unclosed_breaker(partition.handler)
                .map_or(StallReason::Idle, StallReason::Breaker),
        })
    }

    fn why_entry(&self, now_ms: i64, partition: &Partition, entry: &Entry<T>) -> StallReason {
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
                _ if partition.guard.stages() => StallReason::WaitsForCommit,
                _ => StallReason::WaitsForMap,
            },
            State::Waiting if partition.guard.blocks() => match partition.guard.is_isolating() {
                true => StallReason::Isolating,
                false => StallReason::WaitsForCommit,
            },
            State::Waiting | State::Free if partition.unpublished > 0 => StallReason::Publishing { failing: true },
            State::Waiting | State::Free => {
                let breaker = self.unclosed_breaker(partition.handler);
                breaker.map_or(StallReason::WaitsForHandler, StallReason::Breaker)
            }
        }
    }

    fn unclosed_breaker(&self, handler: HandlerId) -> Option<BreakerId> {
        let breakers = &self.handler(handler)?.config.breakers;
        let is_open = |id: &&BreakerId| self.breaker(**id).is_some_and(|it| it.state() != BreakerState::Closed);
        breakers.iter().find(is_open).copied()
    }

    /// Cancels the calls of a partition that have taken so long that it stands still. Their records get other names, so
    /// that nothing that a call says later is taken for what the next one does.
    fn call_off(&mut self, now_ms: i64, partition: PartitionIndex) -> Vec<RecordId> {
        let since_ms = now_ms.saturating_sub(self.config.stall_ms);
        let is_hanging = |index: &RecordIndex| {
            let entry = self.queues.entry(*index);
            entry.is_some_and(|entry| entry.state == State::InHandler && entry.history.since_ms <= since_ms)
        };
        let hanging: Vec<RecordIndex> = self.queues.of_partition(partition).filter(is_hanging).collect();
        let handler = self.at(partition).map(|partition| partition.handler);
        let mut records = vec![];
        for index in hanging {
            let Some(entry) = self.queues.entry(index) else {
                continue;
            };
            let (call, serial, whole) = (Call::of(entry), entry.serial, entry.whole);
            self.totals.cancelled += u64::from(call.count);
            self.actions.push_back(Action::Cancel(RecordId { index, serial }));
            if let Some(handler) = handler {
                self.call_ended(now_ms, handler, call, None);
            }
            let singles = if whole {
                self.queues.break_up(index)
            } else {
                vec![index]
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

    /// A call was cancelled that did not return.
    fn hung(&mut self, now_ms: i64, index: RecordIndex) {
        let partition = self.queues.entry(index).map(|entry| entry.partition);
        let handler = partition.and_then(|partition| self.at(partition)).map(|it| it.handler);
        if let Some(handler) = handler {
            self.failed(now_ms, index, handler, Failure::Retry);
        }
    }

    /// Reports every partition that has had work for long and not moved.
    pub(super) fn watch(&mut self, now_ms: i64) {
        let stall_ms = self.config.stall_ms;
        for index in self.partitions.indexes() {
            let Some(partition) = self.at(index) else { continue };
            let progress = partition.progress;
            let stands = partition.gauge.records > 0 && now_ms.saturating_sub(progress.moved_ms) >= stall_ms;
            if !stands || now_ms.saturating_sub(progress.reported_ms) < stall_ms {
                continue;
            }
            let Some(why) = self.why(now_ms, partition.id) else {
                continue;
            };
            if matches!(why, StallReason::NotDue { .. } | StallReason::Idle) {
                continue;
            }
            let (id, offset) = (partition.id, partition.tracker.frontier());
            let is_hanging = matches!(why, StallReason::InHandler { for_ms, .. } if for_ms >= stall_ms);
            let action = if is_hanging {
                self.config.when_stalled
            } else {
                WhenStalled::Report
            };
            let hanging = match action {
                WhenStalled::Retry | WhenStalled::Stop => self.call_off(now_ms, index),
                WhenStalled::Report | WhenStalled::End => vec![],
            };
            self.actions.push_back(Action::Stalled {
                partition: id,
                offset,
                why,
                since_ms: progress.moved_ms,
                action,
                cancelled: hanging.clone(),
            });
            for record in hanging {
                match action {
                    WhenStalled::Stop => self.stop(now_ms, record.index, StopReason::Stalled),
                    _ => self.hung(now_ms, record.index),
                }
            }
            self.check_barrier();
            if let Some(partition) = self.at_mut(index) {
                partition.progress.reported_ms = now_ms;
            }
        }
        if self.all().next().is_some() {
            self.timers
                .set(Timer::Watch, now_ms.saturating_add((stall_ms / 4).max(1)));
        }
    }
}
