//! At most once: how far ahead of its handlers a partition is committed.
//!
//! A record is handed out when its offset is committed. A crash loses records that are committed and not done, so no more is
//! committed than handlers can take at once:
//!
//! - Records of a handler that are committed and not done are at most its concurrency, or
//!   [`ahead_records`](super::super::CommitConfig::ahead_records) if it has none.
//! - Of those, the ones that wait for another record of their key or partition are about a second's work, by the time of
//!   the last calls, or one for each partition if calls take longer. So a partition can be given back soon.
//! - Nothing is committed while a breaker of the handler is open, beyond its rate, or beyond its bulkhead, unless those
//!   reject records.

use super::{
    super::{CommitOffset, CrashCounters, HandlerId, Keyed, SourceId, ids::RecordIndex, progress::commits::Snapshot},
    Scheduler, Timer,
    partition::Partition,
};

/// About how long a committed record may wait for others.
const WAIT_MS: i64 = 1_000;

/// A bound of the time that calls of a handler take: it follows slow calls at once, and fast ones slowly.
#[derive(Debug, Clone, Copy)]
pub(super) struct CallTime {
    ms: i64,
}

impl Default for CallTime {
    /// Long, until calls have been measured.
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

    /// The number of consecutive calls that take about as long as a record may wait.
    fn calls(self) -> u64 {
        (WAIT_MS / self.ms.max(1)).unsigned_abs()
    }
}

impl<T: Keyed> Scheduler<T> {
    /// Commits more if there is room for it since the last look.
    pub(super) fn commit_ahead(&mut self, now_ms: i64) {
        if !self.is_at_most_once() {
            return;
        }
        for source in self.commits.sources() {
            if self.commits.may_commit_ahead(source) {
                self.commit_now(now_ms, source);
            }
        }
    }

    /// Takes the next step of each partition of a source.
    pub(super) fn snapshot_ahead(&mut self, now_ms: i64, source: SourceId) -> (Vec<CommitOffset>, Vec<Snapshot>) {
        let handlers = 0..self.handlers.len();
        let mut rooms: Vec<u64> = handlers
            .map(|number| self.room_ahead(now_ms, HandlerId(number as u16)))
            .collect();
        let shares = self.shares(source, &rooms);
        let (mut offsets, mut snapshots, mut is_left) = (vec![], vec![], false);
        let turn = self.commits.next_turn();
        for partition in self.partitions.indexes_from(turn) {
            let found = self.partitions.at(partition);
            let Some(found) = found.filter(|found| found.source == source && found.is_active()) else {
                continue;
            };
            let handler = usize::from(found.handler.0);
            let room = if self.queues.is_blocked(partition) {
                0
            } else {
                let share = shares.get(handler).copied().unwrap_or(0);
                rooms.get(handler).map_or(0, |room| share.min(*room))
            };
            // A failed commit may have been accepted, and the next one must not go back behind it.
            let unclaimed = self.unclaimed(found);
            let step = room.min(unclaimed);
            is_left |= step < unclaimed;
            let claimed = found.staged.len() as u64 - unclaimed;
            let offset = self.offset_after(found, claimed + step).max(found.progress.claimed());
            if offset <= found.progress.cleared() {
                continue;
            }
            let (id, name, version) = (found.id, found.name.clone(), found.progress.version());
            if let Some(room) = rooms.get_mut(handler) {
                *room -= step;
            }
            if let Some(found) = self.partitions.at_mut(partition) {
                found.progress.claim(offset);
            }
            snapshots.push(Snapshot {
                id,
                version,
                offset,
                is_cut: false,
                crashes: CrashCounters::default(),
            });
            offsets.push(CommitOffset {
                id,
                partition: name,
                offset,
                leader_epoch: None,
                metadata: String::new(),
            });
        }
        self.commits.set_waits_for_room(source, is_left);
        (offsets, snapshots)
    }

    /// The offset to commit so that `count` staged records are below it.
    fn offset_after(&self, partition: &Partition, count: u64) -> i64 {
        let next = usize::try_from(count)
            .ok()
            .and_then(|count| partition.staged.get(count));
        let next = next.and_then(|record| self.queues.entry(*record));
        next.map_or_else(|| partition.progress.end(), |next| next.offset)
    }

    /// The share that each partition of a source gets of the room of its handler, so that none takes it all.
    fn shares(&self, source: SourceId, rooms: &[u64]) -> Vec<u64> {
        let mut waiting = vec![0_u64; rooms.len()];
        let staged = self
            .partitions
            .all()
            .filter(|found| found.source == source && !found.staged.is_empty());
        for found in staged {
            if let Some(waiting) = waiting.get_mut(usize::from(found.handler.0)) {
                *waiting += 1;
            }
        }
        let both = rooms.iter().zip(waiting);
        both.map(|(room, waiting)| room.div_ceil(waiting.max(1))).collect()
    }

    /// How many more records of a handler may be committed.
    fn room_ahead(&mut self, now_ms: i64, id: HandlerId) -> u64 {
        let outstanding = self.outstanding(id);
        let counts = self.queues.counts();
        let elsewhere = counts.publishing + counts.parked;
        let Some(handler) = self.handler(id) else { return 0 };
        let window = handler.config.concurrency.unwrap_or(self.config.commit.ahead_records);
        let in_handler = u64::from(self.gates.in_handler(id));
        let ahead = outstanding.saturating_sub(in_handler).saturating_sub(elsewhere);
        let waiting_max = handler.call_time.calls().max(self.gates.partitions_of(id));
        let capacity = self.gates.capacity_ahead(now_ms, id);
        if let Some(opens_at_ms) = capacity.opens_at_ms {
            self.timers.set_no_later(Timer::Handler(id), opens_at_ms);
        }
        let ahead_max = waiting_max.min(u64::from(capacity.records));
        let room = u64::from(window).saturating_sub(outstanding);
        room.min(ahead_max.saturating_sub(ahead))
    }

    /// The number of records of a handler that are committed, or about to be, and not done. A stopped partition does not keep
    /// others waiting.
    fn outstanding(&self, id: HandlerId) -> u64 {
        let partitions = self.partitions.all().filter(|found| found.handler == id);
        let moving = partitions.filter(|found| !self.queues.is_blocked(found.id.index));
        let records = moving.map(|found| found.gauge.records.saturating_sub(self.unclaimed(found)));
        records.sum()
    }

    /// The number of staged records that no commit covers, not even one in flight.
    fn unclaimed(&self, partition: &Partition) -> u64 {
        let claimed_to = partition.progress.claimed();
        let is_claimed = |record: &RecordIndex| {
            let entry = self.queues.entry(*record);
            entry.is_some_and(|entry| entry.offset < claimed_to)
        };
        let claimed = partition.staged.partition_point(is_claimed);
        (partition.staged.len() - claimed) as u64
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
