//! The assigned partitions.

use std::collections::VecDeque;

use milena_invariant::invariant;

use super::super::{
    HandlerId, PartitionId, Role, SourceId, StopReason,
    crash_guard::{PartitionGuard, Reached},
    dlq_limit::DlqLimit,
    gates::{
        gauge::Gauge,
        pauses::{PauseReason, PauseSet},
    },
    ids::{PartitionIndex, RecordIndex},
    progress::Progress,
    queues::Slab,
};
use crate::TopicPartition;

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) id: PartitionId,
    pub(super) name: TopicPartition,
    pub(super) source: SourceId,
    pub(super) handler: HandlerId,
    pub(super) role: Role,
    pub(super) phase: Phase,
    pub(super) progress: Progress,
    pub(super) guard: PartitionGuard,
    pub(super) gauge: Gauge,
    pub(super) pauses: PauseSet,
    pub(super) dlq_limit: Option<DlqLimit>,
    /// Records that are not admitted to a queue yet, by offset.
    pub(super) staged: VecDeque<RecordIndex>,
    pub(super) stopped: Option<StopReason>,
    /// The number of its records that could not be published.
    pub(super) unpublished: u32,
    /// The number of its records that wait for their next attempt.
    pub(super) parked: u32,
    /// Exactly once: records were handed out since the last transaction.
    pub(super) in_transaction: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Active,
    /// It is to be given back: its handlers finish the records that they have.
    Draining,
    /// The last commit.
    Committing,
}

impl Partition {
    #[inline]
    pub(super) fn is_active(&self) -> bool {
        self.phase == Phase::Active
    }

    pub(super) fn is_draining(&self) -> bool {
        self.phase == Phase::Draining
    }

    #[inline]
    pub(super) fn is_retry_topic(&self) -> bool {
        matches!(self.role, Role::RetryTopic { .. })
    }

    /// Whether a pause reason concerns it. A full buffer may wait for records of the held-keys topic, so those must not wait
    /// for the buffer.
    pub(super) fn is_paused_by(&self, reason: PauseReason) -> bool {
        self.role != Role::HeldKeys || !matches!(reason, PauseReason::Global | PauseReason::Handler)
    }

    /// Whether the group does not know all of it.
    pub(super) fn is_dirty(&self) -> bool {
        self.progress.is_dirty() || self.guard.is_dirty()
    }

    /// Like [`is_dirty`](Self::is_dirty); at most once, offsets are committed before their records are handled.
    pub(super) fn is_dirty_for(&self, at_most_once: bool) -> bool {
        if at_most_once {
            self.is_active() && self.progress.is_uncleared()
        } else {
            self.is_dirty()
        }
    }

    pub(super) fn reached(&self) -> Reached {
        Reached {
            frontier: self.progress.frontier(),
            pending: self.progress.pending(),
        }
    }
}

/// A slot for each assigned partition. The id of an assignment that is over finds nothing.
#[derive(Debug, Default)]
pub(super) struct Partitions {
    slots: Slab<PartitionIndex, Option<Partition>>,
    last_epoch: u32,
}

impl Partitions {
    /// An id for a new assignment. [`insert`](Self::insert) follows.
    pub(super) fn next_id(&mut self) -> PartitionId {
        self.last_epoch = self.last_epoch.wrapping_add(1);
        PartitionId {
            index: self.slots.take(|| None),
            epoch: self.last_epoch,
        }
    }

    pub(super) fn insert(&mut self, partition: Partition) {
        self.slots.put(partition.id.index, Some(partition));
    }

    pub(super) fn remove(&mut self, index: PartitionIndex) -> Option<Partition> {
        let partition = self.slots.get_mut(index)?.take()?;
        self.slots.give_back(index);
        Some(partition)
    }

    /// The partition of a record that is kept: it is assigned as long as it has records.
    pub(super) fn of_record(&mut self, index: PartitionIndex) -> Option<&mut Partition> {
        let partition = self.at_mut(index);
        invariant!(partition.is_some(), "every_record_has_an_assigned_partition");
        partition
    }

    /// The partition at an index. Finds nothing in an empty slot, and after the partition was released: the event that is
    /// being handled may have released it, and the rest of the event is stale then.
    #[inline]
    pub(super) fn at(&self, index: PartitionIndex) -> Option<&Partition> {
        self.slots.get(index)?.as_ref()
    }

    #[inline]
    pub(super) fn at_mut(&mut self, index: PartitionIndex) -> Option<&mut Partition> {
        self.slots.get_mut(index)?.as_mut()
    }

    #[inline]
    pub(super) fn find(&self, id: PartitionId) -> Option<&Partition> {
        self.at(id.index).filter(|partition| partition.id == id)
    }

    #[inline]
    pub(super) fn find_mut(&mut self, id: PartitionId) -> Option<&mut Partition> {
        self.at_mut(id.index).filter(|partition| partition.id == id)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Partition> {
        self.slots.indexes().filter_map(|index| self.at(index))
    }

    /// The indexes of all slots, with the empty ones.
    pub(super) fn indexes(&self) -> impl Iterator<Item = PartitionIndex> + use<> {
        self.slots.indexes()
    }

    /// The same, in the order of turns.
    pub(super) fn indexes_from(&self, turn: usize) -> impl Iterator<Item = PartitionIndex> + use<> {
        self.slots.indexes_from(turn)
    }
}
