//! The driver against a real broker, and against one that gets lost.

use std::sync::{Arc, mpsc};

use milena_wire::{api::ApiKey, messages::MetadataRequest};

use super::{names, orders, partition, partition_count, response_with, topic};
use crate::{
    metadata::{Metadata, MetadataCache, MetadataError, Refresh, TopicSelection},
    net::{
        ClientSettings, Connections, Endpoint, Status,
        tests::{
            broker::create_topic,
            rig::{self, ClosedPort, Peer, connections, scripted, wait},
        },
    },
};

fn bootstrapped(bootstrap: Vec<Endpoint>) -> Connections {
    connections(ClientSettings {
        bootstrap,
        ..ClientSettings::default()
    })
}

/// Waits for a response after which the condition holds.
fn until(metadata: &Metadata, holds: impl Fn(&MetadataCache) -> bool) {
    loop {
        let cache = metadata.cache();
        if holds(&cache) {
            return;
        }
        assert!(wait(metadata.updated_past(cache.version)));
    }
}

#[test]
fn it_learns_of_the_cluster_from_whichever_broker_responds() {
    let broker = rig::broker();
    let closed_port = ClosedPort::new();
    let connections = bootstrapped(vec![
        closed_port.endpoint(),
        broker.endpoint.clone(),
        closed_port.endpoint(),
    ]);
    let metadata = Metadata::start(connections.clone());
    let (sender, updates) = mpsc::channel();
    metadata.on_update(move |cache| {
        let _ = sender.send((std::thread::current().name().map(str::to_owned), cache.version));
    });
    assert!(wait(metadata.updated_past(0)));
    let node = metadata.any_broker().unwrap();
    assert_eq!(*node.endpoint(), broker.endpoint);
    assert!(node.node_id() >= 0, "it is a broker now, not a bootstrap server");
    create_topic(&node, "orders");

    metadata.select(names(&["orders"]));
    until(&metadata, |cache| cache.topic("orders").is_some());
    let cache = metadata.cache();
    assert_eq!(partition_count(&cache, "orders"), Some(1));
    assert_eq!(cache.leader("orders", 0).unwrap().broker.endpoint(), broker.endpoint);
    assert_eq!(cache.replica_racks("orders").unwrap(), [["r1"]]);
    let id = cache.topic_id("orders").unwrap();
    assert_eq!(metadata.last_error(), None);

    create_topic(&node, "others");
    metadata.select(TopicSelection::All);
    until(&metadata, |cache| cache.topics().len() == 2);
    metadata.select(TopicSelection::Ids([id].into()));
    until(&metadata, |cache| cache.topics().len() == 1);
    assert_eq!(metadata.cache().topic_name(id).unwrap(), "orders");
    let version = metadata.cache().version;
    let (thread, _) = updates.iter().find(|update| update.1 == version).unwrap();
    assert_eq!(thread.as_deref(), Some("milena-io"));
}

#[test]
fn a_newer_epoch_is_looked_for() {
    let broker = rig::broker();
    let metadata = Metadata::start(bootstrapped(vec![broker.endpoint.clone()]));
    assert!(wait(metadata.updated_past(0)));
    create_topic(&metadata.any_broker().unwrap(), "orders");
    metadata.select(names(&["orders"]));
    until(&metadata, |cache| cache.topic("orders").is_some());
    let before = metadata.cache().version;
    assert!(metadata.handle_epoch(&orders(0), 77));
    assert!(metadata.cache().leader("orders", 0).is_none());
    assert!(wait(metadata.updated_past(before + 1)));
}

