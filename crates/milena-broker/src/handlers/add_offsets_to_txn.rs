//! AddOffsetsToTxn 0–4: the partition that keeps a group's offsets becomes part of a transaction.

use milena_machines::{
    authorizer::Operation,
    transaction::{ProducerEpoch, TransactionReply, TransactionRequest},
};
use milena_wire::messages::{AddOffsetsToTxnRequest, AddOffsetsToTxnResponse};

use super::common::{Outcome, RequestContext, TransactionResult, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, body: AddOffsetsToTxnRequest) -> Outcome<AddOffsetsToTxnResponse> {
    let rights = cx
        .check_transactional_id(Operation::Write, &body.transactional_id)
        .and_then(|()| cx.check_group(Operation::Read, &body.group_id));
    if let Err(error) = rights {
        return cx.refuse(&body, error);
    }
    let partition = match cx.node.groups.partition_of(cx.node, &body.group_id) {
        Ok(partition) => partition,
        Err(error) => {
            let response = AddOffsetsToTxnResponse {
                error_code: error.code(),
                ..Default::default()
            };
            return Outcome::Ready(response);
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
    cx.request_transaction(&body.transactional_id, request, response)
}

fn response(outcome: TransactionResult) -> AddOffsetsToTxnResponse {
    let error = match outcome {
        Ok(TransactionReply::AddOffsets(error)) => error,
        other => error_of(&other),
    };
    AddOffsetsToTxnResponse {
        error_code: error.code(),
        ..Default::default()
    }
}
