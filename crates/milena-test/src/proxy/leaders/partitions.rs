//! Requests about partitions: removes those of other nodes, and adds their errors to the response.

use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::{Uuid, api::versions, errors::ErrorCode, messages::*};

use super::{Leaders, RejectedPartition, RejectedPartitions, node_id};

impl Leaders {
    /// Whether a node leads a partition; then the client's epoch is replaced with the broker's.
    fn takes(
        &self,
        node: usize,
        topic: &ByteString,
        topic_id: Uuid,
        place: Place<'_>,
        rejected: &mut RejectedPartitions,
    ) -> bool {
        let name = self.names.get(&topic_id).unwrap_or(topic).clone();
        let key = (name, place.partition);
        let lead = self.moved.get(&key).copied().unwrap_or_default();
        let epoch = place.epoch;
        let code = if lead.node != node {
            ErrorCode::NotLeaderOrFollower
        } else if let Some(epoch) = epoch.filter(|epoch| **epoch >= 0) {
            *epoch -= lead.moves;
            if *epoch >= 0 {
                return true;
            }
            ErrorCode::FencedLeaderEpoch
        } else {
            return true;
        };
        rejected.partitions.push(RejectedPartition {
            topic: topic.clone(),
            topic_id,
            partition: place.partition,
            code,
            leader_id: node_id(lead.node),
            leader_epoch: self.epochs.get(&key).copied().unwrap_or(0) + lead.moves,
        });
        false
    }

    pub(super) fn lead_fetch(&self, node: usize, request: &mut FetchRequest, rejected: &mut RejectedPartitions) {
        // Without a session, each fetch names all of its partitions.
        request.session_id = 0;
        request.session_epoch = -1;
        request.forgotten_topics_data.clear();
        for topic in &mut request.topics {
            let (name, topic_id) = (&topic.topic, topic.topic_id);
            topic.partitions.retain_mut(|partition| {
                let place = Place::new(partition.partition, &mut partition.current_leader_epoch);
                self.takes(node, name, topic_id, place, rejected)
            });
        }
        request.topics.retain(|topic| !topic.partitions.is_empty());
        if !rejected.partitions.is_empty() {
            // The errors of the others must not wait for records.
            request.max_wait_ms = 0;
        }
    }

    pub(super) fn lead_list(&self, node: usize, request: &mut ListOffsetsRequest, rejected: &mut RejectedPartitions) {
        for topic in &mut request.topics {
            let (name, topic_id) = (&topic.name, Uuid::default());
            topic.partitions.retain_mut(|partition| {
                let place = Place::new(partition.partition_index, &mut partition.current_leader_epoch);
                self.takes(node, name, topic_id, place, rejected)
            });
        }
        request.topics.retain(|topic| !topic.partitions.is_empty());
    }

    pub(super) fn lead_epochs(
        &self,
        node: usize,
        request: &mut OffsetForLeaderEpochRequest,
        rejected: &mut RejectedPartitions,
    ) {
        for topic in &mut request.topics {
            let (name, topic_id) = (&topic.topic, Uuid::default());
            topic.partitions.retain_mut(|partition| {
                let place = Place::new(partition.partition, &mut partition.current_leader_epoch);
                self.takes(node, name, topic_id, place, rejected)
            });
        }
        request.topics.retain(|topic| !topic.partitions.is_empty());
    }

    pub(super) fn lead_produce(&self, node: usize, request: &mut ProduceRequest, rejected: &mut RejectedPartitions) {
        for topic in &mut request.topic_data {
            let (name, topic_id) = (&topic.name, topic.topic_id);
            topic.partition_data.retain(|partition| {
                let place = Place {
                    partition: partition.index,
                    epoch: None,
                };
                self.takes(node, name, topic_id, place, rejected)
            });
        }
        request.topic_data.retain(|topic| !topic.partition_data.is_empty());
    }

    pub(super) fn refuse_fetch(&self, version: i16, response: &mut FetchResponse, rejected: &[RejectedPartition]) {
        for refused in rejected {
            let data = fetch_response::PartitionData {
                partition_index: refused.partition,
                error_code: refused.code.code(),
                high_watermark: -1,
                last_stable_offset: -1,
                current_leader: fetch_leader(version, refused),
                records: Some(Bytes::new()),
                ..Default::default()
            };
            response.responses.push(fetch_response::FetchableTopicResponse {
                topic: refused.topic.clone(),
                topic_id: refused.topic_id,
                partitions: vec![data],
                ..Default::default()
            });
        }
        if !rejected.is_empty() && version >= versions::fetch::NODE_ENDPOINTS {
            let endpoints = self.nodes().map(|(node_id, host, port)| fetch_response::NodeEndpoint {
                node_id,
                host,
                port,
                ..Default::default()
            });
            response.node_endpoints = endpoints.collect();
        }
    }

    pub(super) fn refuse_produce(&self, version: i16, response: &mut ProduceResponse, rejected: &[RejectedPartition]) {
        for refused in rejected {
            let refusal = produce_response::PartitionProduceResponse {
                index: refused.partition,
                error_code: refused.code.code(),
                base_offset: -1,
                current_leader: produce_leader(version, refused),
                ..Default::default()
            };
            response.responses.push(produce_response::TopicProduceResponse {
                name: refused.topic.clone(),
                topic_id: refused.topic_id,
                partition_responses: vec![refusal],
                ..Default::default()
            });
        }
        if !rejected.is_empty() && version >= versions::produce::CURRENT_LEADER {
            let endpoints = self
                .nodes()
                .map(|(node_id, host, port)| produce_response::NodeEndpoint {
                    node_id,
                    host,
                    port,
                    ..Default::default()
                });
            response.node_endpoints = endpoints.collect();
        }
    }
}

/// The current leader, in versions that have the field.
fn fetch_leader(version: i16, refused: &RejectedPartition) -> fetch_response::LeaderIdAndEpoch {
    if version < versions::fetch::CURRENT_LEADER {
        return Default::default();
    }
    fetch_response::LeaderIdAndEpoch {
        leader_id: refused.leader_id,
        leader_epoch: refused.leader_epoch,
        ..Default::default()
    }
}

fn produce_leader(version: i16, refused: &RejectedPartition) -> produce_response::LeaderIdAndEpoch {
    if version < versions::produce::CURRENT_LEADER {
        return Default::default();
    }
    produce_response::LeaderIdAndEpoch {
        leader_id: refused.leader_id,
        leader_epoch: refused.leader_epoch,
        ..Default::default()
    }
}

/// A partition in a request.
struct Place<'a> {
    partition: i32,
    /// The epoch of the leader that the client believes in.
    epoch: Option<&'a mut i32>,
}

impl<'a> Place<'a> {
    fn new(partition: i32, epoch: &'a mut i32) -> Self {
        let epoch = Some(epoch);
        Self { partition, epoch }
    }
}
