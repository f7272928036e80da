//! Topics: created, deleted, listed and described.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    api::versions,
    errors::ErrorCode,
    messages::{
        CreatePartitionsRequest, CreateTopicsRequest, DeleteTopicsRequest, MetadataRequest, MetadataResponse,
        create_partitions_request::{CreatePartitionsAssignment, CreatePartitionsTopic},
        create_topics_request::{CreatableReplicaAssignment, CreatableTopic, CreatableTopicConfig},
        create_topics_response::CreatableTopicResult,
        delete_topics_request::DeleteTopicState,
        metadata_request::MetadataRequestTopic,
        metadata_response::MetadataResponseTopic,
    },
};

use super::{
    Admin, AdminError, ConfigEntry, CreatedTopic, NewPartitions, NewTopic, Results,
    call::{AdminCall, CallContext, ItemResults},
    configs::created_entry,
    error::{BrokerError, check},
    own,
    route::Route,
};
use crate::{
    consumer::{Node, PartitionInfo, TopicPartition},
    metadata::{MetadataCache, VERSION_MIN},
};

/// Not retried: callers expect the topic to exist.
const NO_SUCH_TOPIC: &[ErrorCode] = &[ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId];
/// Not retried: the request may have succeeded, and a retry would only fail.
const TIMED_OUT: &[ErrorCode] = &[
    ErrorCode::RequestTimedOut,
    ErrorCode::UnknownTopicOrPartition,
    ErrorCode::UnknownTopicId,
];

/// A topic in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicListing {
    /// `None` if the broker is too old to report it.
    pub id: Option<Uuid>,
    /// Whether the topic is internal to Kafka.
    pub internal: bool,
    pub partitions: usize,
    pub replication_factor: usize,
}

/// A topic and its partitions.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicDescription {
    pub name: ByteString,
    /// `None` if the broker is too old to report it.
    pub id: Option<Uuid>,
    /// Whether the topic is internal to Kafka.
    pub internal: bool,
    /// Sorted by index.
    pub partitions: Vec<PartitionInfo>,
}

impl Admin {
    /// Creates topics.
    pub async fn create_topics(&self, topics: impl IntoIterator<Item = NewTopic>) -> Results<ByteString, CreatedTopic> {
        self.create(topics, false).await
    }

    /// Validates the creation of topics without creating them.
    pub async fn validate_topics(
        &self,
        topics: impl IntoIterator<Item = NewTopic>,
    ) -> Results<ByteString, CreatedTopic> {
        self.create(topics, true).await
    }

    async fn create(
        &self,
        topics: impl IntoIterator<Item = NewTopic>,
        validate_only: bool,
    ) -> Results<ByteString, CreatedTopic> {
        let topics: BTreeMap<ByteString, NewTopic> =
            topics.into_iter().map(|topic| (topic.name.clone(), topic)).collect();
        let names: Vec<ByteString> = topics.keys().cloned().collect();
        let has_defaults = |topic: &NewTopic| {
            topic.assignment.is_empty() && (topic.partitions.is_none() || topic.replication_factor.is_none())
        };
        let version_min = match topics.values().any(has_defaults) {
            true => versions::create_topics::DEFAULTS,
            false if validate_only => versions::create_topics::VALIDATE_ONLY,
            false => 0,
        };
        let call = AdminCall::new(
            "topic",
            |_| Route::Controller,
            move |batch| CreateTopicsRequest {
                topics: batch
                    .keys
                    .iter()
                    .filter_map(|name| topics.get(name))
                    .map(creatable)
                    .collect(),
                timeout_ms: batch.timeout_ms,
                validate_only,
                ..Default::default()
            },
            |_, response| {
                Ok(response
                    .topics
                    .iter()
                    .map(|topic| (own(&topic.name), created(topic)))
                    .collect())
            },
        );
        self.call(call.version_min(version_min).finals(TIMED_OUT), names).await
    }

    /// Deletes topics by name, with all of their records.
    pub async fn delete_topics<N: Into<ByteString>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Results<ByteString, ()> {
        let call = AdminCall::new(
            "topic",
            |_| Route::Controller,
            |batch| {
                let by_state = batch.version >= versions::delete_topics::TOPIC_IDS;
                let state = |name: &ByteString| DeleteTopicState {
                    name: Some(name.clone()),
                    ..Default::default()
                };
                DeleteTopicsRequest {
                    topics: batch.keys.iter().filter(|_| by_state).map(state).collect(),
                    topic_names: batch.keys.iter().filter(|_| !by_state).cloned().collect(),
                    timeout_ms: batch.timeout_ms,
                    ..Default::default()
                }
            },
            |_, response| {
                let results = response.responses.iter().filter_map(|result| {
                    let outcome = check(result.error_code, result.error_message.as_deref());
                    Some((own(result.name.as_ref()?), outcome))
                });
                Ok(results.collect())
            },
        );
        self.call(call.finals(TIMED_OUT), names.into_iter().map(Into::into))
            .await
    }

