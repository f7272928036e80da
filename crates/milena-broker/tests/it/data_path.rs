//! Records in and out: the rules of Produce, Fetch and ListOffsets, and durability.

use std::{fs, thread};

use milena_broker::{DataDirError, StartError};
use milena_wire::{
    compression::Codec,
    errors::ErrorCode,
    messages::*,
    records::{BatchBuilder, BatchOptions, Batches, NewRecord},
};

use crate::{
    client::{Client, batch, batch_with, fetch_request, produce_request, values},
    running::{start, try_start},
};

fn list_offset(client: &mut Client, topic: &str, timestamp: i64) -> (i64, i64) {
    let request = ListOffsetsRequest {
        topics: vec![list_offsets_request::ListOffsetsTopic {
            name: topic.into(),
            partitions: vec![list_offsets_request::ListOffsetsPartition {
                timestamp,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let response = client.call(&request, 7);
    let partition = &response.topics[0].partitions[0];
    assert_eq!(partition.error_code, 0);
    (partition.offset, partition.timestamp)
}

#[test]
fn records_of_every_codec_come_back_as_they_were() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    let long = "a long value that is worth compressing ".repeat(100);
    let mut expected = vec![];
    for codec in Codec::ALL {
        let texts = [codec.name(), &long];
        let produced = client.produce("letters", 0, batch_with(&texts, codec, BatchOptions::default()));
        assert_eq!((produced.error_code, produced.base_offset), (0, expected.len() as i64));
        expected.extend(texts.iter().map(|text| (*text).to_owned()));
    }
    let fetched = client.fetch("letters", 0, 0);
    let read: Vec<String> = values(fetched.records.as_ref().unwrap())
        .into_iter()
        .map(|(_, value)| value)
        .collect();
    assert_eq!(read, expected);
    // An offset in the middle of a batch brings the whole batch.
    let middle = client.fetch("letters", 0, 3);
    assert_eq!(values(middle.records.as_ref().unwrap())[0].0, 2);
    broker.shutdown();
}

#[test]
fn offsets_outside_the_log_are_refused_and_its_end_is_empty() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    client.produce("letters", 0, batch(&["a", "b"]));
    let end = client.fetch("letters", 0, 2);
    assert_eq!((end.error_code, end.high_watermark), (0, 2));
    assert_eq!(end.records.as_deref(), Some(&[][..]), "empty, not null");
    for offset in [-1, 3] {
        let outside = client.fetch("letters", 0, offset);
        assert_eq!(
            (outside.error_code, outside.high_watermark),
            (ErrorCode::OffsetOutOfRange.code(), -1)
        );
    }
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    assert_eq!(client.fetch("letters", 7, 0).error_code, unknown);
    assert_eq!(client.fetch("nothing", 0, 0).error_code, unknown);
    assert_eq!(client.produce("nothing", 0, batch(&["a"])).error_code, unknown);
}

#[test]
fn the_first_batch_comes_whole_whatever_the_limits() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 2, &[]);
    let large = "x".repeat(50_000);
    for partition in [0, 1] {
        client.produce("letters", partition, batch(&[&large]));
    }
    let mut request = fetch_request("letters", 0, 0);
    let mut second = request.topics[0].partitions[0].clone();
    second.partition = 1;
    request.topics[0].partitions.push(second);
    request.max_bytes = 100;
    let response = client.call(&request, 12);
    let sizes: Vec<usize> = response.responses[0]
        .partitions
        .iter()
        .map(|p| p.records.as_ref().unwrap().len())
        .collect();
    assert!(sizes[0] > 50_000 && sizes[1] == 0, "{sizes:?}");
}

#[test]
fn a_fetch_that_waits_is_woken_by_another_connection() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    let mut reader = broker.client();
    let reading = thread::spawn(move || {
        let mut request = fetch_request("letters", 0, 0);
        request.max_wait_ms = 50_000;
        // Three batches of this size are not enough, four are.
        request.min_bytes = 4 * batch(&["a value"]).len() as i32;
        reader.call(&request, 12)
    });
    let mut writer = broker.client();
    for _ in 0..4 {
        writer.produce("letters", 0, batch(&["a value"]));
    }
    let response = reading.join().unwrap();
    assert_eq!(
        values(response.responses[0].partitions[0].records.as_ref().unwrap()).len(),
        4
    );
}

