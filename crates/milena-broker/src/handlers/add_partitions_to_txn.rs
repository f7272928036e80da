//! AddPartitionsToTxn 0–5. Versions up to 3 are for producers; later ones are for brokers among themselves, with several
//! producers at once.

use milena_machines::{
    TopicPartition,
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
use crate::{coordinators::PendingReply, node::Node};

pub(super) fn handle(cx: &RequestContext<'_>, body: AddPartitionsToTxnRequest) -> Outcome<AddPartitionsToTxnResponse> {
    let version = cx.request.version;
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
    let node = cx.node.clone();
    cx.respond_to_all(replies, move |outcomes| {
        let results = transactions.into_iter().zip(outcomes);
        let mut results = results.map(|(transaction, outcome)| AddPartitionsToTxnResult {
            topic_results: topic_results(&node, &transaction.topics, &outcome),
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

/// All partitions are added, or none if one of them does not exist.
fn request(
    cx: &RequestContext<'_>,
    transaction: &AddPartitionsToTxnTransaction,
) -> Result<PendingReply<TransactionReply>, ErrorCode> {
    let node = cx.node;
    let partitions = transaction.topics.iter().flat_map(|topic| {
        topic.partitions.iter().map(|partition| TopicPartition {
            topic: topic.name.clone(),
            partition: *partition,
        })
    });
    let partitions: Vec<TopicPartition> = partitions.collect();
    if !partitions.iter().all(|partition| exists(node, partition)) {
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

fn exists(node: &Node, partition: &TopicPartition) -> bool {
    let topics = node.topics();
    let topic = topics.by_name(&partition.topic);
    topic.is_some_and(|topic| topic.partition(partition.partition).is_some())
}

fn topic_results(
    node: &Node,
    topics: &[AddPartitionsToTxnTopic],
    outcome: &TransactionResult,
) -> Vec<AddPartitionsToTxnTopicResult> {
    let error = match outcome {
        Ok(TransactionReply::AddPartitions(error)) => *error,
        other => error_of(other),
    };
    let topic_result = |topic: &AddPartitionsToTxnTopic| {
        let partition_result = |index: &i32| {
            let partition = TopicPartition {
                topic: topic.name.clone(),
                partition: *index,
            };
            let error = match error {
                ErrorCode::OperationNotAttempted if !exists(node, &partition) => ErrorCode::UnknownTopicOrPartition,
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
