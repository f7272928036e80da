//! At most once: how far ahead of its handlers a partition is committed.
//!
//! A record is handed out when its offset is committed. What is committed and not done is lost in a crash, so no more is
//! committed than handlers can take at once:
//!
//! - All records of a handler that are committed and not done are at most its concurrency, or
//!   [`ahead_records`](super::super::CommitConfig::ahead_records) if it has none.
//! - Of those, the ones that wait for another of their key, or of their partition, are about a second's work, as long as
//!   the last calls took, or one for each partition if calls take longer. So a partition can be given back soon.
//! - Nothing is committed while a breaker of the handler is open, beyond its rate, or beyond its bulkhead, unless those turn
//!   records away.

use super::{
    super::{Action, BreakerState, CommitOffset, CrashCounters, Delivery, HandlerId, Keyed, SourceId, WhenFull},
    Scheduler, Timer,
    commit::Snapshot,
    partition::Partition,
};
use crate::app::ids::{PartitionIndex, RecordIndex};

/// About so long a committed record waits for others.
const WAIT_MS: i64 = 1_000;

/// How long calls of a handler take: those of late, the slow ones for longer.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallTime {
    ms: i64,
}

impl Default for CallTime {
    /// Long, until it is known better.
    fn default() -> Self {
        Self { ms: WAIT_MS }
    }
}

impl CallTime {
    pub(super) fn note(&mut self, took_ms: i64) {
        let took_ms = took_ms.max(0);
        if took_ms >= self.ms {
            self.ms = took_ms;
        } else {
            self.ms -= ((self.ms - took_ms) / 8).max(1);
        }
    }

    /// The number of calls, one after the other, that take about as long as a record may wait.
    fn calls(self) -> u64 {
        (WAIT_MS / self.ms.max(1)).unsigned_abs()
    }
}

impl<T: Keyed> Scheduler<T> {
    /// Commits more if there is room for it since the last look.
    pub(super) fn commit_ahead(&mut self, now_ms: i64) {
        if self.config.delivery != Delivery::AtMostOnce {
            return;
        }
        for number in 0..self.sources.len() {
            let source = SourceId(number as u16);
            if self.sources.get(number).is_some_and(|source| source.may_go_on()) {
                self.commit_now(now_ms, source);
            }
        }
    }

    /// The next step of each partition of a source.
    pub(super) fn snapshot_ahead(&mut self, now_ms: i64, source: SourceId) -> (Vec<CommitOffset>, Vec<Snapshot>) {
        let handlers = 0..self.handlers.len();
        let mut rooms: Vec<u64> = handlers
            .map(|number| self.room(now_ms, HandlerId(number as u16)))
            .collect();
        let shares = self.shares(source, &rooms);
        let (mut offsets, mut snapshots, mut is_left) = (vec![], vec![], false);
        self.commit_turn = self.commit_turn.wrapping_add(1);
        for index in self.partitions.indexes_from(self.commit_turn) {
            let Some(partition) = self.at(index).filter(|it| it.source == source && it.is_active()) else {
                continue;
            };
            let handler = usize::from(partition.handler.0);
            let room = if self.queues.is_blocked(index) {
                0
            } else {
                let share = shares.get(handler).copied().unwrap_or(0);
                rooms.get(handler).map_or(0, |room| share.min(*room))
            };
            // A commit that failed may have been accepted, and the next one must not go back behind it.
            let unclaimed = self.unclaimed(partition);
            let step = room.min(unclaimed);
            is_left |= step < unclaimed;
            let claimed = partition.staged.len() as u64 - unclaimed;
            let offset = self.after(partition, claimed + step).max(partition.commit.claimed);
            if offset <= partition.commit.cleared {
                continue;
            }
            let (id, name, version) = (partition.id, partition.name.clone(), partition.tracker.version());
            if let Some(room) = rooms.get_mut(handler) {
                *room -= step;
            }
            if let Some(partition) = self.at_mut(index) {
                partition.commit.claimed = offset;
            }
            snapshots.push(Snapshot {
                id,
                version,
                offset,
                cut: false,
                starts: CrashCounters::default(),
            });
            offsets.push(CommitOffset {
                id,
                partition: name,
                offset,
                leader_epoch: None,
                metadata: String::new(),
            });
        }
        if let Some(source) = self.sources.get_mut(usize::from(source.0)) {
            source.waits_for_room = is_left;
        }
        (offsets, snapshots)
    }

    /// Where a partition goes on after so many of its staged records.
    fn after(&self, partition: &Partition, step: u64) -> i64 {
        let next = usize::try_from(step).ok().and_then(|step| partition.staged.get(step));
        let next = next.and_then(|index| self.queues.entry(*index));
        next.map_or_else(|| partition.tracker.end(), |next| next.offset)
    }

