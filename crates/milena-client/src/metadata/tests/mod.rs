//! Tests of the cache and the refresher, and of the driver against brokers.

mod cache;
mod driver;
mod refresh;

use bytestring::ByteString;
use milena_machines::TopicPartition;
use milena_wire::{
    Uuid,
    errors::ErrorCode,
    messages::{
        MetadataResponse,
        metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic},
    },
};

use super::{MetadataCache, Refresher, TopicSelection};
use crate::net::ClientSettings;

/// The version of all responses, unless a test is about versions.
const VERSION: i16 = 13;

fn id(number: u8) -> Uuid {
    Uuid::from_bytes([number; 16])
}

fn orders(partition: i32) -> TopicPartition {
    TopicPartition::new("orders", partition)
}

fn broker(node_id: i32) -> MetadataResponseBroker {
    MetadataResponseBroker {
        node_id,
        host: format!("host{node_id}").into(),
        port: 9092,
        rack: Some(format!("rack{}", node_id % 2).into()),
        ..MetadataResponseBroker::default()
    }
}

fn partition(partition_index: i32, leader_id: i32, leader_epoch: i32) -> MetadataResponsePartition {
    MetadataResponsePartition {
        partition_index,
        leader_id,
        leader_epoch,
        replica_nodes: vec![1, 2, 3],
        isr_nodes: vec![1, 2],
        offline_replicas: vec![3],
        ..MetadataResponsePartition::default()
    }
}

fn topic(name: &str, topic_id: Uuid, partitions: Vec<MetadataResponsePartition>) -> MetadataResponseTopic {
    MetadataResponseTopic {
        name: Some(name.into()),
        topic_id,
        partitions,
        ..MetadataResponseTopic::default()
    }
}

fn failed(name: &str, error: ErrorCode) -> MetadataResponseTopic {
    MetadataResponseTopic {
        error_code: error.code(),
        ..topic(name, Uuid::ZERO, vec![])
    }
}

/// Brokers 1 to 3 and these topics.
fn response_with(topics: Vec<MetadataResponseTopic>) -> MetadataResponse {
    MetadataResponse {
        brokers: (1..=3).map(broker).collect(),
        cluster_id: Some("the cluster".into()),
        controller_id: 2,
        topics,
        ..MetadataResponse::default()
    }
}

fn names(names: &[&'static str]) -> TopicSelection {
    TopicSelection::Topics(names.iter().map(|name| ByteString::from_static(name)).collect())
}

/// A refresher with the topic `orders` selected.
fn refresher() -> Refresher {
    let mut refresher = Refresher::new(&ClientSettings::default(), 1);
    refresher.select(names(&["orders"]));
    refresher
}

/// Lets the refresher send its next request and applies the response. Returns the time.
fn learn(refresher: &mut Refresher, version: i16, response: MetadataResponse) -> i64 {
    let now_ms = refresher.poll_timeout().unwrap().max(0);
    let call = refresher.poll_request(now_ms).unwrap();
    assert!(refresher.handle_response(now_ms, call.id, Ok((version, response))));
    now_ms
}

/// Applies a response in which `orders` has one partition with this leader.
fn learn_leader(refresher: &mut Refresher, topic_id: Uuid, leader_id: i32, epoch: i32) {
    let topic = topic("orders", topic_id, vec![partition(0, leader_id, epoch)]);
    learn(refresher, VERSION, response_with(vec![topic]));
    refresher.request_update(super::Refresh::New);
}

/// The leader of partition 0 of `orders`, and its epoch.
fn leader(refresher: &Refresher) -> Option<(i32, Option<i32>)> {
    let leader = refresher.cache().leader("orders", 0)?;
    Some((leader.broker.id, leader.epoch))
}

fn partition_count(cache: &MetadataCache, topic: &str) -> Option<usize> {
    Some(cache.topic(topic)?.partitions.len())
}
