//! Initialization of the producer id and epoch.

use milena_wire::{api::ApiKey, errors::ErrorCode, messages::InitProducerIdResponse};

use super::{Misuse, Operation, OperationId, Phase, Sender, TransactionCause, TransactionError};
use crate::{
    member::code,
    produce::{
        BatchCause, Target,
        control::{ErrorAction, action_for},
        identity::Init,
    },
    transaction::ProducerEpoch,
};

impl Sender {
    /// Gets the producer id and epoch. The previous owner of the transactional id is fenced, and its transaction is
    /// aborted.
    pub fn init_transactions(&mut self, now_ms: i64) -> Result<OperationId, TransactionError> {
        self.note_time(now_ms);
        let transaction = self.usable(Some(Operation::Init))?;
        let is_first = transaction.phase == Phase::Uninitialized;
        if let Some(id) = self.rejoin() {
            return Ok(id);
        }
        if !is_first {
            return Err(TransactionError::Misuse(Misuse::InitializedTwice));
        }
        self.identity.wanted = Some(Init::New);
        Ok(self.run(Operation::Init, Phase::Initializing))
    }

    pub(in crate::produce) fn handle_init_response(&mut self, now_ms: i64, response: &InitProducerIdResponse) {
        let error = code(response.error_code);
        let cause = TransactionCause::Refused {
            api: ApiKey::InitProducerId,
            error: as_fenced(error),
        };
        let target = Target::TransactionCoordinator;
        match error {
            ErrorCode::None => {
                self.reset_control_backoff();
                self.identity.wanted = None;
                self.identity.producer = Some(ProducerEpoch {
                    producer_id: response.producer_id,
                    epoch: response.producer_epoch,
                });
                self.initialized();
            }
            ErrorCode::TransactionalIdAuthorizationFailed | ErrorCode::ClusterAuthorizationFailed => {
                self.init_refused(cause);
                self.retry_control(now_ms, None);
            }
            error if action_for(error) == ErrorAction::Retry => {
                if self.transaction.is_some() {
                    self.check_coordinator(&target, error);
                }
                self.retry_control(now_ms, Some(error));
            }
            _ => self.give_up(TransactionError::Fatal(cause)),
        }
    }

    fn initialized(&mut self) {
        let Some(transaction) = &mut self.transaction else {
            return; // A sender without transactions is ready with its id.
        };
        // The previous owner of this epoch wrote in another, or in version 2.
        transaction.needs_epoch = false;
        if matches!(transaction.phase, Phase::Initializing | Phase::Renewing) {
            transaction.phase = Phase::Ready;
            if transaction.features >= 2 {
                transaction.version = super::Version::Two;
            }
            self.finish(Ok(()));
        }
    }

    /// Handles a missing permission. That can change: then the application calls again, or sends again.
    pub(in crate::produce) fn init_refused(&mut self, cause: TransactionCause) {
        match &mut self.transaction {
            Some(transaction) if transaction.phase == Phase::Initializing => {
                transaction.phase = Phase::Uninitialized;
                self.identity.wanted = None;
                self.finish(Err(TransactionError::Refused(cause)));
            }
            Some(_) => self.give_up(TransactionError::Fatal(cause)),
            None => self.drop_waiting(&BatchCause::Stopped(Box::new(TransactionError::Refused(cause)))),
        }
    }
}

/// Old coordinators report fencing with this error.
pub(super) fn as_fenced(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::InvalidProducerEpoch => ErrorCode::ProducerFenced,
        error => error,
    }
}