#[test]
fn a_batch_sent_twice_is_stored_once() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    let id = client
        .call(
            &InitProducerIdRequest {
                transactional_id: None,
                ..Default::default()
            },
            4,
        )
        .producer_id;
    let sequenced = |base_sequence| {
        let options = BatchOptions {
            producer_id: id,
            producer_epoch: 0,
            base_sequence,
            ..BatchOptions::default()
        };
        batch_with(&["a", "b"], Codec::None, options)
    };
    for _ in 0..2 {
        let produced = client.produce("letters", 0, sequenced(0));
        assert_eq!((produced.error_code, produced.base_offset), (0, 0));
    }
    let gap = client.produce("letters", 0, sequenced(5));
    assert_eq!(gap.error_code, ErrorCode::OutOfOrderSequenceNumber.code());
    assert_eq!(client.fetch("letters", 0, 0).high_watermark, 2);
    let again = client
        .call(
            &InitProducerIdRequest {
                transactional_id: None,
                ..Default::default()
            },
            4,
        )
        .producer_id;
    assert_ne!(again, id);
}

#[test]
fn acks_decide_about_the_response() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    let with_acks = |topic: &str, acks| {
        let mut request = produce_request(topic, 0, batch(&["a"]));
        request.acks = acks;
        request
    };
    let refused = client.call(&with_acks("letters", 7), 12);
    let error = refused.responses[0].partition_responses[0].error_code;
    assert_eq!(error, ErrorCode::InvalidRequiredAcks.code());
    client.send(&with_acks("letters", 0), 12);
    // The next response is that of the next request.
    assert_eq!(client.fetch("letters", 0, 0).high_watermark, 1);
    client.send(&with_acks("nothing", 0), 12);
    assert_eq!(
        client.receive_frame(),
        None,
        "an error without a response closes the connection"
    );
}

#[test]
fn times_find_offsets() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    assert_eq!(list_offset(&mut client, "letters", -2), (0, -1));
    client.produce("letters", 0, batch(&["a", "b"]));
    assert_eq!(list_offset(&mut client, "letters", -1), (2, -1));
    assert_eq!(list_offset(&mut client, "letters", -3), (0, 1_700_000_000_000));
    assert_eq!(
        list_offset(&mut client, "letters", 1_600_000_000_000),
        (0, 1_700_000_000_000)
    );
    assert_eq!(list_offset(&mut client, "letters", 1_700_000_000_001), (-1, -1));
}

#[test]
fn a_restart_keeps_topics_records_and_ids() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let id = client.create_topic("letters", 3, &[("retention.ms", "-1")]);
    client.produce("letters", 2, batch(&["a", "b"]));
    let first = client
        .call(
            &InitProducerIdRequest {
                transactional_id: None,
                ..Default::default()
            },
            4,
        )
        .producer_id;
    let cluster = client.call(&DescribeClusterRequest::default(), 1).cluster_id;
    broker.shutdown();

    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let metadata = client.call(
        &MetadataRequest {
            topics: None,
            ..Default::default()
        },
        12,
    );
    assert_eq!(metadata.topics.len(), 1);
    assert_eq!(
        (metadata.topics[0].topic_id, metadata.topics[0].partitions.len()),
        (id, 3)
    );
    assert_eq!(
        metadata.topics[0].partitions[0].leader_epoch, 0,
        "a clean end changes no epoch"
    );
    assert_eq!(values(client.fetch("letters", 2, 0).records.as_ref().unwrap()).len(), 2);
    assert_eq!(client.produce("letters", 2, batch(&["c"])).base_offset, 2);
    let second = client
        .call(
            &InitProducerIdRequest {
                transactional_id: None,
                ..Default::default()
            },
            4,
        )
        .producer_id;
    assert!(second > first);
    assert_eq!(client.call(&DescribeClusterRequest::default(), 1).cluster_id, cluster);
}

