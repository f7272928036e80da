//! Partition reassignments.

use std::collections::BTreeMap;

use milena_machines::TopicPartition;
use milena_wire::messages::{
    AlterPartitionReassignmentsRequest, AlterPartitionReassignmentsResponse, ListPartitionReassignmentsRequest,
    ListPartitionReassignmentsResponse,
    alter_partition_reassignments_request::{ReassignablePartition, ReassignableTopic},
    list_partition_reassignments_request::ListPartitionReassignmentsTopics,
};

use super::{
    Admin, AdminError, Results,
    call::{AdminCall, CallContext},
    error::check,
    own,
    route::Route,
    topics_of,
};

/// A partition reassignment in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reassignment {
    /// All replicas, including those that are added and removed.
    pub replicas: Vec<i32>,
    /// Replicas that are being added.
    pub adding: Vec<i32>,
    /// Replicas that are being removed.
    pub removing: Vec<i32>,
}

impl Admin {
    /// Reassigns partitions to brokers, the preferred leader first; `None` cancels a reassignment. It runs in the
    /// background: [`list_reassignments`](Self::list_reassignments) returns its progress.
    pub async fn alter_reassignments(
        &self,
        partitions: impl IntoIterator<Item = (TopicPartition, Option<Vec<i32>>)>,
    ) -> Results<TopicPartition, ()> {
        let targets: BTreeMap<TopicPartition, Option<Vec<i32>>> = partitions.into_iter().collect();
        let keys: Vec<TopicPartition> = targets.keys().cloned().collect();
        let call = AdminCall::new(
            "partition",
            |_| Route::Controller,
            move |batch| AlterPartitionReassignmentsRequest {
                timeout_ms: batch.timeout_ms,
                allow_replication_factor_change: true,
                topics: reassignable(&batch.keys, &targets),
                ..Default::default()
            },
            |_: &CallContext<TopicPartition>, response: AlterPartitionReassignmentsResponse| {
                check(response.error_code, response.error_message.as_deref())?;
                let mut results = vec![];
                for topic in &response.responses {
                    let name = own(&topic.name);
                    for partition in &topic.partitions {
                        let outcome = check(partition.error_code, partition.error_message.as_deref());
                        results.push((TopicPartition::new(name.clone(), partition.partition_index), outcome));
                    }
                }
                Ok(results)
            },
        );
        self.call(call, keys).await
    }

    /// Returns the reassignments in progress of these partitions, or of all if none is named.
    pub async fn list_reassignments(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, Reassignment>, AdminError> {
        let partitions: Vec<TopicPartition> = partitions.into_iter().collect();
        let call = AdminCall::new(
            "",
            |_| Route::Controller,
            move |batch| {
                let topics = topics_of(&partitions).map(|(name, partition_indexes)| ListPartitionReassignmentsTopics {
                    name,
                    partition_indexes,
                    ..Default::default()
                });
                ListPartitionReassignmentsRequest {
                    timeout_ms: batch.timeout_ms,
                    topics: Some(topics.collect()).filter(|_| !partitions.is_empty()),
                    ..Default::default()
                }
            },
            |context: &CallContext<&str>, response: ListPartitionReassignmentsResponse| {
                check(response.error_code, response.error_message.as_deref())?;
                context.all(&ongoing(&response))
            },
        );
        self.call_one(call, "the list of reassignments").await
    }
}

fn reassignable(
    keys: &[TopicPartition],
    targets: &BTreeMap<TopicPartition, Option<Vec<i32>>>,
) -> Vec<ReassignableTopic> {
    let topics = topics_of(keys).map(|(name, numbers)| {
        let partition = |number: i32| ReassignablePartition {
            partition_index: number,
            replicas: targets
                .get(&TopicPartition::new(name.clone(), number))
                .cloned()
                .flatten(),
            ..Default::default()
        };
        ReassignableTopic {
            partitions: numbers.into_iter().map(partition).collect(),
            name: name.clone(),
            ..Default::default()
        }
    });
    topics.collect()
}

fn ongoing(response: &ListPartitionReassignmentsResponse) -> BTreeMap<TopicPartition, Reassignment> {
    let mut found = BTreeMap::new();
    for topic in &response.topics {
        let name = own(&topic.name);
        for partition in &topic.partitions {
            let reassignment = Reassignment {
                replicas: partition.replicas.clone(),
                adding: partition.adding_replicas.clone(),
                removing: partition.removing_replicas.clone(),
            };
            found.insert(
                TopicPartition::new(name.clone(), partition.partition_index),
                reassignment,
            );
        }
    }
    found
}
