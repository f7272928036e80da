//! EndTxn 0–5. The response is sent when all markers are written, so the next transaction never meets an unfinished end.

use milena_machines::{
    authorizer::Operation,
    transaction::{TransactionReply, TransactionRequest},
};
use milena_wire::messages::{EndTxnRequest, EndTxnResponse};

use super::common::{Outcome, RequestContext, TransactionResult, error_of};

pub(super) fn handle(cx: &RequestContext<'_>, body: EndTxnRequest) -> Outcome<EndTxnResponse> {
    if let Err(error) = cx.check_transactional_id(Operation::Write, &body.transactional_id) {
        return cx.refuse(&body, error);
    }
    cx.request_transaction(&body.transactional_id.clone(), TransactionRequest::End(body), response)
}

fn response(outcome: TransactionResult) -> EndTxnResponse {
    match outcome {
        Ok(TransactionReply::End(response)) => response,
        other => EndTxnResponse {
            error_code: error_of(&other).code(),
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        },
    }
}
