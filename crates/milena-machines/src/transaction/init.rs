//! `InitProducerId`: gives a producer its id and epoch, and fences the previous owner.

use milena_wire::{
    errors::ErrorCode,
    messages::{InitProducerIdRequest, InitProducerIdResponse},
};

use super::{
    NO_EPOCH, NO_PRODUCER_ID, NextProducerId, ProducerEpoch, TransactionContext, TransactionCoordinator,
    TransactionEffects, TransactionState, fenced_in, metadata::Transaction, take_id,
};

impl TransactionCoordinator {
    pub(super) fn init_producer_id(
        &mut self,
        context: &TransactionContext,
        request: InitProducerIdRequest,
        ids: NextProducerId<'_>,
        effects: &mut TransactionEffects,
    ) -> InitProducerIdResponse {
        match self.try_init_producer_id(context.now_ms, request, ids, effects) {
            Ok(producer) => InitProducerIdResponse {
                producer_id: producer.producer_id,
                producer_epoch: producer.epoch,
                ..InitProducerIdResponse::default()
            },
            Err(error) => InitProducerIdResponse {
                error_code: fenced_in(context.version, 4, error) as i16,
                producer_id: NO_PRODUCER_ID,
                producer_epoch: NO_EPOCH,
                ..InitProducerIdResponse::default()
            },
        }
    }

    fn try_init_producer_id(
        &mut self,
        now_ms: i64,
        request: InitProducerIdRequest,
        ids: NextProducerId<'_>,
        effects: &mut TransactionEffects,
    ) -> Result<ProducerEpoch, ErrorCode> {
        let expected = expected_producer(&request)?;
        self.check_init(&request)?;
        let timeout_ms = request.transaction_timeout_ms;
        let Some(id) = request.transactional_id else {
            let producer_id = take_id(ids)?;
            return Ok(ProducerEpoch { producer_id, epoch: 0 });
        };
        let current = match self.transactions.get(&id) {
            Some(known) => known.clone(),
            None => Transaction::fresh(take_id(ids)?, timeout_ms, now_ms),
        };
        if expected.is_some_and(|expected| !current.knows(expected)) {
            return Err(ErrorCode::ProducerFenced);
        }
        match current.state {
            TransactionState::PrepareCommit | TransactionState::PrepareAbort => Err(ErrorCode::ConcurrentTransactions),
            TransactionState::Ongoing => {
                // This epoch goes to no producer. The client retries and gets the one after it.
                self.fence(&id, &current, now_ms, ids, effects)?;
                Err(ErrorCode::ConcurrentTransactions)
            }
            TransactionState::Empty | TransactionState::CompleteCommit | TransactionState::CompleteAbort => {
                let epoch = expected.map(|expected| expected.epoch);
                let is_current = epoch.is_none_or(|epoch| epoch == current.producer.epoch);
                let next = if current.is_epoch_exhausted() && is_current {
                    current.rotated(take_id(ids)?, expected.is_some(), timeout_ms, now_ms)
                } else {
                    current.next_epoch(epoch, timeout_ms, now_ms)?
                };
                self.write(&id, &next, effects);
                Ok(next.producer)
            }
            TransactionState::Dead | TransactionState::PrepareEpochFence => Err(ErrorCode::UnknownServerError),
        }
    }

    fn check_init(&self, request: &InitProducerIdRequest) -> Result<(), ErrorCode> {
        let Some(id) = &request.transactional_id else {
            return Ok(());
        };
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        // The errors of Kafka with `transaction.two.phase.commit.enable` off.
        if request.enable2_pc {
            return Err(ErrorCode::TransactionalIdAuthorizationFailed);
        }
        if request.keep_prepared_txn {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if !(1..=self.config.max_timeout_ms).contains(&request.transaction_timeout_ms) {
            return Err(ErrorCode::InvalidTransactionTimeout);
        }
        Ok(())
    }
}

/// The producer id and epoch that the request claims, if any.
fn expected_producer(request: &InitProducerIdRequest) -> Result<Option<ProducerEpoch>, ErrorCode> {
    match (request.producer_id, request.producer_epoch) {
        (NO_PRODUCER_ID, NO_EPOCH) => Ok(None),
        (NO_PRODUCER_ID, _) | (_, NO_EPOCH) => Err(ErrorCode::InvalidRequest),
        (producer_id, epoch) => Ok(Some(ProducerEpoch { producer_id, epoch })),
    }
}
