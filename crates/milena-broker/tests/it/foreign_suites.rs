//! Facts that test suites and tools of other projects rely on.

use std::fmt::Debug;

use milena_broker::config::{broker_definitions, group_definitions, topic_definitions};
use milena_wire::{
    errors::ErrorCode,
    message::Request,
    messages::{
        AlterPartitionReassignmentsRequest, CreateTopicsRequest, DescribeConfigsRequest, FindCoordinatorRequest,
        IncrementalAlterConfigsRequest, JoinGroupRequest, ListPartitionReassignmentsRequest,
        create_topics_request::CreatableTopic,
        describe_configs_request::DescribeConfigsResource,
        describe_configs_response::DescribeConfigsResourceResult,
        incremental_alter_configs_request::{AlterConfigsResource, AlterableConfig},
        join_group_request::JoinGroupRequestProtocol,
    },
};

use crate::{
    client::Client,
    running::{Running, start},
};

pub const TOPIC: i8 = 2;
pub const BROKER: i8 = 4;
pub const SET: i8 = 0;

pub fn running() -> (tempfile::TempDir, Running) {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    (dir, broker)
}

pub fn latest<R: Request<Response: Debug>>(client: &mut Client, request: &R) -> R::Response {
    client.call(request, R::KEY.broker_versions().unwrap().max)
}

/// Changes settings of a resource; returns the error and its message.
pub fn alter(client: &mut Client, (kind, name): (i8, &str), ops: &[(&str, i8, &str)]) -> (ErrorCode, Option<String>) {
    let configs = ops.iter().map(|(name, config_operation, value)| AlterableConfig {
        name: (*name).into(),
        config_operation: *config_operation,
        value: Some((*value).into()),
        ..Default::default()
    });
    let request = IncrementalAlterConfigsRequest {
        resources: vec![AlterConfigsResource {
            resource_type: kind,
            resource_name: name.into(),
            configs: configs.collect(),
            ..Default::default()
        }],
        ..Default::default()
    };
    let response = latest(client, &request).responses.remove(0);
    let code = ErrorCode::from_code(response.error_code).unwrap();
    (code, response.error_message.map(|message| message.to_string()))
}

pub fn describe(client: &mut Client, (kind, name): (i8, &str)) -> Vec<DescribeConfigsResourceResult> {
    let request = DescribeConfigsRequest {
        resources: vec![DescribeConfigsResource {
            resource_type: kind,
            resource_name: name.into(),
            configuration_keys: None,
            ..Default::default()
        }],
        include_synonyms: true,
        include_documentation: true,
        ..Default::default()
    };
    let result = latest(client, &request).results.remove(0);
    assert_eq!(result.error_code, 0, "{result:?}");
    result.configs
}

/// The value of a key and the number of its source.
pub fn value_of(configs: &[DescribeConfigsResourceResult], name: &str) -> Option<(String, i8)> {
    let config = configs.iter().find(|config| config.name == name)?;
    Some((config.value.clone()?.to_string(), config.config_source))
}

#[test]
fn a_success_has_no_error_message() {
    let (_dir, broker) = running();
    let mut client = broker.client();
    for validate_only in [true, false] {
        let request = CreateTopicsRequest {
            topics: vec![CreatableTopic {
                name: "letters".into(),
                num_partitions: 1,
                replication_factor: 1,
                ..Default::default()
            }],
            validate_only,
            ..Default::default()
        };
        let created = latest(&mut client, &request).topics.remove(0);
        assert_eq!((created.error_code, created.error_message), (0, None));
    }
    let reassigned = latest(&mut client, &AlterPartitionReassignmentsRequest::default());
    assert_eq!((reassigned.error_code, reassigned.error_message), (0, None));
    let listed = latest(&mut client, &ListPartitionReassignmentsRequest::default());
    assert_eq!((listed.error_code, listed.error_message), (0, None));
    broker.shutdown();
}

#[test]
fn a_coordinator_that_was_found_has_kafkas_message() {
    let (_dir, broker) = running();
    let mut client = broker.client();
    for version in 1..=3 {
        let request = FindCoordinatorRequest {
            key: "readers".into(),
            ..Default::default()
        };
        let found = client.call(&request, version);
        assert_eq!(
            (found.error_code, found.error_message),
            (0, Some("NONE".into())),
            "{version}"
        );
    }
    for version in 4..=6 {
        let request = FindCoordinatorRequest {
            coordinator_keys: vec!["readers".into()],
            ..Default::default()
        };
        let found = client.call(&request, version).coordinators.remove(0);
        assert_eq!(
            (found.error_code, found.error_message),
            (0, Some("".into())),
            "{version}"
        );
    }
    broker.shutdown();
}

