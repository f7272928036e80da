//! What follows from the answers to `Produce`.

use std::collections::VecDeque;

use milena_wire::errors::ErrorCode;

use super::{
    BatchCause, BatchId, ProducePartitionResponse, Sender, SenderEvent, Slot, TransactionCause, TransactionError,
    batch::{Batch, BatchState},
    send::Sent,
};
use crate::member::{CallCause, CallFailure, CallId};

/// With this one the transaction before has not ended on the broker: it does very soon.
pub(super) const CONCURRENT_BACKOFF_MS: i64 = 20;

impl Sender {
    /// With `acks=0` there is no answer: the request was handed to the network.
    pub fn handle_sent(&mut self, now_ms: i64, call: CallId) {
        let Some(under_way) = self.calls.get(&call) else { return };
        let written = under_way.batches.iter().map(|sent| ProducePartitionResponse {
            slot: sent.slot,
            error: ErrorCode::None,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
        });
        let written: Vec<ProducePartitionResponse> = written.collect();
        self.handle_produce_response(now_ms, call, Ok(&written));
    }

    pub fn handle_produce_response(
        &mut self,
        now_ms: i64,
        call: CallId,
        answer: Result<&[ProducePartitionResponse], CallFailure>,
    ) {
        let Some(under_way) = self.calls.remove(&call) else {
            return;
        };
        if let Some(load) = self.loads.get_mut(&under_way.node) {
            load.requests = load.requests.saturating_sub(1);
            load.bytes = load.bytes.saturating_sub(under_way.bytes);
        }
        if matches!(
            answer,
            Err(CallFailure::NotSent | CallFailure::Disconnected | CallFailure::TimedOut)
        ) {
            self.tell_once(SenderEvent::MetadataStale);
        }
        for sent in &under_way.batches {
            if let Some(partition) = self.partitions.get_mut(sent.slot.index()) {
                partition.in_flight = partition.in_flight.saturating_sub(1);
            }
            match answer {
                Ok(partitions) => match partitions.iter().find(|produced| produced.slot == sent.slot) {
                    Some(produced) => self.judge(now_ms, sent, produced),
                    None => self.unanswered(now_ms, sent, CallFailure::Disconnected),
                },
                Err(failure) => self.unanswered(now_ms, sent, failure),
            }
        }
        for sent in &under_way.batches {
            self.expire(now_ms, sent.slot);
        }
    }

    fn batch_mut(&mut self, slot: Slot, id: BatchId) -> Option<&mut Batch> {
        let partition = self.partitions.get_mut(slot.index())?;
        let index = partition.position(id)?;
        partition.queue.get_mut(index)
    }

    fn unanswered(&mut self, now_ms: i64, sent: &Sent, failure: CallFailure) {
        let Some(batch) = self.batch_mut(sent.slot, sent.id) else {
            return;
        };
        batch.state = BatchState::Waiting { not_before_ms: now_ms };
        batch.last_cause = Some(failure.into());
        match failure {
            CallFailure::Unsupported { api } => {
                self.fail(sent.slot, sent.id, BatchCause::NoResponse(failure));
                if self.transaction.is_some() {
                    self.give_up(TransactionError::Fatal(TransactionCause::Unsupported { api }));
                }
                return;
            }
            CallFailure::NotSent | CallFailure::CoordinatorUnknown => {}
            CallFailure::Disconnected | CallFailure::TimedOut => batch.may_be_written = true,
        }
        self.repeat(now_ms, sent, BatchCause::NoResponse(failure));
    }

