//! A consumer against a scripted broker.

use std::{
    net::TcpListener,
    sync::{Arc, mpsc},
    time::Duration,
};

use milena_wire::{
    Uuid,
    api::ApiKey,
    messages::{
        FetchRequest, FetchResponse, MetadataResponse,
        fetch_response::{FetchableTopicResponse, PartitionData},
        metadata_response::{MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic},
    },
};

use super::{
    Consumer, TopicPartition,
    poll::{StepInput, StepOutcome},
};
use crate::{
    config::ConsumerConfig,
    io,
    net::tests::rig::{PATIENCE, Peer, all_versions, wait},
};

/// A broker with two topics that supports all versions, but has an id for only one topic. This happens if the metadata
/// version of a cluster is older than its software.
fn serve(listener: &TcpListener, fetches: &mpsc::Sender<(i16, FetchRequest)>) {
    let port = i32::from(listener.local_addr().unwrap().port());
    for stream in listener.incoming() {
        let (mut peer, fetches) = (
            Peer {
                stream: stream.unwrap(),
            },
            fetches.clone(),
        );
        std::thread::spawn(move || {
            while let Some(request) = peer.request() {
                match request.key {
                    ApiKey::ApiVersions => peer.respond(&request, &all_versions()),
                    ApiKey::Metadata => peer.respond(&request, &metadata(port)),
                    ApiKey::Fetch => {
                        let body = request.body::<FetchRequest>().unwrap();
                        let response = end_of_log(&body);
                        // The test may have ended.
                        let _ = fetches.send((request.version, body));
                        peer.respond(&request, &response);
                    }
                    other => panic!("{other} is not expected"),
                }
            }
        });
    }
}

fn metadata(port: i32) -> MetadataResponse {
    let topic = |name: &'static str, topic_id| MetadataResponseTopic {
        name: Some(name.into()),
        topic_id,
        partitions: vec![MetadataResponsePartition {
            leader_id: 1,
            ..Default::default()
        }],
        ..Default::default()
    };
    MetadataResponse {
        brokers: vec![MetadataResponseBroker {
            node_id: 1,
            host: "127.0.0.1".into(),
            port,
            ..Default::default()
        }],
        topics: vec![
            topic("with-id", Uuid::from_bytes([7; 16])),
            topic("without-id", Uuid::ZERO),
        ],
        ..Default::default()
    }
}

/// A response without records for all partitions of a request.
fn end_of_log(request: &FetchRequest) -> FetchResponse {
    let topics = request.topics.iter().map(|topic| FetchableTopicResponse {
        topic: topic.topic.clone(),
        topic_id: topic.topic_id,
        partitions: topic
            .partitions
            .iter()
            .map(|partition| PartitionData {
                partition_index: partition.partition,
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    FetchResponse {
        responses: topics.collect(),
        ..Default::default()
    }
}

#[test]
fn a_topic_without_an_id_is_fetched_by_name() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (sender, fetches) = mpsc::channel();
    // The thread ends with the process.
    std::thread::spawn(move || serve(&listener, &sender));
    let mut consumer = Consumer::new(ConsumerConfig::builder(&*address)).unwrap();
    let partitions = ["with-id", "without-id"].map(|topic| TopicPartition::new(topic, 0));
    consumer.assign(partitions.clone()).unwrap();
    for partition in &partitions {
        consumer.seek(partition, 0).unwrap();
    }
    wait(consumer.poll(Duration::from_millis(1))).unwrap();
    let (version, request) = fetches.recv_timeout(PATIENCE).unwrap();
    let names: Vec<&str> = request.topics.iter().map(|topic| &*topic.topic).collect();
    assert_eq!(names, ["with-id", "without-id"], "version {version}");
}

/// The io thread drives between `subscribe` and `poll`, when the member must not join yet. The `poll` that follows within the
/// interval must send the member's requests before it waits: nothing else may wake it for minutes.
#[test]
fn a_poll_that_waits_has_sent_the_requests_of_the_member() {
    let config = ConsumerConfig::builder("127.0.0.1:1").group_id("g");
    let mut consumer = Consumer::new(config).unwrap();
    consumer.subscribe(["letters"]).unwrap();
    let shared = Arc::clone(&consumer.inner.shared);
    let now_ms = io::now_ms();
    {
        let mut core = shared.core();
        core.is_dirty = false;
        core.driven_ms = i64::MAX;
    }
    let input = StepInput {
        max: 1,
        now_ms,
        is_first: true,
    };
    assert!(matches!(consumer.step(input).unwrap(), StepOutcome::Wait));
    assert_ne!(shared.core().driven_ms, i64::MAX);
}
