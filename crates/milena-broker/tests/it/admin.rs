//! Admin requests: their responses in every version, and their effects on disk.

mod groups;
mod server;

use std::{
    fs,
    path::Path,
    thread,
    time::{Duration, Instant},
};

use milena_wire::{
    errors::ErrorCode,
    messages::{
        AlterPartitionReassignmentsRequest, DeleteTopicsRequest, DescribeLogDirsRequest, DescribeProducersRequest,
        ElectLeadersRequest, FetchRequest, ListConfigResourcesRequest, ListPartitionReassignmentsRequest,
        OffsetForLeaderEpochRequest, alter_partition_reassignments_request,
        describe_log_dirs_request::DescribableLogDirTopic,
        describe_producers_request, elect_leaders_request,
        fetch_request::{FetchPartition, FetchTopic},
        offset_for_leader_epoch_request::{OffsetForLeaderPartition, OffsetForLeaderTopic},
    },
    records::BatchOptions,
};

use self::server::{Server, delete_records, error, grow, incremental, replacing};

const NONE: i16 = ErrorCode::None.code();
const TOPIC: i8 = 2;
const BROKER: i8 = 4;
const BROKER_LOGGER: i8 = 8;
const GROUP: i8 = 32;
const SET: i8 = 0;
const DELETE: i8 = 1;
const APPEND: i8 = 2;

fn epoch_request(topic: &str, current_leader_epoch: i32, leader_epoch: i32) -> OffsetForLeaderEpochRequest {
    OffsetForLeaderEpochRequest {
        topics: vec![OffsetForLeaderTopic {
            topic: topic.into(),
            partitions: vec![OffsetForLeaderPartition {
                current_leader_epoch,
                leader_epoch,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

#[test]
fn epochs_end_where_the_next_begins() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 1, &[]);
    client.produce("letters", 3, 10);
    server.kill();
    // After an unclean shutdown the epoch is the next one.
    let server = Server::start(&dir);
    let mut client = server.client();
    client.produce("letters", 2, 10);
    for (current, asked, expected) in [
        (-1, 0, (ErrorCode::None, 0, 3)),
        (1, 1, (ErrorCode::None, 1, 5)),
        (1, 9, (ErrorCode::None, -1, -1)),
        (0, 0, (ErrorCode::FencedLeaderEpoch, -1, -1)),
        (2, 0, (ErrorCode::UnknownLeaderEpoch, -1, -1)),
    ] {
        client.at_every_version(&epoch_request("letters", current, asked), |version, response| {
            let end = &response.topics[0].partitions[0];
            let found = (error(end.error_code), end.leader_epoch, end.end_offset);
            assert_eq!(found, expected, "epochs {current} and {asked}, version {version}");
        });
    }
    client.at_every_version(&epoch_request("nowhere", -1, 0), |_, response| {
        let end = &response.topics[0].partitions[0];
        assert_eq!(error(end.error_code), ErrorCode::UnknownTopicOrPartition);
        assert_eq!((end.leader_epoch, end.end_offset), (-1, -1));
    });
    server.stop();
}

#[test]
fn records_are_deleted_for_good() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 2, &[]);
    client.create("latest", 1, &[("cleanup.policy", "compact")]);
    for _ in 0..10 {
        client.produce("letters", 1, 10);
    }
    client.at_every_version(&delete_records("letters", 0, 4), |_, response| {
        let result = &response.topics[0].partitions[0];
        assert_eq!((result.error_code, result.low_watermark), (NONE, 4));
    });
    for (topic, index, offset, expected) in [
        ("letters", 0, 2, (4, ErrorCode::None)),
        ("letters", 0, 11, (-1, ErrorCode::OffsetOutOfRange)),
        ("letters", 0, -2, (-1, ErrorCode::OffsetOutOfRange)),
        ("letters", 1, -1, (0, ErrorCode::None)),
        ("letters", 2, 0, (-1, ErrorCode::UnknownTopicOrPartition)),
        ("nowhere", 0, 0, (-1, ErrorCode::UnknownTopicOrPartition)),
        ("latest", 0, 0, (-1, ErrorCode::PolicyViolation)),
    ] {
        let found = client.delete_records(topic, index, offset);
        assert_eq!(found, expected, "{topic} {index} {offset}");
    }
    client.create("__consumer_offsets", 1, &[]);
    let found = client.delete_records("__consumer_offsets", 0, 0);
    assert_eq!(found, (-1, ErrorCode::InvalidTopicException));

    server.kill();
    let server = Server::start(&dir);
    let mut client = server.client();
    assert_eq!((client.offset("letters", -2), client.offset("letters", -1)), (4, 10));
    assert_eq!(client.delete_records("letters", 0, -1), (10, ErrorCode::None));
    server.kill();
    let server = Server::start(&dir);
    let mut client = server.client();
    assert_eq!((client.offset("letters", -2), client.offset("letters", -1)), (10, 10));
    server.stop();
}

#[test]
fn a_fetch_that_waits_hears_of_deleted_records() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 1, &[]);
    client.produce("letters", 3, 10);
    let mut reader = server.client();
    let waiting = thread::spawn(move || {
        let request = FetchRequest {
            max_wait_ms: 20_000,
            min_bytes: 1 << 20,
            max_bytes: 1 << 20,
            topics: vec![FetchTopic {
                topic: "letters".into(),
                partitions: vec![FetchPartition {
                    partition_max_bytes: 1 << 20,
                    ..Default::default()
                }],
                ..Default::default()
            }],
            ..Default::default()
        };
        let response = reader.call(&request, 12);
        error(response.responses[0].partitions[0].error_code)
    });
    thread::sleep(Duration::from_millis(200));
    let start = Instant::now();
    client.delete_records("letters", 0, -1);
    assert_eq!(waiting.join().unwrap(), ErrorCode::OffsetOutOfRange);
    assert!(start.elapsed() < Duration::from_secs(10));
    server.stop();
}

