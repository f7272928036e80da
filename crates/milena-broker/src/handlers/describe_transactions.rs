//! DescribeTransactions 0.

use milena_machines::transaction::{TransactionReply, TransactionRequest};
use milena_wire::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, describe_transactions_response::TransactionState,
};

use super::{Caller, Handled, waiting::error_of};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let body: DescribeTransactionsRequest = match caller.body() {
        Ok(body) => body,
        Err(close) => return close,
    };
    let ids = body.transactional_ids;
    let answers = ids.iter().map(|id| {
        let request = TransactionRequest::Describe {
            transactional_id: id.clone(),
        };
        caller
            .node
            .transactions
            .ask(caller.node, caller.request.version, id, request)
    });
    caller.wait_for_all(answers.collect(), move |outcomes| {
        let states = ids
            .into_iter()
            .zip(outcomes)
            .map(|(transactional_id, outcome)| match outcome {
                Ok(TransactionReply::Describe(state)) => state,
                other => TransactionState {
                    error_code: error_of(&other).code(),
                    transactional_id,
                    ..Default::default()
                },
            });
        DescribeTransactionsResponse {
            transaction_states: states.collect(),
            ..Default::default()
        }
    })
}
