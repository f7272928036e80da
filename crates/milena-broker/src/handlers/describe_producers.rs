//! DescribeProducers 0.

use milena_machines::authorizer::Operation;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        DescribeProducersRequest, DescribeProducersResponse,
        describe_producers_response::{PartitionResponse, ProducerState, TopicResponse},
    },
};

use super::common::{Outcome, RequestContext};
use crate::partition::Partition;

pub(super) fn handle(cx: &RequestContext<'_>, request: DescribeProducersRequest) -> Outcome<DescribeProducersResponse> {
    let node = cx.node;
    let topics = request.topics.into_iter().map(|requested| {
        let is_allowed = cx.authorize_topic(Operation::Read, &requested.name);
        let topic = node.topics().by_name(&requested.name).cloned();
        let partitions = requested.partition_indexes.iter().map(|index| {
            let partition = topic.as_ref().and_then(|topic| topic.partition(*index));
            match partition {
                _ if !is_allowed => PartitionResponse {
                    partition_index: *index,
                    error_code: ErrorCode::TopicAuthorizationFailed.code(),
                    error_message: Some("the client may not read the topic".into()),
                    ..Default::default()
                },
                Some(partition) => describe(partition),
                None => PartitionResponse {
                    partition_index: *index,
                    error_code: ErrorCode::UnknownTopicOrPartition.code(),
                    error_message: Some(format!("there is no partition {index} of {}", requested.name).into()),
                    ..Default::default()
                },
            }
        });
        TopicResponse {
            partitions: partitions.collect(),
            name: requested.name.clone(),
            ..Default::default()
        }
    });
    Outcome::Ready(DescribeProducersResponse {
        topics: topics.collect(),
        ..Default::default()
    })
}

fn describe(partition: &Partition) -> PartitionResponse {
    if let Err(error) = partition.log.check_online() {
        return PartitionResponse {
            partition_index: partition.index,
            error_code: error.error_code().code(),
            error_message: Some(error.to_string().into()),
            ..Default::default()
        };
    }
    let producers = partition.log.producers();
    let active_producers = producers.iter().map(|(producer_id, producer)| ProducerState {
        producer_id,
        producer_epoch: i32::from(producer.epoch),
        last_sequence: producer.last_sequence().unwrap_or(-1),
        last_timestamp: producer.last_timestamp,
        coordinator_epoch: producer.coordinator_epoch,
        current_txn_start_offset: producer.transaction_start.unwrap_or(-1),
        ..Default::default()
    });
    PartitionResponse {
        partition_index: partition.index,
        active_producers: active_producers.collect(),
        ..Default::default()
    }
}
