//! What the handlers of transactional requests share.

use milena_machines::transaction::{TransactionReply, TransactionRequest};
use milena_wire::{errors::ErrorCode, message::Response};

use super::{
    Caller, Handled,
    waiting::{Outcome, error_of},
};

pub(super) type TransactionOutcome = Outcome<TransactionReply>;

impl Caller<'_> {
    /// Asks the coordinator of a transactional id, and answers with what `response` makes of the outcome.
    pub(super) fn ask_transaction<R: Response>(
        &self,
        transactional_id: &str,
        request: TransactionRequest,
        response: impl FnOnce(TransactionOutcome) -> R + Send + 'static,
    ) -> Handled {
        let version = self.request.version;
        let answer = self
            .node
            .transactions
            .ask(self.node, version, transactional_id, request);
        self.wait_for(answer, response)
    }
}

/// Whether partitions could be added to a transaction.
pub(super) fn was_added(outcome: TransactionOutcome) -> Result<(), ErrorCode> {
    match outcome {
        Ok(TransactionReply::AddPartitions(ErrorCode::None)) => Ok(()),
        Ok(TransactionReply::AddPartitions(error)) => Err(error),
        other => Err(error_of(&other)),
    }
}
