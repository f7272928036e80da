//! TxnOffsetCommit 0–5: offsets that count when a transaction commits. From version 5 on, the request itself makes the
//! group part of the transaction.

use milena_machines::{
    group::{GroupReply, GroupRequest},
    transaction::{ProducerEpoch, TransactionReply, TransactionRequest},
};
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        TxnOffsetCommitRequest, TxnOffsetCommitResponse,
        txn_offset_commit_request::TxnOffsetCommitRequestTopic,
        txn_offset_commit_response::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic},
    },
};

use super::{Caller, Handled, groups::GroupOutcome, outgoing, reply, transactions::was_added, waiting::error_of};
use crate::{coordinators::Answer, net::Peer, node::Node};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let mut body: TxnOffsetCommitRequest = match caller.body() {
        Ok(body) => body,
        Err(close) => return close,
    };
    let refused = take_unknown(caller.node, &mut body);
    if body.topics.is_empty() {
        return reply(caller.request, response(Err(ErrorCode::None), vec![], refused), vec![]);
    }
    let asked = body.topics.clone();
    let added = match add_group(caller, &body) {
        Ok(None) => Ok(()),
        Ok(Some(Answer::Now(added))) => was_added(Ok(added)),
        Ok(Some(later)) => {
            // The group's coordinator hears of it when the transaction's has it safe.
            let (node, request) = (caller.node.clone(), caller.request.clone());
            let peer = Peer::clone(caller.peer);
            return Handled::Later(Box::pin(async move {
                let caller = Caller {
                    node: &node,
                    peer: &peer,
                    request: &request,
                };
                let outcome = match was_added(later.wait().await).and_then(|()| commit(&caller, body)) {
                    Ok(answer) => answer.wait().await,
                    Err(error) => Err(error),
                };
                outgoing(&request, response(outcome, asked, refused), vec![])
            }));
        }
        Err(error) => Err(error),
    };
    let answer = added.and_then(|()| commit(caller, body));
    caller.wait_for(answer, |outcome| response(outcome, asked, refused))
}

fn add_group(
    caller: &Caller<'_>,
    body: &TxnOffsetCommitRequest,
) -> Result<Option<Answer<TransactionReply>>, ErrorCode> {
    if caller.request.version < versions::txn_offset_commit::ADDS_GROUP {
        return Ok(None);
    }
    let request = TransactionRequest::AddPartitions {
        transactional_id: body.transactional_id.clone(),
        producer: producer(body),
        partitions: vec![caller.node.groups.partition_of(caller.node, &body.group_id)?],
        verify_only: false,
    };
    let answer = caller.node.transactions.ask(
        caller.node,
        versions::add_partitions_to_txn::IMPLICIT,
        &body.transactional_id,
        request,
    )?;
    Ok(Some(answer))
}

/// Stores the offsets, while nobody can end the transaction.
fn commit(caller: &Caller<'_>, body: TxnOffsetCommitRequest) -> Result<Answer<GroupReply>, ErrorCode> {
    let node = caller.node;
    let partition = node.groups.partition_of(node, &body.group_id)?;
    let (transactional_id, producer) = (body.transactional_id.clone(), producer(&body));
    let version = caller.request.version;
    let asking = caller.asking();
    let committed = node
        .transactions
        .while_open(node, &transactional_id, producer, partition, || {
            node.groups.ask(
                node,
                &asking,
                &body.group_id.clone(),
                GroupRequest::TxnOffsetCommit(body),
            )
        });
    match committed {
        Ok(answer) => answer,
        Err(ErrorCode::TransactionAbortable) if version < versions::txn_offset_commit::TRANSACTION_ABORTABLE => {
            Err(ErrorCode::InvalidTxnState)
        }
        Err(error) => Err(error),
    }
}

fn producer(body: &TxnOffsetCommitRequest) -> ProducerEpoch {
    ProducerEpoch {
        producer_id: body.producer_id,
        epoch: body.producer_epoch,
    }
}

/// Takes out what there is no topic or partition for, as answers.
fn take_unknown(node: &Node, body: &mut TxnOffsetCommitRequest) -> Vec<TxnOffsetCommitResponseTopic> {
    let mut refused = vec![];
    body.topics.retain_mut(|topic| {
        let found = node.topics().by_name(&topic.name).cloned();
        let is_known = |index: i32| found.as_ref().is_some_and(|found| found.partition(index).is_some());
        let unknown = topic
            .partitions
            .extract_if(.., |partition| !is_known(partition.partition_index));
        let unknown = TxnOffsetCommitRequestTopic {
            partitions: unknown.collect(),
            name: topic.name.clone(),
            ..Default::default()
        };
        if !unknown.partitions.is_empty() {
            refused.push(failed(&unknown, ErrorCode::UnknownTopicOrPartition));
        }
        !topic.partitions.is_empty()
    });
    refused
}

fn failed(topic: &TxnOffsetCommitRequestTopic, error: ErrorCode) -> TxnOffsetCommitResponseTopic {
    let partitions = topic
        .partitions
        .iter()
        .map(|partition| TxnOffsetCommitResponsePartition {
            partition_index: partition.partition_index,
            error_code: error.code(),
            ..Default::default()
        });
    TxnOffsetCommitResponseTopic {
        partitions: partitions.collect(),
        name: topic.name.clone(),
        ..Default::default()
    }
}

fn response(
    outcome: GroupOutcome,
    asked: Vec<TxnOffsetCommitRequestTopic>,
    refused: Vec<TxnOffsetCommitResponseTopic>,
) -> TxnOffsetCommitResponse {
    let mut response = match outcome {
        Ok(GroupReply::TxnOffsetCommit(response)) => response,
        other => TxnOffsetCommitResponse {
            topics: asked.iter().map(|topic| failed(topic, error_of(&other))).collect(),
            ..Default::default()
        },
    };
    response.topics.extend(refused);
    response
}