#[test]
fn a_topic_of_an_old_name_begins_anew() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 1, &[]);
    client.produce("letters", 5, 10);
    client.delete_records("letters", 0, 5);
    let deletion = client.call(
        &DeleteTopicsRequest {
            topic_names: vec!["letters".into()],
            ..Default::default()
        },
        1,
    );
    assert_eq!(deletion.responses[0].error_code, NONE);
    client.create("letters", 1, &[]);
    client.produce("letters", 2, 10);
    assert_eq!((client.offset("letters", -2), client.offset("letters", -1)), (0, 2));
    server.kill();
    let server = Server::start(&dir);
    let mut client = server.client();
    assert_eq!((client.offset("letters", -2), client.offset("letters", -1)), (0, 2));
    server.stop();
}

#[test]
fn files_of_a_topic_that_is_gone_are_not_those_of_a_new_one() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 1, &[]);
    client.produce("letters", 5, 10);
    server.stop();
    // A folder of records that were not deleted is never touched.
    fs::rename(dir.path().join("letters-0"), dir.path().join("more-1")).unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("more", 1, &[]);
    assert_eq!(client.grow("more", 2, None, false), ErrorCode::KafkaStorageError);
    assert!(dir.path().join("more-1").exists());
    // As after a crash between the removal of the topic from the metadata and that of its files.
    let deletion = client.call(
        &DeleteTopicsRequest {
            topic_names: vec!["letters".into()],
            ..Default::default()
        },
        1,
    );
    assert_eq!(deletion.responses[0].error_code, NONE);
    assert_eq!(client.grow("more", 2, None, false), ErrorCode::None);
    let names: Vec<String> = fs::read_dir(dir.path())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().to_string_lossy().into_owned())
        .collect();
    assert!(!names.contains(&"more-1".to_owned()), "{names:?}");
    let is_aside = |name: &String| name.starts_with("more-1.") && name.ends_with("-stray");
    assert!(names.iter().any(is_aside), "{names:?}");
    server.stop();
}