#[test]
fn brokers_that_are_gone_lead_back_to_the_bootstrap_servers() {
    let closed_port = ClosedPort::new();
    let gone = closed_port.endpoint();
    let server = scripted(move |listener| {
        let mut peer = Peer::agree(&listener);
        for round in 0..2 {
            let request = peer.request().unwrap();
            assert_eq!(request.key, ApiKey::Metadata);
            let body = request.body::<MetadataRequest>().unwrap();
            assert_eq!(body.topics.unwrap().len(), round);
            let topics = (0..round).map(|_| topic("orders", super::id(1), vec![partition(0, 1, 0)]));
            let mut response = response_with(topics.collect());
            for broker in &mut response.brokers {
                broker.host = gone.host.clone();
                broker.port = i32::from(gone.port);
            }
            peer.respond(&request, &response);
        }
        assert!(peer.request().is_none());
    });
    let connections = connections(ClientSettings {
        bootstrap: vec![server.endpoint.clone()],
        // A broker that failed once is not retried during the test.
        reconnect_backoff_ms: 3_600_000,
        reconnect_backoff_max_ms: 3_600_000,
        retry_backoff_ms: 1,
        ..ClientSettings::default()
    });
    let metadata = Metadata::start(connections.clone());
    assert!(wait(metadata.updated_past(0)));
    assert_eq!(metadata.cache().brokers().len(), 3);
    // One broker after the other cannot be reached, so the bootstrap server is used again.
    metadata.select(names(&["orders"]));
    until(&metadata, |cache| partition_count(cache, "orders") == Some(1));
    assert!(connections.numbers().connections_failed >= 3);
    connections.close();
    server.finish();
}

#[test]
fn no_bootstrap_server_is_a_readable_error() {
    let closed_port = ClosedPort::new();
    let metadata = Metadata::start(bootstrapped(vec![closed_port.endpoint()]));
    rig::until(|| metadata.last_error().is_some());
    let last_error = metadata.last_error().unwrap();
    assert!(
        last_error.to_string().starts_with("cannot connect to 127.0.0.1:"),
        "{last_error}"
    );

    let metadata = Metadata::start(bootstrapped(vec![]));
    rig::until(|| metadata.last_error().is_some());
    assert_eq!(metadata.last_error(), Some(MetadataError::NoBootstrap));
    assert!(metadata.any_broker().is_none());
}

#[test]
fn a_lost_connection_asks_for_an_update() {
    let server = scripted(|listener| {
        // The first broker is lost after its response; the loss alone triggers another request.
        for _ in 0..2 {
            let mut peer = Peer::agree(&listener);
            let request = peer.request().unwrap();
            assert_eq!(request.key, ApiKey::Metadata);
            let mut response = response_with(vec![]);
            response.brokers.truncate(1);
            response.brokers[0].host = "127.0.0.1".into();
            response.brokers[0].port = i32::from(listener.local_addr().unwrap().port());
            peer.respond(&request, &response);
        }
    });
    let metadata = Metadata::start(bootstrapped(vec![server.endpoint.clone()]));
    assert!(wait(metadata.updated_past(0)));
    server.finish();
}

#[test]
fn it_ends_with_its_last_handle() {
    let broker = rig::broker();
    let connections = bootstrapped(vec![broker.endpoint.clone()]);
    let metadata = Metadata::start(connections.clone());
    assert!(wait(metadata.updated_past(0)));
    let node = metadata.any_broker().unwrap();
    let never = metadata.updated_past(u64::MAX);
    metadata.clone().request_update(Refresh::New);
    drop(metadata);
    assert!(!wait(never));
    // The connections are shared with others and stay open.
    assert_ne!(node.status(), Status::Closed);
    drop(connections);
    rig::until(|| node.status() == Status::Closed);
}

#[test]
fn it_ends_with_the_connections_and_lets_its_observers_go() {
    let broker = rig::broker();
    let connections = bootstrapped(vec![broker.endpoint.clone()]);
    let metadata = Metadata::start(connections.clone());
    let held = Arc::new(());
    let theirs = Arc::clone(&held);
    metadata.on_update(move |_| assert!(Arc::strong_count(&theirs) > 0));
    assert!(wait(metadata.updated_past(0)));
    connections.close();
    metadata.request_update(Refresh::New);
    assert!(!wait(metadata.updated_past(u64::MAX)));
    rig::until(|| Arc::strong_count(&held) == 1);
}
