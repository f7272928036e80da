//! Batches as the sender knows them: by id and size, never by their bytes.

use crate::{
    backoff::Backoff,
    member::CallCause,
    transaction::{NO_EPOCH, NO_PRODUCER_ID, ProducerEpoch},
};

/// Index of a partition that was written to. It stays the same for the lifetime of the sender; numbered from 0 without
/// gaps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Slot(pub(super) u32);

impl Slot {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// Given by the driver, and never twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct BatchId(pub u64);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NewBatch {
    pub id: BatchId,
    /// At least one.
    pub records: u32,
    pub bytes: usize,
    /// The time of its first record: the delivery timeout counts from here.
    pub created_ms: i64,
}

/// The producer fields in the header of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stamp {
    /// -1 without idempotence; then the epoch and the sequence are -1 too.
    pub producer_id: i64,
    pub producer_epoch: i16,
    pub base_sequence: i32,
    pub transactional: bool,
}

impl Stamp {
    pub const NONE: Self = Self {
        producer_id: NO_PRODUCER_ID,
        producer_epoch: NO_EPOCH,
        base_sequence: -1,
        transactional: false,
    };

    pub(super) fn producer(&self) -> ProducerEpoch {
        ProducerEpoch {
            producer_id: self.producer_id,
            epoch: self.producer_epoch,
        }
    }
}

/// The sequence number after `count` records from `sequence` on: 2³¹ - 1 is followed by 0.
pub(super) fn sequence_after(sequence: i32, count: u32) -> i32 {
    let after = (i64::from(sequence) + i64::from(count)) % (i64::from(i32::MAX) + 1);
    i32::try_from(after).unwrap_or(0)
}

/// Whether `sequence` equals `other` or comes after it, within the distance that batches in flight can have.
pub(super) fn is_at_or_after(sequence: i32, other: i32) -> bool {
    sequence.wrapping_sub(other) & i32::MAX < 1 << 30
}

#[derive(Debug)]
pub(super) struct Batch {
    pub(super) id: BatchId,
    pub(super) records: u32,
    pub(super) bytes: usize,
    pub(super) created_ms: i64,
    pub(super) state: BatchState,
    /// Kept from the first attempt on, whatever becomes of it.
    pub(super) stamp: Option<Stamp>,
    pub(super) retries: u32,
    /// An attempt has ended without a certain refusal: the batch may be in the log, or get there.
    pub(super) may_be_written: bool,
    pub(super) last_cause: Option<CallCause>,
    pub(super) backoff: Backoff,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BatchState {
    Waiting {
        not_before_ms: i64,
    },
    InFlight,
    /// The driver was asked to split it.
    Splitting,
}

impl Batch {
    pub(super) fn new(new: NewBatch, backoff: Backoff) -> Self {
        Self {
            id: new.id,
            records: new.records,
            bytes: new.bytes,
            created_ms: new.created_ms,
            state: BatchState::Waiting {
                not_before_ms: i64::MIN,
            },
            stamp: None,
            retries: 0,
            may_be_written: false,
            last_cause: None,
            backoff,
        }
    }

    pub(super) fn is_waiting(&self) -> bool {
        matches!(self.state, BatchState::Waiting { .. })
    }

    /// Whether it was ever sent. In a partition, batches that were not come after all that were.
    pub(super) fn was_sent(&self) -> bool {
        self.is_retry() || !self.is_waiting()
    }

    /// Whether the next attempt is a retry.
    pub(super) fn is_retry(&self) -> bool {
        self.stamp.is_some() || self.retries > 0
    }

    pub(super) fn status(&self) -> WriteStatus {
        if self.may_be_written || self.state == BatchState::InFlight {
            WriteStatus::MayBeWritten
        } else {
            WriteStatus::NotWritten
        }
    }
}

/// The knowledge about the records of a failed batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WriteStatus {
    /// They are not in the log and will not be.
    NotWritten,
    /// They may be in the log, or get there.
    MayBeWritten,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn after_the_last_sequence_comes_zero() {
        assert_eq!(sequence_after(0, 3), 3);
        assert_eq!(sequence_after(i32::MAX - 2, 2), i32::MAX);
        assert_eq!(sequence_after(i32::MAX - 2, 3), 0);
        assert_eq!(sequence_after(i32::MAX, 5), 4);
        assert!(is_at_or_after(4, i32::MAX) && is_at_or_after(7, 7));
        assert!(!is_at_or_after(i32::MAX, 4) && !is_at_or_after(6, 7));
    }
}