#[test]
fn idle_partitions_do_not_keep_a_broker_from_ending_cleanly() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 3, &[]);
    client.produce("letters", 1, 10);
    server.kill();
    Server::start(&dir).stop();
    assert!(dir.path().join(".kafka_cleanshutdown").exists());
}

#[test]
fn topics_grow_and_never_shrink() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 2, &[]);
    client.at_every_version(&grow("letters", 3, None, true), |_, response| {
        assert_eq!(response.results[0].error_code, NONE);
    });
    assert_eq!(client.partitions("letters"), 2, "that was only a question");
    for (count, assigned, expected) in [
        (2, None, ErrorCode::InvalidPartitions),
        (1, None, ErrorCode::InvalidPartitions),
        (-1, None, ErrorCode::InvalidPartitions),
        (i32::MAX, None, ErrorCode::PolicyViolation),
        (3, Some(&[7][..]), ErrorCode::InvalidReplicaAssignment),
        (4, Some(&[1][..]), ErrorCode::InvalidReplicaAssignment),
        (3, Some(&[1][..]), ErrorCode::None),
        (5, None, ErrorCode::None),
    ] {
        let found = client.grow("letters", count, assigned, false);
        assert_eq!(found, expected, "{count} {assigned:?}");
    }
    assert_eq!(
        client.grow("nowhere", 3, None, false),
        ErrorCode::UnknownTopicOrPartition
    );
    let mut twice = grow("letters", 9, None, false);
    twice.topics.push(twice.topics[0].clone());
    let results = client.latest(&twice).results;
    assert!(
        results
            .iter()
            .all(|result| error(result.error_code) == ErrorCode::InvalidRequest)
    );

    server.kill();
    let server = Server::start(&dir);
    let mut client = server.client();
    assert_eq!(client.partitions("letters"), 5);
    server.stop();
}

#[test]
fn settings_of_a_topic_change_at_once_and_stay() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    let letters = (TOPIC, "letters");
    client.create("letters", 1, &[("retention.ms", "5000")]);
    let ops = [("max.message.bytes", SET, "200"), ("cleanup.policy", APPEND, "compact")];
    client.at_every_version(&incremental(letters, &ops, true), |_, response| {
        assert_eq!(response.responses[0].error_code, NONE);
    });
    assert_eq!(
        client.produce("letters", 1, 500),
        ErrorCode::None,
        "that was only a question"
    );
    assert_eq!(client.alter(letters, &ops).0, ErrorCode::None);
    assert_eq!(client.produce("letters", 1, 500), ErrorCode::MessageTooLarge);
    assert_eq!(
        client.config(letters, "cleanup.policy"),
        Some(("delete,compact".to_owned(), 1))
    );
    assert_eq!(client.config(letters, "retention.ms"), Some(("5000".to_owned(), 1)));

    server.kill();
    let server = Server::start(&dir);
    let mut client = server.client();
    assert_eq!(client.produce("letters", 1, 500), ErrorCode::MessageTooLarge);
    assert_eq!(
        client.alter(letters, &[("max.message.bytes", DELETE, "")]).0,
        ErrorCode::None
    );
    assert_eq!(client.produce("letters", 1, 500), ErrorCode::None);

    client.at_every_version(&replacing(letters, &[("segment.ms", "77")]), |_, response| {
        assert_eq!(response.responses[0].error_code, NONE);
    });
    assert_eq!(client.config(letters, "segment.ms"), Some(("77".to_owned(), 1)));
    assert_eq!(
        client.config(letters, "retention.ms"),
        Some(("604800000".to_owned(), 5))
    );
    assert_eq!(client.config(letters, "cleanup.policy"), Some(("delete".to_owned(), 5)));
    server.stop();
}

