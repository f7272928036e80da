//! Errors of clients when the disk fails to sync, or is full.

use std::sync::Arc;

use milena_log::disk::MemoryDisk;
use milena_wire::{errors::ErrorCode, messages::*};

use crate::{
    client::{Client, batch, produce_request, values},
    running::{Running, start_on},
};

const FSYNC: [(&str, &str); 2] = [("milena.durability", "fsync"), ("offsets.topic.num.partitions", "1")];

fn start(memory: &MemoryDisk, settings: &[(&str, &str)]) -> Running {
    start_on(Arc::new(memory.clone()), settings)
}

fn commit_offset(client: &mut Client, offset: i64) -> ErrorCode {
    let request = OffsetCommitRequest {
        group_id: "readers".into(),
        generation_id_or_member_epoch: -1,
        topics: vec![offset_commit_request::OffsetCommitRequestTopic {
            name: "letters".into(),
            partitions: vec![offset_commit_request::OffsetCommitRequestPartition {
                partition_index: 0,
                committed_offset: offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    let response = client.call(&request, 8);
    ErrorCode::from_code(response.topics[0].partitions[0].error_code).unwrap()
}

/// Commits as soon as there is a coordinator.
fn commit_first_offset(client: &mut Client) {
    let request = FindCoordinatorRequest {
        key: "readers".into(),
        ..Default::default()
    };
    assert_eq!(client.call(&request, 3).error_code, 0);
    loop {
        match commit_offset(client, 1) {
            ErrorCode::None => return,
            error => assert_eq!(error, ErrorCode::CoordinatorLoadInProgress),
        }
    }
}

#[test]
fn who_waits_for_a_sync_that_fails_is_told_so_and_nothing_is_written_after_it() {
    let memory = MemoryDisk::new();
    let broker = start(&memory, &FSYNC);
    let mut client = broker.client();
    client.create_topic("letters", 2, &[]);
    assert_eq!(client.produce("letters", 0, batch(&["a"])).error_code, 0);
    assert_eq!(client.produce("letters", 1, batch(&["a"])).error_code, 0);

    memory.set_syncs_fail(true);
    let failed = client.produce("letters", 0, batch(&["b"]));
    assert_eq!(
        (failed.error_code, failed.base_offset),
        (ErrorCode::KafkaStorageError.code(), -1)
    );
    assert!(failed.error_message.unwrap().contains("failed to sync"));
    // Even if the disk works again, it is unknown which writes it has lost.
    memory.set_syncs_fail(false);
    for partition in [0, 1] {
        let refused = client.produce("letters", partition, batch(&["c"]));
        assert_eq!(refused.error_code, ErrorCode::KafkaStorageError.code());
        let read = client.fetch("letters", partition, 0);
        assert_eq!(
            values(&read.records.unwrap()),
            [(0, "a".to_owned())],
            "what was promised can be read"
        );
    }
    broker.kill();

    let broker = start(&memory, &FSYNC);
    let mut client = broker.client();
    assert_eq!(client.produce("letters", 1, batch(&["c"])).base_offset, 1);
    broker.shutdown();
}

#[test]
fn who_wants_one_acknowledgement_does_not_wait_for_the_sync() {
    let memory = MemoryDisk::new();
    let broker = start(&memory, &FSYNC);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    assert_eq!(client.produce("letters", 0, batch(&["a"])).error_code, 0);
    memory.set_syncs_fail(true);
    let mut request = produce_request("letters", 0, batch(&["b"]));
    request.acks = 1;
    let row = client
        .call(&request, 12)
        .responses
        .remove(0)
        .partition_responses
        .remove(0);
    assert_eq!((row.error_code, row.base_offset), (0, 1));
    broker.kill();
}

#[test]
fn a_coordinator_does_not_acknowledge_what_could_not_be_synced() {
    let memory = MemoryDisk::new();
    let broker = start(&memory, &FSYNC);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    commit_first_offset(&mut client);
    memory.set_syncs_fail(true);
    assert_eq!(commit_offset(&mut client, 2), ErrorCode::CoordinatorNotAvailable);
    // Nor are later records.
    memory.set_syncs_fail(false);
    assert_ne!(commit_offset(&mut client, 3), ErrorCode::None);
    broker.kill();
}

#[test]
fn a_full_disk_refuses_records_and_offsets_until_there_is_room_and_can_be_read() {
    let memory = MemoryDisk::new();
    let broker = start(&memory, &[("offsets.topic.num.partitions", "1")]);
    let mut client = broker.client();
    client.create_topic("letters", 1, &[]);
    assert_eq!(client.produce("letters", 0, batch(&["a"])).error_code, 0);
    commit_first_offset(&mut client);

    memory.set_room(Some(20));
    let refused = client.produce("letters", 0, batch(&["b"]));
    assert_eq!(
        (refused.error_code, refused.base_offset),
        (ErrorCode::KafkaStorageError.code(), -1)
    );
    assert!(refused.error_message.unwrap().contains("no space left"));
    assert_ne!(commit_offset(&mut client, 2), ErrorCode::None);
    let read = client.fetch("letters", 0, 0);
    assert_eq!(values(&read.records.unwrap()), [(0, "a".to_owned())]);

    memory.set_room(None);
    assert_eq!(client.produce("letters", 0, batch(&["c"])).base_offset, 1);
    assert_eq!(commit_offset(&mut client, 2), ErrorCode::None);
    broker.shutdown();
    let broker = start(&memory, &[]);
    let read = broker.client().fetch("letters", 0, 0);
    assert_eq!(
        values(&read.records.unwrap()),
        [(0, "a".to_owned()), (1, "c".to_owned())]
    );
    broker.shutdown();
}
