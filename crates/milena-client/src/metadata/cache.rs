//! The cluster as the last answers describe it.

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

/// What is known of the cluster. Names are copies, so that no answer is kept in memory for them.
#[derive(Debug, Clone, PartialEq, Default)]
pub(crate) struct MetadataCache {
    /// Grows with every answer that was taken, and with every leader that was learned otherwise.
    pub(crate) version: u64,
    cluster_id: Option<ByteString>,
    controller_id: Option<i32>,
    brokers: BTreeMap<i32, Broker>,
    topics: BTreeMap<ByteString, Arc<Topic>>,
    names: BTreeMap<Uuid, ByteString>,
    /// Topics of the last answer that are an error instead.
    errors: BTreeMap<ByteString, ErrorCode>,
    id_errors: BTreeMap<Uuid, ErrorCode>,
    /// The newest epochs, also of topics that are an error for now.
    seen: BTreeMap<ByteString, Seen>,
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
    /// `None` if the broker is too old to say.
    pub(crate) id: Option<Uuid>,
    pub(crate) internal: bool,
    pub(crate) partitions: BTreeMap<i32, Partition>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Partition {
    pub(crate) leader_id: Option<i32>,
    /// `None` if the broker is too old to say it reliably.
    pub(crate) leader_epoch: Option<i32>,
    pub(crate) replicas: Vec<i32>,
    pub(crate) isr: Vec<i32>,
    pub(crate) offline: Vec<i32>,
    /// Why it has no leader, or another complaint of the broker.
    pub(crate) error: ErrorCode,
}

/// The leader of a partition.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Leader<'a> {
    pub(crate) broker: &'a Broker,
    pub(crate) epoch: Option<i32>,
}

/// A leader that another answer than that to Metadata has named (KIP-951).
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct LeaderHint {
    pub(crate) partition: TopicPartition,
    pub(crate) leader_id: i32,
    pub(crate) leader_epoch: i32,
}

/// What an answer has brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Learned {
    /// It knew more than we did.
    pub(super) progress: bool,
    /// It says itself that it is not the last word.
    pub(super) stale: bool,
}

#[derive(Debug, Clone, PartialEq, Default)]
struct Seen {
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

    /// `None` if it names no port that there can be.
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
    /// What one answer says, without anything from before.
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

    /// All topics, in the order of their names.
    pub(crate) fn topics(&self) -> impl ExactSizeIterator<Item = &Topic> {
        self.topics.values().map(|topic| &**topic)
    }

    pub(crate) fn topic(&self, name: &str) -> Option<&Topic> {
        self.topics.get(name).map(|topic| &**topic)
    }

    /// Why a topic is not there.
    pub(crate) fn topic_error(&self, name: &str) -> Option<ErrorCode> {
        self.errors.get(name).copied()
    }

    /// All topics that the last answer has an error for.
    pub(crate) fn topic_errors(&self) -> impl ExactSizeIterator<Item = (&ByteString, ErrorCode)> {
        self.errors.iter().map(|(name, error)| (name, *error))
    }

    pub(crate) fn topic_id_error(&self, id: Uuid) -> Option<ErrorCode> {
        self.id_errors.get(&id).copied()
    }

    pub(crate) fn topic_id(&self, name: &str) -> Option<Uuid> {
        self.topic(name)?.id
    }

    pub(crate) fn topic_name(&self, id: Uuid) -> Option<&ByteString> {
        self.names.get(&id)
    }

    pub(crate) fn partition_count(&self, name: &str) -> Option<usize> {
        Some(self.topic(name)?.partitions.len())
    }

    pub(crate) fn partition(&self, topic: &str, partition: i32) -> Option<&Partition> {
        self.topic(topic)?.partitions.get(&partition)
    }

    /// Who leads a partition. `None` if nobody does, or if a newer leader must exist whose name is not known.
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

    /// The newest epoch of a partition's leader that was heard of.
    pub(crate) fn seen_epoch(&self, topic: &str, partition: i32) -> Option<i32> {
        self.seen.get(topic)?.epochs.get(&partition).copied()
    }