    /// Deletes topics by id, so that a new topic of the same name is not affected.
    pub async fn delete_topics_by_id(&self, ids: impl IntoIterator<Item = Uuid>) -> Results<Uuid, ()> {
        let call = AdminCall::new(
            "topic with the id",
            |_| Route::Controller,
            |batch| {
                let state = |id: &Uuid| DeleteTopicState {
                    topic_id: *id,
                    ..Default::default()
                };
                DeleteTopicsRequest {
                    topics: batch.keys.iter().map(state).collect(),
                    timeout_ms: batch.timeout_ms,
                    ..Default::default()
                }
            },
            |_, response| {
                let results = response.responses.iter().map(|result| {
                    let outcome = check(result.error_code, result.error_message.as_deref());
                    (result.topic_id, outcome)
                });
                Ok(results.collect())
            },
        );
        self.call(
            call.version_min(versions::delete_topics::TOPIC_IDS).finals(TIMED_OUT),
            ids,
        )
        .await
    }

    /// Adds partitions to topics. Existing records stay in their partitions.
    pub async fn create_partitions<N: Into<ByteString>>(
        &self,
        topics: impl IntoIterator<Item = (N, NewPartitions)>,
    ) -> Results<ByteString, ()> {
        self.add_partitions(topics, false).await
    }

    /// Validates new partitions without adding them.
    pub async fn validate_partitions<N: Into<ByteString>>(
        &self,
        topics: impl IntoIterator<Item = (N, NewPartitions)>,
    ) -> Results<ByteString, ()> {
        self.add_partitions(topics, true).await
    }

    async fn add_partitions<N: Into<ByteString>>(
        &self,
        topics: impl IntoIterator<Item = (N, NewPartitions)>,
        validate_only: bool,
    ) -> Results<ByteString, ()> {
        let topics = topics.into_iter().map(|(name, partitions)| (name.into(), partitions));
        let topics: BTreeMap<ByteString, NewPartitions> = topics.collect();
        let names: Vec<ByteString> = topics.keys().cloned().collect();
        let growing = |name: &ByteString, new: &NewPartitions| CreatePartitionsTopic {
            name: name.clone(),
            count: new.total,
            assignments: new.assignment.as_ref().map(|assignment| {
                let brokers = |ids: &Vec<i32>| CreatePartitionsAssignment {
                    broker_ids: ids.clone(),
                    ..Default::default()
                };
                assignment.iter().map(brokers).collect()
            }),
            ..Default::default()
        };
        let call = AdminCall::new(
            "topic",
            |_| Route::Controller,
            move |batch| CreatePartitionsRequest {
                topics: batch
                    .keys
                    .iter()
                    .filter_map(|name| Some(growing(name, topics.get(name)?)))
                    .collect(),
                timeout_ms: batch.timeout_ms,
                validate_only,
                ..Default::default()
            },
            |_, response| {
                let results = response.results.iter().map(|result| {
                    let outcome = check(result.error_code, result.error_message.as_deref());
                    (own(&result.name), outcome)
                });
                Ok(results.collect())
            },
        );
        self.call(call.finals(TIMED_OUT), names).await
    }

    /// Returns all visible topics, including internal ones.
    pub async fn list_topics(&self) -> Result<BTreeMap<ByteString, TopicListing>, AdminError> {
        let call = AdminCall::new(
            "",
            |_| Route::Any,
            |_| MetadataRequest {
                topics: None,
                allow_auto_topic_creation: false,
                ..Default::default()
            },
            |context: &CallContext<&str>, response: MetadataResponse| {
                let topics = response.topics.iter().filter(|topic| topic.error_code == 0);
                let topics = topics.filter_map(|topic| Some((own(topic.name.as_ref()?), listing(topic))));
                let topics: BTreeMap<_, _> = topics.collect();
                context.all(&topics)
            },
        );
        self.call_one(call.version_min(VERSION_MIN), "the list of topics").await
    }

    /// Returns topics with their partitions, by name.
    pub async fn describe_topics<N: Into<ByteString>>(
        &self,
        names: impl IntoIterator<Item = N>,
    ) -> Results<ByteString, TopicDescription> {
        let call = AdminCall::new(
            "topic",
            |_| Route::Any,
            |batch| MetadataRequest {
                topics: Some(batch.keys.iter().map(by_name).collect()),
                allow_auto_topic_creation: false,
                ..Default::default()
            },
            |context, response| describe(&response, context.version, |topic| topic.name.as_ref().map(own)),
        );
        self.call(
            call.version_min(VERSION_MIN).finals(NO_SUCH_TOPIC),
            names.into_iter().map(Into::into),
        )
        .await
    }

