//! Limits of what clients can make the broker keep. Each refusal names its setting, in the response or in the log.

use std::time::Duration;

use milena_broker::Options;
use milena_wire::{
    compression::Codec,
    errors::ErrorCode,
    messages::*,
    records::{Attributes, BatchOptions},
};

use crate::{
    client::{Client, batch, batch_with, fetch_request},
    paused::play,
    running::{Running, start, try_start_with},
};

fn create(client: &mut Client, name: &str, partitions: i32) -> (i16, String) {
    let request = CreateTopicsRequest {
        topics: vec![create_topics_request::CreatableTopic {
            name: name.into(),
            num_partitions: partitions,
            replication_factor: 1,
            ..Default::default()
        }],
        ..Default::default()
    };
    let result = client.call(&request, 7).topics.remove(0);
    (
        result.error_code,
        result.error_message.as_deref().unwrap_or_default().to_owned(),
    )
}

fn grow(client: &mut Client, name: &str, count: i32) -> (i16, String) {
    let request = CreatePartitionsRequest {
        topics: vec![create_partitions_request::CreatePartitionsTopic {
            name: name.into(),
            count,
            assignments: None,
            ..Default::default()
        }],
        ..Default::default()
    };
    let result = client.call(&request, 3).results.remove(0);
    (
        result.error_code,
        result.error_message.as_deref().unwrap_or_default().to_owned(),
    )
}

#[track_caller]
fn refused(outcome: (i16, String), code: ErrorCode, setting: &str) {
    assert_eq!(outcome.0, code.code(), "{}", outcome.1);
    assert!(outcome.1.contains(setting), "{}", outcome.1);
}

#[test]
fn topics_and_partitions_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        ("milena.max.topics", "3"),
        ("milena.max.partitions", "10"),
        ("milena.max.partitions.per.request", "5"),
    ];
    let broker = start(dir.path(), &settings);
    let mut client = broker.client();
    refused(
        create(&mut client, "a", 6),
        ErrorCode::PolicyViolation,
        "milena.max.partitions.per.request",
    );
    assert_eq!(create(&mut client, "a", 5).0, 0);
    assert_eq!(create(&mut client, "b", 4).0, 0);
    refused(
        create(&mut client, "c", 2),
        ErrorCode::PolicyViolation,
        "milena.max.partitions",
    );
    refused(
        grow(&mut client, "b", 6),
        ErrorCode::PolicyViolation,
        "milena.max.partitions",
    );
    assert_eq!(create(&mut client, "c", 1).0, 0);
    refused(
        create(&mut client, "d", 1),
        ErrorCode::PolicyViolation,
        "milena.max.topics",
    );
    // One request cannot create what several may not.
    let many = CreateTopicsRequest {
        topics: ["d", "e"]
            .map(|name| create_topics_request::CreatableTopic {
                name: name.into(),
                num_partitions: 1,
                replication_factor: 1,
                ..Default::default()
            })
            .into(),
        ..Default::default()
    };
    let codes: Vec<i16> = client
        .call(&many, 7)
        .topics
        .iter()
        .map(|topic| topic.error_code)
        .collect();
    assert_eq!(codes, [ErrorCode::PolicyViolation.code(); 2]);
    let automatic = MetadataRequest {
        topics: Some(vec![metadata_request::MetadataRequestTopic {
            name: Some("automatic".into()),
            ..Default::default()
        }]),
        allow_auto_topic_creation: true,
        ..Default::default()
    };
    assert_eq!(
        client.call(&automatic, 12).topics[0].error_code,
        ErrorCode::PolicyViolation.code()
    );
    // The topics of the coordinators do not depend on it.
    assert_eq!(commit(&mut client, "readers"), 0);
    broker.shutdown();
}

