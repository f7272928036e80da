//! The end of a transaction: requested by its producer, by fencing, or by its timeout.

use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{EndTxnRequest, EndTxnResponse},
};

use super::{
    ClientVersion, Markers, NO_EPOCH, NO_PRODUCER_ID, NextProducerId, PendingEnd, ProducerEpoch, TransactionContext,
    TransactionCoordinator, TransactionEffects, TransactionReply, TransactionState, fenced_in,
    metadata::{LAST_EPOCH, Transaction},
    take_id,
};

/// The action for a valid `EndTxn` request.
enum EndAction {
    /// A retry of a request that was carried out: replied again.
    Done,
    Prepare,
}

impl TransactionCoordinator {
    /// Returns `None` if the reply follows when the markers are written. Kafka replies at once, and its clients then
    /// retry for a while; a client cannot tell that from a slow reply.
    pub(super) fn end(
        &mut self,
        context: &TransactionContext,
        request: EndTxnRequest,
        ids: NextProducerId<'_>,
        effects: &mut TransactionEffects,
    ) -> Option<EndTxnResponse> {
        let client = if context.version >= versions::end_txn::NEW_EPOCH {
            ClientVersion::V2
        } else {
            ClientVersion::V1
        };
        let pending = PendingEnd {
            ticket: context.ticket,
            client,
        };
        let id = request.transactional_id.clone();
        match self.try_end(context.now_ms, &request, pending, ids, effects) {
            Ok(true) => None,
            Ok(false) => Some(self.ended(&id, client)),
            Err(error) => Some(EndTxnResponse {
                error_code: fenced_in(context.version, 2, error) as i16,
                ..EndTxnResponse::default()
            }),
        }
    }

    /// Returns whether there are markers to wait for.
    fn try_end(
        &mut self,
        now_ms: i64,
        request: &EndTxnRequest,
        pending: PendingEnd,
        ids: NextProducerId<'_>,
        effects: &mut TransactionEffects,
    ) -> Result<bool, ErrorCode> {
        let id = &request.transactional_id;
        let current = self.known(id)?;
        let client = pending.client;
        let action = match client {
            ClientVersion::V1 => check_v1(current, request)?,
            ClientVersion::V2 => check_v2(current, request)?,
        };
        if matches!(action, EndAction::Done) {
            return Ok(false);
        }
        let next_producer_id = match client {
            ClientVersion::V2 if current.is_epoch_exhausted() => Some(take_id(ids)?),
            _ => None,
        };
        let prepared = current.prepared(request.committed, client, next_producer_id, now_ms);
        self.write(id, &prepared, effects);
        let must_wait = !self.carry_out(id, &prepared, now_ms, effects);
        if must_wait {
            self.pending_ends.insert(id.clone(), pending);
        }
        Ok(must_wait)
    }

    /// Takes the epoch from its current owner and aborts its transaction.
    pub(super) fn fence(
        &mut self,
        id: &ByteString,
        current: &Transaction,
        now_ms: i64,
        ids: NextProducerId<'_>,
        effects: &mut TransactionEffects,
    ) -> Result<(), ErrorCode> {
        let next_producer_id = if current.is_epoch_exhausted() {
            Some(take_id(ids)?)
        } else {
            None
        };
        let prepared = current.prepared(false, ClientVersion::V2, next_producer_id, now_ms);
        self.write(id, &prepared, effects);
        self.carry_out(id, &prepared, now_ms, effects);
        Ok(())
    }

    /// Continues the ends that the previous coordinator has decided.
    pub(super) fn resume_ends(&mut self, now_ms: i64, effects: &mut TransactionEffects) {
        let prepared = self
            .transactions
            .iter()
            .filter(|(_, transaction)| transaction.state.prepared().is_some());
        let prepared: Vec<_> = prepared
            .map(|(id, transaction)| (id.clone(), transaction.clone()))
            .collect();
        for (id, transaction) in prepared {
            self.carry_out(&id, &transaction, now_ms, effects);
        }
    }

    /// Requests the markers of a decision. Returns true if there are none to write: the transaction is complete.
    fn carry_out(
        &mut self,
        id: &ByteString,
        prepared: &Transaction,
        now_ms: i64,
        effects: &mut TransactionEffects,
    ) -> bool {
        let Some(committed) = prepared.state.prepared() else {
            violated!("markers_are_requested_for_prepared_transactions");
            return false;
        };
        if prepared.partitions.is_empty() {
            self.write(id, &prepared.completed(committed, now_ms), effects);
            return true;
        }
        effects.markers.push(Markers {
            transactional_id: id.clone(),
            producer: prepared.producer,
            coordinator_epoch: self.coordinator_epoch,
            transaction_version: prepared.client_version,
            committed,
            partitions: prepared.partitions.iter().cloned().collect(),
        });
        false
    }

