//! Partitions that Produce and TxnOffsetCommit add to a transaction themselves.

use milena_machines::transaction::TransactionReply;
use milena_wire::errors::ErrorCode;

use super::{TransactionResult, error_of};

/// Whether partitions could be added to a transaction.
pub(crate) fn was_added(result: TransactionResult) -> Result<(), ErrorCode> {
    match result {
        Ok(TransactionReply::AddPartitions(ErrorCode::None)) => Ok(()),
        Ok(TransactionReply::AddPartitions(error)) => Err(error),
        other => Err(error_of(&other)),
    }
}