fn join_request(group: &str, metadata: usize) -> JoinGroupRequest {
    JoinGroupRequest {
        group_id: group.into(),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".into(),
        protocols: vec![join_group_request::JoinGroupRequestProtocol {
            name: "range".into(),
            metadata: vec![7; metadata].into(),
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn heartbeat_request(group: &str, member: &str) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest {
        group_id: group.into(),
        member_id: member.into(),
        member_epoch: 0,
        rebalance_timeout_ms: 30_000,
        subscribed_topic_names: Some(vec!["a".into()]),
        topic_partitions: Some(vec![]),
        ..Default::default()
    }
}

fn heartbeat(client: &mut Client, request: &ConsumerGroupHeartbeatRequest) -> (i16, String) {
    let response = client.call(request, 1);
    let message = response.error_message.as_deref().unwrap_or_default().to_owned();
    (response.error_code, message)
}

/// Commits an offset of a group without members.
fn commit(client: &mut Client, group: &str) -> i16 {
    let request = OffsetCommitRequest {
        group_id: group.into(),
        generation_id_or_member_epoch: -1,
        topics: vec![offset_commit_request::OffsetCommitRequestTopic {
            name: "a".into(),
            partitions: vec![offset_commit_request::OffsetCommitRequestPartition::default()],
            ..Default::default()
        }],
        ..Default::default()
    };
    client.call(&request, 8).topics[0].partitions[0].error_code
}

#[test]
fn groups_are_bounded_whatever_creates_them() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[("milena.max.groups", "3")]);
    let mut client = broker.client();
    client.create_topic("a", 1, &[]);
    let join = client.call(&join_request("classic", 1), 9).error_code;
    assert_eq!(join, ErrorCode::MemberIdRequired.code());
    assert_eq!(heartbeat(&mut client, &heartbeat_request("consumer", "m")).0, 0);
    assert_eq!(commit(&mut client, "offsets"), 0);
    let code = ErrorCode::PolicyViolation;
    assert_eq!(client.call(&join_request("more", 1), 9).error_code, code.code());
    refused(
        heartbeat(&mut client, &heartbeat_request("more", "m")),
        code,
        "milena.max.groups",
    );
    assert_eq!(commit(&mut client, "more"), code.code());
    // Those that exist are not affected.
    assert_eq!(commit(&mut client, "offsets"), 0);
    assert_eq!(heartbeat(&mut client, &heartbeat_request("consumer", "n")).0, 0);
    let delete = DeleteGroupsRequest {
        groups_names: vec!["offsets".into()],
        ..Default::default()
    };
    assert_eq!(client.call(&delete, 2).results[0].error_code, 0);
    assert_eq!(commit(&mut client, "more"), 0);
    assert_eq!(commit(&mut client, "offsets"), code.code());
    broker.shutdown();
    // Groups of an earlier run count too.
    let broker = start(dir.path(), &[("milena.max.groups", "3")]);
    let mut client = broker.client();
    assert_eq!(commit(&mut client, "more"), 0);
    broker.shutdown();
}

#[test]
fn members_and_their_metadata_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        ("milena.max.group.members", "2"),
        ("milena.max.member.metadata.bytes", "1000"),
        ("milena.max.name.bytes", "300"),
    ];
    let broker = start(dir.path(), &settings);
    let mut client = broker.client();
    client.create_topic("a", 1, &[]);
    // Members that have an id and do not join with it count.
    for code in [
        ErrorCode::MemberIdRequired,
        ErrorCode::MemberIdRequired,
        ErrorCode::GroupMaxSizeReached,
    ] {
        assert_eq!(client.call(&join_request("classic", 1), 9).error_code, code.code());
    }
    for member in ["m", "n"] {
        assert_eq!(heartbeat(&mut client, &heartbeat_request("consumer", member)).0, 0);
    }
    refused(
        heartbeat(&mut client, &heartbeat_request("consumer", "o")),
        ErrorCode::GroupMaxSizeReached,
        "milena.max.group.members",
    );
    let large = client.call(&join_request("other", 1000), 9).error_code;
    assert_eq!(large, ErrorCode::InvalidRequest.code());
    let mut wide = heartbeat_request("wide", "m");
    wide.subscribed_topic_names = Some((0..1001).map(|_| "x".into()).collect());
    refused(
        heartbeat(&mut client, &wide),
        ErrorCode::InvalidRequest,
        "milena.max.member.metadata.bytes",
    );
    let long = "x".repeat(301);
    let code = client.call(&join_request(&long, 1), 9).error_code;
    assert_eq!(code, ErrorCode::InvalidGroupId.code());
    assert_eq!(commit(&mut client, &long), ErrorCode::InvalidGroupId.code());
    refused(
        heartbeat(&mut client, &heartbeat_request("group", &long)),
        ErrorCode::InvalidRequest,
        "milena.max.name.bytes",
    );
    broker.shutdown();
}

