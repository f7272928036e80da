//! The metadata cache: the cluster as the last responses describe it.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use bytestring::ByteString;
use milena_machines::TopicPartition;
use milena_wire::{
    Uuid,
    api::versions,
    errors::ErrorCode,
    messages::{
        MetadataResponse,
        metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic},
    },
};

use crate::net::Endpoint;

/// Brokers, topics and partitions of the cluster. Names are copies, so that no response buffer is kept in memory.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct MetadataCache {
    /// Grows with every response that was applied, and with every leader that was learned otherwise.
    pub(crate) version: u64,
    cluster_id: Option<ByteString>,
    controller_id: Option<i32>,
    brokers: BTreeMap<i32, Broker>,
    topics: BTreeMap<ByteString, Arc<Topic>>,
    names: BTreeMap<Uuid, ByteString>,
    /// Topics of the last response with an error code.
    errors: BTreeMap<ByteString, ErrorCode>,
    /// The newest leader epochs, also of topics that have an error for now.
    seen: BTreeMap<ByteString, SeenEpochs>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Broker {
    pub(crate) id: i32,
    pub(crate) host: ByteString,
    pub(crate) port: u16,
    pub(crate) rack: Option<ByteString>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Topic {
    pub(crate) name: ByteString,
    /// `None` if the broker does not report ids.
    pub(crate) id: Option<Uuid>,
    pub(crate) internal: bool,
    pub(crate) partitions: BTreeMap<i32, Partition>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Partition {
    pub(crate) leader_id: Option<i32>,
    /// `None` if the broker does not report it, or not reliably.
    pub(crate) leader_epoch: Option<i32>,
    pub(crate) replicas: Vec<i32>,
    pub(crate) isr: Vec<i32>,
    pub(crate) offline: Vec<i32>,
    /// The error code of the partition, such as `LEADER_NOT_AVAILABLE`.
    pub(crate) error: ErrorCode,
}

#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Leader<'a> {
    pub(crate) broker: &'a Broker,
    pub(crate) epoch: Option<i32>,
}

/// A leader named by another response than Metadata (KIP-951).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LeaderHint {
    pub(crate) partition: TopicPartition,
    pub(crate) leader_id: i32,
    pub(crate) leader_epoch: i32,
}

/// The effect of a response on the cache.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct CacheChange {
    /// It had newer information than the cache.
    pub(super) progress: bool,
    /// It has retriable errors, so another request is needed.
    pub(super) stale: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct SeenEpochs {
    id: Option<Uuid>,
    epochs: BTreeMap<i32, i32>,
}

impl Broker {
    pub(crate) fn endpoint(&self) -> Endpoint {
        Endpoint {
            host: self.host.clone(),
            port: self.port,
        }
    }

    /// `None` if the port is invalid.
    pub(crate) fn new(id: i32, host: &str, port: i32, rack: Option<&str>) -> Option<Self> {
        Some(Self {
            id,
            host: host.into(),
            port: u16::try_from(port).ok().filter(|&port| port > 0)?,
            rack: rack.map(ByteString::from),
        })
    }
}

impl MetadataCache {
    /// Builds a cache from a single response.
    pub(crate) fn of(response: &MetadataResponse, version: i16) -> Self {
        let mut cache = Self::default();
        cache.update(response, version, |_, _| false);
        cache
    }

    pub(crate) fn cluster_id(&self) -> Option<&ByteString> {
        self.cluster_id.as_ref()
    }

    pub(crate) fn controller(&self) -> Option<&Broker> {
        self.broker(self.controller_id?)
    }

    pub(crate) fn brokers(&self) -> impl ExactSizeIterator<Item = &Broker> {
        self.brokers.values()
    }

    pub(crate) fn broker(&self, id: i32) -> Option<&Broker> {
        self.brokers.get(&id)
    }

    /// All topics, ordered by name.
    pub(crate) fn topics(&self) -> impl ExactSizeIterator<Item = &Topic> {
        self.topics.values().map(|topic| &**topic)
    }

