//! The error in answers about records and where they are.

use milena_wire::{errors::ErrorCode, messages::*};

use super::CODE;
use crate::handlers::fetch;

pub(super) fn produce(request: ProduceRequest) -> Option<ProduceResponse> {
    if request.acks == 0 {
        // Who wants no answer can only be told by the end of the connection.
        return None;
    }
    let topics = request
        .topic_data
        .into_iter()
        .map(|topic| produce_response::TopicProduceResponse {
            name: topic.name,
            topic_id: topic.topic_id,
            partition_responses: topic
                .partition_data
                .iter()
                .map(|partition| produce_response::PartitionProduceResponse {
                    index: partition.index,
                    error_code: CODE,
                    base_offset: -1,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        });
    Some(ProduceResponse {
        responses: topics.collect(),
        ..Default::default()
    })
}

pub(super) fn fetch(request: FetchRequest) -> Option<FetchResponse> {
    let topics = request
        .topics
        .into_iter()
        .map(|topic| fetch_response::FetchableTopicResponse {
            topic: topic.topic,
            topic_id: topic.topic_id,
            partitions: topic
                .partitions
                .iter()
                .map(|partition| fetch::failed(partition.partition, ErrorCode::UnknownServerError))
                .collect(),
            ..Default::default()
        });
    Some(FetchResponse {
        error_code: CODE,
        responses: topics.collect(),
        ..Default::default()
    })
}

pub(super) fn list_offsets(request: ListOffsetsRequest) -> Option<ListOffsetsResponse> {
    let topics = request
        .topics
        .into_iter()
        .map(|topic| list_offsets_response::ListOffsetsTopicResponse {
            name: topic.name,
            partitions: topic
                .partitions
                .iter()
                .map(|partition| list_offsets_response::ListOffsetsPartitionResponse {
                    partition_index: partition.partition_index,
                    error_code: CODE,
                    timestamp: -1,
                    offset: -1,
                    ..Default::default()
                })
                .collect(),
            ..Default::default()
        });
    Some(ListOffsetsResponse {
        topics: topics.collect(),
        ..Default::default()
    })
}

/// The first version of Metadata that has a place for an error at the top.
const METADATA_ERROR_SINCE: i16 = 13;

pub(super) fn metadata(version: i16, request: MetadataRequest) -> Option<MetadataResponse> {
    if request.topics.is_none() && version < METADATA_ERROR_SINCE {
        // Who asked for all topics would believe that there is none.
        return None;
    }
    let topics = request.topics.unwrap_or_default().into_iter();
    Some(MetadataResponse {
        topics: topics
            .map(|topic| metadata_response::MetadataResponseTopic {
                error_code: CODE,
                // Before version 12 there is no topic without a name.
                name: Some(topic.name.unwrap_or_default()),
                topic_id: topic.topic_id,
                ..Default::default()
            })
            .collect(),
        error_code: CODE,
        ..Default::default()
    })
}

pub(super) fn describe_topic_partitions(
    request: DescribeTopicPartitionsRequest,
) -> Option<DescribeTopicPartitionsResponse> {
    if request.topics.is_empty() {
        // Who asked for all topics would believe that there is none.
        return None;
    }
    let topics = request.topics.into_iter().map(|topic| {
        describe_topic_partitions_response::DescribeTopicPartitionsResponseTopic {
            name: Some(topic.name),
            error_code: CODE,
            ..Default::default()
        }
    });
    Some(DescribeTopicPartitionsResponse {
        topics: topics.collect(),
        ..Default::default()
    })
}

pub(super) fn offset_for_leader_epoch(request: OffsetForLeaderEpochRequest) -> Option<OffsetForLeaderEpochResponse> {
    use offset_for_leader_epoch_response::{EpochEndOffset, OffsetForLeaderTopicResult};
    let topics = request.topics.into_iter().map(|topic| OffsetForLeaderTopicResult {
        topic: topic.topic,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| EpochEndOffset {
                partition: partition.partition,
                error_code: CODE,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    Some(OffsetForLeaderEpochResponse {
        topics: topics.collect(),
        ..Default::default()
    })
}

pub(super) fn delete_records(request: DeleteRecordsRequest) -> Option<DeleteRecordsResponse> {
    use delete_records_response::{DeleteRecordsPartitionResult, DeleteRecordsTopicResult};
    let topics = request.topics.into_iter().map(|topic| DeleteRecordsTopicResult {
        name: topic.name,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| DeleteRecordsPartitionResult {
                partition_index: partition.partition_index,
                low_watermark: -1,
                error_code: CODE,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    Some(DeleteRecordsResponse {
        topics: topics.collect(),
        ..Default::default()
    })
}

pub(super) fn describe_producers(request: DescribeProducersRequest) -> Option<DescribeProducersResponse> {
    use describe_producers_response::{PartitionResponse, TopicResponse};
    let topics = request.topics.into_iter().map(|topic| TopicResponse {
        name: topic.name,
        partitions: topic
            .partition_indexes
            .iter()
            .map(|partition| PartitionResponse {
                partition_index: *partition,
                error_code: CODE,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    Some(DescribeProducersResponse {
        topics: topics.collect(),
        ..Default::default()
    })
}
