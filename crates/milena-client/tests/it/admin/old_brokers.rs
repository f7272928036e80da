//! An old broker, simulated by a proxy that changes its ApiVersions responses.

use std::{
    collections::VecDeque,
    io::{Read, Write},
    net::{Shutdown, TcpListener, TcpStream},
    path::Path,
    sync::{Arc, Mutex},
    thread,
};

use milena_client::{
    admin::{Admin, AdminError, GroupFilter, GroupType, OffsetAndMetadata, OffsetTarget, Uuid},
    config::AdminConfig,
    consumer::TopicPartition,
};
use milena_wire::{api::ApiKey, frame, message::Message, messages::ApiVersionsResponse};

use super::{only, only_error};
use crate::running::{self, Running};

/// The newest version of each API that the broker advertises; -1 for none. About Kafka 2.3.
const OLD: &[(ApiKey, i16)] = &[
    (ApiKey::FindCoordinator, 2),
    (ApiKey::OffsetFetch, 5),
    (ApiKey::OffsetCommit, 7),
    (ApiKey::ListGroups, 2),
    (ApiKey::DescribeGroups, 3),
    (ApiKey::ConsumerGroupDescribe, -1),
    (ApiKey::DescribeCluster, -1),
    (ApiKey::DeleteTopics, 3),
    (ApiKey::CreateTopics, 3),
    (ApiKey::Metadata, 8),
    (ApiKey::ListOffsets, 5),
];

/// Forwards frames between a client and the broker.
fn carry(client: &TcpStream, broker: &TcpStream) {
    // The API and version of each request in flight.
    let in_flight: Arc<Mutex<VecDeque<(i16, i16)>>> = Arc::default();
    let (mut requests, mut to_broker) = (client.try_clone().unwrap(), broker.try_clone().unwrap());
    let sent = Arc::clone(&in_flight);
    thread::spawn(move || {
        while let Some(request) = receive(&mut requests) {
            let number = |at: usize| i16::from_be_bytes([request[at], request[at + 1]]);
            sent.lock().unwrap().push_back((number(0), number(2)));
            if send(&mut to_broker, &request).is_none() {
                return;
            }
        }
        let _ = to_broker.shutdown(Shutdown::Both);
    });
    let (mut responses, mut to_client) = (broker.try_clone().unwrap(), client.try_clone().unwrap());
    thread::spawn(move || {
        while let Some(mut response) = receive(&mut responses) {
            let (api, version) = in_flight.lock().unwrap().pop_front().unwrap();
            if api == ApiKey::ApiVersions.id() {
                response = grow_old(&response, version);
            }
            if send(&mut to_client, &response).is_none() {
                return;
            }
        }
        let _ = to_client.shutdown(Shutdown::Both);
    });
}

/// Limits the versions in an ApiVersions response.
fn grow_old(response: &[u8], version: i16) -> Vec<u8> {
    let (header, body) = response.split_at(4);
    let mut versions = ApiVersionsResponse::decode(&body.to_vec().into(), version).unwrap();
    versions.api_keys.retain_mut(|api| {
        let old = OLD.iter().find(|(key, _)| key.id() == api.api_key);
        api.max_version = old.map_or(api.max_version, |(_, max)| *max);
        api.min_version <= api.max_version
    });
    [header, &versions.encode(version).unwrap()].concat()
}

fn receive(stream: &mut TcpStream) -> Option<Vec<u8>> {
    let mut prefix = [0; frame::LENGTH_SIZE];
    stream.read_exact(&mut prefix).ok()?;
    let mut bytes = vec![0; usize::try_from(i32::from_be_bytes(prefix)).unwrap()];
    stream.read_exact(&mut bytes).ok()?;
    Some(bytes)
}

fn send(stream: &mut TcpStream, bytes: &[u8]) -> Option<()> {
    let length = i32::try_from(bytes.len()).unwrap().to_be_bytes();
    stream.write_all(&[&length[..], bytes].concat()).ok()
}

/// Starts a broker on `path` behind the proxy. Returns the address of the proxy.
fn start(path: &Path) -> (Running, String) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    let (path, advertised) = (path.to_owned(), format!("PLAINTEXT://{address}"));
    // Its runtime cannot be started inside the test's runtime.
    let start = move || running::start(&path, &[("advertised.listeners", &advertised)]);
    let running = thread::spawn(start).join().unwrap();
    let broker = running.address.clone();
    thread::spawn(move || {
        for client in listener.incoming().map_while(Result::ok) {
            if let Ok(broker) = TcpStream::connect(&broker) {
                carry(&client, &broker);
            }
        }
    });
    (running, address)
}

#[tokio::test]
async fn older_forms_of_requests_are_used_where_they_must_be() {
    let dir = tempfile::tempdir().unwrap();
    let (running, address) = start(dir.path());
    running.client().create_topic("letters", 2, &[]);
    let admin = Admin::new(AdminConfig::builder(address.as_str())).unwrap();

    let cluster = admin.describe_cluster().await.unwrap();
    assert_eq!(
        (cluster.brokers.len(), cluster.controller.map(|node| node.id)),
        (1, Some(1))
    );
    assert_eq!(admin.list_topics().await.unwrap()["letters"].id, None);
    let partitions = [0, 1].map(|number| TopicPartition::new("letters", number));
    let at = |offset| OffsetAndMetadata {
        offset,
        leader_epoch: None,
        metadata: "".into(),
    };
    for group in ["one", "two"] {
        only(admin.alter_group_offsets(group, [(partitions[0].clone(), at(0))]).await);
    }
    let offsets = admin.list_group_offsets(["one", "two", "nobody"]).await;
    let counts: Vec<usize> = offsets
        .values()
        .map(|offsets| offsets.as_ref().unwrap().len())
        .collect();
    assert_eq!(counts, [0, 1, 1]);
    let described = only(admin.describe_groups(["one"]).await);
    assert_eq!((described.group_type, &*described.state), (GroupType::Classic, "Empty"));
    let listed = admin.list_groups(GroupFilter::default()).await.unwrap().all().unwrap();
    assert!(
        listed
            .iter()
            .all(|group| group.state.is_none() && group.group_type.is_none()),
        "{listed:?}"
    );
    assert_eq!(listed.len(), 2);
    let moved = admin
        .reset_group_offsets("one", partitions.clone(), OffsetTarget::Latest)
        .await;
    assert!(moved.unwrap().values().all(Result::is_ok));
    only(admin.delete_topics(["letters"]).await);

    let error = only_error(admin.delete_topics_by_id([Uuid::from_bytes([7; 16])]).await);
    assert!(
        matches!(&error, AdminError::Unsupported { theirs: Some(theirs), .. } if theirs.max == 3),
        "{error:?}"
    );
    assert!(error.to_string().contains("supports DeleteTopics"), "{error}");
    let _ = thread::spawn(move || drop(running)).join();
}