    pub(crate) fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name).map(|topic| &**topic)
    }

    /// The error code of a topic in the last response.
    pub(crate) fn topic_error(&self, name: &str) -> Option<ErrorCode> {
        self.errors.get(name).copied()
    }

    /// All topics with an error code in the last response.
    pub(crate) fn topic_errors(&self) -> impl ExactSizeIterator<Item = (&ByteString, ErrorCode)> {
        self.errors.iter().map(|(name, error)| (name, *error))
    }

    pub(crate) fn topic_id(&self, name: &str) -> Option<Uuid> {
        self.topic(name)?.id
    }

    pub(crate) fn topic_name(&self, id: Uuid) -> Option<&ByteString> {
        self.names.get(&id)
    }

    pub(crate) fn partition(&self, topic: &str, partition: i32) -> Option<&Partition> {
        self.topic(topic)?.partitions.get(&partition)
    }

    /// The leader of a partition. `None` without a leader, or if a newer leader exists that is not known yet.
    pub(crate) fn leader(&self, topic: &str, partition: i32) -> Option<Leader<'_>> {
        let known = self.partition(topic, partition)?;
        if self.seen_epoch(topic, partition) > known.leader_epoch {
            return None;
        }
        Some(Leader {
            broker: self.broker(known.leader_id?)?,
            epoch: known.leader_epoch,
        })
    }

    /// The newest leader epoch of a partition that was seen in any response.
    pub(crate) fn seen_epoch(&self, topic: &str, partition: i32) -> Option<i32> {
        self.seen.get(topic)?.epochs.get(&partition).copied()
    }

    /// The racks of the replicas of each partition, ordered by partition. Unknown racks are left out.
    pub(crate) fn replica_racks(&self, topic: &str) -> Option<Vec<Vec<ByteString>>> {
        let partitions = self.topic(topic)?.partitions.values();
        let racks = partitions.map(|partition| {
            let racks = partition
                .replicas
                .iter()
                .filter_map(|&id| self.broker(id)?.rack.as_ref());
            racks.collect::<BTreeSet<_>>().into_iter().cloned().collect()
        });
        Some(racks.collect())
    }

    /// Applies a whole response. Topics that it does not name are removed, with their epochs unless `retain` returns
    /// true.
    pub(super) fn update(
        &mut self,
        response: &MetadataResponse,
        version: i16,
        retain: impl Fn(&ByteString, Option<Uuid>) -> bool,
    ) -> CacheChange {
        self.version += 1;
        let mut change = CacheChange::default();
        self.cluster_id = response.cluster_id.as_deref().map(ByteString::from);
        self.controller_id = Some(response.controller_id).filter(|&id| id >= 0);
        self.brokers = response
            .brokers
            .iter()
            .filter_map(broker)
            .map(|broker| (broker.id, broker))
            .collect();
        let old = std::mem::take(&mut self.topics);
        self.names.clear();
        self.errors.clear();
        for topic in &response.topics {
            self.update_topic(topic, version >= versions::metadata::RELIABLE_EPOCHS, &old, &mut change);
        }
        let (topics, errors) = (&self.topics, &self.errors);
        let named = |name: &ByteString| topics.contains_key(name) || errors.contains_key(name);
        self.seen.retain(|name, seen| named(name) || retain(name, seen.id));
        change
    }

    fn update_topic(
        &mut self,
        topic: &MetadataResponseTopic,
        reliable: bool,
        old: &BTreeMap<ByteString, Arc<Topic>>,
        change: &mut CacheChange,
    ) {
        let error = known_error(topic.error_code);
        change.stale |= error.invalidates_metadata();
        let id = Some(topic.topic_id).filter(|id| !id.is_zero());
        let Some(name) = topic.name.as_deref().map(ByteString::from) else {
            // It was requested by id, and does not exist.
            return;
        };
        if error != ErrorCode::None {
            self.errors.insert(name, error);
            return;
        }
        let old = old.get(&name).map(|topic| &**topic);
        let seen = self.seen.entry(name.clone()).or_default();
        // Epochs of a deleted topic of the same name do not count. Without ids the two cannot be distinguished.
        if id.is_some() && id != seen.id {
            seen.epochs.clear();
            seen.id = id;
        }
        let mut partitions = BTreeMap::new();
        for partition in &topic.partitions {
            let old = old.and_then(|old| old.partitions.get(&partition.partition_index));
            let new = seen.accept(partition, reliable, old, change);
            change.stale |= known_error(partition.error_code).invalidates_metadata();
            partitions.insert(partition.partition_index, new);
        }
        change.progress |= old.is_none_or(|old| old.partitions.len() != partitions.len());
        if let Some(id) = id {
            self.names.insert(id, name.clone());
        }
        let topic = Topic {
            name: name.clone(),
            id,
            internal: topic.is_internal,
            partitions,
        };
        self.topics.insert(name, Arc::new(topic));
    }

    /// Whether a hint names a newer leader whose address is known.
    pub(super) fn is_newer(&self, hint: &LeaderHint, brokers: &[Broker]) -> bool {
        let TopicPartition { topic, partition } = &hint.partition;
        let located = brokers.iter().any(|broker| broker.id == hint.leader_id) || self.broker(hint.leader_id).is_some();
        let newer = hint.leader_epoch >= 0 && self.seen_epoch(topic, *partition) < Some(hint.leader_epoch);
        located && newer && self.partition(topic, *partition).is_some()
    }

    /// Applies a newer leader.
    pub(super) fn handle_leader(&mut self, hint: &LeaderHint, brokers: &[Broker]) {
        let TopicPartition { topic, partition } = &hint.partition;
        let Some(known) = self.topics.get_mut(topic) else {
            return;
        };
        if let Some(known) = Arc::make_mut(known).partitions.get_mut(partition) {
            known.leader_id = Some(hint.leader_id);
            known.leader_epoch = Some(hint.leader_epoch);
            known.error = ErrorCode::None;
        }
        let seen = self.seen.entry(topic.clone()).or_default();
        seen.epochs.insert(*partition, hint.leader_epoch);
        let endpoint = brokers.iter().find(|broker| broker.id == hint.leader_id);
        self.brokers.extend(endpoint.map(|broker| (broker.id, broker.clone())));
        self.version += 1;
    }

    /// Records a leader epoch that was seen elsewhere. Returns whether it is newer; without a known epoch it is
    /// ignored.
    pub(super) fn handle_epoch(&mut self, partition: &TopicPartition, epoch: i32) -> bool {
        let seen = self.seen.get_mut(&partition.topic);
        let seen = seen.and_then(|seen| seen.epochs.get_mut(&partition.partition));
        match seen {
            Some(seen) if epoch > *seen => {
                *seen = epoch;
                self.version += 1;
                true
            }
            _ => false,
        }
    }

    /// Removes all brokers, so that the bootstrap servers are used again.
    pub(super) fn forget_brokers(&mut self) {
        self.version += 1;
        self.brokers.clear();
        self.controller_id = None;
    }
}

