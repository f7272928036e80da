//! Outputs that can never be written: they are not retried forever.
//!
//! A record whose handler emits an output that no broker accepts becomes a dead letter, or whatever else its policy says of
//! poison. Brokers refuse batches and not records, so the records of a refused batch are written in isolation until it is
//! known which it was. A transaction must be aborted then and all its records are handled again; so refusals are
//! remembered.

use std::{collections::BTreeMap, sync::Arc};

use milena_client::{
    consumer::{ConsumerRecord, ErrorCode, TopicPartition},
    producer::{BatchCause, SendError, WriteStatus},
};
use milena_machines::app::{CommitOffset, Publish, PublishResult, RecordId};
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

use super::{Engine, PendingOutput, State, publisher::PublishOrder};
use crate::{error::AppError, handler::Fault};

/// Whether no later attempt can succeed.
pub(super) fn is_final(error: &SendError) -> bool {
    match error {
        SendError::TooLarge { .. }
        | SendError::LargerThanMemory { .. }
        | SendError::NoSuchPartition { .. }
        | SendError::Compression { .. } => true,
        SendError::Topic { code, .. } => is_final_code(*code),
        SendError::Failed { error, .. } => matches!(error.cause, BatchCause::Refused(code) if is_final_code(code)),
        _ => false,
    }
}

/// Whether the record may be in the log although the send failed.
pub(super) fn may_be_written(error: &SendError) -> bool {
    matches!(error, SendError::Failed { error, .. } if error.status != WriteStatus::NotWritten)
}

fn is_final_code(code: ErrorCode) -> bool {
    matches!(
        code,
        ErrorCode::MessageTooLarge
            | ErrorCode::RecordListTooLarge
            | ErrorCode::InvalidRecord
            | ErrorCode::InvalidTimestamp
            | ErrorCode::InvalidTopicException
            | ErrorCode::PolicyViolation
            | ErrorCode::TopicAuthorizationFailed
            | ErrorCode::UnsupportedForMessageFormat
    )
}

/// A refusal of the output of a record.
#[derive(Debug)]
enum Refusal {
    /// A batch with its output was refused, perhaps because of another record. It is written in isolation next time.
    Suspected,
    /// Its output was refused in isolation.
    Confirmed(Arc<Fault>),
}

/// Records whose outputs were refused, by partition and offset.
#[derive(Debug, Default)]
pub(super) struct Refusals(BTreeMap<(TopicPartition, i64), Refusal>);

/// How isolated the output of a record is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Isolation {
    /// Nothing was refused: beside any others.
    None,
    /// Beside others, but not beside a suspected record.
    Shared,
    /// Alone: it is suspected.
    Exclusive,
}

/// Permission to write, held until the output is acknowledged.
pub(super) enum WriteSlot<'a> {
    Free,
    Shared(#[expect(dead_code, reason = "it is held, not looked at")] RwLockReadGuard<'a, ()>),
    Exclusive(#[expect(dead_code, reason = "it is held, not looked at")] RwLockWriteGuard<'a, ()>),
}

impl Engine {
    /// Waits until a record may be written beside those that are being written.
    pub(super) async fn write_slot(&self, isolation: Isolation) -> WriteSlot<'_> {
        let slots = &self.publisher.slots;
        match isolation {
            Isolation::None => WriteSlot::Free,
            Isolation::Shared => WriteSlot::Shared(slots.read().await),
            Isolation::Exclusive => WriteSlot::Exclusive(slots.write().await),
        }
    }

    /// At most once: it is unknown whether an output is in the log, so it is not written again. Its record has failed for
    /// good.
    pub(super) fn write_no_more(&self, order: &PublishOrder, error: SendError) -> PublishResult {
        let fault = Arc::new(Fault::poison(error));
        if let Some(payload) = self.state().scheduler.payload(order.record) {
            payload.pending.replace(Some(PendingOutput::Fault(fault)));
        }
        PublishResult::Refused
    }

    /// Handles a send that can never succeed. An output is the fault of its record. Without a topic for failure records
    /// nothing can be done about a record: its partition waits until an operator has created one. A transaction would be
    /// aborted again and again, so with transactions the application ends.
    pub(super) fn refuse(&self, order: &PublishOrder, error: SendError) -> PublishResult {
        let (partition, offset) = (order.source.topic_partition(), order.source.offset());
        if order.what != Publish::Output {
            if self.is_transactional() {
                self.fail(AppError::Unwritable {
                    topic: partition.topic.to_string(),
                    partition: partition.partition,
                    offset,
                    reason: error.to_string(),
                });
            }
            return PublishResult::Failed;
        }
        let key = (partition.clone(), offset);
        let mut state = self.state();
        // A broker refuses whole batches; an isolated record was alone in its batch.
        let is_batch = matches!(error, SendError::Failed { .. });
        if is_batch && order.isolation != Isolation::Exclusive {
            state.refusals.0.insert(key, Refusal::Suspected);
            return PublishResult::Failed;
        }
        let fault = Arc::new(Fault::poison(error));
        if let Some(payload) = state.scheduler.payload(order.record) {
            payload.pending.replace(Some(PendingOutput::Fault(Arc::clone(&fault))));
        }
        state.refusals.0.insert(key, Refusal::Confirmed(fault));
        PublishResult::Refused
    }
}