    /// Returns topics with their partitions, by id.
    pub async fn describe_topics_by_id(&self, ids: impl IntoIterator<Item = Uuid>) -> Results<Uuid, TopicDescription> {
        let by_id = |id: &Uuid| MetadataRequestTopic {
            topic_id: *id,
            ..Default::default()
        };
        let call = AdminCall::new(
            "topic with the id",
            |_| Route::Any,
            move |batch| MetadataRequest {
                topics: Some(batch.keys.iter().map(by_id).collect()),
                allow_auto_topic_creation: false,
                ..Default::default()
            },
            |context, response| describe(&response, context.version, |topic| Some(topic.topic_id)),
        );
        self.call(
            call.version_min(versions::metadata::TOPIC_IDS).finals(NO_SUCH_TOPIC),
            ids,
        )
        .await
    }
}

fn creatable(topic: &NewTopic) -> CreatableTopic {
    let by_hand = !topic.assignment.is_empty();
    let assignments = topic
        .assignment
        .iter()
        .zip(0..)
        .map(|(brokers, partition_index)| CreatableReplicaAssignment {
            partition_index,
            broker_ids: brokers.clone(),
            ..Default::default()
        });
    let configs = topic.configs.iter().map(|(name, value)| CreatableTopicConfig {
        name: name.clone(),
        value: Some(value.clone()),
        ..Default::default()
    });
    CreatableTopic {
        name: topic.name.clone(),
        // -1 means the broker's default, or the number in the assignment.
        num_partitions: topic.partitions.filter(|_| !by_hand).unwrap_or(-1),
        replication_factor: topic.replication_factor.filter(|_| !by_hand).unwrap_or(-1),
        assignments: assignments.collect(),
        configs: configs.collect(),
        ..Default::default()
    }
}

fn created(topic: &CreatableTopicResult) -> Result<CreatedTopic, BrokerError> {
    check(topic.error_code, topic.error_message.as_deref())?;
    let configs: Vec<ConfigEntry> = topic.configs.iter().flatten().map(created_entry).collect();
    Ok(CreatedTopic {
        id: Some(topic.topic_id).filter(|id| !id.is_zero()),
        partitions: Some(topic.num_partitions).filter(|count| *count >= 0),
        replication_factor: Some(topic.replication_factor).filter(|count| *count >= 0),
        configs,
    })
}

fn listing(topic: &MetadataResponseTopic) -> TopicListing {
    let replicas = topic.partitions.iter().map(|partition| partition.replica_nodes.len());
    TopicListing {
        id: Some(topic.topic_id).filter(|id| !id.is_zero()),
        internal: topic.is_internal,
        partitions: topic.partitions.len(),
        replication_factor: replicas.max().unwrap_or_default(),
    }
}

fn by_name(name: &ByteString) -> MetadataRequestTopic {
    MetadataRequestTopic {
        name: Some(name.clone()),
        ..Default::default()
    }
}

/// The result of each topic in a response, by the key in the request.
fn describe<K>(
    response: &MetadataResponse,
    version: i16,
    key: impl Fn(&MetadataResponseTopic) -> Option<K>,
) -> ItemResults<K, TopicDescription> {
    let cluster = MetadataCache::of(response, version);
    let described = response.topics.iter().filter_map(|topic| {
        let key = key(topic)?;
        if let Err(error) = check(topic.error_code, None) {
            return Some((key, Err(error)));
        }
        let name = own(topic.name.as_ref()?);
        let description = TopicDescription {
            partitions: partitions(&cluster, topic, &name),
            name,
            id: Some(topic.topic_id).filter(|id| !id.is_zero()),
            internal: topic.is_internal,
        };
        Some((key, Ok(description)))
    });
    Ok(described.collect())
}

fn partitions(cluster: &MetadataCache, topic: &MetadataResponseTopic, name: &ByteString) -> Vec<PartitionInfo> {
    let partitions = topic.partitions.iter().map(|partition| PartitionInfo {
        partition: TopicPartition::new(name.clone(), partition.partition_index),
        leader: cluster.broker(partition.leader_id).map(Node::from),
        replicas: partition.replica_nodes.clone(),
        isr: partition.isr_nodes.clone(),
        offline: partition.offline_replicas.clone(),
    });
    let mut partitions: Vec<PartitionInfo> = partitions.collect();
    partitions.sort_unstable_by_key(|info| info.partition.partition);
    partitions
}
