//! InitProducerId 0–5. Without a transactional id it is for idempotent producers and needs no coordinator.

use milena_machines::transaction::{TransactionReply, TransactionRequest};
use milena_wire::{
    errors::ErrorCode,
    messages::{InitProducerIdRequest, InitProducerIdResponse},
};

use super::common::{Outcome, RequestContext, TransactionResult, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, body: InitProducerIdRequest) -> Outcome<InitProducerIdResponse> {
    let Some(transactional_id) = body.transactional_id.clone() else {
        let response = match cx.node.new_producer_id() {
            Ok(producer_id) => InitProducerIdResponse {
                producer_id,
                producer_epoch: 0,
                ..Default::default()
            },
            Err(refusal) => failed(refusal.code),
        };
        return Outcome::Ready(response);
    };
    cx.request_transaction(&transactional_id, TransactionRequest::InitProducerId(body), response)
}

fn response(outcome: TransactionResult) -> InitProducerIdResponse {
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