impl SeenEpochs {
    /// Returns the partition to keep: a leader older than the newest known epoch is not applied.
    fn accept(
        &mut self,
        partition: &MetadataResponsePartition,
        reliable: bool,
        old: Option<&Partition>,
        change: &mut CacheChange,
    ) -> Partition {
        let index = partition.partition_index;
        let mut new = Partition {
            leader_id: Some(partition.leader_id).filter(|&id| id >= 0),
            leader_epoch: Some(partition.leader_epoch).filter(|&epoch| reliable && epoch >= 0),
            replicas: partition.replica_nodes.clone(),
            isr: partition.isr_nodes.clone(),
            offline: partition.offline_replicas.clone(),
            error: known_error(partition.error_code),
        };
        let Some(epoch) = new.leader_epoch else {
            self.epochs.remove(&index);
            change.progress = true;
            return new;
        };
        let seen = self.epochs.get(&index).copied();
        if seen <= Some(epoch) {
            self.epochs.insert(index, epoch);
            change.progress |= seen < Some(epoch);
            return new;
        }
        match old {
            Some(old) => old.clone(),
            None => {
                new.leader_id = None;
                new
            }
        }
    }
}

fn broker(broker: &MetadataResponseBroker) -> Option<Broker> {
    let known = Broker::new(broker.node_id, &broker.host, broker.port, broker.rack.as_deref());
    if known.is_none() {
        tracing::warn!(
            event = "invalid_broker_port",
            node = broker.node_id,
            port = broker.port,
            "broker ignored: it advertises an invalid port"
        );
    }
    known
}

fn known_error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError)
}
