//! DescribeTransactions 0.

use milena_machines::{
    authorizer::{Operation, ResourceType},
    transaction::{TransactionReply, TransactionRequest},
};
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
        cx.check_transactional_id(Operation::Describe, id)?;
        let request = TransactionRequest::Describe {
            transactional_id: id.clone(),
        };
        cx.node.transactions.request(cx.node, cx.request.version, id, request)
    });
    let detached = cx.detach();
    cx.respond_to_all(replies.collect(), move |outcomes| {
        let cx = detached.cx();
        let states = ids
            .into_iter()
            .zip(outcomes)
            .map(|(transactional_id, outcome)| match outcome {
                Ok(TransactionReply::Describe(mut state)) => {
                    let topics = &mut state.topics;
                    topics
                        .retain(|topic| cx.authorize_silently(Operation::Describe, ResourceType::Topic, &topic.topic));
                    state
                }
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
