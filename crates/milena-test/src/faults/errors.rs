//! Errors in the form of each API: at the top where Kafka has them there, else for each thing that was asked for.

use milena_wire::{errors::ErrorCode, message::Request, messages::*};

/// A request that can be answered with an error. One that is missing here has no place for it in its answer, or no client
/// of ours sends it; [`answer_with`](crate::FaultsOn::answer_with) makes any answer.
pub trait AnswersErrors: Request<Response: Default> {
    /// Whether the broker may see it first, because it changes nothing there.
    const IS_QUESTION: bool = false;

    /// Makes an answer the error. It is the broker's own answer to a question, else an empty one.
    fn fail(&self, code: ErrorCode, response: &mut Self::Response);
}

/// Errors that stand above all partitions of a fetch.
const SESSION_ERRORS: [ErrorCode; 3] = [
    ErrorCode::FetchSessionIdNotFound,
    ErrorCode::InvalidFetchSessionEpoch,
    ErrorCode::FetchSessionTopicIdError,
];

impl AnswersErrors for FetchRequest {
    const IS_QUESTION: bool = true;

    fn fail(&self, code: ErrorCode, response: &mut FetchResponse) {
        response.responses.clear();
        if SESSION_ERRORS.contains(&code) {
            response.error_code = code.code();
            response.session_id = 0;
            return;
        }
        let failed = |partition: &fetch_request::FetchPartition| fetch_response::PartitionData {
            partition_index: partition.partition,
            error_code: code.code(),
            high_watermark: -1,
            last_stable_offset: -1,
            records: Some(bytes::Bytes::new()),
            ..Default::default()
        };
        let topics = self.topics.iter().map(|topic| fetch_response::FetchableTopicResponse {
            topic: topic.topic.clone(),
            topic_id: topic.topic_id,
            partitions: topic.partitions.iter().map(failed).collect(),
            ..Default::default()
        });
        response.responses = topics.collect();
    }
}

impl AnswersErrors for ListOffsetsRequest {
    const IS_QUESTION: bool = true;

    fn fail(&self, code: ErrorCode, response: &mut ListOffsetsResponse) {
        for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            *partition = list_offsets_response::ListOffsetsPartitionResponse {
                partition_index: partition.partition_index,
                error_code: code.code(),
                timestamp: -1,
                offset: -1,
                ..Default::default()
            };
        }
    }
}

impl AnswersErrors for OffsetForLeaderEpochRequest {
    const IS_QUESTION: bool = true;

    fn fail(&self, code: ErrorCode, response: &mut OffsetForLeaderEpochResponse) {
        for partition in response.topics.iter_mut().flat_map(|topic| &mut topic.partitions) {
            *partition = offset_for_leader_epoch_response::EpochEndOffset {
                partition: partition.partition,
                error_code: code.code(),
                ..Default::default()
            };
        }
    }
}

impl AnswersErrors for MetadataRequest {
    const IS_QUESTION: bool = true;

    fn fail(&self, code: ErrorCode, response: &mut MetadataResponse) {
        if code == ErrorCode::RebootstrapRequired {
            response.error_code = code.code();
        }
        for topic in &mut response.topics {
            topic.error_code = code.code();
            topic.partitions.clear();
        }
    }
}

impl AnswersErrors for FindCoordinatorRequest {
    const IS_QUESTION: bool = true;

    fn fail(&self, code: ErrorCode, response: &mut FindCoordinatorResponse) {
        if response.coordinators.is_empty() {
            // Before version 4 there was one coordinator in an answer, and no list of them.
            response.error_code = code.code();
            response.node_id = -1;
            response.host = "".into();
            response.port = -1;
        }
        for coordinator in &mut response.coordinators {
            *coordinator = find_coordinator_response::Coordinator {
                key: coordinator.key.clone(),
                node_id: -1,
                port: -1,
                error_code: code.code(),
                ..Default::default()
            };
        }
    }
}

impl AnswersErrors for OffsetFetchRequest {
    const IS_QUESTION: bool = true;

    fn fail(&self, code: ErrorCode, response: &mut OffsetFetchResponse) {
        if response.groups.is_empty() {
            // Before version 8 there was one group in an answer, and no list of them.
            response.error_code = code.code();
            response.topics.clear();
        }
        for group in &mut response.groups {
            group.error_code = code.code();
            group.topics.clear();
        }
    }
}

impl AnswersErrors for ProduceRequest {
    fn fail(&self, code: ErrorCode, response: &mut ProduceResponse) {
        let failed = |partition: &produce_request::PartitionProduceData| produce_response::PartitionProduceResponse {
            index: partition.index,
            error_code: code.code(),
            base_offset: -1,
            ..Default::default()
        };
        let topics = self
            .topic_data
            .iter()
            .map(|topic| produce_response::TopicProduceResponse {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partition_responses: topic.partition_data.iter().map(failed).collect(),
                ..Default::default()
            });
        response.responses = topics.collect();
    }
}

impl AnswersErrors for OffsetCommitRequest {
    fn fail(&self, code: ErrorCode, response: &mut OffsetCommitResponse) {
        use offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic};
        let topics = self.topics.iter().map(|topic| {
            let failed = topic.partitions.iter().map(|partition| OffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: code.code(),
                ..Default::default()
            });
            OffsetCommitResponseTopic {
                name: topic.name.clone(),
                topic_id: topic.topic_id,
                partitions: failed.collect(),
                ..Default::default()
            }
        });
        response.topics = topics.collect();
    }
}

impl AnswersErrors for TxnOffsetCommitRequest {
    fn fail(&self, code: ErrorCode, response: &mut TxnOffsetCommitResponse) {
        use txn_offset_commit_response::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic};
        let topics = self.topics.iter().map(|topic| {
            let failed = topic
                .partitions
                .iter()
                .map(|partition| TxnOffsetCommitResponsePartition {
                    partition_index: partition.partition_index,
                    error_code: code.code(),
                    ..Default::default()
                });
            TxnOffsetCommitResponseTopic {
                name: topic.name.clone(),
                partitions: failed.collect(),
                ..Default::default()
            }
        });
        response.topics = topics.collect();
    }
}

impl AnswersErrors for JoinGroupRequest {
    fn fail(&self, code: ErrorCode, response: &mut JoinGroupResponse) {
        response.error_code = code.code();
        response.generation_id = -1;
        // Before version 7 it could not be absent.
        response.protocol_name = Some("".into());
        response.member_id = self.member_id.clone();
    }
}

impl AnswersErrors for InitProducerIdRequest {
    fn fail(&self, code: ErrorCode, response: &mut InitProducerIdResponse) {
        response.error_code = code.code();
        response.producer_id = -1;
        response.producer_epoch = -1;
    }
}

/// Answers with one error, at the top.
macro_rules! errors_at_the_top {
    ($($request:ident)*) => {
        $(impl AnswersErrors for $request {
            fn fail(&self, code: ErrorCode, response: &mut Self::Response) {
                response.error_code = code.code();
            }
        })*
    };
}

errors_at_the_top! {
    AddOffsetsToTxnRequest
    ConsumerGroupHeartbeatRequest
    EndTxnRequest
    HeartbeatRequest
    LeaveGroupRequest
    SyncGroupRequest
}
