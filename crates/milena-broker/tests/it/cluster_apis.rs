//! The cluster as a whole: its quorum, features and loggers, and APIs for parts that this broker does not have.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
};

use milena_broker::{LogLevel, LogLevels, Options};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        AlterReplicaLogDirsRequest, ApiVersionsRequest, ConsumerGroupHeartbeatRequest, CreateAclsRequest,
        DeleteAclsRequest, DescribeAclsRequest, DescribeQuorumRequest, UnregisterBrokerRequest, UpdateFeaturesRequest,
        alter_replica_log_dirs_request::{AlterReplicaLogDir, AlterReplicaLogDirTopic},
        describe_quorum_request::{PartitionData, TopicData},
        update_features_request::FeatureUpdateKey,
    },
};

use crate::{
    client::Client,
    foreign_suites::{SET, alter, describe, latest, running, value_of},
    running::{start, start_with},
};

const BROKER_LOGGER: i8 = 8;
const DELETE: i8 = 1;
const APPEND: i8 = 2;
const NO_AUTHORIZER: &str = "No Authorizer is configured.";

#[test]
fn the_quorum_is_this_node() {
    let (_dir, broker) = running();
    let mut client = broker.client();
    let asked = |topic: &str, partition_index| DescribeQuorumRequest {
        topics: vec![TopicData {
            topic_name: topic.into(),
            partitions: vec![PartitionData {
                partition_index,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    for version in 0..=2 {
        let response = client.call(&asked("__cluster_metadata", 0), version);
        assert_eq!(response.error_code, 0);
        let quorum = &response.topics[0].partitions[0];
        assert_eq!((quorum.error_code, quorum.leader_id), (0, 1));
        assert!(quorum.high_watermark > 0);
        assert_eq!((quorum.current_voters.len(), quorum.observers.len()), (1, 0));
        let voter = &quorum.current_voters[0];
        assert_eq!((voter.replica_id, voter.log_end_offset), (1, quorum.high_watermark));
        if version == 2 {
            assert_eq!(response.nodes[0].node_id, 1);
            let listener = &response.nodes[0].listeners[0];
            assert_eq!(format!("{}:{}", listener.host, listener.port), broker.address);
        }
        for (topic, partition) in [("letters", 0), ("__cluster_metadata", 1)] {
            let response = client.call(&asked(topic, partition), version);
            let error = ErrorCode::from_code(response.topics[0].partitions[0].error_code);
            assert_eq!(error, Some(ErrorCode::UnknownTopicOrPartition));
        }
    }
    broker.shutdown();
}

/// The finalized features and their epoch.
fn finalized(client: &mut Client) -> (Vec<(String, i16)>, i64) {
    let request = ApiVersionsRequest {
        client_software_name: "tests".into(),
        client_software_version: "1.0".into(),
        ..Default::default()
    };
    let response = client.call(&request, 4);
    let features = response.finalized_features.iter();
    let features = features.map(|feature| (feature.name.to_string(), feature.max_version_level));
    (features.collect(), response.finalized_features_epoch)
}

fn update(feature: &str, max_version_level: i16, upgrade_type: i8) -> UpdateFeaturesRequest {
    UpdateFeaturesRequest {
        feature_updates: vec![FeatureUpdateKey {
            feature: feature.into(),
            max_version_level,
            upgrade_type,
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn every_feature_of_kafka_is_shown_and_only_served_ones_are_on() {
    let (_dir, broker) = running();
    let mut client = broker.client();
    let request = ApiVersionsRequest {
        client_software_name: "tests".into(),
        client_software_version: "1.0".into(),
        ..Default::default()
    };
    let supported = |response: milena_wire::messages::ApiVersionsResponse| {
        let features = response.supported_features.into_iter();
        let features = features.map(|feature| (feature.name.to_string(), feature.min_version, feature.max_version));
        features.collect::<Vec<_>>()
    };
    let named = |name: &str, min, max| (name.to_owned(), min, max);
    assert_eq!(
        supported(client.call(&request, 4)),
        [
            named("eligible.leader.replicas.version", 0, 0),
            named("group.version", 0, 1),
            named("kraft.version", 0, 0),
            named("metadata.version", 30, 30),
            named("share.version", 0, 0),
            named("streams.version", 0, 0),
            named("transaction.version", 0, 2),
        ]
    );
    assert_eq!(supported(client.call(&request, 3)), [named("metadata.version", 30, 30)]);
    let level = |name: &str, level| (name.to_owned(), level);
    let on = [
        level("group.version", 1),
        level("metadata.version", 30),
        level("transaction.version", 2),
    ];
    assert_eq!(finalized(&mut client), (on.to_vec(), 0));
    broker.shutdown();
}

#[test]
fn features_can_be_updated_and_stay_so() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let (before, _) = finalized(&mut client);
    for (wrong, problem) in [
        (update("group.version", 7, 1), "versions 0-1"),
        (update("share.version", 1, 1), "versions 0-0"),
        (update("nothing.version", 1, 1), "does not support"),
        (update("group.version", 0, 1), "downgrade"),
        (update("group.version", 0, 0), "upgrade type 0"),
    ] {
        let response = latest(&mut client, &wrong);
        let error = ErrorCode::from_code(response.error_code);
        assert_eq!(error, Some(ErrorCode::InvalidUpdateVersion), "{wrong:?}");
        let message = response.error_message.unwrap();
        assert!(message.contains(problem), "{message}");
    }
    let validated = UpdateFeaturesRequest {
        validate_only: true,
        ..update("group.version", 0, 2)
    };
    assert_eq!(latest(&mut client, &validated).error_code, 0);
    assert_eq!(finalized(&mut client), (before, 0), "nothing has changed so far");

    // Without the feature the broker does not assign.
    let heartbeat = ConsumerGroupHeartbeatRequest {
        group_id: "readers".into(),
        member_id: "a-member".into(),
        rebalance_timeout_ms: 30_000,
        subscribed_topic_names: Some(vec!["letters".into()]),
        topic_partitions: Some(vec![]),
        ..Default::default()
    };
    assert_eq!(latest(&mut client, &heartbeat).error_code, 0);
    assert_eq!(latest(&mut client, &update("group.version", 0, 2)).error_code, 0);
    let refused = ErrorCode::from_code(latest(&mut client, &heartbeat).error_code);
    assert_eq!(refused, Some(ErrorCode::UnsupportedVersion));
    let down = client.call(&update("transaction.version", 1, 3), 1);
    assert_eq!((down.error_code, down.results.len()), (0, 1));
    let older = UpdateFeaturesRequest {
        feature_updates: vec![FeatureUpdateKey {
            feature: "transaction.version".into(),
            allow_downgrade: true,
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(client.call(&older, 0).error_code, 0);
    let expected = (vec![("metadata.version".to_owned(), 30)], 3);
    assert_eq!(finalized(&mut client), expected);
    broker.shutdown();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    assert_eq!(finalized(&mut client), expected);
    assert_eq!(latest(&mut client, &update("group.version", 1, 1)).error_code, 0);
    assert_eq!(latest(&mut client, &heartbeat).error_code, 0);
    broker.shutdown();
}

#[test]
fn acls_are_refused_as_kafka_without_an_authorizer_does() {
    let (_dir, broker) = running();
    let mut client = broker.client();
    let code = ErrorCode::SecurityDisabled.code();
    let filter = milena_wire::messages::delete_acls_request::DeleteAclsFilter {
        resource_type_filter: 1,
        operation: 1,
        permission_type: 1,
        ..Default::default()
    };
    let creation = milena_wire::messages::create_acls_request::AclCreation {
        resource_type: 2,
        operation: 3,
        permission_type: 3,
        ..Default::default()
    };
    for version in 1..=3 {
        let describe = DescribeAclsRequest {
            resource_type_filter: 1,
            operation: 1,
            permission_type: 1,
            ..Default::default()
        };
        let described = client.call(&describe, version);
        assert_eq!(
            (described.error_code, described.error_message.as_deref()),
            (code, Some("No Authorizer is configured on the broker"))
        );
        let create = CreateAclsRequest {
            creations: vec![creation.clone(), creation.clone()],
            ..Default::default()
        };
        let created = client.call(&create, version).results;
        assert_eq!((created.len(), created[1].error_code), (2, code));
        assert_eq!(created[1].error_message.as_deref(), Some(NO_AUTHORIZER));
        let delete = DeleteAclsRequest {
            filters: vec![filter.clone()],
            ..Default::default()
        };
        let deleted = client.call(&delete, version).filter_results;
        assert_eq!((deleted.len(), deleted[0].error_code), (1, code));
        assert_eq!(deleted[0].error_message.as_deref(), Some(NO_AUTHORIZER));
    }
    broker.shutdown();
}

#[test]
fn the_only_broker_cannot_be_unregistered() {
    let (_dir, broker) = running();
    let mut client = broker.client();
    for (broker_id, expected, text) in [
        (1, ErrorCode::InvalidRequest, "only one"),
        (7, ErrorCode::BrokerIdNotRegistered, "7"),
    ] {
        let request = UnregisterBrokerRequest {
            broker_id,
            ..Default::default()
        };
        let response = client.call(&request, 0);
        assert_eq!(response.error_code, expected.code());
        assert!(response.error_message.unwrap().contains(text));
    }
    broker.shutdown();
}

#[test]
fn replicas_can_be_moved_to_where_they_are_and_nowhere_else() {
    let (dir, broker) = running();
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    let own = dir.path().to_str().unwrap();
    for (path, partition, expected) in [
        (own, 0, ErrorCode::None),
        (own, 1, ErrorCode::UnknownTopicOrPartition),
        ("/elsewhere", 0, ErrorCode::LogDirNotFound),
        ("", 0, ErrorCode::LogDirNotFound),
    ] {
        let request = AlterReplicaLogDirsRequest {
            dirs: vec![AlterReplicaLogDir {
                path: path.into(),
                topics: vec![AlterReplicaLogDirTopic {
                    name: "letters".into(),
                    partitions: vec![partition],
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        for version in 1..=2 {
            let results = client.call(&request, version).results;
            assert_eq!(results[0].topic_name, "letters");
            assert_eq!(
                results[0].partitions[0].error_code,
                expected.code(),
                "{path} {partition}"
            );
        }
    }
    broker.shutdown();
}

/// Loggers in a map.
#[derive(Debug)]
struct Levels(Mutex<BTreeMap<String, LogLevel>>);

impl LogLevels for Levels {
    fn levels(&self) -> BTreeMap<String, LogLevel> {
        self.0.lock().unwrap().clone()
    }

    fn change(&self, levels: &BTreeMap<String, Option<LogLevel>>) -> Result<(), String> {
        let mut own = self.0.lock().unwrap();
        for (name, level) in levels {
            match level {
                Some(level) => own.insert(name.clone(), *level),
                None => own.remove(name),
            };
        }
        Ok(())
    }
}

#[test]
fn log_levels_are_shown_and_changed() {
    let dir = tempfile::tempdir().unwrap();
    let levels = [("root", LogLevel::Info), ("milena_broker", LogLevel::Info)];
    let levels = levels.map(|(name, level)| (name.to_owned(), level));
    let levels = Arc::new(Levels(Mutex::new(levels.into())));
    let options = Options {
        log_levels: Some(levels.clone()),
        ..Options::default()
    };
    let broker = start_with(options, dir.path());
    let mut client = broker.client();
    let loggers = (BROKER_LOGGER, "1");
    let shown = describe(&mut client, loggers);
    assert_eq!(value_of(&shown, "root"), Some(("INFO".to_owned(), 6)));
    let ops = [("root", SET, "warn"), ("milena_broker.net", SET, "TRACE")];
    assert_eq!(alter(&mut client, loggers, &ops), (ErrorCode::None, None));
    let shown = describe(&mut client, loggers);
    assert_eq!(value_of(&shown, "root"), Some(("WARN".to_owned(), 6)));
    assert_eq!(value_of(&shown, "milena_broker.net"), Some(("TRACE".to_owned(), 6)));
    assert_eq!(levels.levels()["milena_broker::net"], LogLevel::Trace);
    let forgotten = alter(&mut client, loggers, &[("milena_broker.net", DELETE, "")]);
    assert_eq!(forgotten, (ErrorCode::None, None));
    assert!(!levels.levels().contains_key("milena_broker::net"));

    let before = levels.levels();
    for (op, expected, text) in [
        (("root", SET, "LOUD"), ErrorCode::InvalidConfig, "TRACE"),
        (
            ("kafka.server", SET, "DEBUG"),
            ErrorCode::InvalidConfig,
            "milena_broker",
        ),
        (("milena_brokers", SET, "DEBUG"), ErrorCode::InvalidConfig, "no logger"),
        (("root", DELETE, ""), ErrorCode::InvalidRequest, "root logger"),
        (("root", APPEND, "INFO"), ErrorCode::InvalidRequest, "appended"),
    ] {
        let good = ("milena_broker", SET, "ERROR");
        let (code, message) = alter(&mut client, loggers, &[good, op]);
        assert_eq!(code, expected, "{op:?}");
        let message = message.unwrap();
        assert!(message.contains(text), "{op:?}: {message}");
    }
    assert_eq!(levels.levels(), before, "all or none");
    assert_eq!(
        alter(&mut client, (BROKER_LOGGER, "7"), &ops).0,
        ErrorCode::InvalidRequest
    );
    broker.shutdown();
}

#[test]
fn a_program_that_gives_no_log_levels_has_no_loggers() {
    let (_dir, broker) = running();
    let (code, message) = alter(&mut broker.client(), (BROKER_LOGGER, "1"), &[("root", SET, "WARN")]);
    assert_eq!(code, ErrorCode::InvalidRequest);
    assert!(message.unwrap().contains("Options::log_levels"));
    broker.shutdown();
}
