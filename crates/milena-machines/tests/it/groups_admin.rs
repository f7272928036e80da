//! ListGroups, DescribeGroups and DeleteGroups.

use milena_machines::group::{GroupRecord, GroupReply, GroupRequest};
use milena_wire::{errors::ErrorCode, messages::describe_groups_response::DescribedGroup};

use crate::{
    offsets_commit::commit,
    offsets_txn::{PRODUCER, commit_in_transaction},
    world::{World, assigned_to, join, subscription},
};

fn describe_at(world: &mut World, version: i16, group_id: &str) -> DescribedGroup {
    let group_id = group_id.into();
    match world.ask(version, GroupRequest::Describe { group_id }) {
        GroupReply::Describe(group) => group,
        other => panic!("{other:?}"),
    }
}

fn list(world: &mut World, states: &[&str], types: &[&str]) -> Vec<String> {
    let names = |names: &[&str]| names.iter().map(|name| (*name).into()).collect();
    let request = GroupRequest::List {
        states: names(states),
        types: names(types),
    };
    match world.ask(5, request) {
        GroupReply::List(groups) => groups.iter().map(|group| group.group_id.to_string()).collect(),
        other => panic!("{other:?}"),
    }
}

fn delete(world: &mut World, group_id: &str) -> ErrorCode {
    let group_id = group_id.into();
    match world.ask(2, GroupRequest::Delete { group_id }) {
        GroupReply::Delete(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn an_unknown_group_is_dead_and_since_version_6_an_error() {
    let mut world = World::new();
    let old = describe_at(&mut world, 5, "nowhere");
    assert_eq!(
        (old.error_code, old.group_state.as_ref(), old.error_message),
        (0, "Dead", None)
    );
    let new = describe_at(&mut world, 6, "nowhere");
    assert_eq!(
        (new.error_code, new.group_state.as_ref()),
        (ErrorCode::GroupIdNotFound.code(), "Dead")
    );
    assert_eq!(new.error_message.as_deref(), Some("Group nowhere not found."));
}

#[test]
fn a_stable_group_shows_what_its_members_said_and_got() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    let group = describe_at(&mut world, 6, "g");
    assert_eq!(
        (group.group_state.as_ref(), group.protocol_type.as_ref()),
        ("Stable", "consumer")
    );
    assert_eq!(group.protocol_data, "range");
    let member = &group.members[0];
    assert_eq!(member.member_id, members[0]);
    assert_eq!(
        (member.client_id.as_ref(), member.client_host.as_ref()),
        ("client", "/127.0.0.1")
    );
    assert_eq!(member.member_metadata, subscription(&["orders"]));
    assert_eq!(member.member_assignment, assigned_to(&members[0]));
}

#[test]
fn a_group_in_a_rebalance_shows_no_metadata() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    world.join(join("g", &members[0]));
    let group = describe_at(&mut world, 6, "g");
    assert_eq!(
        (group.group_state.as_ref(), group.protocol_data.as_ref()),
        ("PreparingRebalance", "")
    );
    assert_eq!(group.members.len(), 2);
    for member in &group.members {
        assert_eq!(member.member_metadata.len(), 0);
        assert_eq!(member.member_assignment, assigned_to(&member.member_id));
    }
}

#[test]
fn groups_are_listed_with_state_and_type() {
    let mut world = World::new();
    world.stable("stable", 1);
    world.member_id("empty");
    commit(&mut world, "simple", "orders", 0, 5);
    let listed: Vec<_> = world
        .list()
        .into_iter()
        .map(|group| {
            [group.group_id, group.protocol_type, group.group_state, group.group_type].map(|text| text.to_string())
        })
        .collect();
    assert_eq!(
        listed,
        [
            ["empty", "", "Empty", "classic"],
            ["simple", "", "Empty", "classic"],
            ["stable", "consumer", "Stable", "classic"],
        ]
    );
}

#[test]
fn filters_do_not_care_about_case() {
    let mut world = World::new();
    world.stable("stable", 1);
    world.completing("completing", 1);
    commit(&mut world, "simple", "orders", 0, 5);
    assert_eq!(list(&mut world, &["sTABLE"], &[]), ["stable"]);
    assert_eq!(
        list(&mut world, &["empty", " CompletingRebalance "], &[]),
        ["completing", "simple"]
    );
    assert_eq!(list(&mut world, &["nonsense"], &[]), [] as [&str; 0]);
    assert_eq!(list(&mut world, &[], &["Classic"]).len(), 3);
    assert_eq!(list(&mut world, &[], &["consumer"]), [] as [&str; 0]);
    assert_eq!(list(&mut world, &["stable"], &["classic", "share"]), ["stable"]);
}

#[test]
fn only_an_empty_group_can_be_deleted() {
    let mut world = World::new();
    assert_eq!(delete(&mut world, "nowhere"), ErrorCode::GroupIdNotFound);
    let members = world.stable("g", 1);
    assert_eq!(delete(&mut world, "g"), ErrorCode::NonEmptyGroup);
    world.join(join("g", &members[0]));
    assert_eq!(delete(&mut world, "g"), ErrorCode::NonEmptyGroup);
    world.leave(4, "g", &[(&members[0], None)]);
    assert_eq!(delete(&mut world, "g"), ErrorCode::None);
    assert_eq!(delete(&mut world, "g"), ErrorCode::GroupIdNotFound);
}

#[test]
fn a_deleted_group_leaves_tombstones_for_its_offsets_and_itself() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    world.leave(4, "g", &[(&members[0], None)]);
    commit(&mut world, "g", "orders", 0, 5);
    commit(&mut world, "g", "payments", 1, 6);
    let before = world.log_len();
    assert_eq!(delete(&mut world, "g"), ErrorCode::None);
    let records = world.records_from(before);
    assert_eq!(records.len(), 3);
    assert!(matches!(&records[0], GroupRecord::Offset { key, value: None } if key.topic == "orders"));
    assert!(matches!(&records[1], GroupRecord::Offset { key, value: None } if key.topic == "payments"));
    assert!(matches!(&records[2], GroupRecord::Classic { group_id, value: None } if group_id == "g"));
    assert_eq!(world.list(), []);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, -1);
}

#[test]
fn a_simple_group_is_deleted_with_its_offsets() {
    let mut world = World::new();
    commit(&mut world, "simple", "orders", 0, 5);
    assert_eq!(delete(&mut world, "simple"), ErrorCode::None);
    assert_eq!(world.list(), []);
}

#[test]
fn with_a_deleted_group_its_pending_members_go() {
    let mut world = World::new();
    let next_check = world.machine.poll_timeout();
    let member = world.member_id("g");
    assert!(world.machine.poll_timeout() < next_check);
    assert_eq!(delete(&mut world, "g"), ErrorCode::None);
    assert_eq!(
        world.machine.poll_timeout(),
        next_check,
        "nothing is waited for any more"
    );
    assert_eq!(world.join_error(9, join("g", &member)), ErrorCode::UnknownMemberId);
}

#[test]
fn with_a_deleted_group_what_transactions_wrote_for_it_goes() {
    let mut world = World::new();
    commit_in_transaction(&mut world, 42);
    assert_eq!(delete(&mut world, "g"), ErrorCode::None);
    world.end_transaction(PRODUCER, true);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, -1);
    assert_eq!(world.list(), []);
}
