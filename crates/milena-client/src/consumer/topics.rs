//! Topic queries of the application.

use std::{collections::BTreeMap, fmt, sync::Arc};

use bytestring::ByteString;
use milena_machines::TopicPartition;
use milena_wire::{
    errors::ErrorCode,
    messages::{MetadataRequest, metadata_request::MetadataRequestTopic},
};
use tokio::sync::oneshot;

use super::{error::TopicsError, rebalance_consumer::RebalanceConsumer, shared::ConsumerShared};
use crate::{
    io,
    metadata::{Broker, MetadataCache, Topic, VERSION_MIN},
    net::{CallError, SendOptions},
};

/// A broker of the cluster.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Node {
    pub id: i32,
    pub host: ByteString,
    pub port: u16,
    pub rack: Option<ByteString>,
}

/// A partition of a topic with its replicas.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionInfo {
    pub partition: TopicPartition,
    /// `None` if the partition has no leader now.
    pub leader: Option<Node>,
    /// The ids of all replicas, the preferred leader first.
    pub replicas: Vec<i32>,
    /// The in-sync replicas.
    pub isr: Vec<i32>,
    /// The replicas that are offline.
    pub offline: Vec<i32>,
}

impl RebalanceConsumer {
    /// Returns the partitions of a topic; empty if it does not exist. It need not be subscribed to.
    ///
    /// Cached metadata is used if it has the topic. With `allow.auto.create.topics` the query may create the topic. It
    /// times out after `default.api.timeout.ms`; dropping the future has no effect.
    pub async fn partitions_for(&mut self, topic: &str) -> Result<Vec<PartitionInfo>, TopicsError> {
        let known = self.shared.metadata.cache();
        if let Some(topic) = known.topic(topic).filter(|topic| !topic.partitions.is_empty()) {
            return Ok(partitions(&known, topic));
        }
        let request = MetadataRequest {
            topics: Some(vec![MetadataRequestTopic {
                name: Some(topic.into()),
                ..Default::default()
            }]),
            allow_auto_topic_creation: self.shared.config.allow_auto_create_topics,
            ..Default::default()
        };
        let cluster = self.shared.request_metadata(&request).await?;
        let found = cluster.topic(topic);
        Ok(found.map_or_else(Vec::new, |topic| partitions(&cluster, topic)))
    }

    /// Returns all visible topics with their partitions, including internal ones.
    pub async fn list_topics(&mut self) -> Result<BTreeMap<ByteString, Vec<PartitionInfo>>, TopicsError> {
        let request = MetadataRequest {
            topics: None,
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        let cluster = self.shared.request_metadata(&request).await?;
        let topics = cluster.topics();
        Ok(topics
            .map(|topic| (topic.name.clone(), partitions(&cluster, topic)))
            .collect())
    }
}

impl ConsumerShared {
    /// Requests metadata from any broker, with retries until the timeout. The selection of the cache does not change.
    async fn request_metadata(self: &Arc<Self>, request: &MetadataRequest) -> Result<MetadataCache, TopicsError> {
        let timeout_ms = self.config.default_api_timeout_ms;
        let deadline_ms = io::now_ms().saturating_add(i64::from(timeout_ms));
        let mut cause = String::new();
        loop {
            let left_ms = deadline_ms.saturating_sub(io::now_ms());
            match self.request_metadata_once(request, left_ms).await {
                Ok(cluster) => match first_topic_error(&cluster) {
                    None => return Ok(cluster),
                    Some((topic, code)) if code.is_retriable() => cause = format!("{topic}: {code}"),
                    Some((topic, code)) => return Err(TopicsError::Topic { topic, code }),
                },
                Err(CallError::Closed) => return Err(TopicsError::Closed),
                Err(CallError::Authentication(error)) => return Err(TopicsError::Authentication(*error)),
                // The last attempt may have had little time; the error before it says more.
                Err(CallError::TimedOut { .. }) if !cause.is_empty() => {}
                Err(error) if error.is_retriable() => cause = error.to_string(),
                Err(error) => return Err(TopicsError::Connection(error.to_string())),
            }
            let now_ms = io::now_ms();
            if now_ms >= deadline_ms {
                return Err(TopicsError::TimedOut { timeout_ms, cause });
            }
            let retry_ms = now_ms.saturating_add(self.config.retry_backoff_ms);
            self.io.sleep_until(retry_ms.min(deadline_ms)).await;
        }
    }

    async fn request_metadata_once(&self, request: &MetadataRequest, left_ms: i64) -> Result<MetadataCache, CallError> {
        let connection = self.metadata.any_broker().ok_or(CallError::Closed)?;
        let options = SendOptions::timeout_ms(left_ms.min(self.request_timeout_ms()).max(1));
        let (done, receiver) = oneshot::channel();
        connection.send(request.clone(), options.version_min(VERSION_MIN), move |result| {
            // The caller may have dropped the future.
            let _ = done.send(result);
        });
        let response = receiver.await.map_err(|_| CallError::Closed)??;
        Ok(MetadataCache::of(&response.body, response.version))
    }
}

/// The first topic error that needs a retry or is fatal. A missing topic is a valid result.
fn first_topic_error(cluster: &MetadataCache) -> Option<(ByteString, ErrorCode)> {
    let mut errors = cluster
        .topic_errors()
        .filter(|(_, code)| *code != ErrorCode::UnknownTopicOrPartition);
    errors.next().map(|(topic, code)| (topic.clone(), code))
}

fn partitions(cluster: &MetadataCache, topic: &Topic) -> Vec<PartitionInfo> {
    let partitions = topic.partitions.iter();
    partitions
        .map(|(&number, partition)| PartitionInfo {
            partition: TopicPartition::new(topic.name.clone(), number),
            leader: partition.leader_id.and_then(|id| cluster.broker(id)).map(Node::from),
            replicas: partition.replicas.clone(),
            isr: partition.isr.clone(),
            offline: partition.offline.clone(),
        })
        .collect()
}

impl From<&Broker> for Node {
    fn from(broker: &Broker) -> Self {
        Self {
            id: broker.id,
            host: broker.host.clone(),
            port: broker.port,
            rack: broker.rack.clone(),
        }
    }
}

impl fmt::Display for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}:{})", self.id, self.host, self.port)
    }
}