#[test]
fn a_directory_has_one_broker() {
    let dir = tempfile::tempdir().unwrap();
    let _broker = start(dir.path(), &[]);
    let Err(StartError::DataDir(DataDirError::InUse { path })) = try_start(dir.path(), &[]).map(drop) else {
        panic!("a second broker took the directory");
    };
    assert_eq!(path, dir.path());
}

#[test]
fn synced_records_are_acknowledged_and_visible() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[("milena.durability", "fsync")]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    let writers: Vec<_> = (0..8)
        .map(|_| {
            let mut writer = broker.client();
            thread::spawn(move || {
                for _ in 0..20 {
                    assert_eq!(writer.produce("letters", 0, batch(&["a"])).error_code, 0);
                }
            })
        })
        .collect();
    for writer in writers {
        writer.join().unwrap();
    }
    assert_eq!(client.fetch("letters", 0, 0).high_watermark, 160);
    broker.shutdown();
}

#[test]
fn a_topic_in_memory_leaves_no_files() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("fleeting", 1, &[("milena.durability", "memory")]);
    client.produce("fleeting", 0, batch(&["a"]));
    assert_eq!(
        values(client.fetch("fleeting", 0, 0).records.as_ref().unwrap()).len(),
        1
    );
    let folders = fs::read_dir(dir.path())
        .unwrap()
        .filter(|entry| entry.as_ref().unwrap().path().is_dir());
    assert_eq!(folders.count(), 0);
    broker.shutdown();
}

