//! Topics are created and deleted, and their files follow.

use std::{
    fs,
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
    thread,
};

use milena_wire::{errors::ErrorCode, messages::*};

use crate::{
    client::{Client, batch, values},
    running::start,
};

#[test]
fn topics_of_one_request_succeed_or_fail_each_for_itself() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let shapes = [
        ("a.b", 1),
        ("none", 0),
        ("a_b", 1),
        ("twice", 1),
        ("c", 3),
        ("twice", 1),
    ];
    let topics = shapes.map(|(name, num_partitions)| create_topics_request::CreatableTopic {
        name: name.into(),
        num_partitions,
        replication_factor: 1,
        ..Default::default()
    });
    let request = CreateTopicsRequest {
        topics: topics.into(),
        ..Default::default()
    };
    let created = client.call(&request, 7).topics;
    let outcomes = created.iter().map(|topic| {
        (
            &*topic.name,
            topic.num_partitions,
            ErrorCode::from_code(topic.error_code),
        )
    });
    let expected = [
        ("a.b", 1, Some(ErrorCode::None)),
        ("none", -1, Some(ErrorCode::InvalidPartitions)),
        ("a_b", -1, Some(ErrorCode::InvalidTopicException)),
        ("twice", -1, Some(ErrorCode::InvalidRequest)),
        ("c", 3, Some(ErrorCode::None)),
        ("twice", -1, Some(ErrorCode::InvalidRequest)),
    ];
    assert_eq!(outcomes.collect::<Vec<_>>(), expected);
    broker.shutdown();

    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    for (name, partition) in [("a.b", 0), ("c", 2)] {
        assert_eq!(client.produce(name, partition, batch(&["x"])).base_offset, 0, "{name}");
    }
}

#[test]
fn topics_are_created_deleted_and_refused_by_kafkas_rules() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("a.b", 1, &[]);
    let mut create = |name: &str, partitions, factor, config: Option<(&str, &str)>| {
        let configs = config.map(|(name, value)| create_topics_request::CreatableTopicConfig {
            name: name.into(),
            value: Some(value.into()),
            ..Default::default()
        });
        let request = CreateTopicsRequest {
            topics: vec![create_topics_request::CreatableTopic {
                name: name.into(),
                num_partitions: partitions,
                replication_factor: factor,
                configs: configs.into_iter().collect(),
                ..Default::default()
            }],
            ..Default::default()
        };
        ErrorCode::from_code(client.call(&request, 7).topics[0].error_code).unwrap()
    };
    assert_eq!(create("a.b", 1, 1, None), ErrorCode::TopicAlreadyExists);
    assert_eq!(create("a_b", 1, 1, None), ErrorCode::InvalidTopicException);
    assert_eq!(create("a b", 1, 1, None), ErrorCode::InvalidTopicException);
    assert_eq!(create("c", 0, 1, None), ErrorCode::InvalidPartitions);
    assert_eq!(create("c", 1, 0, None), ErrorCode::InvalidReplicationFactor);
    assert_eq!(
        create("c", 1, 1, Some(("retention.ms", "soon"))),
        ErrorCode::InvalidConfig
    );
    assert_eq!(create("c", 1, 1, Some(("no.such.key", "1"))), ErrorCode::InvalidConfig);
    assert_eq!(
        create("c", -1, 3, None),
        ErrorCode::None,
        "three replicas are asked for everywhere"
    );

    let delete = |client: &mut Client, name: &str| {
        let request = DeleteTopicsRequest {
            topic_names: vec![name.into()],
            ..Default::default()
        };
        ErrorCode::from_code(client.call(&request, 5).responses[0].error_code).unwrap()
    };
    client.produce("c", 0, batch(&["a"]));
    assert_eq!(delete(&mut client, "c"), ErrorCode::None);
    assert_eq!(delete(&mut client, "c"), ErrorCode::UnknownTopicOrPartition);
    assert_eq!(
        client.fetch("c", 0, 0).error_code,
        ErrorCode::UnknownTopicOrPartition.code()
    );
    assert!(!dir.path().join("c-0").exists());
    // The same name again is another topic.
    client.create_topic("c", 1, &[]);
    assert_eq!(client.produce("c", 0, batch(&["b"])).base_offset, 0);
}

#[test]
fn a_topic_deleted_before_it_was_synced_hurts_no_other() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("gone", 1, &[]);
    client.produce("gone", 0, batch(&["a"]));
    let request = DeleteTopicsRequest {
        topic_names: vec!["gone".into()],
        ..Default::default()
    };
    assert_eq!(client.call(&request, 5).responses[0].error_code, 0);
    // Enough records that all must be synced, and then one that is acknowledged after that.
    client.create_topic("large", 1, &[]);
    let large = "x".repeat(1_000_000);
    for _ in 0..17 {
        assert_eq!(client.produce("large", 0, batch(&[&large])).error_code, 0);
    }
    client.create_topic("synced", 1, &[("milena.durability", "fsync")]);
    assert_eq!(client.produce("synced", 0, batch(&["a"])).error_code, 0);
    assert_eq!(client.produce("synced", 0, batch(&["b"])).error_code, 0);
    broker.shutdown();
}

