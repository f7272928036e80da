//! AddPartitionsToTxn 0–5. Versions up to 3 are for producers; later ones are for brokers among themselves, with several
//! producers at once.

use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    authorizer::Operation,
    transaction::{ProducerEpoch, TransactionReply, TransactionRequest},
};
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
        add_partitions_to_txn_request::{AddPartitionsToTxnTopic, AddPartitionsToTxnTransaction},
        add_partitions_to_txn_response::{
            AddPartitionsToTxnPartitionResult, AddPartitionsToTxnResult, AddPartitionsToTxnTopicResult,
        },
    },
};

use super::common::{Outcome, RequestContext, TransactionResult, error_of};
use crate::{coordinators::PendingReply, node::Node, topics::is_internal};

pub(super) fn handle(cx: &RequestContext<'_>, body: AddPartitionsToTxnRequest) -> Outcome<AddPartitionsToTxnResponse> {
    let version = cx.request.version;
    let is_of_broker = version >= versions::add_partitions_to_txn::BATCHES;
    if is_of_broker && !cx.authorize_cluster(Operation::ClusterAction) {
        return cx.refuse(&body, ErrorCode::ClusterAuthorizationFailed);
    }
    let transactions = if version >= versions::add_partitions_to_txn::BATCHES {
        body.transactions
    } else {
        vec![AddPartitionsToTxnTransaction {
            transactional_id: body.v3_and_below_transactional_id,
            producer_id: body.v3_and_below_producer_id,
            producer_epoch: body.v3_and_below_producer_epoch,
            topics: body.v3_and_below_topics,
            ..Default::default()
        }]
    };
    let replies = transactions
        .iter()
        .map(|transaction| request(cx, transaction))
        .collect();
    let detached = cx.detach();
    cx.respond_to_all(replies, move |outcomes| {
        let results = transactions.into_iter().zip(outcomes);
        let mut results = results.map(|(transaction, outcome)| AddPartitionsToTxnResult {
            topic_results: topic_results(&detached.cx(), &transaction.topics, &outcome),
            transactional_id: transaction.transactional_id,
            ..Default::default()
        });
        if version >= versions::add_partitions_to_txn::BATCHES {
            return AddPartitionsToTxnResponse {
                results_by_transaction: results.collect(),
                ..Default::default()
            };
        }
        AddPartitionsToTxnResponse {
            results_by_topic_v3_and_below: results.next().map(|result| result.topic_results).unwrap_or_default(),
            ..Default::default()
        }
    })
}

/// All partitions are added, or none if one of them does not exist or the client may not write to it.
fn request(
    cx: &RequestContext<'_>,
    transaction: &AddPartitionsToTxnTransaction,
) -> Result<PendingReply<TransactionReply>, ErrorCode> {
    let node = cx.node;
    if cx.request.version < versions::add_partitions_to_txn::BATCHES {
        cx.check_transactional_id(Operation::Write, &transaction.transactional_id)?;
    }
    let partitions = transaction.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| TopicPartition {
            topic: topic.name.clone(),
            partition: *partition,
        })
    });
    let partitions: Vec<TopicPartition> = partitions.collect();
    let can_be_added = |partition: &TopicPartition| !is_denied(cx, &partition.topic) && exists(node, partition);
    if !partitions.iter().all(can_be_added) {
        return Err(ErrorCode::OperationNotAttempted);
    }
    let request = TransactionRequest::AddPartitions {
        transactional_id: transaction.transactional_id.clone(),
        producer: ProducerEpoch {
            producer_id: transaction.producer_id,
            epoch: transaction.producer_epoch,
        },
        partitions,
        verify_only: transaction.verify_only,
    };
    let version = cx.request.version;
    node.transactions
        .request(node, version, &transaction.transactional_id, request)
}

/// Whether a producer may not write to a topic. No client may write to internal ones.
fn is_denied(cx: &RequestContext<'_>, topic: &ByteString) -> bool {
    let is_of_producer = cx.request.version < versions::add_partitions_to_txn::BATCHES;
    is_of_producer && (is_internal(topic) || !cx.authorize_topic(Operation::Write, topic))
}

fn exists(node: &Node, partition: &TopicPartition) -> bool {
    let topics = node.topics();
    let topic = topics.by_name(&partition.topic);
    topic.is_some_and(|topic| topic.partition(partition.partition).is_some())
}

fn topic_results(
    cx: &RequestContext<'_>,
    topics: &[AddPartitionsToTxnTopic],
    outcome: &TransactionResult,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let error = match outcome {
        Ok(TransactionReply::AddPartitions(error)) => *error,
        other => error_of(other),
    };
    let topic_result = |topic: &AddPartitionsToTxnTopic| {
        let is_denied = error == ErrorCode::OperationNotAttempted && is_denied(cx, &topic.name);
        let partition_result = |index: &i32| {
            let partition = TopicPartition {
                topic: topic.name.clone(),
                partition: *index,
            };
            let error = match error {
                _ if is_denied => ErrorCode::TopicAuthorizationFailed,
                ErrorCode::OperationNotAttempted if !exists(cx.node, &partition) => ErrorCode::UnknownTopicOrPartition,
                error => error,
            };
            AddPartitionsToTxnPartitionResult {
                partition_index: *index,
                partition_error_code: error.code(),
                ..Default::default()
            }
        };
        AddPartitionsToTxnTopicResult {
            name: topic.name.clone(),
            results_by_partition: topic.partitions.iter().map(partition_result).collect(),
            ..Default::default()
        }
    };
    topics.iter().map(topic_result).collect()
}