    /// Handles that all markers of this id and producer are durable. A second call changes nothing.
    pub fn handle_markers_written(
        &mut self,
        now_ms: i64,
        transactional_id: &str,
        producer: ProducerEpoch,
    ) -> TransactionEffects {
        let mut effects = TransactionEffects::default();
        let Some((id, prepared)) = self.transactions.get_key_value(transactional_id) else {
            return effects; // Stale: completed before, and expired since.
        };
        let Some(committed) = prepared.state.prepared().filter(|_| prepared.producer == producer) else {
            return effects; // Stale: the markers were requested twice, after a reload of the coordinator.
        };
        let (id, completed) = (id.clone(), prepared.completed(committed, now_ms));
        self.write(&id, &completed, &mut effects);
        if let Some(pending) = self.pending_ends.remove(&id) {
            let response = self.ended(&id, pending.client);
            effects.replies.push((pending.ticket, TransactionReply::End(response)));
        }
        effects
    }

    /// The reply to a producer whose transaction has ended: with version 2, its next producer id and epoch.
    fn ended(&self, id: &str, client: ClientVersion) -> EndTxnResponse {
        let producer = match client {
            ClientVersion::V1 => None,
            ClientVersion::V2 => self.transactions.get(id).map(|transaction| transaction.producer),
        };
        EndTxnResponse {
            producer_id: producer.map_or(NO_PRODUCER_ID, |producer| producer.producer_id),
            producer_epoch: producer.map_or(NO_EPOCH, |producer| producer.epoch),
            ..EndTxnResponse::default()
        }
    }
}

fn check_v1(current: &Transaction, request: &EndTxnRequest) -> Result<EndAction, ErrorCode> {
    if current.producer.producer_id != request.producer_id {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    if current.producer.epoch != request.producer_epoch {
        return Err(ErrorCode::ProducerFenced);
    }
    match current.state {
        TransactionState::Ongoing => Ok(EndAction::Prepare),
        TransactionState::CompleteCommit if request.committed => Ok(EndAction::Done),
        TransactionState::CompleteAbort if !request.committed => Ok(EndAction::Done),
        state => Err(refused(state, request.committed)),
    }
}

/// With version 2 a retry is recognized by its epoch: it is the one before the current.
fn check_v2(current: &Transaction, request: &EndTxnRequest) -> Result<EndAction, ErrorCode> {
    let (epoch, current_epoch) = (request.producer_epoch, current.producer.epoch);
    let is_rotated = current.previous_producer_id == request.producer_id && epoch == LAST_EPOCH && current_epoch == 0;
    let is_bumped = epoch.checked_add(1) == Some(current_epoch);
    let is_retry = is_bumped || is_rotated;
    if current.producer.producer_id != request.producer_id && !is_rotated {
        return Err(ErrorCode::InvalidProducerIdMapping);
    }
    let is_epoch_valid = match current.state {
        TransactionState::PrepareCommit | TransactionState::PrepareAbort => is_bumped,
        TransactionState::CompleteCommit | TransactionState::CompleteAbort => is_retry || epoch == current_epoch,
        _ => epoch == current_epoch,
    };
    if !is_epoch_valid {
        return Err(ErrorCode::ProducerFenced);
    }
    match (current.state, request.committed) {
        (TransactionState::Ongoing, _) => Ok(EndAction::Prepare),
        (TransactionState::CompleteCommit, true) | (TransactionState::CompleteAbort, false) if is_retry => {
            Ok(EndAction::Done)
        }
        // Nothing was written, or nothing that the producer knows of: an abort makes sure.
        (TransactionState::Empty, false) => Ok(EndAction::Prepare),
        (TransactionState::CompleteCommit | TransactionState::CompleteAbort, false) if !is_retry => {
            Ok(EndAction::Prepare)
        }
        (state, committed) => Err(refused(state, committed)),
    }
}

/// The error for a transaction that cannot be ended in this way in its state.
fn refused(state: TransactionState, committed: bool) -> ErrorCode {
    match state {
        TransactionState::Dead | TransactionState::PrepareEpochFence => ErrorCode::UnknownServerError,
        _ if state.prepared() == Some(committed) => ErrorCode::ConcurrentTransactions,
        _ => ErrorCode::InvalidTxnState,
    }
}