#[test]
fn a_topic_that_is_deleted_while_others_write_leaves_nothing_to_the_next_of_its_name() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let done = AtomicBool::new(false);
    let delete = DeleteTopicsRequest {
        topic_names: vec!["letters".into()],
        ..Default::default()
    };
    thread::scope(|scope| {
        for _ in 0..2 {
            let (mut writer, done) = (broker.client(), &done);
            scope.spawn(move || {
                while !done.load(Ordering::Relaxed) {
                    let produced = writer.produce("letters", 0, batch(&["a"]));
                    let unknown = ErrorCode::UnknownTopicOrPartition.code();
                    assert!([0, unknown].contains(&produced.error_code), "{produced:?}");
                }
            });
        }
        for _ in 0..30 {
            client.create_topic("letters", 1, &[]);
            while client.fetch("letters", 0, 0).high_watermark < 1 {}
            assert_eq!(client.call(&delete, 5).responses[0].error_code, 0);
            assert!(!dir.path().join("letters-0").exists());
        }
        done.store(true, Ordering::Relaxed);
    });
    client.create_topic("letters", 1, &[]);
    assert_eq!(client.produce("letters", 0, batch(&["b"])).base_offset, 0);
    assert_eq!(
        values(&client.fetch("letters", 0, 0).records.unwrap()),
        [(0, "b".to_owned())]
    );
    let strays = fs::read_dir(dir.path()).unwrap().filter(|entry| {
        let name = entry.as_ref().unwrap().file_name();
        name.to_string_lossy().ends_with("-stray")
    });
    assert_eq!(strays.count(), 0);
    broker.shutdown();
}

/// Deletes all records of a partition.
fn delete_records(client: &mut Client, topic: &str, partition_index: i32) {
    let request = DeleteRecordsRequest {
        topics: vec![delete_records_request::DeleteRecordsTopic {
            name: topic.into(),
            partitions: vec![delete_records_request::DeleteRecordsPartition {
                partition_index,
                offset: -1,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    assert_eq!(client.call(&request, 2).topics[0].partitions[0].error_code, 0);
}

#[test]
fn a_folder_says_whose_it_is_and_that_of_another_topic_is_set_aside() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let id = client.create_topic("letters", 2, &[]);
    let names = |dir: &Path| {
        let entries = fs::read_dir(dir).unwrap().map(|entry| entry.unwrap().file_name());
        entries
            .map(|name| name.to_string_lossy().into_owned())
            .collect::<Vec<String>>()
    };
    client.produce("letters", 0, batch(&["a"]));
    client.produce("letters", 1, batch(&["a", "b", "c"]));
    delete_records(&mut client, "letters", 1);
    let metadata = |partition: i32| dir.path().join(format!("letters-{partition}/partition.metadata"));
    let expected = format!("version: 0\ntopic_id: {id}");
    assert_eq!(fs::read_to_string(metadata(0)).unwrap(), expected);
    broker.kill();

    // One was lost in a crash, the other is damaged: it names a topic that never was.
    fs::write(metadata(0), "").unwrap();
    fs::write(metadata(1), "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ").unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    assert_eq!(fs::read_to_string(metadata(0)).unwrap(), expected);
    assert_eq!(fs::read_to_string(metadata(1)).unwrap(), expected);
    assert_eq!(
        values(&client.fetch("letters", 0, 0).records.unwrap()),
        [(0, "a".to_owned())]
    );
    assert_eq!(client.fetch("letters", 1, 3).high_watermark, 3);
    let old = client.create_topic("old", 1, &[]);
    let deletion = DeleteTopicsRequest {
        topic_names: vec!["old".into()],
        ..Default::default()
    };
    assert_eq!(client.call(&deletion, 1).responses[0].error_code, 0);
    broker.kill();

    // The folder is that of a deleted topic.
    fs::write(metadata(1), format!("version: 0\ntopic_id: {old}")).unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    assert_eq!(client.fetch("letters", 1, 0).high_watermark, 0);
    let stray = names(dir.path())
        .into_iter()
        .find(|name| name.ends_with("-stray"))
        .unwrap();
    assert!(names(&dir.path().join(stray)).contains(&"00000000000000000000.log".to_owned()));
    assert_eq!(client.produce("letters", 1, batch(&["b"])).base_offset, 0);
    assert_eq!(fs::read_to_string(metadata(1)).unwrap(), expected);
    broker.kill();
    // The log start of 3 of the other topic is gone.
    let broker = start(dir.path(), &[]);
    let read = broker.client().fetch("letters", 1, 0);
    assert_eq!(values(&read.records.unwrap()), [(0, "b".to_owned())]);
    broker.shutdown();
}

#[test]
fn a_topic_that_was_deleted_while_in_memory_does_not_come_back_from_the_disk() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    client.produce("letters", 0, batch(&["old"]));
    broker.shutdown();
    let broker = start(dir.path(), &[("milena.durability", "memory")]);
    let mut client = broker.client();
    let delete = DeleteTopicsRequest {
        topic_names: vec!["letters".into()],
        ..Default::default()
    };
    assert_eq!(client.call(&delete, 5).responses[0].error_code, 0);
    client.create_topic("letters", 1, &[]);
    client.produce("letters", 0, batch(&["new"]));
    assert!(
        dir.path().join("letters-0").exists(),
        "nobody has looked at the old files"
    );
    broker.shutdown();
    let broker = start(dir.path(), &[]);
    assert_eq!(broker.client().fetch("letters", 0, 0).high_watermark, 0);
    broker.shutdown();
}
