//! ConsumerGroupDescribe, and permission to commit.

use milena_machines::group::{GroupReply, GroupRequest};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        OffsetCommitRequest,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::OffsetFetchRequestGroup,
    },
};

use super::harness::*;

#[test]
fn a_group_tells_who_has_what_and_who_is_to_have_it() {
    let mut world = World::with_topics(&[("t", 2)]);
    world.join("a", &["t"]);
    world.join("b", &["t"]);
    let group = world.describe(GROUP);
    assert_eq!(group.error_code, 0);
    assert_eq!((group.group_epoch, group.assignment_epoch), (3, 3));
    assert_eq!((&*group.group_state, &*group.assignor_name), ("Reconciling", "uniform"));
    let [a, b] = group.members.as_slice() else {
        panic!("{group:?}");
    };
    assert_eq!((&*a.member_id, &*b.member_id), ("a", "b"));
    assert_eq!((a.member_epoch, b.member_epoch), (2, 3));
    assert_eq!((&*a.client_id, &*a.client_host), ("client", "/127.0.0.1"));
    assert_eq!(a.subscribed_topic_names, names(&["t"]));
    assert_eq!(a.member_type, 1);
    assert_eq!((&a.instance_id, &a.rack_id), (&None, &None), "it did not say");
    let topic = &a.assignment.topic_partitions[0];
    assert_eq!((&*topic.topic_name, topic.topic_id), ("t", topic_id("t")));
    assert_eq!(topic.partitions, [0, 1]);
    assert_eq!(a.target_assignment.topic_partitions[0].partitions, [0]);
    assert_eq!(b.assignment.topic_partitions, []);
    assert_eq!(b.target_assignment.topic_partitions[0].partitions, [1]);
}

#[test]
fn what_is_being_revoked_is_still_the_members() {
    let mut world = World::with_topics(&[("t", 2)]);
    let a = world.join("a", &["t"]);
    world.join("b", &["t"]);
    world.granted(beating("a", a.epoch));
    let group = world.describe(GROUP);
    assert_eq!(group.members[0].assignment.topic_partitions[0].partitions, [0, 1]);
}

#[test]
fn a_group_that_is_not_there_is_not_found() {
    let mut world = World::with_topics(&[]);
    assert_eq!(world.describe(GROUP).error_code, ErrorCode::GroupIdNotFound.code());
}

fn commit(world: &mut World, member_id: &str, epoch: i32, partition: i32) -> ErrorCode {
    let request = OffsetCommitRequest {
        group_id: GROUP.into(),
        member_id: member_id.to_owned().into(),
        generation_id_or_member_epoch: epoch,
        topics: vec![OffsetCommitRequestTopic {
            name: "t".into(),
            topic_id: topic_id("t"),
            partitions: vec![OffsetCommitRequestPartition {
                partition_index: partition,
                committed_offset: 1,
                ..Default::default()
            }],
            ..Default::default()
        }],
        ..Default::default()
    };
    world.version = 9;
    let reply = world.ask(GroupRequest::OffsetCommit(request)).pop();
    world.version = 1;
    match reply {
        Some(GroupReply::OffsetCommit(response)) => {
            ErrorCode::from_code(response.topics[0].partitions[0].error_code).unwrap()
        }
        reply => panic!("{reply:?}"),
    }
}

fn fetch(world: &mut World, member_id: Option<&str>, member_epoch: i32) -> ErrorCode {
    let group = OffsetFetchRequestGroup {
        group_id: GROUP.into(),
        member_id: member_id.map(|member_id| member_id.to_owned().into()),
        member_epoch,
        topics: None,
        ..Default::default()
    };
    world.version = 9;
    let request = GroupRequest::OffsetFetch {
        group,
        require_stable: false,
    };
    let reply = world.ask(request).pop();
    world.version = 1;
    match reply {
        Some(GroupReply::OffsetFetch(response)) => ErrorCode::from_code(response.error_code).unwrap(),
        reply => panic!("{reply:?}"),
    }
}

#[test]
fn members_commit_in_their_epoch() {
    let mut world = World::with_topics(&[("t", 2)]);
    let mut a = world.join("a", &["t"]);
    assert_eq!(commit(&mut world, "a", a.epoch, 0), ErrorCode::None);
    assert_eq!(commit(&mut world, "a", a.epoch + 1, 0), ErrorCode::StaleMemberEpoch);
    assert_eq!(commit(&mut world, "b", a.epoch, 0), ErrorCode::UnknownMemberId);
    assert_eq!(commit(&mut world, "", -1, 0), ErrorCode::UnknownMemberId);
    a.leave(&mut world);
    assert_eq!(commit(&mut world, "", -1, 0), ErrorCode::None);
}

#[test]
fn a_commit_of_an_older_epoch_is_granted_for_what_the_member_has_since_then() {
    let mut world = World::with_topics(&[("t", 2)]);
    let mut a = world.join("a", &["t"]);
    let old = a.epoch;
    let mut b = world.join("b", &["t"]);
    world.settle(&mut [&mut a, &mut b]);
    assert!(a.epoch > old);
    let kept = *a.owned[&topic_id("t")].first().unwrap();
    assert_eq!(commit(&mut world, "a", old, kept), ErrorCode::None);
    assert_eq!(commit(&mut world, "a", old, 1 - kept), ErrorCode::StaleMemberEpoch);
    assert_eq!(commit(&mut world, "a", old - 1, kept), ErrorCode::StaleMemberEpoch);
    assert_eq!(commit(&mut world, "b", old, 1 - kept), ErrorCode::StaleMemberEpoch);
    world.restart();
    assert_eq!(commit(&mut world, "a", old, kept), ErrorCode::None);
}

#[test]
fn members_fetch_in_their_epoch_and_others_without_one() {
    let mut world = World::with_topics(&[("t", 2)]);
    let a = world.join("a", &["t"]);
    assert_eq!(fetch(&mut world, Some("a"), a.epoch), ErrorCode::None);
    assert_eq!(fetch(&mut world, Some("a"), a.epoch + 1), ErrorCode::StaleMemberEpoch);
    assert_eq!(fetch(&mut world, Some("a"), a.epoch - 1), ErrorCode::StaleMemberEpoch);
    assert_eq!(fetch(&mut world, Some("b"), a.epoch), ErrorCode::UnknownMemberId);
    assert_eq!(fetch(&mut world, None, -1), ErrorCode::None);
}
