//! InitProducerId 0–5. Without a transactional id it is for idempotent producers, and any coordinator would do.

use milena_machines::transaction::{TransactionReply, TransactionRequest};
use milena_wire::{
    errors::ErrorCode,
    messages::{InitProducerIdRequest, InitProducerIdResponse},
};

use super::{Caller, Handled, reply, transactions::TransactionOutcome, waiting::error_of};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let body: InitProducerIdRequest = match caller.body() {
        Ok(body) => body,
        Err(close) => return close,
    };
    let Some(transactional_id) = body.transactional_id.clone() else {
        let response = match caller.node.new_producer_id() {
            Ok(producer_id) => InitProducerIdResponse {
                producer_id,
                producer_epoch: 0,
                ..Default::default()
            },
            Err(refusal) => failed(refusal.code),
        };
        return reply(caller.request, response, vec![]);
    };
    caller.ask_transaction(&transactional_id, TransactionRequest::InitProducerId(body), response)
}

fn response(outcome: TransactionOutcome) -> InitProducerIdResponse {
    match outcome {
        Ok(TransactionReply::InitProducerId(response)) => response,
        other => failed(error_of(&other)),
    }
}

fn failed(error: ErrorCode) -> InitProducerIdResponse {
    InitProducerIdResponse {
        error_code: error.code(),
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    }
}
