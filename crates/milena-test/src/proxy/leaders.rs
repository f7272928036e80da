//! A cluster of several nodes, as clients see it, in front of one broker.
//!
//! Each node has a port. Metadata responses are changed accordingly, and a node serves only the partitions that it
//! leads; the others are removed from the request, and their errors added to the response here.

mod partitions;

use std::{collections::BTreeMap, net::SocketAddr};

use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::{
    Uuid,
    api::ApiKey,
    errors::ErrorCode,
    frame::{self, RequestFrame},
    message::{Request, Response},
    messages::*,
};

/// The id of the broker itself.
const FIRST_NODE: i32 = 1;

#[derive(Debug)]
pub(super) struct Leaders {
    nodes: Vec<SocketAddr>,
    /// Those that are not led as at the beginning.
    moved: BTreeMap<(ByteString, i32), Lead>,
    /// Topic names from the broker's metadata.
    names: BTreeMap<Uuid, ByteString>,
    epochs: BTreeMap<(ByteString, i32), i32>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Lead {
    /// Index of the node.
    node: usize,
    /// Number of moves: the leader's epoch is the broker's epoch plus this.
    moves: i32,
}

/// Partitions of a request that the node does not lead.
#[derive(Debug, Default)]
pub(super) struct RejectedPartitions {
    partitions: Vec<RejectedPartition>,
}

#[derive(Debug)]
struct RejectedPartition {
    topic: ByteString,
    topic_id: Uuid,
    partition: i32,
    code: ErrorCode,
    leader_id: i32,
    leader_epoch: i32,
}

impl Leaders {
    pub(super) fn new(nodes: Vec<SocketAddr>) -> Self {
        Self {
            nodes,
            moved: BTreeMap::new(),
            names: BTreeMap::new(),
            epochs: BTreeMap::new(),
        }
    }

    pub(super) fn address(&self, node: usize) -> SocketAddr {
        self.nodes[node]
    }

    pub(super) fn move_leader(&mut self, topic: &str, partition: i32) -> i32 {
        assert!(
            self.nodes.len() > 1,
            "there is nobody to move to: start the broker with .nodes(2)"
        );
        let lead = self.moved.entry((topic.into(), partition)).or_default();
        lead.node = (lead.node + 1) % self.nodes.len();
        lead.moves += 1;
        node_id(lead.node)
    }

    /// The request for the broker, without the partitions of other nodes.
    pub(super) fn lead_request(
        &self,
        node: usize,
        request: &RequestFrame,
        frame: Bytes,
    ) -> (Bytes, Option<RejectedPartitions>) {
        if self.nodes.len() == 1 {
            return (frame, None);
        }
        let changed = match request.key {
            ApiKey::Fetch => self.lead(request, |request, rejected| self.lead_fetch(node, request, rejected)),
            ApiKey::ListOffsets => self.lead(request, |request, rejected| self.lead_list(node, request, rejected)),
            ApiKey::OffsetForLeaderEpoch => {
                self.lead(request, |request, rejected| self.lead_epochs(node, request, rejected))
            }
            ApiKey::Produce => self.lead(request, |request, rejected| self.lead_produce(node, request, rejected)),
            _ => None,
        };
        match changed {
            Some((frame, rejected)) => (frame, Some(rejected)),
            None => (frame, None),
        }
    }

    fn lead<R: Request>(
        &self,
        frame: &RequestFrame,
        change: impl FnOnce(&mut R, &mut RejectedPartitions),
    ) -> Option<(Bytes, RejectedPartitions)> {
        let mut request: R = frame.body().ok()?;
        let mut rejected = RejectedPartitions::default();
        change(&mut request, &mut rejected);
        let encoded = frame::encode_request(&request, frame.version, frame.correlation_id, frame.client_id.as_ref());
        let encoded = encoded.expect("a request that was read can be written");
        Some((encoded.into_bytes(), rejected))
    }

    /// The response for the client.
    pub(super) fn lead_response(
        &mut self,
        request: &RequestFrame,
        rejected: Option<&RejectedPartitions>,
        frame_bytes: Bytes,
    ) -> Bytes {
        if self.nodes.len() == 1 {
            return frame_bytes;
        }
        let rejected = rejected.map(|rejected| &rejected.partitions[..]).unwrap_or_default();
        match request.key {
            ApiKey::Metadata => change(request, &frame_bytes, |response| self.lead_metadata(response)),
            ApiKey::DescribeCluster => change(request, &frame_bytes, |response| self.lead_cluster(response)),
            ApiKey::DescribeTopicPartitions => change(request, &frame_bytes, |response| self.lead_topics(response)),
            ApiKey::Fetch => change(request, &frame_bytes, |response| {
                self.refuse_fetch(request.version, response, rejected);
            }),
            ApiKey::ListOffsets => change(request, &frame_bytes, |response| refuse_list(response, rejected)),
            ApiKey::OffsetForLeaderEpoch => change(request, &frame_bytes, |response| refuse_epochs(response, rejected)),
            ApiKey::Produce => change(request, &frame_bytes, |response| {
                self.refuse_produce(request.version, response, rejected);
            }),
            _ => frame_bytes,
        }
    }

