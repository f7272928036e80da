//! Commit and abort.

use milena_invariant::violated;
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    messages::{EndTxnRequest, EndTxnResponse},
};

use super::{
    Misuse, Operation, OperationId, PendingRequest, Phase, Sender, Start, TransactionCause, TransactionError, Version,
    init::as_fenced,
};
use crate::{
    member::code,
    produce::{
        BatchCause, ControlRequest, Target,
        control::{ControlKind, ErrorAction, action_for},
        identity::Init,
    },
    transaction::{NO_PRODUCER_ID, ProducerEpoch},
};

impl Sender {
    /// Commits once all batches are written and all offsets are sent. The driver pushes its open batches first.
    pub fn commit(&mut self, now_ms: i64) -> Result<OperationId, TransactionError> {
        self.note_time(now_ms);
        let transaction = self.usable(Some(Operation::Commit))?;
        let (phase, error) = (transaction.phase, transaction.error.clone());
        if let Some(id) = self.rejoin() {
            return Ok(id);
        }
        match (phase, error) {
            (Phase::Open, None) => Ok(self.run(Operation::Commit, Phase::Committing)),
            (Phase::Open, Some(cause)) => Err(TransactionError::Abortable(cause)),
            (Phase::Uninitialized, _) => Err(TransactionError::Misuse(Misuse::NotInitialized)),
            _ => Err(TransactionError::Misuse(Misuse::NoTransaction)),
        }
    }

    /// Aborts. Batches that were not sent are dropped; those in flight are awaited. The driver drops its open batches.
    pub fn abort(&mut self, now_ms: i64) -> Result<OperationId, TransactionError> {
        self.note_time(now_ms);
        let transaction = self.usable(Some(Operation::Abort))?;
        let phase = transaction.phase;
        if let Some(id) = self.rejoin() {
            return Ok(id);
        }
        match phase {
            Phase::Open => {}
            Phase::Uninitialized => return Err(TransactionError::Misuse(Misuse::NotInitialized)),
            _ => return Err(TransactionError::Misuse(Misuse::NoTransaction)),
        }
        if let Some(transaction) = &mut self.transaction {
            transaction.to_add.clear();
        }
        self.end_offsets(&TransactionError::Abortable(TransactionCause::Aborted));
        let id = self.run(Operation::Abort, Phase::Aborting);
        self.drop_waiting(&BatchCause::Aborted);
        Ok(id)
    }

    pub(super) fn end_request(&self, committed: bool) -> Option<PendingRequest> {
        let transaction = self.transaction.as_ref()?;
        let producer = self.identity.producer?;
        let request = EndTxnRequest {
            transactional_id: transaction.config.transactional_id.clone(),
            producer_id: producer.producer_id,
            producer_epoch: producer.epoch,
            committed,
            ..EndTxnRequest::default()
        };
        Some(PendingRequest {
            kind: ControlKind::End,
            target: Target::TransactionCoordinator,
            request: ControlRequest::EndTxn(request),
            versions: match transaction.version {
                Version::One => (0, Some(4)),
                Version::Two => (5, None),
            },
        })
    }

    /// Ends a transaction that needs no request to end.
    pub(in crate::produce) fn advance(&mut self) {
        if self.fatal.is_some() || !self.control.is_idle() || !self.calls.is_empty() || !self.busy.is_empty() {
            return;
        }
        let Some(transaction) = &self.transaction else {
            return; // A sender without transactions.
        };
        let is_left = !transaction.to_add.is_empty() || !transaction.offsets.is_empty();
        let is_ended = match transaction.phase {
            Phase::Committing => transaction.start == Start::No && !is_left,
            Phase::Aborting => transaction.start == Start::No || transaction.is_unknown,
            _ => false,
        };
        if is_ended {
            self.ended();
        }
    }

    pub(in crate::produce) fn handle_end_response(&mut self, now_ms: i64, response: &EndTxnResponse) {
        let error = code(response.error_code);
        let Some(transaction) = &mut self.transaction else {
            violated!("only_a_transaction_is_ended");
            return;
        };
        let is_aborting = transaction.phase == Phase::Aborting;
        let cause = TransactionCause::Refused {
            api: ApiKey::EndTxn,
            error: as_fenced(error),
        };
        let action = match error {
            // It was aborted meanwhile because of its timeout; in version 1 that is reported as fencing.
            ErrorCode::InvalidTxnState if transaction.version == Version::Two => ErrorAction::Abort,
            error => action_for(error),
        };
        match action {
            ErrorAction::Done => {
                if transaction.version == Version::Two && response.producer_id != NO_PRODUCER_ID {
                    transaction.needs_epoch = false;
                    self.identity.producer = Some(ProducerEpoch {
                        producer_id: response.producer_id,
                        epoch: response.producer_epoch,
                    });
                }
                self.reset_control_backoff();
                self.ended();
            }
            ErrorAction::Retry => {
                self.check_coordinator(&Target::TransactionCoordinator, error);
                self.retry_control(now_ms, Some(error));
            }
            ErrorAction::AbortUnknown => {
                transaction.is_unknown = true;
                self.abortable(cause);
            }
            ErrorAction::Abort if !is_aborting => self.abortable(cause),
            ErrorAction::Abort | ErrorAction::Fatal => self.give_up(TransactionError::Fatal(cause)),
        }
    }

    /// Handles the end of the transaction. If sequence numbers are missing, the epoch is bumped before the next one.
    fn ended(&mut self) {
        let Some(transaction) = &mut self.transaction else {
            violated!("only_a_transaction_is_ended");
            return;
        };
        // Without a start no batch was sent: no sequence numbers can be missing.
        let needs_epoch = (transaction.needs_epoch && transaction.start != Start::No) || transaction.is_unknown;
        transaction.needs_epoch = false;
        transaction.reset();
        if needs_epoch {
            transaction.phase = Phase::Renewing;
            self.identity.wanted = Some(Init::Next);
        } else {
            transaction.phase = Phase::Ready;
            self.finish(Ok(()));
        }
    }
}
