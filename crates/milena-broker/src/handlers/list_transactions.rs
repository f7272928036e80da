//! ListTransactions 0–2.

use milena_machines::transaction::{IdPattern, TransactionReply, TransactionRequest, TransactionState};
use milena_wire::{
    errors::ErrorCode,
    messages::{ListTransactionsRequest, ListTransactionsResponse},
};

use super::{Caller, Handled, reply, transactions::TransactionOutcome};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let body: ListTransactionsRequest = match caller.body() {
        Ok(body) => body,
        Err(close) => return close,
    };
    // An empty pattern stands for none.
    let pattern = body.transactional_id_pattern.filter(|pattern| !pattern.is_empty());
    let Ok(pattern) = pattern.map(|pattern| IdPattern::new(&pattern)).transpose() else {
        return failed(caller, ErrorCode::InvalidRegularExpression);
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
    let answers = caller
        .node
        .transactions
        .ask_all(caller.node, caller.request.version, &request);
    match answers {
        Ok(answers) => caller.wait_for_all(answers.into_iter().map(Ok).collect(), |outcomes| {
            ListTransactionsResponse {
                unknown_state_filters,
                ..response(outcomes)
            }
        }),
        Err(error) => failed(caller, error),
    }
}

fn response(outcomes: Vec<TransactionOutcome>) -> ListTransactionsResponse {
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

fn failed(caller: &Caller<'_>, error: ErrorCode) -> Handled {
    let response = ListTransactionsResponse {
        error_code: error.code(),
        ..Default::default()
    };
    reply(caller.request, response, vec![])
}
