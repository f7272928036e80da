//! TxnOffsetCommit 0–5: offsets that take effect when a transaction commits. From version 5 on, the request itself adds the
//! group to the transaction.

use milena_machines::{
    authorizer::Operation,
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

use super::common::{GroupResult, Outcome, RequestContext, error_of, was_added};
use crate::coordinators::PendingReply;

pub(super) fn handle(cx: &RequestContext<'_>, mut request: TxnOffsetCommitRequest) -> Outcome<TxnOffsetCommitResponse> {
    let rights = cx
        .check_transactional_id(Operation::Write, &request.transactional_id)
        .and_then(|()| cx.check_group(Operation::Read, &request.group_id));
    if let Err(error) = rights {
        return cx.refuse(&request, error);
    }
    let refused = take_refused(cx, &mut request);
    if request.topics.is_empty() {
        return Outcome::Ready(response(Err(ErrorCode::None), vec![], refused));
    }
    let topics = request.topics.clone();
    let added = match add_group(cx, &request) {
        Ok(None) => Ok(()),
        Ok(Some(PendingReply::Ready(added))) => was_added(Ok(added)),
        Ok(Some(later)) => {
            // The group's coordinator sees the offsets only when that of the transaction has stored the group.
            let detached = cx.detach();
            return Outcome::later(async move {
                let result = match was_added(later.wait().await).and_then(|()| commit(&detached.cx(), request)) {
                    Ok(reply) => reply.wait().await,
                    Err(error) => Err(error),
                };
                response(result, topics, refused)
            });
        }
        Err(error) => Err(error),
    };
    let reply = added.and_then(|()| commit(cx, request));
    cx.respond_to(reply, |result| response(result, topics, refused))
}

fn add_group(
    cx: &RequestContext<'_>,
    body: &TxnOffsetCommitRequest,
) -> Result<Option<PendingReply<TransactionReply>>, ErrorCode> {
    if cx.request.version < versions::txn_offset_commit::ADDS_GROUP {
        return Ok(None);
    }
    let request = TransactionRequest::AddPartitions {
        transactional_id: body.transactional_id.clone(),
        producer: producer(body),
        partitions: vec![cx.node.groups.partition_of(cx.node, &body.group_id)?],
        verify_only: false,
    };
    let reply = cx.node.transactions.request(
        cx.node,
        versions::add_partitions_to_txn::IMPLICIT,
        &body.transactional_id,
        request,
    )?;
    Ok(Some(reply))
}

/// Stores the offsets under the lock of the coordinator, so that the transaction cannot end meanwhile.
fn commit(cx: &RequestContext<'_>, body: TxnOffsetCommitRequest) -> Result<PendingReply<GroupReply>, ErrorCode> {
    let node = cx.node;
    let partition = node.groups.partition_of(node, &body.group_id)?;
    let (transactional_id, producer) = (body.transactional_id.clone(), producer(&body));
    let version = cx.request.version;
    let source = cx.source();
    let committed = node
        .transactions
        .while_open(node, &transactional_id, producer, partition, || {
            node.groups.request(
                node,
                &source,
                &body.group_id.clone(),
                GroupRequest::TxnOffsetCommit(body),
            )
        });
    match committed {
        Ok(reply) => reply,
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

/// Removes topics and partitions that are unknown or that the client may not read, and returns them as rows.
fn take_refused(cx: &RequestContext<'_>, body: &mut TxnOffsetCommitRequest) -> Vec<TxnOffsetCommitResponseTopic> {
    let mut refused = vec![];
    body.topics.retain_mut(|topic| {
        if !cx.authorize_topic(Operation::Read, &topic.name) {
            refused.push(failed(topic, ErrorCode::TopicAuthorizationFailed));
            return false;
        }
        let found = cx.node.topics().by_name(&topic.name).cloned();
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
    outcome: GroupResult,
    requested: Vec<TxnOffsetCommitRequestTopic>,
    refused: Vec<TxnOffsetCommitResponseTopic>,
) -> TxnOffsetCommitResponse {
    let mut response = match outcome {
        Ok(GroupReply::TxnOffsetCommit(response)) => response,
        other => TxnOffsetCommitResponse {
            topics: requested.iter().map(|topic| failed(topic, error_of(&other))).collect(),
            ..Default::default()
        },
    };
    response.topics.extend(refused);
    response
}
