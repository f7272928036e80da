//! A partition comes.

use std::collections::VecDeque;

use super::{
    super::{
        Assignment, CrashCounters, Keyed, MapError, PartitionId, commit_map,
        dlq_limit::DlqLimit,
        pauses::{PauseReason, PauseSet},
        queues::Gauge,
        tracker::{FinishedRange, Tracker},
    },
    Scheduler, Source,
    partition::{CommitState, MapRestore, Partition, Phase, Progress},
};
use crate::app::ids::PartitionIndex;

impl<T: Keyed> Scheduler<T> {
    /// A partition is ours. The consumer begins at `position` and has it not paused.
    pub fn handle_assigned(&mut self, now_ms: i64, assignment: Assignment) -> PartitionId {
        let index = self.partitions.take(|| None);
        self.last_epoch = self.last_epoch.wrapping_add(1);
        let epoch = self.last_epoch;
        let id = PartitionId { index, epoch };
        let (restored, starts, verdict) = restore(&assignment);
        let guard = self.guard(&assignment, starts, restored.last().map(|last| last.end));
        let percent = self.config.partition_percent;
        let handler = self.handler_mut(assignment.handler).map(|handler| {
            handler.change_partitions(true, percent);
            (handler.config.order, handler.config.null_key, handler.config.dlq_limit)
        });
        let (order, null_key, dlq_limit) = handler.unwrap_or_default();
        self.queues.add_partition(index, assignment.handler, order, null_key);
        let mut tracker = Tracker::new(epoch, assignment.position, restored);
        tracker.begin_after(assignment.leader_epoch);
        let partition = Partition {
            id,
            name: assignment.partition,
            source: assignment.source,
            handler: assignment.handler,
            role: assignment.role,
            tracker,
            verdict,
            guard,
            gauge: Gauge::default(),
            pauses: PauseSet::default(),
            staged: VecDeque::new(),
            dlq_limit: dlq_limit.map(DlqLimit::new),
            phase: Phase::Active,
            stopped: None,
            unpublished: 0,
            parked: 0,
            commit: CommitState {
                version: 0,
                offset: assignment.committed.map(|committed| committed.offset),
                cleared: assignment.position,
                claimed: assignment.position,
                done_since: 0,
                cut: false,
                touched: false,
            },
            progress: Progress {
                frontier: assignment.position,
                moved_ms: now_ms,
                reported_ms: now_ms,
            },
        };
        let source = usize::from(assignment.source.0);
        while self.sources.len() <= source {
            self.sources.push(Source::default());
        }
        if let Some(place) = self.partitions.get_mut(index) {
            *place = Some(partition);
        }
        self.pause_new(now_ms, index);
        self.guard_new(index);
        self.timers
            .set_no_later(super::Timer::Watch, now_ms.saturating_add(self.config.stall_ms));
        if self.shutting_down {
            self.handle_revoking(now_ms, &[id]);
        }
        id
    }

    /// What became of the metadata of the commit that it began from.
    pub fn map_restore(&self, partition: PartitionId) -> Option<MapRestore> {
        self.find(partition).map(|partition| partition.verdict)
    }

    /// The reasons to pause that hold already.
    fn pause_new(&mut self, now_ms: i64, index: PartitionIndex) {
        let Some(partition) = self.at(index) else { return };
        let handler = partition.handler;
        let is_shared = partition.is_held_by(PauseReason::Global);
        let reasons = [
            (PauseReason::Global, is_shared && self.global.is_over()),
            (
                PauseReason::Handler,
                is_shared && self.handler(handler).is_some_and(|handler| handler.gauge.is_over()),
            ),
            (PauseReason::Breaker, self.open_breaker(handler).is_some()),
            (PauseReason::User, self.user_paused.contains(&partition.name)),
            (PauseReason::Shutdown, self.shutting_down),
        ];
        for (reason, holds) in reasons {
            self.set_pause(now_ms, index, reason, holds);
        }
    }
}

/// What was done in an earlier life, if the consumer begins where that was committed.
fn restore(assignment: &Assignment) -> (Vec<FinishedRange>, CrashCounters, MapRestore) {
    let Some(committed) = &assignment.committed else {
        return (vec![], CrashCounters::default(), MapRestore::None);
    };
    if committed.metadata.is_empty() {
        return (vec![], CrashCounters::default(), MapRestore::None);
    }
    let decoded = commit_map::read(&committed.metadata, committed.offset).and_then(|told| {
        if assignment.position == committed.offset {
            Ok(told)
        } else {
            Err(MapError::OtherBase {
                made_for: committed.offset,
                committed: assignment.position,
            })
        }
    });
    match decoded {
        Ok(told) => {
            let lengths = told.finished.iter().map(|range| range.end.abs_diff(range.start));
            let finished = lengths.sum();
            (told.finished, told.starts, MapRestore::Restored { finished })
        }
        Err(error) => (vec![], CrashCounters::default(), MapRestore::Ignored(error)),
    }
}
