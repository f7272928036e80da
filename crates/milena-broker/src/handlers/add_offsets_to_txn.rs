//! AddOffsetsToTxn 0–4: the partition that keeps a group's offsets becomes part of a transaction.

use milena_machines::transaction::{ProducerEpoch, TransactionReply, TransactionRequest};
use milena_wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use super::{Caller, Handled, reply, transactions::TransactionOutcome, waiting::error_of};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let body: AddOffsetsToTxnRequest = match caller.body() {
        Ok(body) => body,
        Err(close) => return close,
    };
    let partition = match caller.node.groups.partition_of(caller.node, &body.group_id) {
        Ok(partition) => partition,
        Err(error) => {
            let response = AddOffsetsToTxnResponse {
                error_code: error.code(),
                ..Default::default()
            };
            return reply(caller.request, response, vec![]);
        }
    };
    let request = TransactionRequest::AddOffsets {
        transactional_id: body.transactional_id.clone(),
        producer: ProducerEpoch {
            producer_id: body.producer_id,
            epoch: body.producer_epoch,
        },
        partition,
    };
    caller.ask_transaction(&body.transactional_id, request, response)
}

fn response(outcome: TransactionOutcome) -> AddOffsetsToTxnResponse {
    let error = match outcome {
        Ok(TransactionReply::AddOffsets(error)) => error,
        other => error_of(&other),
    };
    AddOffsetsToTxnResponse {
        error_code: error.code(),
        ..Default::default()
    }
}