#[test]
fn replicas_that_are_demanded_are_missed_only_by_a_strict_broker() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    let replicated = |name: &str, replication_factor| CreateTopicsRequest {
        topics: vec![create_topics_request::CreatableTopic {
            name: name.into(),
            num_partitions: 1,
            replication_factor,
            configs: vec![create_topics_request::CreatableTopicConfig {
                name: "min.insync.replicas".into(),
                value: Some("2".into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    for (name, replicas) in [("three", 3), ("one", 1)] {
        assert_eq!(client.call(&replicated(name, replicas), 7).topics[0].error_code, 0);
        assert_eq!(client.produce(name, 0, batch(&["a"])).error_code, 0);
    }
    broker.shutdown();
    let broker = start(dir.path(), &[("milena.strict.replication.factor", "true")]);
    let mut client = broker.client();
    let refused = client.produce("three", 0, batch(&["b"]));
    assert_eq!(
        (refused.error_code, refused.base_offset),
        (ErrorCode::NotEnoughReplicas.code(), -1)
    );
    // Without acks=all, missing replicas do not matter.
    let mut request = produce_request("three", 0, batch(&["b"]));
    request.acks = 1;
    let row = client
        .call(&request, 12)
        .responses
        .remove(0)
        .partition_responses
        .remove(0);
    assert_eq!((row.error_code, row.base_offset), (0, 1));
    // Kafka demands no more replicas than the topic has.
    assert_eq!(client.produce("one", 0, batch(&["b"])).error_code, 0);
    broker.shutdown();
}

#[test]
fn a_producer_is_told_which_records_of_a_batch_are_bad() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic("state", 1, &[("cleanup.policy", "compact")]);
    client.create_topic("recent", 1, &[("message.timestamp.before.max.ms", "60000")]);
    let mut builder = BatchBuilder::new(BatchOptions::default());
    for key in [Some(&b"key"[..]), None, Some(b"key"), None] {
        let record = NewRecord {
            key,
            ..NewRecord::default()
        };
        builder.append(&record).unwrap();
    }
    let records = builder.finish();
    for version in 3..=12 {
        let response = client.call(&produce_request("state", 0, records.clone()), version);
        let row = &response.responses[0].partition_responses[0];
        assert_eq!((row.error_code, row.base_offset), (ErrorCode::InvalidRecord.code(), -1));
        let named: Vec<i32> = row.record_errors.iter().map(|error| error.batch_index).collect();
        let expected: &[i32] = if version >= 8 { &[1, 3] } else { &[] };
        assert_eq!(named, expected, "version {version}");
        if version >= 8 {
            let told = row.record_errors[0].batch_index_error_message.as_deref();
            assert!(told.unwrap().contains("no key"), "{told:?}");
            let told = row.error_message.as_deref();
            assert!(told.unwrap().contains("2 of its records"), "{told:?}");
        }
    }
    let old = client.produce("recent", 0, batch(&["a", "b"]));
    assert_eq!(old.error_code, ErrorCode::InvalidTimestamp.code());
    assert_eq!(old.record_errors.len(), 2);
}

#[test]
fn a_compacted_topic_loses_what_newer_records_replace() {
    let dir = tempfile::tempdir().unwrap();
    let settings = [("log.cleaner.backoff.ms", "50")];
    let broker = start(dir.path(), &settings);
    let mut client = broker.client();
    let configs = [
        ("cleanup.policy", "compact"),
        ("segment.bytes", "1048576"),
        ("min.cleanable.dirty.ratio", "0.01"),
    ];
    client.create_topic("state", 1, &configs);
    let large = "x".repeat(300_000);
    // All records have one key: only the last is needed, but those of the active segment stay.
    for _ in 0..10 {
        client.produce("state", 0, batch(&[&large]));
    }
    let first = loop {
        let first = first_record(&mut client, "state");
        if first > 0 {
            break first;
        }
        // Records are compacted when they are synced, a second after they were written.
        thread::sleep(std::time::Duration::from_millis(20));
    };
    assert!(first < 10);
    broker.shutdown();
    let broker = start(dir.path(), &settings);
    // Another round may have moved it further meanwhile, never back.
    assert!((first..10).contains(&first_record(&mut broker.client(), "state")));
    broker.shutdown();
}

/// The offset of the first record. Compaction leaves batches without any, which a reader passes.
fn first_record(client: &mut Client, topic: &str) -> i64 {
    let mut offset = 0;
    loop {
        let records = client.fetch(topic, 0, offset).records.unwrap();
        if let Some((first, _)) = values(&records).first() {
            return *first;
        }
        offset = Batches::new(records).last().unwrap().unwrap().last_offset() + 1;
    }
}

#[test]
fn a_topic_may_choose_the_codec() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.create_topic(
        "small",
        1,
        &[("compression.type", "zstd"), ("compression.zstd.level", "7")],
    );
    let text = "worth compressing ".repeat(100);
    client.produce("small", 0, batch(&[&text]));
    let records = client.fetch("small", 0, 0).records.unwrap();
    assert!(records.len() < text.len() / 4, "{} bytes", records.len());
    assert_eq!(values(&records), [(0, text)]);
    broker.shutdown();
}

#[test]
fn who_believes_in_an_older_leader_is_told_of_the_present_one() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    let id = broker.client().create_topic("letters", 1, &[]);
    broker.client().produce("letters", 0, batch(&["a"]));
    broker.kill();
    // After an unclean shutdown the leader epoch is a new one.
    let broker = start(dir.path(), &[("broker.rack", "attic")]);
    let mut client = broker.client();
    let mut request = fetch_request("", 0, 0);
    request.topics[0].topic_id = id;
    request.topics[0].partitions[0].current_leader_epoch = 0;
    let response = client.call(&request, 16);
    let row = &response.responses[0].partitions[0];
    assert_eq!(row.error_code, ErrorCode::FencedLeaderEpoch.code());
    assert_eq!((row.current_leader.leader_id, row.current_leader.leader_epoch), (1, 1));
    let leader = &response.node_endpoints[0];
    assert_eq!(leader.node_id, 1);
    assert_eq!(format!("{}:{}", leader.host, leader.port), broker.address);
    assert_eq!(leader.rack.as_deref(), Some("attic"));
    // Older versions have no field for it.
    let older = client.call(&request, 15);
    assert_eq!(
        older.responses[0].partitions[0].error_code,
        ErrorCode::FencedLeaderEpoch.code()
    );
    assert!(older.node_endpoints.is_empty());
    // An epoch that does not exist yet is unknown to the broker.
    request.topics[0].partitions[0].current_leader_epoch = 9;
    let newer = client.call(&request, 16);
    assert_eq!(
        newer.responses[0].partitions[0].error_code,
        ErrorCode::UnknownLeaderEpoch.code()
    );
    assert!(newer.node_endpoints.is_empty());
}

/// A fetch that waits for longer than the client does, of a partition of which records of this epoch were fetched last.
fn fetch_after(offset: i64, last_fetched_epoch: i32) -> FetchRequest {
    let mut request = fetch_request("letters", 0, offset);
    request.topics[0].partitions[0].last_fetched_epoch = last_fetched_epoch;
    (request.max_wait_ms, request.min_bytes) = (600_000, 1 << 20);
    request
}

#[test]
fn who_fetched_what_the_log_does_not_have_is_told_at_once_where_it_diverges() {
    let dir = tempfile::tempdir().unwrap();
    let broker = start(dir.path(), &[]);
    broker.client().create_topic("letters", 1, &[]);
    broker.client().produce("letters", 0, batch(&["a", "b", "c"]));
    // After two unclean shutdowns epoch 0 has offsets 0 to 2, epoch 1 has none, epoch 2 has 3 and 4.
    broker.kill();
    start(dir.path(), &[]).kill();
    let broker = start(dir.path(), &[]);
    let mut client = broker.client();
    client.produce("letters", 0, batch(&["d", "e"]));
    for (offset, epoch, expected) in [(4, 0, (0, 3)), (3, 1, (0, 3)), (9, 2, (2, 5))] {
        let mut response = client.call(&fetch_after(offset, epoch), 12);
        let row = response.responses.remove(0).partitions.remove(0);
        let told = (row.diverging_epoch.epoch, row.diverging_epoch.end_offset);
        assert_eq!(
            (row.error_code, told),
            (0, expected),
            "offset {offset} of epoch {epoch}"
        );
        assert_eq!(row.records.as_deref(), Some(&[][..]));
        assert_eq!((row.high_watermark, row.log_start_offset), (5, 0));
    }
    // An epoch that has not been yet, and an offset below the log: both are out of range.
    let mut response = client.call(&fetch_after(3, 3), 12);
    let row = response.responses.remove(0).partitions.remove(0);
    assert_eq!(
        (row.error_code, row.high_watermark),
        (ErrorCode::OffsetOutOfRange.code(), -1)
    );
    let mut response = client.call(&fetch_after(-1, 1), 12);
    let row = response.responses.remove(0).partitions.remove(0);
    assert_eq!(row.error_code, ErrorCode::OffsetOutOfRange.code());
    assert_eq!(row.diverging_epoch.epoch, -1);
    // A client at the end of the epoch, or without a last fetched epoch, gets records.
    for (offset, epoch) in [(3, 0), (4, 2), (4, -1)] {
        let mut request = fetch_after(offset, epoch);
        request.min_bytes = 1;
        let row = client.call(&request, 12).responses.remove(0).partitions.remove(0);
        assert_eq!((row.error_code, row.diverging_epoch.epoch), (0, -1));
        assert_eq!(values(row.records.as_ref().unwrap()).len(), 2);
    }
    broker.shutdown();
}