#[test]
fn changes_that_make_no_sense_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 1, &[]);
    let letters = (TOPIC, "letters");
    for (resource, ops, expected) in [
        (letters, vec![("nope", SET, "1")], ErrorCode::InvalidConfig),
        (letters, vec![("retention.ms", SET, "x")], ErrorCode::InvalidConfig),
        (letters, vec![("retention.ms", APPEND, "1")], ErrorCode::InvalidConfig),
        (
            letters,
            vec![("flush.ms", SET, "1"), ("flush.ms", DELETE, "")],
            ErrorCode::InvalidRequest,
        ),
        (letters, vec![("retention.ms", 9, "1")], ErrorCode::InvalidRequest),
        ((TOPIC, "nowhere"), vec![], ErrorCode::UnknownTopicOrPartition),
        ((BROKER, "77"), vec![], ErrorCode::InvalidRequest),
        ((BROKER, ""), vec![("listeners", SET, "x")], ErrorCode::InvalidRequest),
        ((8, "1"), vec![], ErrorCode::InvalidRequest),
        ((99, "metrics"), vec![], ErrorCode::InvalidRequest),
    ] {
        let (found, message) = client.alter(resource, &ops);
        assert_eq!(found, expected, "{resource:?} {ops:?}");
        assert!(!message.is_empty(), "{resource:?} {ops:?}");
    }
    let mut twice = incremental(letters, &[("retention.ms", SET, "1")], false);
    twice.resources.push(twice.resources[0].clone());
    let responses = client.latest(&twice).responses;
    let refused = |code: i16| error(code) == ErrorCode::InvalidRequest;
    assert_eq!(responses.len(), 2);
    assert!(responses.iter().all(|response| refused(response.error_code)));
    let mut without_value = replacing(letters, &[("retention.ms", "")]);
    without_value.resources[0].configs[0].value = None;
    assert!(refused(client.latest(&without_value).responses[0].error_code));
    assert_eq!(
        client.config(letters, "retention.ms"),
        Some(("604800000".to_owned(), 5))
    );
    server.stop();
}

#[test]
fn settings_of_the_broker_reach_its_topics_and_stay() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 1, &[]);
    client.create("parcels", 1, &[("max.message.bytes", "9999")]);
    let (all, this) = ((BROKER, ""), (BROKER, "1"));
    assert_eq!(
        client.alter(all, &[("message.max.bytes", SET, "200")]).0,
        ErrorCode::None
    );
    assert_eq!(client.produce("letters", 1, 500), ErrorCode::MessageTooLarge);
    assert_eq!(
        client.produce("parcels", 1, 500),
        ErrorCode::None,
        "it has a setting of its own"
    );

    server.kill();
    let server = Server::start(&dir);
    let mut client = server.client();
    assert_eq!(client.config(this, "message.max.bytes"), Some(("200".to_owned(), 3)));
    assert_eq!(client.produce("letters", 1, 500), ErrorCode::MessageTooLarge);
    client.create("cards", 1, &[]);
    assert_eq!(client.produce("cards", 1, 500), ErrorCode::MessageTooLarge);
    assert_eq!(
        client.alter(this, &[("message.max.bytes", SET, "2000")]).0,
        ErrorCode::None
    );
    assert_eq!(client.produce("letters", 1, 500), ErrorCode::None);
    assert_eq!(client.config(this, "message.max.bytes"), Some(("2000".to_owned(), 2)));

    let emptied = client.latest(&replacing(this, &[]));
    assert_eq!(emptied.responses[0].error_code, NONE);
    assert_eq!(
        client.produce("letters", 1, 500),
        ErrorCode::MessageTooLarge,
        "all brokers still have theirs"
    );
    server.stop();
}

