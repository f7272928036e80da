//! Error responses of the APIs about records, offsets and topics.

use bytes::Bytes;

use super::rows;
use crate::{api::versions, errors::ErrorCode, messages::*};

pub(crate) fn produce(request: &ProduceRequest, _: i16, error: ErrorCode) -> Option<ProduceResponse> {
    use produce_response::{PartitionProduceResponse, TopicProduceResponse};
    if request.acks == 0 {
        // The client reads no response; only the end of the connection can report an error.
        return None;
    }
    let partition = |partition: &produce_request::PartitionProduceData| PartitionProduceResponse {
        index: partition.index,
        error_code: error.code(),
        base_offset: -1,
        ..Default::default()
    };
    let topic = |topic: &produce_request::TopicProduceData| TopicProduceResponse {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partition_responses: rows(&topic.partition_data, partition),
        ..Default::default()
    };
    Some(ProduceResponse {
        responses: rows(&request.topic_data, topic),
        ..Default::default()
    })
}

/// Has the error in each row too: before version 7 there is no other place for it.
pub(crate) fn fetch(request: &FetchRequest, _: i16, error: ErrorCode) -> Option<FetchResponse> {
    use fetch_response::{FetchableTopicResponse, PartitionData};
    let partition = |partition: &fetch_request::FetchPartition| PartitionData {
        partition_index: partition.partition,
        error_code: error.code(),
        high_watermark: -1,
        // librdkafka takes null for a damaged set of messages.
        records: Some(Bytes::new()),
        ..Default::default()
    };
    let topic = |topic: &fetch_request::FetchTopic| FetchableTopicResponse {
        topic: topic.topic.clone(),
        topic_id: topic.topic_id,
        partitions: rows(&topic.partitions, partition),
        ..Default::default()
    };
    Some(FetchResponse {
        error_code: error.code(),
        responses: rows(&request.topics, topic),
        ..Default::default()
    })
}

pub(crate) fn list_offsets(request: &ListOffsetsRequest, _: i16, error: ErrorCode) -> Option<ListOffsetsResponse> {
    use list_offsets_response::{ListOffsetsPartitionResponse, ListOffsetsTopicResponse};
    let partition = |partition: &list_offsets_request::ListOffsetsPartition| ListOffsetsPartitionResponse {
        partition_index: partition.partition_index,
        error_code: error.code(),
        timestamp: -1,
        offset: -1,
        ..Default::default()
    };
    let topic = |topic: &list_offsets_request::ListOffsetsTopic| ListOffsetsTopicResponse {
        name: topic.name.clone(),
        partitions: rows(&topic.partitions, partition),
        ..Default::default()
    };
    Some(ListOffsetsResponse {
        topics: rows(&request.topics, topic),
        ..Default::default()
    })
}

pub(crate) fn metadata(request: &MetadataRequest, version: i16, error: ErrorCode) -> Option<MetadataResponse> {
    if request.topics.is_none() && version < versions::metadata::ERROR {
        // The client requested all topics: without a row it would read that there are none.
        return None;
    }
    let topic = |topic: &metadata_request::MetadataRequestTopic| metadata_response::MetadataResponseTopic {
        error_code: error.code(),
        // Before version 12 a topic always has a name.
        name: Some(topic.name.clone().unwrap_or_default()),
        topic_id: topic.topic_id,
        ..Default::default()
    };
    Some(MetadataResponse {
        topics: rows(request.topics.as_deref().unwrap_or_default(), topic),
        error_code: error.code(),
        ..Default::default()
    })
}

pub(crate) fn describe_topic_partitions(
    request: &DescribeTopicPartitionsRequest,
    _: i16,
    error: ErrorCode,
) -> Option<DescribeTopicPartitionsResponse> {
    use describe_topic_partitions_response::DescribeTopicPartitionsResponseTopic;
    if request.topics.is_empty() {
        // The client requested all topics: without a row it would read that there are none.
        return None;
    }
    let topic = |topic: &describe_topic_partitions_request::TopicRequest| DescribeTopicPartitionsResponseTopic {
        name: Some(topic.name.clone()),
        error_code: error.code(),
        ..Default::default()
    };
    Some(DescribeTopicPartitionsResponse {
        topics: rows(&request.topics, topic),
        ..Default::default()
    })
}

pub(crate) fn offset_for_leader_epoch(
    request: &OffsetForLeaderEpochRequest,
    _: i16,
    error: ErrorCode,
) -> Option<OffsetForLeaderEpochResponse> {
    use offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
    let partition = |partition: &offset_for_leader_epoch_request::OffsetForLeaderPartition| EpochEndOffset {
        partition: partition.partition,
        error_code: error.code(),
        ..Default::default()
    };
    let topic = |topic: &offset_for_leader_epoch_request::OffsetForLeaderTopic| OffsetForLeaderTopicResult {
        topic: topic.topic.clone(),
        partitions: rows(&topic.partitions, partition),
        ..Default::default()
    };
    Some(OffsetForLeaderEpochResponse {
        topics: rows(&request.topics, topic),
        ..Default::default()
    })
}

pub(crate) fn delete_records(
    request: &DeleteRecordsRequest,
    _: i16,
    error: ErrorCode,
) -> Option<DeleteRecordsResponse> {
    use delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
    let partition = |partition: &delete_records_request::DeleteRecordsPartition| DeleteRecordsPartitionResult {
        partition_index: partition.partition_index,
        low_watermark: -1,
        error_code: error.code(),
        ..Default::default()
    };
    let topic = |topic: &delete_records_request::DeleteRecordsTopic| DeleteRecordsTopicResult {
        name: topic.name.clone(),
        partitions: rows(&topic.partitions, partition),
        ..Default::default()
    };
    Some(DeleteRecordsResponse {
        topics: rows(&request.topics, topic),
        ..Default::default()
    })
}

pub(crate) fn describe_producers(
    request: &DescribeProducersRequest,
    _: i16,
    error: ErrorCode,
) -> Option<DescribeProducersResponse> {
    use describe_producers_response::{PartitionResponse, TopicResponse};
    let partition = |index: &i32| PartitionResponse {
        partition_index: *index,
        error_code: error.code(),
        ..Default::default()
    };
    let topic = |topic: &describe_producers_request::TopicRequest| TopicResponse {
        name: topic.name.clone(),
        partitions: rows(&topic.partition_indexes, partition),
        ..Default::default()
    };
    Some(DescribeProducersResponse {
        topics: rows(&request.topics, topic),
        ..Default::default()
    })
}
