//! OffsetCommit, rule by rule.

use milena_machines::group::{GroupConfig, GroupRecord, GroupReply, GroupRequest};
use milena_wire::{
    Uuid,
    errors::ErrorCode,
    messages::{
        OffsetCommitRequest,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
    },
};

use crate::world::{SESSION_MS, World, code, join, static_join, topic};

/// A commit without a member.
pub(crate) fn request(group_id: &str, topic: &str, partition: i32, offset: i64) -> OffsetCommitRequest {
    OffsetCommitRequest {
        group_id: group_id.into(),
        topics: vec![OffsetCommitRequestTopic {
            name: topic.into(),
            partitions: vec![OffsetCommitRequestPartition {
                partition_index: partition,
                committed_offset: offset,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    }
}

pub(crate) fn commit_error(world: &mut World, version: i16, request: OffsetCommitRequest) -> ErrorCode {
    match world.ask(version, GroupRequest::OffsetCommit(request)) {
        GroupReply::OffsetCommit(response) => code(response.topics[0].partitions[0].error_code),
        other => panic!("{other:?}"),
    }
}

pub(crate) fn commit(world: &mut World, group_id: &str, topic: &str, partition: i32, offset: i64) {
    let error = commit_error(world, 8, request(group_id, topic, partition, offset));
    assert_eq!(error, ErrorCode::None);
}

/// A commit of a member.
pub(crate) fn as_member(member_id: &str, generation_id: i32) -> OffsetCommitRequest {
    OffsetCommitRequest {
        member_id: member_id.into(),
        generation_id_or_member_epoch: generation_id,
        ..request("g", "orders", 0, 5)
    }
}

#[test]
fn without_members_any_client_may_commit() {
    let mut world = World::new();
    commit(&mut world, "simple", "orders", 1, 42);
    assert_eq!(world.fetch("simple", "orders", 1).committed_offset, 42);
    assert_eq!(world.describe("simple").group_state, "Empty");
    assert_eq!(world.describe("simple").protocol_type, "");
}

#[test]
fn of_an_unknown_group_no_generation_is_legal() {
    let mut world = World::new();
    assert_eq!(
        commit_error(&mut world, 8, as_member("me", 1)),
        ErrorCode::IllegalGeneration
    );
    assert_eq!(
        commit_error(&mut world, 9, as_member("me", 1)),
        ErrorCode::GroupIdNotFound
    );
    assert_eq!(world.log_len(), 0);
}

#[test]
fn a_simple_group_has_no_members() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 0, 1);
    assert_eq!(
        commit_error(&mut world, 9, as_member("me", 0)),
        ErrorCode::UnknownMemberId
    );
    assert_eq!(
        commit_error(&mut world, 9, as_member("me", -1)),
        ErrorCode::None,
        "nobody is there to be disturbed"
    );
}

#[test]
fn an_empty_group_takes_commits_from_outside() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    world.leave(4, "g", &[(&members[0], None)]);
    assert_eq!(
        commit_error(&mut world, 8, request("g", "orders", 0, 7)),
        ErrorCode::None
    );
    assert_eq!(
        commit_error(&mut world, 8, as_member(&members[0], 1)),
        ErrorCode::UnknownMemberId
    );
}

#[test]
fn a_group_with_members_takes_commits_of_members_only() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    assert_eq!(
        commit_error(&mut world, 8, request("g", "orders", 0, 7)),
        ErrorCode::UnknownMemberId
    );
    assert_eq!(
        commit_error(&mut world, 8, as_member("stranger", 1)),
        ErrorCode::UnknownMemberId
    );
    assert_eq!(
        commit_error(&mut world, 8, as_member(&members[0], 0)),
        ErrorCode::IllegalGeneration
    );
    assert_eq!(
        commit_error(&mut world, 8, as_member(&members[0], -1)),
        ErrorCode::IllegalGeneration
    );
    assert_eq!(commit_error(&mut world, 8, as_member(&members[0], 1)), ErrorCode::None);
}

#[test]
fn a_fenced_instance_cannot_commit() {
    let mut world = World::new();
    let ticket = world.join(static_join("g", "", "i"));
    world.settle();
    let member = world.joined(ticket).member_id.to_string();
    world.sync_all("g", std::slice::from_ref(&member), 1);
    let named = |member: &str, instance: &str| OffsetCommitRequest {
        group_instance_id: Some(instance.into()),
        ..as_member(member, 1)
    };
    assert_eq!(
        commit_error(&mut world, 8, named("other", "i")),
        ErrorCode::FencedInstanceId
    );
    assert_eq!(
        commit_error(&mut world, 8, named(&member, "unknown")),
        ErrorCode::UnknownMemberId
    );
    assert_eq!(commit_error(&mut world, 8, named(&member, "i")), ErrorCode::None);
}