#[test]
fn records_do_not_move_between_memory_and_disk() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    let durability = |value| [("milena.durability", SET, value)];
    client.create("disk", 1, &[]);
    client.create("memory", 1, &durability("memory").map(|(name, _, value)| (name, value)));
    let (disk, memory) = ((TOPIC, "disk"), (TOPIC, "memory"));
    for (resource, value) in [
        (disk, "memory"),
        (memory, "os"),
        (memory, "fsync"),
        ((BROKER, ""), "memory"),
    ] {
        let (found, message) = client.alter(resource, &durability(value));
        assert_eq!(found, ErrorCode::InvalidConfig, "{resource:?} {value}");
        assert!(message.contains("milena.durability"), "{message}");
    }
    for (value, end) in [("os", 1), ("fsync", 2), ("fsync", 3), ("os", 4)] {
        assert_eq!(client.alter(disk, &durability(value)).0, ErrorCode::None);
        assert_eq!(client.produce("disk", 1, 10), ErrorCode::None);
        assert_eq!(client.offset("disk", -1), end, "{value}");
    }
    assert_eq!(client.produce("memory", 1, 10), ErrorCode::None);
    assert_eq!(client.delete_records("memory", 0, -1), (1, ErrorCode::None));
    server.stop();
}

#[test]
fn the_log_dir_tells_sizes_and_space() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 2, &[]);
    client.create("parcels", 1, &[]);
    client.produce("letters", 1, 1000);
    let all = DescribeLogDirsRequest {
        topics: None,
        ..Default::default()
    };
    client.at_every_version(&all, |version, response| {
        let [result] = &response.results[..] else {
            panic!("one directory is expected")
        };
        assert_eq!((response.error_code, result.error_code), (NONE, NONE));
        assert_eq!(Path::new(&*result.log_dir), dir.path());
        assert_eq!(result.total_bytes > 0 && result.usable_bytes > 0, version >= 4);
        let names: Vec<&str> = result.topics.iter().map(|topic| &*topic.name).collect();
        assert_eq!(names, ["letters", "parcels"]);
        let sizes: Vec<i64> = result.topics[0]
            .partitions
            .iter()
            .map(|partition| partition.partition_size)
            .collect();
        assert!(sizes[0] > 1000 && sizes[1] == 0, "{sizes:?}");
    });
    let some = DescribeLogDirsRequest {
        topics: Some(vec![
            DescribableLogDirTopic {
                topic: "letters".into(),
                partitions: vec![1, 1, 9],
                ..Default::default()
            },
            DescribableLogDirTopic {
                topic: "nowhere".into(),
                partitions: vec![0],
                ..Default::default()
            },
        ]),
        ..Default::default()
    };
    let response = client.latest(&some);
    let [topic] = &response.results[0].topics[..] else {
        panic!("one topic is expected")
    };
    let indexes: Vec<i32> = topic
        .partitions
        .iter()
        .map(|partition| partition.partition_index)
        .collect();
    assert_eq!((&*topic.name, indexes), ("letters", vec![1]));
    server.stop();
}

#[test]
fn resources_with_settings_are_listed() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 1, &[]);
    let readers = (GROUP, "readers");
    let ops = [("consumer.session.timeout.ms", SET, "50000")];
    assert_eq!(client.alter(readers, &ops).0, ErrorCode::None);
    let mut list = |version, types: &[i8]| {
        let request = ListConfigResourcesRequest {
            resource_types: types.to_vec(),
            ..Default::default()
        };
        let response = client.call(&request, version);
        let resources = response.config_resources.iter();
        let listed = resources.map(|resource| (resource.resource_type, resource.resource_name.to_string()));
        (error(response.error_code), listed.collect::<Vec<_>>())
    };
    let (broker, letters) = ((BROKER, "1".to_owned()), (TOPIC, "letters".to_owned()));
    let (readers, loggers) = ((GROUP, "readers".to_owned()), (BROKER_LOGGER, "1".to_owned()));
    assert_eq!(list(0, &[]), (ErrorCode::None, vec![]));
    assert_eq!(
        list(1, &[]),
        (
            ErrorCode::None,
            vec![readers.clone(), loggers.clone(), broker, letters.clone()]
        )
    );
    assert_eq!(list(1, &[BROKER_LOGGER]), (ErrorCode::None, vec![loggers]));
    assert_eq!(list(1, &[TOPIC]), (ErrorCode::None, vec![letters]));
    assert_eq!(list(1, &[16, GROUP]), (ErrorCode::None, vec![readers]));
    assert_eq!(list(1, &[16]), (ErrorCode::None, vec![]));
    assert_eq!(list(1, &[TOPIC, 99]), (ErrorCode::UnsupportedVersion, vec![]));
    server.stop();
}

