//! Handling of `Produce` responses.

use std::collections::VecDeque;

use milena_invariant::{invariant, violated};
use milena_wire::errors::ErrorCode;

use super::{
    BatchCause, BatchId, ProducePartitionResponse, Sender, SenderEvent, Slot, TransactionCause, TransactionError,
    batch::{Batch, BatchState},
    send::BatchAttempt,
};
use crate::member::{CallCause, CallFailure, CallId};

/// Backoff for `CONCURRENT_TRANSACTIONS`: the broker is about to complete the previous transaction.
pub(super) const CONCURRENT_BACKOFF_MS: i64 = 20;

impl Sender {
    /// Handles a request with `acks=0`, which has no response, once it was handed to the network.
    pub fn handle_sent(&mut self, now_ms: i64, call: CallId) {
        let Some(in_flight) = self.calls.get(&call) else {
            return; // Stale: its failure was reported before.
        };
        let written = in_flight.batches.iter().map(|attempt| ProducePartitionResponse {
            slot: attempt.slot,
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
        response: Result<&[ProducePartitionResponse], CallFailure>,
    ) {
        let Some(in_flight) = self.calls.remove(&call) else {
            return; // Stale: with `acks=0` a request is done when it is sent.
        };
        if let Some(load) = self.loads.get_mut(&in_flight.node) {
            invariant!(
                load.requests > 0 && load.bytes >= in_flight.bytes,
                "the_load_of_a_node_counts_requests_in_flight"
            );
            load.requests = load.requests.saturating_sub(1);
            load.bytes = load.bytes.saturating_sub(in_flight.bytes);
        }
        if matches!(
            response,
            Err(CallFailure::NotSent | CallFailure::Disconnected | CallFailure::TimedOut)
        ) {
            self.emit_once(SenderEvent::MetadataStale);
        }
        for attempt in &in_flight.batches {
            if let Some(partition) = self.partitions.get_mut(attempt.slot.index()) {
                invariant!(partition.in_flight > 0, "a_partition_counts_attempts_in_flight");
                partition.in_flight = partition.in_flight.saturating_sub(1);
            }
            match response {
                Ok(partitions) => match partitions.iter().find(|produced| produced.slot == attempt.slot) {
                    Some(produced) => self.handle_partition_response(now_ms, attempt, produced),
                    None => self.handle_no_response(now_ms, attempt, CallFailure::Disconnected),
                },
                Err(failure) => self.handle_no_response(now_ms, attempt, failure),
            }
        }
        for attempt in &in_flight.batches {
            self.expire(now_ms, attempt.slot);
        }
    }

    fn batch_mut(&mut self, slot: Slot, id: BatchId) -> Option<&mut Batch> {
        let partition = self.partitions.get_mut(slot.index())?;
        let index = partition.position(id)?;
        partition.queue.get_mut(index)
    }

    fn handle_no_response(&mut self, now_ms: i64, attempt: &BatchAttempt, failure: CallFailure) {
        let Some(batch) = self.batch_mut(attempt.slot, attempt.id) else {
            return; // Stale: expired or dropped meanwhile.
        };
        batch.state = BatchState::Waiting { not_before_ms: now_ms };
        batch.last_cause = Some(failure.into());
        match failure {
            CallFailure::Unsupported { api } => {
                self.fail(attempt.slot, attempt.id, BatchCause::NoResponse(failure));
                if self.transaction.is_some() {
                    self.give_up(TransactionError::Fatal(TransactionCause::Unsupported { api }));
                }
                return;
            }
            CallFailure::NotAuthenticated => {
                return self.fail(attempt.slot, attempt.id, BatchCause::NoResponse(failure));
            }
            CallFailure::NotSent | CallFailure::CoordinatorUnknown => {}
            CallFailure::Disconnected | CallFailure::TimedOut => batch.may_be_written = true,
        }
        self.retry(now_ms, attempt, BatchCause::NoResponse(failure));
    }

    fn handle_partition_response(&mut self, now_ms: i64, attempt: &BatchAttempt, produced: &ProducePartitionResponse) {
        let error = produced.error;
        if matches!(error, ErrorCode::None | ErrorCode::DuplicateSequenceNumber) {
            return self.handle_written(attempt, produced);
        }
        if error.invalidates_metadata() {
            self.emit_once(SenderEvent::MetadataStale);
        }
        let slot = attempt.slot;
        let Some(batch) = self.batch_mut(slot, attempt.id) else {
            return; // Stale: expired or dropped meanwhile.
        };
        batch.state = BatchState::Waiting { not_before_ms: now_ms };
        batch.last_cause = Some(CallCause::Error(error));
        batch.may_be_written |= !is_certain_refusal(error);
        if error == ErrorCode::MessageTooLarge && batch.records > 1 {
            batch.state = BatchState::Splitting;
            return self.emit(SenderEvent::Split {
                batch: attempt.id,
                slot,
            });
        }
        let cause = BatchCause::Refused(error);
        match self.action_for(attempt, produced) {
            BatchAction::Retry => self.retry(now_ms, attempt, cause),
            BatchAction::Renumber => {
                if let Some(partition) = self.partitions.get_mut(slot.index()) {
                    partition.lose_numbers();
                }
                self.retry(now_ms, attempt, cause);
            }
            BatchAction::Fail => self.fail(slot, attempt.id, cause),
        }
    }

    fn action_for(&self, attempt: &BatchAttempt, produced: &ProducePartitionResponse) -> BatchAction {
        let is_numbered = attempt.stamp.is_some();
        let is_transactional = self.transaction.is_some();
        match produced.error {
            // The batches before it are not written yet, so this is expected.
            ErrorCode::OutOfOrderSequenceNumber if is_numbered && !attempt.was_first => BatchAction::Retry,
            ErrorCode::OutOfOrderSequenceNumber if is_numbered && !is_transactional => BatchAction::Renumber,
            ErrorCode::UnknownProducerId if is_numbered && produced.log_start_offset < 0 => BatchAction::Retry,
            ErrorCode::UnknownProducerId if is_numbered => {
                // The broker lost its state of this producer together with the old records.
                let last_acked = self.partitions.get(attempt.slot.index());
                let is_trimmed = last_acked.is_some_and(|known| known.last_acked_offset < produced.log_start_offset);
                if is_trimmed || !is_transactional {
                    BatchAction::Renumber
                } else {
                    BatchAction::Fail
                }
            }
            error if error.is_retriable() => BatchAction::Retry,
            _ => BatchAction::Fail,
        }
    }

    fn handle_written(&mut self, attempt: &BatchAttempt, produced: &ProducePartitionResponse) {
        let slot = attempt.slot;
        let Some(partition) = self.partitions.get_mut(slot.index()) else {
            violated!("a_slot_is_of_this_sender");
            return;
        };
        partition.note_written(attempt.stamp, attempt.records);
        partition.last_acked_offset = partition
            .last_acked_offset
            .max(produced.base_offset.saturating_add(i64::from(attempt.records) - 1));
        let Some(index) = partition.position(attempt.id) else {
            return; // Stale: expired or dropped meanwhile.
        };
        partition.queue.remove(index);
        let has_offset = produced.error == ErrorCode::None && produced.base_offset >= 0;
        let has_time = has_offset && produced.log_append_time_ms >= 0;
        self.emit(SenderEvent::Acked {
            batch: attempt.id,
            slot,
            base_offset: has_offset.then_some(produced.base_offset),
            log_append_time_ms: has_time.then_some(produced.log_append_time_ms),
        });
    }

    /// Retries the batch after a backoff, unless its retries are exhausted or it is of no use any more.
    fn retry(&mut self, now_ms: i64, attempt: &BatchAttempt, cause: BatchCause) {
        let (slot, retries_max) = (attempt.slot, self.config.retries);
        if self.is_stopped() {
            let cause = if self.fatal.is_some() {
                cause
            } else {
                BatchCause::Aborted
            };
            return self.fail(slot, attempt.id, cause);
        }
        let mut random = self.random.clone();
        let Some(batch) = self.batch_mut(slot, attempt.id) else {
            violated!("a_batch_to_retry_is_queued");
            return;
        };
        if batch.retries >= retries_max {
            return self.fail(slot, attempt.id, cause);
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

    /// Fails the batch. Sequence numbers and the transaction decide about the other batches.
    pub(super) fn fail(&mut self, slot: Slot, id: BatchId, cause: BatchCause) {
        let Some(partition) = self.partitions.get_mut(slot.index()) else {
            violated!("a_slot_is_of_this_sender");
            return;
        };
        let Some(batch) = partition.position(id).and_then(|index| partition.queue.remove(index)) else {
            return; // Stale: dropped with its transaction, because of a batch before it.
        };
        partition.note_missing(&batch);
        let name = partition.name.clone();
        self.emit_failed(slot, &batch, cause.clone());
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

    /// Renumbers a partition if it must be, once nothing is in flight. Called after every change.
    pub(super) fn settle(&mut self, slot: Slot) {
        let is_transactional = self.transaction.is_some();
        let Some(partition) = self.partitions.get_mut(slot.index()) else {
            violated!("a_slot_is_of_this_sender");
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
            // Within a transaction the epoch stays: the broker has no state of it.
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

    /// Fails all batches that are neither in flight nor being split.
    pub(super) fn drop_waiting(&mut self, cause: &BatchCause) {
        let busy: Vec<Slot> = self.busy.iter().copied().collect();
        for slot in busy {
            let Some(partition) = self.partitions.get_mut(slot.index()) else {
                violated!("a_slot_is_of_this_sender");
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
                self.emit_failed(slot, &batch, cause.clone());
            }
            self.settle(slot);
        }
    }
}

enum BatchAction {
    Retry,
    /// Retried, with new sequence numbers if that is safe.
    Renumber,
    Fail,
}

/// Whether the error proves that nothing was appended. Others can also come after the append: while the batch waited
/// for replicas, or because the leader changed meanwhile.
fn is_certain_refusal(error: ErrorCode) -> bool {
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
