//! InitProducerId 0–5. Without a transactional id it is for idempotent producers and needs no coordinator.

use milena_machines::{
    authorizer::Operation,
    transaction::{TransactionReply, TransactionRequest},
};
use milena_wire::{
    errors::ErrorCode,
    messages::{InitProducerIdRequest, InitProducerIdResponse},
};

use super::common::{Outcome, RequestContext, TransactionResult, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, body: InitProducerIdRequest) -> Outcome<InitProducerIdResponse> {
    if let Err(error) = check_rights(cx, &body) {
        return Outcome::Ready(failed(error));
    }
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

/// An idempotent producer needs its right on the cluster, or may write to any topic.
fn check_rights(cx: &RequestContext<'_>, body: &InitProducerIdRequest) -> Result<(), ErrorCode> {
    match &body.transactional_id {
        Some(id) => {
            cx.check_transactional_id(Operation::Write, id)?;
            match body.enable2_pc {
                true => cx.check_transactional_id(Operation::TwoPhaseCommit, id),
                false => Ok(()),
            }
        }
        None if cx.authorize_cluster_silently(Operation::IdempotentWrite) => Ok(()),
        None if cx.authorize_any_topic(Operation::Write) => Ok(()),
        None => Err(ErrorCode::ClusterAuthorizationFailed),
    }
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