#[test]
fn transactional_ids_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [("milena.max.transactional.ids", "2"), ("milena.max.name.bytes", "300")];
    let broker = start(dir.path(), &settings);
    let mut client = broker.client();
    let mut init = |id: &str| {
        let request = InitProducerIdRequest {
            transactional_id: Some(id.into()),
            transaction_timeout_ms: 10_000,
            ..Default::default()
        };
        client.call(&request, 4).error_code
    };
    assert_eq!((init("a"), init("b")), (0, 0));
    assert_eq!(init("c"), ErrorCode::PolicyViolation.code());
    assert_eq!(init(&"x".repeat(301)), ErrorCode::InvalidRequest.code());
    assert_eq!(init("b"), 0);
    broker.shutdown();
}

#[test]
fn producers_of_a_partition_are_bounded() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[("milena.max.producers.per.partition", "2")]);
    let mut client = broker.client();
    // The batches of the test have old timestamps, and producers that were idle for long are forgotten instead.
    client.create_topic("a", 2, &[("message.timestamp.type", "LogAppendTime")]);
    let records = |producer_id, base_sequence| {
        let options = BatchOptions {
            attributes: Attributes::default(),
            producer_id,
            producer_epoch: 0,
            base_sequence,
            ..BatchOptions::default()
        };
        batch_with(&["x"], Codec::None, options)
    };
    for producer_id in [1, 2] {
        assert_eq!(client.produce("a", 0, records(producer_id, 0)).error_code, 0);
    }
    let third = client.produce("a", 0, records(3, 0));
    let message = third.error_message.as_deref().unwrap_or_default().to_owned();
    refused(
        (third.error_code, message),
        ErrorCode::PolicyViolation,
        "milena.max.producers.per.partition",
    );
    // Known ones, others without an id, and other partitions are not affected.
    assert_eq!(client.produce("a", 0, records(2, 1)).error_code, 0);
    assert_eq!(client.produce("a", 0, batch(&["plain"])).error_code, 0);
    assert_eq!(client.produce("a", 1, records(3, 0)).error_code, 0);
    broker.shutdown();
}