    fn judge(&mut self, now_ms: i64, sent: &Sent, produced: &ProducePartitionResponse) {
        let error = produced.error;
        if matches!(error, ErrorCode::None | ErrorCode::DuplicateSequenceNumber) {
            return self.written(sent, produced);
        }
        if error.invalidates_metadata() {
            self.tell_once(SenderEvent::MetadataStale);
        }
        let slot = sent.slot;
        let Some(batch) = self.batch_mut(slot, sent.id) else {
            return;
        };
        batch.state = BatchState::Waiting { not_before_ms: now_ms };
        batch.last_cause = Some(CallCause::Error(error));
        batch.may_be_written |= !is_sure_refusal(error);
        if error == ErrorCode::MessageTooLarge && batch.records > 1 {
            batch.state = BatchState::Splitting;
            return self.tell(SenderEvent::Split { batch: sent.id, slot });
        }
        let cause = BatchCause::Refused(error);
        match self.verdict(sent, produced) {
            Verdict::Again => self.repeat(now_ms, sent, cause),
            Verdict::Renumber => {
                if let Some(partition) = self.partitions.get_mut(slot.index()) {
                    partition.lose_numbers();
                }
                self.repeat(now_ms, sent, cause);
            }
            Verdict::Fail => self.fail(slot, sent.id, cause),
        }
    }

    fn verdict(&self, sent: &Sent, produced: &ProducePartitionResponse) -> Verdict {
        let is_numbered = sent.stamp.is_some();
        let is_transactional = self.transaction.is_some();
        match produced.error {
            // Those before it are not there yet: it is no wonder.
            ErrorCode::OutOfOrderSequenceNumber if is_numbered && !sent.was_first => Verdict::Again,
            ErrorCode::OutOfOrderSequenceNumber if is_numbered && !is_transactional => Verdict::Renumber,
            ErrorCode::UnknownProducerId if is_numbered && produced.log_start_offset < 0 => Verdict::Again,
            ErrorCode::UnknownProducerId if is_numbered => {
                // What the broker knew of us went away with the records, because they were old.
                let last_acked = self.partitions.get(sent.slot.index());
                let is_trimmed = last_acked.is_some_and(|known| known.last_acked_offset < produced.log_start_offset);
                if is_trimmed || !is_transactional {
                    Verdict::Renumber
                } else {
                    Verdict::Fail
                }
            }
            error if error.is_retriable() => Verdict::Again,
            _ => Verdict::Fail,
        }
    }

    fn written(&mut self, sent: &Sent, produced: &ProducePartitionResponse) {
        let slot = sent.slot;
        let Some(partition) = self.partitions.get_mut(slot.index()) else {
            return;
        };
        partition.note_written(sent.stamp, sent.records);
        partition.last_acked_offset = partition
            .last_acked_offset
            .max(produced.base_offset.saturating_add(i64::from(sent.records) - 1));
        let Some(index) = partition.position(sent.id) else {
            return;
        };
        partition.queue.remove(index);
        let has_offset = produced.error == ErrorCode::None && produced.base_offset >= 0;
        let has_time = has_offset && produced.log_append_time_ms >= 0;
        self.tell(SenderEvent::Acked {
            batch: sent.id,
            slot,
            base_offset: has_offset.then_some(produced.base_offset),
            log_append_time_ms: has_time.then_some(produced.log_append_time_ms),
        });
    }

    /// The batch goes again after a while, unless that was often enough or is of no use any more.
    fn repeat(&mut self, now_ms: i64, sent: &Sent, cause: BatchCause) {
        let (slot, retries_max) = (sent.slot, self.config.retries);
        if self.is_stopped() {
            let cause = if self.fatal.is_some() {
                cause
            } else {
                BatchCause::Aborted
            };
            return self.fail(slot, sent.id, cause);
        }
        let mut random = self.random.clone();
        let Some(batch) = self.batch_mut(slot, sent.id) else {
            return;
        };
        if batch.retries >= retries_max {
            return self.fail(slot, sent.id, cause);
        }
        batch.retries += 1;
        let mut wait_ms = batch.backoff.next_ms(&mut random);
        if cause == BatchCause::Refused(ErrorCode::ConcurrentTransactions) {
            wait_ms = wait_ms.min(CONCURRENT_BACKOFF_MS);
        }
        batch.state = BatchState::Waiting {
            not_before_ms: now_ms.saturating_add(wait_ms),
        };
        self.random = random;
    }