impl Refusals {
    pub(super) fn isolation(&self, record: &ConsumerRecord) -> Isolation {
        if self.0.is_empty() {
            return Isolation::None;
        }
        if self.0.contains_key(&key_of(record)) {
            Isolation::Exclusive
        } else {
            Isolation::Shared
        }
    }

    /// The error of an output that was refused in an earlier transaction.
    pub(super) fn confirmed(&self, record: &ConsumerRecord) -> Option<&Arc<Fault>> {
        if self.0.is_empty() {
            return None;
        }
        match self.0.get(&key_of(record))? {
            Refusal::Confirmed(fault) => Some(fault),
            Refusal::Suspected => None,
        }
    }

    /// Forgets the refusals of records that are committed.
    pub(super) fn forget_committed(&mut self, committed: &[CommitOffset]) {
        self.0.retain(|(partition, offset), _| {
            let mut below = committed.iter().filter(|commit| commit.partition == *partition);
            !below.any(|commit| *offset < commit.offset)
        });
    }

    /// Forgets the refusals of a partition that is assigned again.
    pub(super) fn forget_partition(&mut self, partition: &TopicPartition) {
        self.0.retain(|(known, _), _| known != partition);
    }
}

fn key_of(record: &ConsumerRecord) -> (TopicPartition, i64) {
    (record.topic_partition().clone(), record.offset())
}

impl State {
    /// Forgets the refusal of a record that is written, or whose refusal the scheduler knows.
    pub(super) fn forget_refusal(&mut self, record: RecordId) {
        if self.refusals.0.is_empty() {
            return;
        }
        if let Some(payload) = self.scheduler.payload(record) {
            self.refusals.0.remove(&key_of(&payload.first()));
        }
    }
}

#[cfg(test)]
mod tests {
    use milena_client::producer::BatchError;

    use super::*;

    fn refused(code: ErrorCode) -> SendError {
        SendError::Failed {
            partition: TopicPartition::new("out", 0),
            error: Arc::new(BatchError {
                cause: BatchCause::Refused(code),
                status: WriteStatus::NotWritten,
            }),
        }
    }

    #[test]
    fn what_is_wrong_with_a_record_is_final_and_what_is_wrong_with_a_broker_is_not() {
        for code in [
            ErrorCode::MessageTooLarge,
            ErrorCode::InvalidRecord,
            ErrorCode::TopicAuthorizationFailed,
        ] {
            assert!(is_final(&refused(code)), "{code}");
        }
        for code in [ErrorCode::NotEnoughReplicas, ErrorCode::NotLeaderOrFollower] {
            assert!(!is_final(&refused(code)), "{code}");
        }
        assert!(!is_final(&SendError::Closed));
    }
}
