//! TxnOffsetCommit: offsets that count when their transaction commits.

use milena_machines::{
    group::{GroupConfig, GroupReply, GroupRequest},
    transaction::ProducerEpoch,
};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        TxnOffsetCommitRequest,
        txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic},
    },
};

use crate::{
    offsets_commit::commit,
    world::{World, code, static_join},
};

pub(crate) const PRODUCER: ProducerEpoch = ProducerEpoch {
    producer_id: 70,
    epoch: 2,
};

pub(crate) fn request(offset: i64) -> TxnOffsetCommitRequest {
    TxnOffsetCommitRequest {
        transactional_id: "t".into(),
        group_id: "g".into(),
        producer_id: PRODUCER.producer_id,
        producer_epoch: PRODUCER.epoch,
        topics: vec![TxnOffsetCommitRequestTopic {
            name: "orders".into(),
            partitions: vec![TxnOffsetCommitRequestPartition {
                partition_index: 0,
                committed_offset: offset,
                committed_leader_epoch: 4,
                committed_metadata: Some("note".into()),
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn commit_error(world: &mut World, request: TxnOffsetCommitRequest) -> ErrorCode {
    match world.ask(3, GroupRequest::TxnOffsetCommit(request)) {
        GroupReply::TxnOffsetCommit(response) => code(response.topics[0].partitions[0].error_code),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn commit_in_transaction(world: &mut World, offset: i64) {
    assert_eq!(commit_error(world, request(offset)), ErrorCode::None);
}

#[test]
fn it_counts_when_the_transaction_commits() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 0, 1);
    commit_in_transaction(&mut world, 42);
    assert_eq!(
        world.last_producer(),
        Some(PRODUCER),
        "the record is one of the transaction"
    );
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, 1);
    world.end_transaction(PRODUCER, true);
    let fetched = world.fetch("g", "orders", 0);
    assert_eq!((fetched.committed_offset, fetched.committed_leader_epoch), (42, 4));
    assert_eq!(fetched.metadata.as_deref(), Some("note"));
}

#[test]
fn it_never_counts_when_the_transaction_aborts() {
    let mut world = World::new();
    commit_in_transaction(&mut world, 42);
    assert_eq!(
        world.describe("g").group_state,
        "Empty",
        "the group is there because of it"
    );
    world.end_transaction(PRODUCER, false);
    assert_eq!(world.fetch_as("g", "orders", 0, true).committed_offset, -1);
    assert_eq!(world.list(), []);
}

#[test]
fn who_wants_stable_offsets_must_wait_for_the_end() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 0, 1);
    commit(&mut world, "g", "orders", 1, 1);
    commit_in_transaction(&mut world, 42);
    let fetched = world.fetch_as("g", "orders", 0, true);
    assert_eq!(code(fetched.error_code), ErrorCode::UnstableOffsetCommit);
    assert_eq!((fetched.committed_offset, fetched.committed_leader_epoch), (-1, -1));
    assert_eq!(fetched.metadata.as_deref(), Some(""));
    assert_eq!(world.fetch_as("g", "orders", 1, true).committed_offset, 1);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, 1);
    world.end_transaction(PRODUCER, true);
    assert_eq!(world.fetch_as("g", "orders", 0, true).committed_offset, 42);
}

#[test]
fn it_does_not_undo_what_was_committed_after_it() {
    let mut world = World::new();
    commit_in_transaction(&mut world, 42);
    commit(&mut world, "g", "orders", 0, 50);
    world.end_transaction(PRODUCER, true);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, 50);
}

#[test]
fn the_last_of_several_in_one_transaction_counts() {
    let mut world = World::new();
    commit_in_transaction(&mut world, 42);
    commit_in_transaction(&mut world, 43);
    world.end_transaction(PRODUCER, true);
    assert_eq!(world.fetch_as("g", "orders", 0, true).committed_offset, 43);
}

#[test]
fn two_transactions_end_apart() {
    let mut world = World::new();
    let other = ProducerEpoch {
        producer_id: 71,
        epoch: 0,
    };
    commit_in_transaction(&mut world, 42);
    let second = TxnOffsetCommitRequest {
        producer_id: other.producer_id,
        producer_epoch: other.epoch,
        ..request(60)
    };
    assert_eq!(commit_error(&mut world, second), ErrorCode::None);
    world.end_transaction(other, true);
    assert_eq!(
        code(world.fetch_as("g", "orders", 0, true).error_code),
        ErrorCode::UnstableOffsetCommit
    );
    world.end_transaction(PRODUCER, true);
    assert_eq!(
        world.fetch_as("g", "orders", 0, true).committed_offset,
        60,
        "that was written later"
    );
}

#[test]
fn a_marker_of_an_unknown_producer_changes_nothing() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 0, 1);
    world.end_transaction(PRODUCER, true);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, 1);
}

#[test]
fn open_transactions_survive_a_restart() {
    let mut world = World::new();
    commit_in_transaction(&mut world, 42);
    world.restart();
    assert_eq!(
        code(world.fetch_as("g", "orders", 0, true).error_code),
        ErrorCode::UnstableOffsetCommit
    );
    world.end_transaction(PRODUCER, true);
    world.restart();
    assert_eq!(world.fetch_as("g", "orders", 0, true).committed_offset, 42);
}

#[test]
fn the_group_is_checked_as_for_any_commit() {
    let mut world = World::new();
    let as_member = |member: &str, generation_id: i32| TxnOffsetCommitRequest {
        member_id: member.into(),
        generation_id,
        ..request(42)
    };
    let nameless = TxnOffsetCommitRequest {
        group_id: "".into(),
        ..request(42)
    };
    assert_eq!(commit_error(&mut world, nameless), ErrorCode::InvalidGroupId);
    assert_eq!(
        commit_error(&mut world, as_member("me", 1)),
        ErrorCode::IllegalGeneration
    );
    let members = world.stable("g", 1);
    assert_eq!(
        commit_error(&mut world, as_member("stranger", 1)),
        ErrorCode::UnknownMemberId
    );
    assert_eq!(
        commit_error(&mut world, as_member(&members[0], 0)),
        ErrorCode::IllegalGeneration
    );
    assert_eq!(commit_error(&mut world, as_member(&members[0], 1)), ErrorCode::None);
    // Old producers do not name the member.
    assert_eq!(commit_error(&mut world, as_member("", -1)), ErrorCode::None);
}

#[test]
fn before_the_assignment_a_transaction_may_commit() {
    let mut world = World::new();
    let members = world.completing("g", 1);
    let request = TxnOffsetCommitRequest {
        member_id: members[0].as_str().into(),
        generation_id: 1,
        ..request(42)
    };
    assert_eq!(commit_error(&mut world, request), ErrorCode::None);
}

#[test]
fn a_fenced_instance_cannot_commit() {
    let mut world = World::new();
    let ticket = world.join(static_join("g", "", "i"));
    world.settle();
    assert_eq!(world.joined(ticket).generation_id, 1);
    let request = TxnOffsetCommitRequest {
        member_id: "other".into(),
        group_instance_id: Some("i".into()),
        generation_id: 1,
        ..request(42)
    };
    assert_eq!(commit_error(&mut world, request), ErrorCode::FencedInstanceId);
}

#[test]
fn too_much_metadata_is_refused() {
    let mut world = World::with(GroupConfig {
        offset_metadata_max_bytes: 3,
        ..Default::default()
    });
    assert_eq!(commit_error(&mut world, request(42)), ErrorCode::OffsetMetadataTooLarge);
    assert_eq!(world.log_len(), 0);
}