#[test]
fn producers_are_described() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 1, &[]);
    let options = BatchOptions {
        producer_id: 42,
        producer_epoch: 3,
        base_sequence: 0,
        ..Default::default()
    };
    assert_eq!(client.produce_with("letters", 2, 10, options), ErrorCode::None);
    let request = DescribeProducersRequest {
        topics: vec![describe_producers_request::TopicRequest {
            name: "letters".into(),
            partition_indexes: vec![0, 1],
            ..Default::default()
        }],
        ..Default::default()
    };
    let response = client.latest(&request);
    let [known, unknown] = &response.topics[0].partitions[..] else {
        panic!("two partitions are expected")
    };
    let [producer] = &known.active_producers[..] else {
        panic!("one producer is expected")
    };
    assert_eq!(
        (known.error_code, producer.producer_id, producer.producer_epoch),
        (NONE, 42, 3)
    );
    assert_eq!(
        (producer.last_sequence, producer.last_timestamp),
        (1, 1_700_000_000_000)
    );
    assert_eq!(
        (producer.coordinator_epoch, producer.current_txn_start_offset),
        (-1, -1)
    );
    assert_eq!(error(unknown.error_code), ErrorCode::UnknownTopicOrPartition);
    server.stop();
}

#[test]
fn one_replica_leads_and_stays_where_it_is() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir);
    let mut client = server.client();
    client.create("letters", 1, &[]);
    let elect = |partitions: Option<Vec<i32>>| ElectLeadersRequest {
        topic_partitions: partitions.map(|partitions| {
            vec![elect_leaders_request::TopicPartitions {
                topic: "letters".into(),
                partitions,
                ..Default::default()
            }]
        }),
        ..Default::default()
    };
    client.at_every_version(&elect(None), |_, response| {
        assert_eq!(
            (response.error_code, response.replica_election_results.len()),
            (NONE, 0)
        );
    });
    client.at_every_version(&elect(Some(vec![0, 5])), |_, response| {
        let results = response.replica_election_results[0].partition_result.iter();
        let errors: Vec<ErrorCode> = results.map(|result| error(result.error_code)).collect();
        assert_eq!(
            errors,
            [ErrorCode::ElectionNotNeeded, ErrorCode::UnknownTopicOrPartition]
        );
    });

    let reassign = |partition_index, replicas| alter_partition_reassignments_request::ReassignablePartition {
        partition_index,
        replicas,
        ..Default::default()
    };
    let request = AlterPartitionReassignmentsRequest {
        topics: vec![alter_partition_reassignments_request::ReassignableTopic {
            name: "letters".into(),
            partitions: vec![
                reassign(0, Some(vec![1])),
                reassign(0, None),
                reassign(0, Some(vec![1, 2])),
                reassign(3, Some(vec![1])),
            ],
            ..Default::default()
        }],
        ..Default::default()
    };
    client.at_every_version(&request, |_, response| {
        let results = response.responses[0].partitions.iter();
        let errors: Vec<ErrorCode> = results.map(|result| error(result.error_code)).collect();
        let expected = [
            ErrorCode::None,
            ErrorCode::NoReassignmentInProgress,
            ErrorCode::InvalidReplicaAssignment,
            ErrorCode::UnknownTopicOrPartition,
        ];
        assert_eq!((response.error_code, &errors[..]), (NONE, &expected[..]));
    });
    client.at_every_version(&ListPartitionReassignmentsRequest::default(), |_, response| {
        assert_eq!((response.error_code, response.topics.len()), (NONE, 0));
    });
    server.stop();
}
