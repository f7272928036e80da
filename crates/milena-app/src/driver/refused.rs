//! What can never be written: it is not tried for ever.
//!
//! A record whose handler emits what no broker takes becomes a dead letter, or whatever else its policy says of what fails
//! for good. Brokers refuse batches and not records, so those that were in one are written alone until it is known which
//! it was. A transaction must be aborted then, and all since the last one is handled again; so this is remembered.

use std::sync::Arc;

use milena_client::{
    consumer::{ConsumerRecord, ErrorCode},
    producer::{BatchCause, SendError, WriteStatus},
};
use milena_machines::app::{CommitOffset, Publish, PublishResult, RecordId};
use tokio::sync::{RwLockReadGuard, RwLockWriteGuard};

use super::{Engine, Held, State, publisher::PublishOrder};
use crate::{error::AppError, handler::Fault};

/// Whether it will not go better another time.
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

/// Whether it may be in the log although it failed.
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

/// What is known about a record whose output was refused.
#[derive(Debug)]
pub(super) enum Suspicion {
    /// A batch was refused that had its output, among that of others perhaps. It is written alone next time.
    Suspect,
    /// It was refused alone.
    Guilty(Arc<Fault>),
}

/// Who may write beside a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Beside {
    /// Anybody: nothing was refused.
    All,
    /// Those who are not suspected.
    Others,
    Nobody,
}

/// What is held while a record is written.
pub(super) enum Turn<'a> {
    Free,
    Shared(#[expect(dead_code, reason = "it is held, not looked at")] RwLockReadGuard<'a, ()>),
    Alone(#[expect(dead_code, reason = "it is held, not looked at")] RwLockWriteGuard<'a, ()>),
}

impl Engine {
    /// Waits until a record may be written beside those that are being written.
    pub(super) async fn turn(&self, beside: Beside) -> Turn<'_> {
        match beside {
            Beside::All => Turn::Free,
            Beside::Others => Turn::Shared(self.alone.read().await),
            Beside::Nobody => Turn::Alone(self.alone.write().await),
        }
    }

    /// At most once: whether what a handler emitted is in the log is not known, so it is not written again. Its record has
    /// failed for good.
    pub(super) fn write_no_more(&self, order: &PublishOrder, error: SendError) -> PublishResult {
        let fault = Arc::new(Fault::poison(error));
        if let Some(payload) = self.state().work.payload(order.record) {
            payload.held.replace(Some(Held::Fault(fault)));
        }
        PublishResult::Refused
    }

    /// Something cannot be written, now or ever. What a handler emitted is its record's fault. Without a place for
    /// letters nothing can be done about a record: without transactions its partition waits until somebody has made one,
    /// but a transaction would be aborted again and again, so that ends the application.
    pub(super) fn refuse(&self, order: &PublishOrder, error: SendError) -> PublishResult {
        let (partition, offset) = (order.source.topic_partition(), order.source.offset());
        if order.what != Publish::Output {
            if self.is_transactional {
                self.fail(AppError::Unwritable {
                    topic: partition.topic.to_string(),
                    partition: partition.partition,
                    offset,
                    reason: error.to_string(),
                });
            }
            return PublishResult::Failed;
        }
        let place = (partition.clone(), offset);
        let mut state = self.state();
        // A broker refuses whole batches; who was alone in it is the one.
        let of_batch = matches!(error, SendError::Failed { .. });
        if of_batch && order.beside != Beside::Nobody {
            state.suspicions.insert(place, Suspicion::Suspect);
            return PublishResult::Failed;
        }
        let fault = Arc::new(Fault::poison(error));
        if let Some(payload) = state.work.payload(order.record) {
            payload.held.replace(Some(Held::Fault(Arc::clone(&fault))));
        }
        state.suspicions.insert(place, Suspicion::Guilty(fault));
        PublishResult::Refused
    }
}

impl State {
    /// Who may write beside a record.
    pub(super) fn beside(&self, record: &ConsumerRecord) -> Beside {
        if self.suspicions.is_empty() {
            return Beside::All;
        }
        let place = (record.topic_partition().clone(), record.offset());
        if self.suspicions.contains_key(&place) {
            Beside::Nobody
        } else {
            Beside::Others
        }
    }

    /// Why what a record emits cannot be written, if that was tried in an earlier transaction.
    pub(super) fn refusal(&self, record: &ConsumerRecord) -> Option<&Arc<Fault>> {
        if self.suspicions.is_empty() {
            return None;
        }
        let place = (record.topic_partition().clone(), record.offset());
        match self.suspicions.get(&place)? {
            Suspicion::Guilty(fault) => Some(fault),
            Suspicion::Suspect => None,
        }
    }

    /// A record is written, or its refusal is known where it matters.
    pub(super) fn forget_suspicion(&mut self, record: RecordId) {
        if self.suspicions.is_empty() {
            return;
        }
        if let Some(payload) = self.work.payload(record) {
            let first = payload.first();
            let place = (first.topic_partition().clone(), first.offset());
            self.suspicions.remove(&place);
        }
    }

    /// These are done.
    pub(super) fn forget_refused(&mut self, committed: &[CommitOffset]) {
        self.suspicions.retain(|(partition, offset), _| {
            let mut below = committed.iter().filter(|commit| commit.partition == *partition);
            !below.any(|commit| *offset < commit.offset)
        });
    }
}

#[cfg(test)]
mod tests {
    use milena_client::{consumer::TopicPartition, producer::BatchError};

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
