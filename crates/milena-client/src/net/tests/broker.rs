//! Connections to a real broker.

use std::sync::{Arc, Mutex, mpsc};

use milena_wire::{
    messages::*,
    records::{BatchBuilder, BatchOptions, Batches, NewRecord},
};

use super::rig::*;
use crate::net::{ClientSettings, Connection, Role, SendOptions, Status};

pub(crate) fn create_topic(connection: &Connection, name: &str) {
    let topic = create_topics_request::CreatableTopic {
        name: name.into(),
        num_partitions: 1,
        replication_factor: 1,
        ..Default::default()
    };
    let request = CreateTopicsRequest {
        topics: vec![topic],
        timeout_ms: 30_000,
        ..Default::default()
    };
    let response = wait(connection.call(request, SendOptions::default())).unwrap();
    assert_eq!(response.body.topics[0].error_code, 0, "{response:?}");
}

fn produce(connection: &Connection, topic: &str, value: &[u8]) {
    let mut builder = BatchBuilder::new(BatchOptions::default());
    let record = NewRecord {
        timestamp: 1_700_000_000_000,
        key: None,
        value: Some(value),
        headers: &[],
    };
    builder.append(&record).unwrap();
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 30_000,
        topic_data: vec![produce_request::TopicProduceData {
            name: topic.into(),
            partition_data: vec![produce_request::PartitionProduceData {
                records: Some(builder.finish()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    // Since version 13 topics have ids instead of names.
    let response = wait(connection.call(request, SendOptions::default().version_max(12))).unwrap();
    assert_eq!(
        response.body.responses[0].partition_responses[0].error_code, 0,
        "{response:?}"
    );
}

fn fetch_from(topic: &str, fetch_offset: i64) -> FetchRequest {
    FetchRequest {
        max_wait_ms: 0,
        min_bytes: 1,
        // One batch per fetch.
        max_bytes: 1,
        topics: vec![fetch_request::FetchTopic {
            topic: topic.into(),
            partitions: vec![fetch_request::FetchPartition {
                fetch_offset,
                partition_max_bytes: 1,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn both_sides_agree_and_the_newest_version_is_used() {
    let broker = broker();
    let connections = connections(ClientSettings::default());
    let connection = connections.node(1, Role::Data, &broker.endpoint);
    assert_eq!(connection.status(), Status::Unconnected);
    let response = wait(connection.call(metadata_request(), SendOptions::default())).unwrap();
    assert_eq!(response.version, 13);
    assert_eq!(response.body.brokers.len(), 1);
    assert_eq!(connection.status(), Status::Ready);
    assert!(connections.features().finalized.contains_key("transaction.version"));

    let older = wait(connection.call(metadata_request(), SendOptions::default().version_max(7))).unwrap();
    assert_eq!(older.version, 7);
    let numbers = connections.numbers();
    assert_eq!(
        (numbers.requests, numbers.responses, numbers.connections_made),
        (2, 2, 1)
    );
    assert_eq!(numbers, connections.node_numbers()[0].numbers);
    assert!(numbers.bytes_in > 0 && numbers.latency_us_max > 0);
}

#[test]
fn responses_come_in_the_order_of_the_requests() {
    let broker = broker();
    let connections = connections(ClientSettings::default());
    let connection = connections.node(1, Role::Data, &broker.endpoint);
    let (done, order) = mpsc::channel();
    for number in 0..300 {
        let done = done.clone();
        connection.send(metadata_request(), SendOptions::default(), move |result| {
            done.send((number, result.is_ok())).unwrap();
        });
    }
    for number in 0..300 {
        assert_eq!(order.recv_timeout(PATIENCE).unwrap(), (number, true));
    }
    assert_eq!(connections.numbers().connections_made, 1);
}

/// Fetches one batch after the other, each from the callback of the one before.
fn fetch_on(connection: Connection, offset: i64, done: mpsc::Sender<(i64, Option<String>)>) {
    let options = SendOptions::default().version_max(12);
    let next = connection.clone();
    connection.send(fetch_from("chain", offset), options, move |result| {
        let response = result.unwrap();
        let records = response.body.responses[0].partitions[0].records.clone().unwrap();
        let thread = std::thread::current().name().map(str::to_owned);
        done.send((offset, thread)).unwrap();
        if let Some(batch) = Batches::new(records).next() {
            fetch_on(next, batch.unwrap().last_offset() + 1, done);
        }
    });
}

#[test]
fn the_handler_of_a_response_sends_the_next_request() {
    let broker = broker();
    let connections = connections(ClientSettings::default());
    let connection = connections.node(1, Role::Data, &broker.endpoint);
    create_topic(&connection, "chain");
    // The second value is written in several parts and read into a pooled buffer.
    for value in [&b"small"[..], &vec![1; 900_000], b"last"] {
        produce(&connection, "chain", value);
    }
    let (done, fetch_response) = mpsc::channel();
    fetch_on(connection, 0, done);
    let io = Some("milena-io".to_owned());
    let expected: Vec<_> = (0..4).map(|offset| (offset, io.clone())).collect();
    assert_eq!(fetch_response.iter().collect::<Vec<_>>(), expected);
}

#[test]
fn a_role_has_a_socket_of_its_own() {
    let broker = broker();
    let connections = connections(ClientSettings::default());
    for role in [Role::Data, Role::Coordinator, Role::Data] {
        let connection = connections.node(1, role, &broker.endpoint);
        wait(connection.call(metadata_request(), SendOptions::default())).unwrap();
    }
    assert_eq!(connections.numbers().connections_made, 2);
    let requests: Vec<_> = connections
        .node_numbers()
        .iter()
        .map(|node| node.numbers.requests)
        .collect();
    assert_eq!(requests, [2, 1]);
}

#[test]
fn a_name_with_several_addresses_is_reached_at_the_one_that_listens() {
    let broker = broker();
    let connections = connections(ClientSettings::default());
    let by_name = crate::net::Endpoint::new("localhost", broker.endpoint.port);
    let connection = connections.node(1, Role::Data, &by_name);
    wait(connection.call(metadata_request(), SendOptions::default())).unwrap();
}

#[test]
fn the_caller_may_hold_a_lock_that_the_handler_takes() {
    let broker = broker();
    let connections = connections(ClientSettings::default());
    let connection = connections.node(1, Role::Data, &broker.endpoint);
    let lock = Arc::new(Mutex::new(0));
    let (done, ran) = mpsc::channel();
    for closed in [false, true] {
        if closed {
            connections.close();
        }
        let held = lock.lock().unwrap();
        let (theirs, done) = (Arc::clone(&lock), done.clone());
        connection.send(metadata_request(), SendOptions::default(), move |result| {
            *theirs.lock().unwrap() += 1;
            done.send(result.is_ok()).unwrap();
        });
        drop(held);
        assert_eq!(ran.recv_timeout(PATIENCE).unwrap(), !closed);
    }
    assert_eq!(*lock.lock().unwrap(), 2);
}
