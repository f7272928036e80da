//! A partition is assigned.

use std::collections::VecDeque;

use milena_invariant::invariant;

use super::{
    super::{
        Assignment, Keyed, MapRestore, PartitionId,
        dlq_limit::DlqLimit,
        gates::{
            gauge::Gauge,
            pauses::{PauseReason, PauseSet},
        },
        ids::PartitionIndex,
        progress::{Progress, Restored},
    },
    Scheduler, Shutdown, Timer,
    partition::{Partition, Phase},
};

impl<T: Keyed> Scheduler<T> {
    /// A partition is assigned. The consumer begins at `position` and has not paused it.
    pub fn handle_assigned(&mut self, now_ms: i64, assignment: Assignment) -> PartitionId {
        let id = self.partitions.next_id();
        let restored = Restored::read(&assignment);
        self.gates
            .add_partition(assignment.handler, self.config.partition_percent);
        let handler = self.handler(assignment.handler).map(|handler| handler.config.clone());
        invariant!(handler.is_some(), "every_assignment_has_a_handler");
        let handler = handler.unwrap_or_default();
        let done = restored.finished.last().map(|last| last.end);
        let guard = self
            .crash_guard
            .guard(&assignment, restored.crashes, done, handler.limits.records_high);
        self.queues
            .add_partition(id.index, assignment.handler, handler.order, handler.null_key);
        self.commits.add_source(assignment.source);
        self.partitions.insert(Partition {
            id,
            progress: Progress::new(now_ms, id.epoch, &assignment, restored),
            name: assignment.partition,
            source: assignment.source,
            handler: assignment.handler,
            role: assignment.role,
            phase: Phase::Active,
            guard,
            gauge: Gauge::default(),
            pauses: PauseSet::default(),
            dlq_limit: handler.dlq_limit.map(DlqLimit::new),
            staged: VecDeque::new(),
            stopped: None,
            unpublished: 0,
            parked: 0,
            in_transaction: false,
        });
        self.pause_new(now_ms, id.index);
        self.guard_new(id.index);
        self.timers
            .set_no_later(Timer::Stalls, now_ms.saturating_add(self.config.stall_ms));
        if self.shutdown != Shutdown::No {
            self.handle_revoking(now_ms, &[id]);
        }
        id
    }

    /// The result of reading the metadata of the commit that a partition began from.
    pub fn map_restore(&self, partition: PartitionId) -> Option<MapRestore> {
        let found = self.partitions.find(partition)?;
        Some(found.progress.restore())
    }

    /// Applies the pause reasons that hold already.
    fn pause_new(&mut self, now_ms: i64, partition: PartitionIndex) {
        let Some(found) = self.partitions.at(partition) else {
            return;
        };
        let is_shared = found.is_paused_by(PauseReason::Global);
        let reasons = [
            (PauseReason::Global, is_shared && self.gates.buffered().is_over()),
            (
                PauseReason::Handler,
                is_shared && self.gates.buffered_of(found.handler).is_over(),
            ),
            (PauseReason::Breaker, self.gates.open_breaker(found.handler).is_some()),
            (PauseReason::User, self.gates.is_user_paused(&found.name)),
            (PauseReason::Shutdown, self.shutdown != Shutdown::No),
        ];
        for (reason, holds) in reasons {
            self.set_pause(now_ms, partition, reason, holds);
        }
    }
}
