//! Deletion of offsets: by request, and with their topic.

use milena_machines::group::{GroupRecord, GroupReply, GroupRequest};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        JoinGroupRequest, OffsetDeleteRequest, OffsetDeleteResponse,
        offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic},
    },
};

use crate::{
    offsets_commit::{as_member, commit, commit_error},
    offsets_txn::{PRODUCER, commit_in_transaction},
    world::{World, code, join, protocol, topic},
};

fn delete(world: &mut World, group_id: &str, topic: &str, partition: i32) -> OffsetDeleteResponse {
    let request = OffsetDeleteRequest {
        group_id: group_id.into(),
        topics: vec![OffsetDeleteRequestTopic {
            name: topic.into(),
            partitions: vec![OffsetDeleteRequestPartition {
                partition_index: partition,
            }],
        }],
    };
    match world.ask(0, GroupRequest::OffsetDelete(request)) {
        GroupReply::OffsetDelete(response) => response,
        other => panic!("{other:?}"),
    }
}

fn delete_error(world: &mut World, group_id: &str, topic: &str, partition: i32) -> (ErrorCode, Option<ErrorCode>) {
    let response = delete(world, group_id, topic, partition);
    let of_partition = response
        .topics
        .first()
        .map(|topic| code(topic.partitions[0].error_code));
    (code(response.error_code), of_partition)
}

#[test]
fn the_group_must_be_there() {
    let mut world = World::new();
    assert_eq!(
        delete_error(&mut world, "", "orders", 0),
        (ErrorCode::InvalidGroupId, None)
    );
    assert_eq!(
        delete_error(&mut world, "nowhere", "orders", 0),
        (ErrorCode::GroupIdNotFound, None)
    );
}

#[test]
fn offsets_of_a_simple_group_go() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 0, 5);
    commit(&mut world, "g", "orders", 1, 6);
    let before = world.log_len();
    assert_eq!(
        delete_error(&mut world, "g", "orders", 0),
        (ErrorCode::None, Some(ErrorCode::None))
    );
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, -1);
    assert_eq!(world.fetch("g", "orders", 1).committed_offset, 6);
    assert!(matches!(
        world.records_from(before).as_slice(),
        [GroupRecord::Offset { value: None, .. }]
    ));
    // An offset that does not exist leaves no tombstone.
    assert_eq!(
        delete_error(&mut world, "g", "orders", 2),
        (ErrorCode::None, Some(ErrorCode::None))
    );
    assert_eq!(world.log_len(), before + 1);
}

#[test]
fn topics_that_consumers_read_are_kept() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    assert_eq!(commit_error(&mut world, 8, as_member(&members[0], 1)), ErrorCode::None);
    let refused = (ErrorCode::None, Some(ErrorCode::GroupSubscribedToTopic));
    assert_eq!(delete_error(&mut world, "g", "orders", 0), refused);
    assert_eq!(
        delete_error(&mut world, "g", "payments", 0),
        (ErrorCode::None, Some(ErrorCode::None))
    );
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, 5);
    world.restart();
    assert_eq!(delete_error(&mut world, "g", "orders", 0), refused);
    world.leave(4, "g", &[(&members[0], None)]);
    assert_eq!(
        delete_error(&mut world, "g", "orders", 0),
        (ErrorCode::None, Some(ErrorCode::None))
    );
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, -1);
}

#[test]
fn a_group_of_consumers_whose_metadata_is_strange_may_read_anything() {
    let mut world = World::new();
    let member = world.member_id("g");
    let ticket = world.join(JoinGroupRequest {
        protocols: vec![protocol("range", "x".into())],
        ..join("g", &member)
    });
    world.settle();
    assert_eq!(world.joined(ticket).generation_id, 1);
    let refused = (ErrorCode::None, Some(ErrorCode::GroupSubscribedToTopic));
    assert_eq!(delete_error(&mut world, "g", "payments", 0), refused);
}

#[test]
fn of_other_groups_with_members_nothing_is_known() {
    let mut world = World::new();
    let member = world.member_id("g");
    let ticket = world.join(JoinGroupRequest {
        protocol_type: "connect".into(),
        ..join("g", &member)
    });
    world.settle();
    assert_eq!(world.joined(ticket).generation_id, 1);
    assert_eq!(
        delete_error(&mut world, "g", "orders", 0),
        (ErrorCode::NonEmptyGroup, None)
    );
    world.leave(4, "g", &[(&member, None)]);
    assert_eq!(
        delete_error(&mut world, "g", "orders", 0),
        (ErrorCode::None, Some(ErrorCode::None))
    );
}

#[test]
fn what_a_transaction_has_yet_to_commit_goes_too() {
    let mut world = World::new();
    commit_in_transaction(&mut world, 42);
    assert_eq!(
        delete_error(&mut world, "g", "orders", 0),
        (ErrorCode::None, Some(ErrorCode::None))
    );
    assert_eq!(
        world.last_producer(),
        None,
        "the tombstone is not part of the transaction"
    );
    world.end_transaction(PRODUCER, true);
    assert_eq!(world.fetch_as("g", "orders", 0, true).committed_offset, -1);
}

#[test]
fn with_a_topic_its_offsets_go() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 0, 5);
    commit(&mut world, "g", "payments", 0, 6);
    commit(&mut world, "other", "orders", 1, 7);
    let before = world.log_len();
    let mut topics = world.topics();
    topics.remove("orders");
    world.set_topics(topics);
    assert_eq!(world.log_len(), before + 2);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, -1);
    assert_eq!(world.fetch("other", "orders", 1).committed_offset, -1);
    assert_eq!(world.fetch("g", "payments", 0).committed_offset, 6);
}

#[test]
fn a_topic_that_was_made_anew_begins_without_offsets() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 0, 5);
    let mut topics = world.topics();
    topics.insert("orders".into(), topic(9));
    world.set_topics(topics);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, -1);
    commit(&mut world, "g", "orders", 0, 1);
    let mut topics = world.topics();
    topics.insert("more".into(), topic(10));
    world.set_topics(topics);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, 1);
}

#[test]
fn with_a_topic_what_a_transaction_wrote_for_it_goes() {
    let mut world = World::new();
    commit_in_transaction(&mut world, 42);
    let mut topics = world.topics();
    topics.remove("orders");
    world.set_topics(topics);
    world.end_transaction(PRODUCER, true);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, -1);
}
