//! Who the producer is.

use milena_wire::{api::ApiKey, errors::ErrorCode, messages::InitProducerIdResponse};

use super::{Misuse, Operation, OperationId, Phase, Sender, TransactionCause, TransactionError};
use crate::{
    member::code,
    produce::{
        BatchCause, Target,
        control::{Verdict, verdict},
        identity::Init,
    },
    transaction::ProducerEpoch,
};

impl Sender {
    /// Asks who this producer is. Whoever had its transactional id before is fenced, and what it has begun is aborted.
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

    pub(in crate::produce) fn init_answered(&mut self, now_ms: i64, response: &InitProducerIdResponse) {
        let error = code(response.error_code);
        let cause = TransactionCause::Refused {
            api: ApiKey::InitProducerId,
            error: as_fenced(error),
        };
        let target = Target::TransactionCoordinator;
        match error {
            ErrorCode::None => {
                self.ask_on();
                self.identity.wanted = None;
                self.identity.producer = Some(ProducerEpoch {
                    producer_id: response.producer_id,
                    epoch: response.producer_epoch,
                });
                self.initialized();
            }
            ErrorCode::TransactionalIdAuthorizationFailed | ErrorCode::ClusterAuthorizationFailed => {
                self.init_refused(cause);
                self.ask_again(now_ms, None);
            }
            error if verdict(error) == Verdict::Again => {
                if self.transaction.is_some() {
                    self.check_coordinator(&target, error);
                }
                self.ask_again(now_ms, Some(error));
            }
            _ => self.give_up(TransactionError::Fatal(cause)),
        }
    }

    fn initialized(&mut self) {
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        // Who had this epoch before wrote in another, or in version 2.
        transaction.needs_epoch = false;
        if matches!(transaction.phase, Phase::Initializing | Phase::Renewing) {
            transaction.phase = Phase::Ready;
            if transaction.features >= 2 {
                transaction.version = super::Version::Two;
            }
            self.finish(Ok(()));
        }
    }

    /// It may not know who it is. That can change: then the application calls again, or sends again.
    pub(in crate::produce) fn init_refused(&mut self, cause: TransactionCause) {
        let error = TransactionError::Refused(cause);
        match &mut self.transaction {
            Some(transaction) if transaction.phase == Phase::Initializing => {
                transaction.phase = Phase::Uninitialized;
                self.identity.wanted = None;
                self.finish(Err(error));
            }
            Some(_) => {
                let TransactionError::Refused(cause) = error else {
                    return;
                };
                self.give_up(TransactionError::Fatal(cause));
            }
            None => self.drop_waiting(&BatchCause::Stopped(Box::new(error))),
        }
    }
}

/// Old coordinators call fencing so.
pub(super) fn as_fenced(error: ErrorCode) -> ErrorCode {
    match error {
        ErrorCode::InvalidProducerEpoch => ErrorCode::ProducerFenced,
        error => error,
    }
}
