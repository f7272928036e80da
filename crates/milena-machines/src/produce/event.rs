//! Events for the driver.

use super::{BatchError, BatchId, OperationId, Slot, Target, TransactionError};

#[derive(Debug, Clone, PartialEq)]
pub enum SenderEvent {
    /// The batch is written.
    Acked {
        batch: BatchId,
        slot: Slot,
        /// `None` with `acks=0`, and if the broker only knows that it was written before.
        base_offset: Option<i64>,
        /// Set if the topic uses log append time.
        log_append_time_ms: Option<i64>,
    },
    /// The batch has failed and is not sent again.
    Failed {
        batch: BatchId,
        slot: Slot,
        error: BatchError,
    },
    /// The batch is too large for its topic. The driver splits it and calls [`super::Sender::push_split`] before
    /// anything else.
    Split { batch: BatchId, slot: Slot },
    /// The metadata is outdated: a leader has moved.
    MetadataStale,
    /// A coordinator has moved.
    CoordinatorMoved(Target),
    /// An operation of the application is done.
    Done {
        operation: OperationId,
        result: Result<(), TransactionError>,
    },
}
