//! Active producers of partitions.

use milena_machines::TopicPartition;
use milena_wire::messages::{
    DescribeProducersRequest,
    describe_producers_request::TopicRequest,
    describe_producers_response::{self as wire, DescribeProducersResponse},
};

use super::{
    Admin, Results,
    call::{AdminCall, CallContext},
    error::check,
    own,
    route::Route,
    topics_of,
};

/// The state of an idempotent producer in a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducerState {
    pub producer_id: i64,
    pub producer_epoch: i32,
    /// The sequence of its last record.
    pub last_sequence: i32,
    /// The timestamp of its last record, in milliseconds since the epoch.
    pub last_timestamp: i64,
    /// The epoch of the coordinator that ended its last transaction; `None` if there was none.
    pub coordinator_epoch: Option<i32>,
    /// The first offset of its open transaction.
    pub transaction_start_offset: Option<i64>,
}

impl Admin {
    /// Returns the active producers of partitions.
    pub async fn describe_producers(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Results<TopicPartition, Vec<ProducerState>> {
        let call = AdminCall::new(
            "producers of",
            |partition: &TopicPartition| Route::Leader(partition.clone()),
            |batch| {
                let topics = topics_of(&batch.keys).map(|(name, partition_indexes)| TopicRequest {
                    name,
                    partition_indexes,
                    ..Default::default()
                });
                DescribeProducersRequest {
                    topics: topics.collect(),
                    ..Default::default()
                }
            },
            |_: &CallContext<TopicPartition>, response: DescribeProducersResponse| {
                let mut results = vec![];
                for topic in &response.topics {
                    let name = own(&topic.name);
                    for partition in &topic.partitions {
                        let outcome = check(partition.error_code, partition.error_message.as_deref());
                        let producers: Vec<ProducerState> = partition.active_producers.iter().map(producer).collect();
                        let key = TopicPartition::new(name.clone(), partition.partition_index);
                        results.push((key, outcome.map(|()| producers)));
                    }
                }
                Ok(results)
            },
        );
        self.call(call, partitions).await
    }
}

fn producer(state: &wire::ProducerState) -> ProducerState {
    ProducerState {
        producer_id: state.producer_id,
        producer_epoch: state.producer_epoch,
        last_sequence: state.last_sequence,
        last_timestamp: state.last_timestamp,
        coordinator_epoch: Some(state.coordinator_epoch).filter(|epoch| *epoch >= 0),
        transaction_start_offset: Some(state.current_txn_start_offset).filter(|offset| *offset >= 0),
    }
}