    /// The share that each partition of a source gets of the room of its handler, so that none takes it all.
    fn shares(&self, source: SourceId, rooms: &[u64]) -> Vec<u64> {
        let mut waiting = vec![0_u64; rooms.len()];
        let partitions = self.all().filter(|it| it.source == source && !it.staged.is_empty());
        for partition in partitions {
            if let Some(waiting) = waiting.get_mut(usize::from(partition.handler.0)) {
                *waiting += 1;
            }
        }
        let both = rooms.iter().zip(waiting);
        both.map(|(room, waiting)| room.div_ceil(waiting.max(1))).collect()
    }

    /// How many more records of a handler may be committed.
    fn room(&mut self, now_ms: i64, id: HandlerId) -> u64 {
        let outstanding = self.outstanding(id);
        let counts = self.queues.counts();
        let elsewhere = counts.publishing + counts.parked;
        let Some(handler) = self.handlers.get(usize::from(id.0)) else {
            return 0;
        };
        let window = handler.config.concurrency.unwrap_or(self.config.commit.ahead_records);
        let in_handler = u64::from(handler.concurrency.taken());
        let ahead = outstanding.saturating_sub(in_handler).saturating_sub(elsewhere);
        let waiting_max = handler.call_time.calls().max(handler.partitions());
        let mut room = u64::from(window).saturating_sub(outstanding);
        let mut bound = |most: u64| room = room.min(most.saturating_sub(ahead));
        bound(waiting_max);
        if let Some(bulkhead) = handler.config.bulkhead {
            let bulkhead = self.bulkheads.get(usize::from(bulkhead.0));
            let available = bulkhead.map_or(0, |bulkhead| bulkhead.available());
            if available > 0 || handler.config.when_full == WhenFull::Wait {
                bound(u64::from(available));
            }
        }
        for breaker in &handler.config.breakers {
            let breaker = self.breakers.get(usize::from(breaker.0));
            let waits = breaker.filter(|it| !it.turns_away() && it.state() != BreakerState::Closed);
            if let Some(breaker) = waits {
                bound(u64::from(breaker.available()));
            }
        }
        if let Some(rate) = &handler.rate {
            let available = rate.available(now_ms);
            bound(u64::from(available));
            if available == 0 {
                self.timers.set_no_later(Timer::Handler(id), rate.next_ms());
            }
        }
        room
    }

    /// How many records of a handler are committed, or about to be, and not done. A partition that has stopped does not
    /// keep others waiting.
    fn outstanding(&self, id: HandlerId) -> u64 {
        let partitions = self.all().filter(|partition| partition.handler == id);
        let moving = partitions.filter(|partition| !self.queues.is_blocked(partition.id.index));
        let records = moving.map(|partition| partition.gauge.records.saturating_sub(self.unclaimed(partition)));
        records.sum()
    }

    /// How many staged records no commit covers, not even one that is under way.
    fn unclaimed(&self, partition: &Partition) -> u64 {
        let is_claimed = |index: &RecordIndex| {
            let entry = self.queues.entry(*index);
            entry.is_some_and(|entry| entry.offset < partition.commit.claimed)
        };
        let claimed = partition.staged.partition_point(is_claimed);
        (partition.staged.len() - claimed) as u64
    }

    /// Cancels what is left of a partition. What was committed before it was handled is lost then.
    pub(super) fn cancel_all(&mut self, now_ms: i64, index: PartitionIndex) {
        let records: Vec<RecordIndex> = self.queues.of_partition(index).collect();
        let before = self.config.delivery == Delivery::AtMostOnce;
        let cleared = self.at(index).map_or(i64::MIN, |partition| partition.commit.cleared);
        let (mut lost, mut first) = (0, i64::MAX);
        for record in records {
            if let Some(entry) = self.queues.entry(record)
                && before
                && entry.offset < cleared
            {
                lost += u64::from(entry.count);
                first = first.min(entry.offset);
            }
            self.cancel(now_ms, record);
        }
        let name = self.at(index).map(|partition| partition.name.clone());
        let Some(partition) = name.filter(|_| lost > 0) else {
            return;
        };
        self.totals.lost += lost;
        self.actions.push_back(Action::Lost {
            partition,
            offset: first,
            records: lost,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_slowest_call_of_late_counts() {
        let mut time = CallTime::default();
        assert_eq!(time.calls(), 1);
        for _ in 0..100 {
            time.note(0);
        }
        assert_eq!(time.calls(), 1_000);
        time.note(200);
        assert_eq!(time.calls(), 5);
        time.note(0);
        assert!(time.calls() <= 6);
        time.note(60_000);
        assert_eq!(time.calls(), 0);
    }
}