#[test]
fn a_delay_for_deleted_files_is_stored_and_shown() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[("log.segment.delete.delay.ms", "30000")]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[("file.delete.delay.ms", "10000")]);
    client.create_topic("others", 1, &[]);
    let change = alter(
        &mut client,
        (BROKER, ""),
        &[("log.segment.delete.delay.ms", SET, "20000")],
    );
    assert_eq!(change, (ErrorCode::None, None));
    broker.shutdown();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let name = "file.delete.delay.ms";
    let letters = describe(&mut client, (TOPIC, "letters"));
    assert_eq!(value_of(&letters, name), Some(("10000".to_owned(), 1)));
    let others = describe(&mut client, (TOPIC, "others"));
    assert_eq!(value_of(&others, name), Some(("20000".to_owned(), 3)));
    let negative = alter(&mut client, (TOPIC, "letters"), &[(name, SET, "-1")]);
    assert_eq!(negative.0, ErrorCode::InvalidConfig);
    broker.shutdown();
}

#[test]
fn replication_throttles_are_stored_and_shown() {
    let (_dir, broker) = running();
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    let replicas = "leader.replication.throttled.replicas";
    for value in ["0:1", "*", "0:1,0:2", ""] {
        let change = alter(&mut client, (TOPIC, "letters"), &[(replicas, SET, value)]);
        assert_eq!(change, (ErrorCode::None, None), "{value:?}");
        let letters = describe(&mut client, (TOPIC, "letters"));
        assert_eq!(value_of(&letters, replicas), Some((value.to_owned(), 1)));
    }
    for value in ["0", "0:", ":1", "a:b", "*,0:1"] {
        let (code, message) = alter(&mut client, (TOPIC, "letters"), &[(replicas, SET, value)]);
        assert_eq!(code, ErrorCode::InvalidConfig, "{value:?}");
        assert!(message.unwrap().contains("partition:broker"), "{value:?}");
    }
    let rates = [
        ("leader.replication.throttled.rate", SET, "1000"),
        ("follower.replication.throttled.rate", SET, "2000"),
        ("replica.alter.log.dirs.io.max.bytes.per.second", SET, "3000"),
    ];
    assert_eq!(alter(&mut client, (BROKER, "1"), &rates), (ErrorCode::None, None));
    let configs = describe(&mut client, (BROKER, "1"));
    for (name, _, value) in rates {
        assert_eq!(value_of(&configs, name), Some((value.to_owned(), 2)));
    }
    broker.shutdown();
}

#[test]
fn every_setting_is_documented() {
    let (_dir, broker) = running();
    let mut client = broker.client();
    for config in describe(&mut client, (BROKER, "1")) {
        let documentation = config.documentation.unwrap();
        assert!(documentation.ends_with('.'), "{}: {documentation:?}", config.name);
    }
    let definitions = [broker_definitions(), topic_definitions(), group_definitions()];
    for definition in definitions.into_iter().flatten() {
        assert!(!definition.documentation.is_empty(), "{}", definition.name);
    }
    broker.shutdown();
}

/// A static member joins; the response is read later.
fn send_join(client: &mut Client, group: &str, instance: &str) {
    let request = JoinGroupRequest {
        group_id: group.into(),
        group_instance_id: Some(instance.into()),
        session_timeout_ms: 30_000,
        rebalance_timeout_ms: 30_000,
        protocol_type: "consumer".into(),
        protocols: vec![JoinGroupRequestProtocol {
            name: "range".into(),
            ..Default::default()
        }],
        ..Default::default()
    };
    client.send(&request, 9);
}

#[test]
fn members_that_start_together_join_in_one_rebalance() {
    let (_dir, broker) = running();
    let (mut first, mut second) = (broker.client(), broker.client());
    let configs = describe(&mut first, (BROKER, "1"));
    let delay = value_of(&configs, "group.initial.rebalance.delay.ms");
    assert_eq!(delay, Some(("20".to_owned(), 5)));
    // A machine that is busy may let the second request wait for longer than the delay, but not always.
    let together = (0..100).any(|attempt| {
        let group = format!("readers-{attempt}");
        send_join(&mut first, &group, "first");
        send_join(&mut second, &group, "second");
        let joined = first.receive::<JoinGroupRequest>(9);
        if joined.members.len() != 2 {
            // The second waits for the first to come back, which would take for ever.
            second = broker.client();
            return false;
        }
        let other = second.receive::<JoinGroupRequest>(9);
        assert_eq!((joined.generation_id, other.generation_id), (1, 1));
        true
    });
    assert!(together);
    broker.shutdown();
}
