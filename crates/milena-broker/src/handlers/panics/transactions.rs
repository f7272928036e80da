//! The error in answers about producers and their transactions.

use milena_wire::messages::*;

use super::CODE;

/// From this version on AddPartitionsToTxn has several transactions, and a place for an error at the top.
const TRANSACTIONS_SINCE: i16 = 4;

pub(super) fn init_producer_id(_: InitProducerIdRequest) -> Option<InitProducerIdResponse> {
    Some(InitProducerIdResponse {
        error_code: CODE,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    })
}

pub(super) fn add_partitions_to_txn(
    version: i16,
    request: AddPartitionsToTxnRequest,
) -> Option<AddPartitionsToTxnResponse> {
    use add_partitions_to_txn_response::{AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult};
    if version >= TRANSACTIONS_SINCE {
        return Some(AddPartitionsToTxnResponse {
            error_code: CODE,
            ..Default::default()
        });
    }
    let topics = request.v3_and_below_topics.into_iter();
    let results = topics.map(|topic| AddPartitionsToTxnTopicResult {
        name: topic.name,
        results_by_partition: topic
            .partitions
            .iter()
            .map(|partition| AddPartitionsToTxnPartitionResult {
                partition_index: *partition,
                partition_error_code: CODE,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    Some(AddPartitionsToTxnResponse {
        results_by_topic_v3_and_below: results.collect(),
        ..Default::default()
    })
}

pub(super) fn txn_offset_commit(request: TxnOffsetCommitRequest) -> Option<TxnOffsetCommitResponse> {
    use txn_offset_commit_response::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic};
    let topics = request.topics.into_iter().map(|topic| TxnOffsetCommitResponseTopic {
        name: topic.name,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| TxnOffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: CODE,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    Some(TxnOffsetCommitResponse {
        topics: topics.collect(),
        ..Default::default()
    })
}

pub(super) fn write_txn_markers(request: WriteTxnMarkersRequest) -> Option<WriteTxnMarkersResponse> {
    use write_txn_markers_response::{
        WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    };
    let topic = |topic: write_txn_markers_request::WritableTxnMarkerTopic| WritableTxnMarkerTopicResult {
        name: topic.name,
        partitions: topic
            .partition_indexes
            .iter()
            .map(|partition| WritableTxnMarkerPartitionResult {
                partition_index: *partition,
                error_code: CODE,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    };
    let markers = request.markers.into_iter().map(|marker| WritableTxnMarkerResult {
        producer_id: marker.producer_id,
        topics: marker.topics.into_iter().map(topic).collect(),
        ..Default::default()
    });
    Some(WriteTxnMarkersResponse {
        markers: markers.collect(),
        ..Default::default()
    })
}

pub(super) fn describe_transactions(request: DescribeTransactionsRequest) -> Option<DescribeTransactionsResponse> {
    let ids = request.transactional_ids.into_iter();
    let states = ids.map(|transactional_id| describe_transactions_response::TransactionState {
        transactional_id,
        error_code: CODE,
        ..Default::default()
    });
    Some(DescribeTransactionsResponse {
        transaction_states: states.collect(),
        ..Default::default()
    })
}
