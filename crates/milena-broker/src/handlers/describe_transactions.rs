//! DescribeTransactions 0.

use milena_machines::transaction::{TransactionReply, TransactionRequest};
use milena_wire::messages::{
    DescribeTransactionsRequest, DescribeTransactionsResponse, describe_transactions_response::TransactionState,
};

use super::common::{Outcome, RequestContext, error_of};

pub(super) fn handle(
    cx: &RequestContext<'_>,
    body: DescribeTransactionsRequest,
) -> Outcome<DescribeTransactionsResponse> {
    let ids = body.transactional_ids;
    let replies = ids.iter().map(|id| {
        let request = TransactionRequest::Describe {
            transactional_id: id.clone(),
        };
        cx.node.transactions.request(cx.node, cx.request.version, id, request)
    });
    cx.respond_to_all(replies.collect(), move |outcomes| {
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
