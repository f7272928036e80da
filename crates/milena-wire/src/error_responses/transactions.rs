//! Error responses of the APIs about producers and their transactions.

use bytestring::ByteString;

use super::rows;
use crate::{api::versions, errors::ErrorCode, messages::*};

/// Unlike the default, the epoch is that of no producer.
pub(crate) fn init_producer_id(_: &InitProducerIdRequest, _: i16, error: ErrorCode) -> Option<InitProducerIdResponse> {
    Some(InitProducerIdResponse {
        error_code: error.code(),
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    })
}

pub(crate) fn add_partitions_to_txn(
    request: &AddPartitionsToTxnRequest,
    version: i16,
    error: ErrorCode,
) -> Option<AddPartitionsToTxnResponse> {
    use add_partitions_to_txn_response::{AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult};
    if version >= versions::add_partitions_to_txn::BATCHES {
        return Some(AddPartitionsToTxnResponse {
            error_code: error.code(),
            ..Default::default()
        });
    }
    let partition = |index: &i32| AddPartitionsToTxnPartitionResult {
        partition_index: *index,
        partition_error_code: error.code(),
        ..Default::default()
    };
    let topic = |topic: &add_partitions_to_txn_request::AddPartitionsToTxnTopic| AddPartitionsToTxnTopicResult {
        name: topic.name.clone(),
        results_by_partition: rows(&topic.partitions, partition),
        ..Default::default()
    };
    Some(AddPartitionsToTxnResponse {
        results_by_topic_v3_and_below: rows(&request.v3_and_below_topics, topic),
        ..Default::default()
    })
}

pub(crate) fn txn_offset_commit(
    request: &TxnOffsetCommitRequest,
    _: i16,
    error: ErrorCode,
) -> Option<TxnOffsetCommitResponse> {
    use txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic};
    use txn_offset_commit_response::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic};
    let partition = |partition: &TxnOffsetCommitRequestPartition| TxnOffsetCommitResponsePartition {
        partition_index: partition.partition_index,
        error_code: error.code(),
        ..Default::default()
    };
    let topic = |topic: &TxnOffsetCommitRequestTopic| TxnOffsetCommitResponseTopic {
        name: topic.name.clone(),
        partitions: rows(&topic.partitions, partition),
        ..Default::default()
    };
    Some(TxnOffsetCommitResponse {
        topics: rows(&request.topics, topic),
        ..Default::default()
    })
}

pub(crate) fn write_txn_markers(
    request: &WriteTxnMarkersRequest,
    _: i16,
    error: ErrorCode,
) -> Option<WriteTxnMarkersResponse> {
    use write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
    use write_txn_markers_response::{
        WritableTxnMarkerPartitionResult, WritableTxnMarkerResult, WritableTxnMarkerTopicResult,
    };
    let partition = |index: &i32| WritableTxnMarkerPartitionResult {
        partition_index: *index,
        error_code: error.code(),
        ..Default::default()
    };
    let topic = |topic: &WritableTxnMarkerTopic| WritableTxnMarkerTopicResult {
        name: topic.name.clone(),
        partitions: rows(&topic.partition_indexes, partition),
        ..Default::default()
    };
    let marker = |marker: &WritableTxnMarker| WritableTxnMarkerResult {
        producer_id: marker.producer_id,
        topics: rows(&marker.topics, topic),
        ..Default::default()
    };
    Some(WriteTxnMarkersResponse {
        markers: rows(&request.markers, marker),
        ..Default::default()
    })
}

pub(crate) fn describe_transactions(
    request: &DescribeTransactionsRequest,
    _: i16,
    error: ErrorCode,
) -> Option<DescribeTransactionsResponse> {
    let state = |transactional_id: &ByteString| describe_transactions_response::TransactionState {
        transactional_id: transactional_id.clone(),
        error_code: error.code(),
        ..Default::default()
    };
    Some(DescribeTransactionsResponse {
        transaction_states: rows(&request.transactional_ids, state),
        ..Default::default()
    })
}