    /// The racks of all replicas of each partition, in the order of the partitions; those that are unknown are left out.
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

    /// Takes a whole answer: what it does not name is gone, and with it its epochs unless `retain` says otherwise.
    pub(super) fn update(
        &mut self,
        response: &MetadataResponse,
        version: i16,
        retain: impl Fn(&ByteString, Option<Uuid>) -> bool,
    ) -> Learned {
        self.version += 1;
        let mut learned = Learned::default();
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
        self.id_errors.clear();
        for topic in &response.topics {
            self.update_topic(
                topic,
                version >= versions::metadata::RELIABLE_EPOCHS,
                &old,
                &mut learned,
            );
        }
        let (topics, errors) = (&self.topics, &self.errors);
        let named = |name: &ByteString| topics.contains_key(name) || errors.contains_key(name);
        self.seen.retain(|name, seen| named(name) || retain(name, seen.id));
        learned
    }

    fn update_topic(
        &mut self,
        topic: &MetadataResponseTopic,
        reliable: bool,
        old: &BTreeMap<ByteString, Arc<Topic>>,
        learned: &mut Learned,
    ) {
        let error = known_error(topic.error_code);
        learned.stale |= error.invalidates_metadata();
        let id = Some(topic.topic_id).filter(|id| !id.is_zero());
        let Some(name) = topic.name.as_deref().map(ByteString::from) else {
            // It was asked for by its id, and there is none.
            self.id_errors.extend(id.map(|id| (id, error)));
            return;
        };
        if error != ErrorCode::None {
            self.errors.insert(name, error);
            return;
        }
        let old = old.get(&name).map(|topic| &**topic);
        let seen = self.seen.entry(name.clone()).or_default();
        // Epochs of another topic of the same name say nothing. Without an id there is no telling.
        if id.is_some() && id != seen.id {
            seen.epochs.clear();
            seen.id = id;
        }
        let mut partitions = BTreeMap::new();
        for partition in &topic.partitions {
            let old = old.and_then(|old| old.partitions.get(&partition.partition_index));
            let new = seen.judge(partition, reliable, old, learned);
            learned.stale |= known_error(partition.error_code).invalidates_metadata();
            partitions.insert(partition.partition_index, new);
        }
        learned.progress |= old.is_none_or(|old| old.partitions.len() != partitions.len());
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

    /// Whether a leader is newer than the one we know, and we know where it is.
    pub(super) fn is_newer(&self, hint: &LeaderHint, brokers: &[Broker]) -> bool {
        let TopicPartition { topic, partition } = &hint.partition;
        let located = brokers.iter().any(|broker| broker.id == hint.leader_id) || self.broker(hint.leader_id).is_some();
        let newer = hint.leader_epoch >= 0 && self.seen_epoch(topic, *partition) < Some(hint.leader_epoch);
        located && newer && self.partition(topic, *partition).is_some()
    }

    /// Takes a leader that is newer.
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

    /// Notes an epoch that was heard of elsewhere; whether it is newer. Without one to compare with it says nothing.
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

    /// Forgets where brokers are, to begin with the bootstrap servers again.
    pub(super) fn forget_brokers(&mut self) {
        self.version += 1;
        self.brokers.clear();
        self.controller_id = None;
    }
}

impl Seen {
    /// The partition as it is to be kept: an older leader than the one we have heard of is not taken.
    fn judge(
        &mut self,
        partition: &MetadataResponsePartition,
        reliable: bool,
        old: Option<&Partition>,
        learned: &mut Learned,
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
            learned.progress = true;
            return new;
        };
        let seen = self.epochs.get(&index).copied();
        if seen <= Some(epoch) {
            self.epochs.insert(index, epoch);
            learned.progress |= seen < Some(epoch);
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
            node = broker.node_id,
            port = broker.port,
            "a broker says it listens on a port that cannot be"
        );
    }
    known
}

fn known_error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError)
}
