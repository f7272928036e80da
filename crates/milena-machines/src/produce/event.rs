//! What the driver hears.

use super::{BatchError, BatchId, OperationId, Slot, Target, TransactionError};

#[derive(Debug, Clone, PartialEq)]
pub enum SenderEvent {
    /// The batch is written.
    Acked {
        batch: BatchId,
        slot: Slot,
        /// `None` with `acks=0`, and if the broker only knows that it was written before.
        base_offset: Option<i64>,
        /// If the topic has log append time.
        log_append_time_ms: Option<i64>,
    },
    /// The batch will not be sent again.
    Failed {
        batch: BatchId,
        slot: Slot,
        error: BatchError,
    },
    /// The batch is too large for its topic. The driver splits it and calls [`super::Sender::push_split`], before it asks
    /// for anything else.
    Split { batch: BatchId, slot: Slot },
    /// A leader is not where it was.
    MetadataStale,
    /// A coordinator is not where it was.
    CoordinatorMoved(Target),
    /// What the application has asked for is over.
    Done {
        operation: OperationId,
        result: Result<(), TransactionError>,
    },
}
