//! ListTransactions 0–2.

use milena_machines::{
    authorizer::{Operation, ResourceType},
    transaction::{IdPattern, TransactionReply, TransactionRequest, TransactionState},
};
use milena_wire::{
    errors::ErrorCode,
    messages::{ListTransactionsRequest, ListTransactionsResponse},
};

use super::common::{Outcome, RequestContext, TransactionResult};

pub(super) fn handle(cx: &RequestContext<'_>, body: ListTransactionsRequest) -> Outcome<ListTransactionsResponse> {
    // An empty pattern stands for none.
    let pattern = body.transactional_id_pattern.filter(|pattern| !pattern.is_empty());
    let Ok(pattern) = pattern.map(|pattern| IdPattern::new(&pattern)).transpose() else {
        return failed(ErrorCode::InvalidRegularExpression);
    };
    let states = body.state_filters;
    let unknown = states
        .iter()
        .filter(|state| TransactionState::from_name(state).is_none());
    let unknown_state_filters = unknown.cloned().collect();
    let request = TransactionRequest::List {
        states,
        producer_ids: body.producer_id_filters,
        duration_ms: body.duration_filter,
        pattern,
    };
    let replies = cx.node.transactions.request_all(cx.node, cx.request.version, &request);
    match replies {
        Ok(replies) => {
            let detached = cx.detach();
            cx.respond_to_all(replies.into_iter().map(Ok).collect(), move |outcomes| {
                let mut response = response(outcomes);
                let (cx, id) = (detached.cx(), ResourceType::TransactionalId);
                let states = &mut response.transaction_states;
                states.retain(|state| cx.authorize_silently(Operation::Describe, id, &state.transactional_id));
                ListTransactionsResponse {
                    unknown_state_filters,
                    ..response
                }
            })
        }
        Err(error) => failed(error),
    }
}

fn response(outcomes: Vec<TransactionResult>) -> ListTransactionsResponse {
    let mut response = ListTransactionsResponse::default();
    for outcome in outcomes {
        match outcome {
            Ok(TransactionReply::List(states)) => response.transaction_states.extend(states),
            Ok(_) => {}
            Err(error) => response.error_code = error.code(),
        }
    }
    response
}

fn failed(error: ErrorCode) -> Outcome<ListTransactionsResponse> {
    Outcome::Ready(ListTransactionsResponse {
        error_code: error.code(),
        ..Default::default()
    })
}