    fn lead_metadata(&mut self, response: &mut MetadataResponse) {
        let brokers = self
            .nodes()
            .map(|(node_id, host, port)| metadata_response::MetadataResponseBroker {
                node_id,
                host,
                port,
                ..Default::default()
            });
        response.brokers = brokers.collect();
        for topic in &mut response.topics {
            let Some(name) = topic.name.clone() else { continue };
            self.names.insert(topic.topic_id, name.clone());
            for partition in &mut topic.partitions {
                let lead = self.note(&name, partition.partition_index, partition.leader_epoch);
                partition.leader_id = node_id(lead.node);
                partition.leader_epoch += lead.moves;
                partition.replica_nodes = self.node_ids();
                partition.isr_nodes = self.node_ids();
            }
        }
    }

    fn lead_topics(&mut self, response: &mut DescribeTopicPartitionsResponse) {
        for topic in &mut response.topics {
            let Some(name) = topic.name.clone() else { continue };
            self.names.insert(topic.topic_id, name.clone());
            for partition in &mut topic.partitions {
                let lead = self.note(&name, partition.partition_index, partition.leader_epoch);
                partition.leader_id = node_id(lead.node);
                partition.leader_epoch += lead.moves;
                partition.replica_nodes = self.node_ids();
                partition.isr_nodes = self.node_ids();
            }
        }
    }

    fn lead_cluster(&self, response: &mut DescribeClusterResponse) {
        let brokers = self.nodes().map(
            |(broker_id, host, port)| describe_cluster_response::DescribeClusterBroker {
                broker_id,
                host,
                port,
                ..Default::default()
            },
        );
        response.brokers = brokers.collect();
    }

    /// Stores the broker's own epoch of a partition, and returns its leader.
    fn note(&mut self, topic: &ByteString, partition: i32, epoch: i32) -> Lead {
        let key = (topic.clone(), partition);
        self.epochs.insert(key.clone(), epoch);
        self.moved.get(&key).copied().unwrap_or_default()
    }

    fn nodes(&self) -> impl Iterator<Item = (i32, ByteString, i32)> {
        let node = |(node, address): (usize, &SocketAddr)| {
            let host = address.ip().to_string();
            (node_id(node), host.into(), i32::from(address.port()))
        };
        self.nodes.iter().enumerate().map(node)
    }

    fn node_ids(&self) -> Vec<i32> {
        (0..self.nodes.len()).map(node_id).collect()
    }
}

fn node_id(node: usize) -> i32 {
    FIRST_NODE + i32::try_from(node).unwrap_or(0)
}

fn change<R: Response>(request: &RequestFrame, frame_bytes: &Bytes, change: impl FnOnce(&mut R)) -> Bytes {
    let decoded = frame::decode_response::<R>(&frame_bytes.slice(frame::LENGTH_SIZE..), request.version);
    let (_, mut response) = decoded.unwrap_or_else(|error| panic!("an frame_bytes of the broker: {error}"));
    change(&mut response);
    let encoded = frame::encode_response(&response, request.version, request.correlation_id);
    encoded
        .expect("an frame_bytes that was read can be written")
        .into_bytes()
}

fn refuse_list(response: &mut ListOffsetsResponse, rejected: &[RejectedPartition]) {
    let refused = rejected
        .iter()
        .map(|refused| list_offsets_response::ListOffsetsTopicResponse {
            name: refused.topic.clone(),
            partitions: vec![list_offsets_response::ListOffsetsPartitionResponse {
                partition_index: refused.partition,
                error_code: refused.code.code(),
                timestamp: -1,
                offset: -1,
                ..Default::default()
            }],
            ..Default::default()
        });
    response.topics.extend(refused);
}

fn refuse_epochs(response: &mut OffsetForLeaderEpochResponse, rejected: &[RejectedPartition]) {
    let refused = rejected
        .iter()
        .map(|refused| offset_for_leader_epoch_response::OffsetForLeaderTopicResult {
            topic: refused.topic.clone(),
            partitions: vec![offset_for_leader_epoch_response::EpochEndOffset {
                partition: refused.partition,
                error_code: refused.code.code(),
                ..Default::default()
            }],
            ..Default::default()
        });
    response.topics.extend(refused);
}