fn alter(client: &mut Client, resource_type: i8, name: &str, key: &str, value: &str) -> (i16, String) {
    let request = IncrementalAlterConfigsRequest {
        resources: vec![incremental_alter_configs_request::AlterConfigsResource {
            resource_type,
            resource_name: name.into(),
            configs: vec![incremental_alter_configs_request::AlterableConfig {
                name: key.into(),
                config_operation: 0,
                value: Some(value.into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let result = client.call(&request, 1).responses.remove(0);
    (
        result.error_code,
        result.error_message.as_deref().unwrap_or_default().to_owned(),
    )
}

#[test]
fn configs_are_bounded_in_length_and_number() {
    const TOPIC: i8 = 2;
    const CLIENT_METRICS: i8 = 16;
    const GROUP: i8 = 32;
    let dir = tempfile::tempdir().unwrap();
    let settings = [
        ("milena.max.config.value.bytes", "100"),
        ("milena.max.group.configs", "1"),
        ("milena.max.client.metrics.subscriptions", "1"),
        ("milena.max.name.bytes", "300"),
    ];
    let broker = start(dir.path(), &settings);
    let mut client = broker.client();
    client.create_topic("a", 1, &[]);
    let key = "leader.replication.throttled.replicas";
    let long = "0:1,".repeat(30);
    refused(
        alter(&mut client, TOPIC, "a", key, &long),
        ErrorCode::InvalidConfig,
        "milena.max.config.value.bytes",
    );
    let with_config = CreateTopicsRequest {
        topics: vec![create_topics_request::CreatableTopic {
            name: "b".into(),
            num_partitions: 1,
            replication_factor: 1,
            configs: vec![create_topics_request::CreatableTopicConfig {
                name: key.into(),
                value: Some(long.as_str().into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let topic = &client.call(&with_config, 7).topics[0];
    assert_eq!(topic.error_code, ErrorCode::InvalidConfig.code(), "{topic:?}");
    for (resource_type, key, setting) in [
        (GROUP, "consumer.session.timeout.ms", "milena.max.group.configs"),
        (CLIENT_METRICS, "interval.ms", "milena.max.client.metrics.subscriptions"),
    ] {
        let mut set = |name: &str, value: &str| alter(&mut client, resource_type, name, key, value);
        assert_eq!(set("one", "50000").0, 0);
        refused(set("two", "50000"), ErrorCode::PolicyViolation, setting);
        assert_eq!(set("one", "51000").0, 0);
        refused(
            set(&"x".repeat(301), "50000"),
            ErrorCode::InvalidRequest,
            "milena.max.name.bytes",
        );
    }
    broker.shutdown();
}

#[test]
fn fetch_sessions_are_bounded_in_partitions() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[("milena.max.fetch.session.partitions", "1")]);
    let mut client = broker.client();
    client.create_topic("a", 1, &[]);
    let mut fetch = fetch_request("a", 0, 0);
    (fetch.session_epoch, fetch.max_wait_ms) = (0, 0);
    let first = client.call(&fetch, 12);
    assert_ne!(first.session_id, 0);
    // There is no room for a second session, so its client fetches without one.
    let second = broker.client().call(&fetch, 12);
    assert_eq!((second.error_code, second.session_id), (0, 0));
    broker.shutdown();
}

#[test]
fn a_client_that_names_its_software_at_length_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let request = |len: usize| ApiVersionsRequest {
        client_software_name: "x".repeat(len).into(),
        client_software_version: "1".into(),
        ..Default::default()
    };
    assert_eq!(broker.client().call(&request(4096), 3).error_code, 0);
    let refused = broker.client().call(&request(4097), 3);
    assert_eq!(refused.error_code, ErrorCode::InvalidRequest.code());
    broker.shutdown();
}

/// A broker with memory for two requests of 50 KB, where a join waits for others.
fn with_little_memory(dir: &std::path::Path) -> Running {
    let settings = [
        ("queued.max.request.bytes", "110000"),
        ("socket.request.max.bytes", "60000"),
        ("group.initial.rebalance.delay.ms", "300000"),
    ];
    try_start_with(Options::default(), dir, &settings).unwrap()
}

#[test]
fn large_requests_that_wait_keep_their_memory() {
    let dir = tempfile::tempdir().unwrap();
    let broker = with_little_memory(dir.path());
    // Two fill the memory, and one may exceed it.
    let mut waiting: Vec<Client> = ["a", "b", "c"]
        .into_iter()
        .map(|group| {
            let mut client = broker.client();
            let request = join_request(group, 50_000);
            // Version 3 needs no id to join.
            client.send(&request, 3);
            client
        })
        .collect();
    let mut third = broker.client();
    let large = MetadataRequest {
        topics: Some(vec![metadata_request::MetadataRequestTopic {
            name: Some("x".repeat(20_000).into()),
            ..Default::default()
        }]),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    // Small requests are served: wait until all groups exist.
    let mut other = broker.client();
    while other.call(&ListGroupsRequest::default(), 4).groups.len() < 3 {}
    third.send(&large, 12);
    for _ in 0..50 {
        other.call(&ListGroupsRequest::default(), 4);
    }
    third.expect_silence();
    // The end of a connection frees the memory of its request.
    drop(waiting.pop());
    let response = third.receive::<MetadataRequest>(12);
    assert_eq!(response.topics[0].error_code, ErrorCode::InvalidTopicException.code());
    broker.shutdown();
}

#[test]
fn requests_of_a_connection_that_wait_are_bounded() {
    play(Options::default(), &[("milena.max.pending.requests", "2")], |scene| {
        let mut client = scene.client();
        let mut fetch = fetch_request("letters", 0, 0);
        (fetch.max_wait_ms, fetch.min_bytes) = (10_000, 1);
        client.send(&fetch, 12);
        client.send(&fetch, 12);
        let late = CreateTopicsRequest {
            topics: vec![create_topics_request::CreatableTopic {
                name: "late".into(),
                num_partitions: 1,
                replication_factor: 1,
                ..Default::default()
            }],
            ..Default::default()
        };
        client.send(&late, 7);
        let exists = || {
            let topics = scene
                .client()
                .call(
                    &MetadataRequest {
                        topics: None,
                        ..Default::default()
                    },
                    12,
                )
                .topics;
            topics.iter().any(|topic| topic.name.as_deref() == Some("late"))
        };
        scene.others_are_served();
        assert!(!exists(), "a third request began while two were pending");
        // The second waits from the response to the first on.
        for _ in 0..2 {
            scene.advance(Duration::from_millis(10_010));
            client.receive::<FetchRequest>(12);
        }
        assert_eq!(client.receive::<CreateTopicsRequest>(7).topics[0].error_code, 0);
        assert!(exists());
    });
}
