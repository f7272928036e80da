//! Numbers for operators.

use super::{
    super::{Keyed, Outcome, PartitionId},
    Scheduler,
};

/// Counters since the start.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Totals {
    pub done: u64,
    pub skipped: u64,
    pub duplicates: u64,
    pub emitted: u64,
    /// Attempts in place after the first.
    pub retries: u64,
    pub to_retry_topics: u64,
    /// Records sent back from a retry topic to their own topic.
    pub returned: u64,
    /// Records written to the held-keys topic.
    pub held: u64,
    pub dead_letters: u64,
    /// Records given up because they crashed several processes, in whatever way that ended.
    pub quarantined: u64,
    /// Records skipped by their policy after the last attempt.
    pub given_up: u64,
    pub publish_failures: u64,
    pub cancelled: u64,
    /// At most once: records that were committed and not done when their partition was lost.
    pub lost: u64,
    /// Records read again that the commit map knew as done.
    pub finished_before: u64,
    pub commits: u64,
    pub commit_failures: u64,
}

impl Totals {
    #[inline]
    pub(super) fn count(&mut self, outcome: Outcome, records: u64) {
        match outcome {
            Outcome::Done => self.done += records,
            Outcome::Skipped => self.skipped += records,
            Outcome::Duplicate => self.duplicates += records,
            Outcome::Emit => self.emitted += records,
            Outcome::RetryAfter { .. } | Outcome::Failed(_) => {}
        }
    }
}

/// Numbers of this moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SchedulerStatus {
    pub records: u64,
    pub bytes: u64,
    pub in_handlers: u64,
    pub publishing: u64,
    /// Records that wait to be handled or published again.
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
    /// The next offset that can arrive.
    pub end: i64,
    pub records: u64,
    pub bytes: u64,
    /// Done records that would be handled again after a crash, or more if `map_cut`.
    pub replay_if_crashed_now: u64,
    /// The last commit map had no room for all that is done.
    pub map_cut: bool,
    /// The time when the frontier last moved.
    pub moved_ms: i64,
    /// One record is handed out at a time, because processes crashed here.
    pub is_isolating: bool,
}

impl<T: Keyed> Scheduler<T> {
    pub fn status(&self) -> SchedulerStatus {
        let counts = self.queues.counts();
        let buffered = self.gates.buffered();
        SchedulerStatus {
            records: buffered.records,
            bytes: buffered.bytes,
            in_handlers: counts.in_handler,
            publishing: counts.publishing,
            parked: counts.parked,
            keys: self.queues.keys(),
            totals: self.totals,
        }
    }

    pub fn partition_status(&self, partition: PartitionId) -> Option<PartitionStatus> {
        let found = self.partitions.find(partition)?;
        let progress = &found.progress;
        Some(PartitionStatus {
            committed: progress.committed(),
            frontier: progress.frontier(),
            end: progress.end(),
            records: found.gauge.records,
            bytes: found.gauge.bytes,
            replay_if_crashed_now: progress.done_since_commit(),
            map_cut: progress.is_map_cut(),
            moved_ms: progress.moved_ms(),
            is_isolating: found.guard.is_isolating(),
        })
    }
}