    /// The batch has failed. What that means for the others is in the numbers and in the transaction.
    pub(super) fn fail(&mut self, slot: Slot, id: BatchId, cause: BatchCause) {
        let Some(partition) = self.partitions.get_mut(slot.index()) else {
            return;
        };
        let Some(batch) = partition.position(id).and_then(|index| partition.queue.remove(index)) else {
            return;
        };
        partition.note_missing(&batch);
        let name = partition.name.clone();
        self.tell_failed(slot, &batch, cause.clone());
        let is_fenced = cause == BatchCause::Refused(ErrorCode::ProducerFenced);
        if self.transaction.is_some() {
            self.batch_failed(name, cause);
        } else if is_fenced && self.is_idempotent() {
            self.give_up(TransactionError::Fatal(TransactionCause::Batch {
                partition: name,
                cause: Box::new(cause),
            }));
        }
    }

    /// After anything has happened to a partition: begins its numbers anew if it must, once nothing is under way.
    pub(super) fn settle(&mut self, slot: Slot) {
        let is_transactional = self.transaction.is_some();
        let Some(partition) = self.partitions.get_mut(slot.index()) else {
            return;
        };
        let mut lost = vec![];
        if partition.must_renumber() {
            for batch in &mut partition.queue {
                if batch.stamp.is_some() && batch.may_be_written {
                    lost.push(batch.id);
                }
                batch.stamp = None;
            }
            let old = partition.numbers.take();
            // Within a transaction the same epoch goes on: the broker has forgotten it.
            if !is_transactional && old.map(|numbers| numbers.producer) == self.identity.producer {
                self.identity.bump();
            }
        }
        for id in lost {
            self.fail(slot, id, BatchCause::SequenceLost);
        }
        if self
            .partitions
            .get(slot.index())
            .is_none_or(|partition| partition.queue.is_empty())
        {
            self.busy.remove(&slot);
        }
    }

    /// Fails all that is not under way and not being split.
    pub(super) fn drop_waiting(&mut self, cause: &BatchCause) {
        let busy: Vec<Slot> = self.busy.iter().copied().collect();
        for slot in busy {
            let Some(partition) = self.partitions.get_mut(slot.index()) else {
                continue;
            };
            let (waiting, rest) = std::mem::take(&mut partition.queue)
                .into_iter()
                .partition(Batch::is_waiting);
            partition.queue = rest;
            let waiting: VecDeque<Batch> = waiting;
            for batch in &waiting {
                partition.note_missing(batch);
            }
            for batch in waiting {
                self.note_dropped(&batch);
                self.tell_failed(slot, &batch, cause.clone());
            }
            self.settle(slot);
        }
    }
}

enum Verdict {
    Again,
    /// Again, with new numbers if that is safe.
    Renumber,
    Fail,
}

/// Whether a broker that says this has appended nothing. Others can also come after the batch was appended: while it
/// waited for replicas, or because the leader changed meanwhile.
fn is_sure_refusal(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::MessageTooLarge
            | ErrorCode::RecordListTooLarge
            | ErrorCode::CorruptMessage
            | ErrorCode::InvalidRecord
            | ErrorCode::InvalidTimestamp
            | ErrorCode::InvalidTopicException
            | ErrorCode::InvalidRequiredAcks
            | ErrorCode::InvalidRequest
            | ErrorCode::PolicyViolation
            | ErrorCode::UnsupportedForMessageFormat
            | ErrorCode::UnsupportedCompressionType
            | ErrorCode::UnsupportedVersion
            | ErrorCode::TopicAuthorizationFailed
            | ErrorCode::ClusterAuthorizationFailed
            | ErrorCode::TransactionalIdAuthorizationFailed
            | ErrorCode::NotEnoughReplicas
            | ErrorCode::OutOfOrderSequenceNumber
            | ErrorCode::UnknownProducerId
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::ProducerFenced
            | ErrorCode::InvalidProducerIdMapping
            | ErrorCode::InvalidTxnState
            | ErrorCode::TransactionAbortable
            | ErrorCode::ConcurrentTransactions
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::NotCoordinator
    )
}