#[test]
fn before_the_assignment_no_member_may_commit() {
    let mut world = World::new();
    let members = world.completing("g", 1);
    assert_eq!(
        commit_error(&mut world, 8, as_member(&members[0], 1)),
        ErrorCode::RebalanceInProgress
    );
}

#[test]
fn before_joining_again_members_may_commit() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    world.join(join("g", &members[0]));
    assert_eq!(commit_error(&mut world, 8, as_member(&members[1], 1)), ErrorCode::None);
}

#[test]
fn a_commit_counts_as_a_heartbeat() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    for _ in 0..4 {
        world.pass(SESSION_MS / 2);
        assert_eq!(commit_error(&mut world, 8, as_member(&members[0], 1)), ErrorCode::None);
    }
    let described = world.describe("g");
    assert_eq!(described.members.len(), 1);
    assert_eq!(described.members[0].member_id, members[0]);
}

#[test]
fn metadata_and_leader_epoch_come_back() {
    let mut world = World::new();
    let mut request = request("g", "orders", 0, 42);
    request.topics[0].partitions[0].committed_leader_epoch = 3;
    request.topics[0].partitions[0].committed_metadata = Some("my note".into());
    assert_eq!(commit_error(&mut world, 8, request.clone()), ErrorCode::None);
    let fetched = world.fetch("g", "orders", 0);
    assert_eq!((fetched.committed_offset, fetched.committed_leader_epoch), (42, 3));
    assert_eq!(fetched.metadata.as_deref(), Some("my note"));
    request.topics[0].partitions[0].committed_metadata = None;
    assert_eq!(commit_error(&mut world, 8, request), ErrorCode::None);
    assert_eq!(world.fetch("g", "orders", 0).metadata.as_deref(), Some(""));
}

#[test]
fn too_much_metadata_is_refused_for_its_partition_only() {
    let mut world = World::with(GroupConfig {
        offset_metadata_max_bytes: 4,
        ..Default::default()
    });
    let mut request = request("g", "orders", 0, 42);
    let partition = |index: i32, metadata: &str| OffsetCommitRequestPartition {
        partition_index: index,
        committed_offset: 42,
        committed_metadata: Some(metadata.into()),
        ..Default::default()
    };
    request.topics[0].partitions = vec![partition(0, "12345"), partition(1, "1234"), partition(2, "äöüß")];
    let GroupReply::OffsetCommit(response) = world.ask(8, GroupRequest::OffsetCommit(request)) else {
        panic!("not a reply to OffsetCommit");
    };
    let errors: Vec<_> = response.topics[0]
        .partitions
        .iter()
        .map(|one| code(one.error_code))
        .collect();
    assert_eq!(
        errors,
        [ErrorCode::OffsetMetadataTooLarge, ErrorCode::None, ErrorCode::None]
    );
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, -1);
    assert_eq!(world.fetch("g", "orders", 1).committed_offset, 42);
}

#[test]
fn a_record_is_as_kafka_writes_it() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 2, 42);
    let records = world.records_from(0);
    let [
        GroupRecord::Offset {
            key,
            value: Some(value),
        },
    ] = records.as_slice()
    else {
        panic!("{records:?}");
    };
    assert_eq!(
        (key.group_id.as_ref(), key.topic.as_ref(), key.partition),
        ("g", "orders", 2)
    );
    assert_eq!(
        (value.offset, value.leader_epoch, value.metadata.as_ref()),
        (42, -1, "")
    );
    assert_eq!((value.commit_timestamp, value.expire_timestamp), (world.now_ms, -1));
    assert_eq!(value.topic_id, topic(1).id, "old versions name the topic only");
}

#[test]
fn a_topic_id_that_was_named_is_kept_and_echoed() {
    let mut world = World::new();
    let mut request = request("g", "orders", 2, 42);
    request.topics[0].topic_id = Uuid::from_bytes([9; 16]);
    let GroupReply::OffsetCommit(response) = world.ask(10, GroupRequest::OffsetCommit(request)) else {
        panic!("not a reply to OffsetCommit");
    };
    assert_eq!(response.topics[0].topic_id, Uuid::from_bytes([9; 16]));
    let records = world.records_from(0);
    assert!(
        matches!(&records[0], GroupRecord::Offset { value: Some(value), .. } if value.topic_id == Uuid::from_bytes([9; 16]))
    );
}

#[test]
fn an_own_retention_time_is_kept() {
    let mut world = World::new();
    let request = OffsetCommitRequest {
        retention_time_ms: 1_000,
        ..request("g", "orders", 2, 42)
    };
    assert_eq!(commit_error(&mut world, 4, request), ErrorCode::None);
    let records = world.records_from(0);
    let expected = world.now_ms + 1_000;
    assert!(
        matches!(&records[0], GroupRecord::Offset { value: Some(value), .. } if value.expire_timestamp == expected)
    );
}
