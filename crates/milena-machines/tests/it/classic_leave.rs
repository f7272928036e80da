//! LeaveGroup, rule by rule.

use milena_machines::group::GroupRecord;
use milena_wire::errors::ErrorCode;

use crate::world::{World, code, join, static_join, sync};

#[test]
fn an_empty_group_id_is_invalid() {
    let response = World::new().leave(4, "", &[("me", None)]);
    assert_eq!(code(response.error_code), ErrorCode::InvalidGroupId);
    assert_eq!(response.members, []);
}

#[test]
fn of_an_unknown_group_each_member_is_unknown() {
    let mut world = World::new();
    let response = world.leave(3, "nowhere", &[("one", None), ("two", Some("i"))]);
    assert_eq!(code(response.error_code), ErrorCode::None);
    for (member, (id, instance)) in response.members.iter().zip([("one", None), ("two", Some("i"))]) {
        assert_eq!(code(member.error_code), ErrorCode::UnknownMemberId);
        assert_eq!(
            (member.member_id.as_ref(), member.group_instance_id.as_deref()),
            (id, instance)
        );
    }
}

#[test]
fn before_version_3_the_one_error_is_that_of_the_request() {
    let mut world = World::new();
    assert_eq!(
        code(world.leave(2, "nowhere", &[("me", None)]).error_code),
        ErrorCode::UnknownMemberId
    );
    let members = world.stable("g", 1);
    let response = world.leave(0, "g", &[("me", None)]);
    assert_eq!(code(response.error_code), ErrorCode::UnknownMemberId);
    let response = world.leave(2, "g", &[(&members[0], None)]);
    assert_eq!(
        (code(response.error_code), response.members.len()),
        (ErrorCode::None, 0)
    );
    assert_eq!(world.state("g"), "Empty");
}

#[test]
fn the_last_to_leave_makes_the_group_empty_in_the_log() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    let before = world.log_len();
    world.leave(4, "g", &[(&members[0], None)]);
    let records = world.records_from(before);
    let [GroupRecord::Classic { value: Some(value), .. }] = records.as_slice() else {
        panic!("{records:?}");
    };
    assert_eq!((value.generation, value.members.len()), (2, 0));
    assert_eq!((value.protocol.as_ref(), value.leader.as_ref()), (None, None));
    assert_eq!(value.protocol_type, "consumer");
    assert_eq!(value.current_state_timestamp, world.now_ms);
}

#[test]
fn who_leaves_makes_the_others_rebalance() {
    let mut world = World::new();
    let members = world.stable("g", 3);
    let response = world.leave(5, "g", &[(&members[0], None), ("stranger", None)]);
    assert_eq!(code(response.members[0].error_code), ErrorCode::None);
    assert_eq!(code(response.members[1].error_code), ErrorCode::UnknownMemberId);
    assert_eq!(world.state("g"), "PreparingRebalance");
    let second = world.join(join("g", &members[1]));
    let third = world.join(join("g", &members[2]));
    let (second, third) = (world.joined(second), world.joined(third));
    assert_eq!(second.leader, third.leader);
    assert!([&members[1], &members[2]].contains(&&second.leader.to_string()));
}

#[test]
fn unknown_members_that_leave_change_nothing() {
    let mut world = World::new();
    world.stable("g", 1);
    world.leave(4, "g", &[("stranger", None), ("", None), ("", Some("unknown"))]);
    assert_eq!(world.state("g"), "Stable");
}

#[test]
fn who_leaves_while_preparing_lets_the_others_go_on() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    let leader = world.join(join("g", &members[0]));
    assert!(world.is_waiting(leader));
    world.leave(4, "g", &[(&members[1], None)]);
    assert_eq!(world.joined(leader).members.len(), 1);
}

#[test]
fn the_join_of_a_leaving_member_gets_a_reply() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    let waiting = world.join(join("g", &members[0]));
    world.leave(4, "g", &[(&members[0], None)]);
    let response = world.joined(waiting);
    assert_eq!(code(response.error_code), ErrorCode::UnknownMemberId);
    assert_eq!(response.member_id, "");
}

#[test]
fn the_sync_of_a_leaving_member_gets_a_reply() {
    let mut world = World::new();
    let members = world.completing("g", 2);
    let waiting = world.sync(sync("g", &members[1], 1));
    world.leave(4, "g", &[(&members[1], None)]);
    assert_eq!(code(world.synced(waiting).error_code), ErrorCode::UnknownMemberId);
}

#[test]
fn a_pending_member_can_leave() {
    let mut world = World::new();
    let member = world.member_id("g");
    let response = world.leave(4, "g", &[(&member, None)]);
    assert_eq!(code(response.members[0].error_code), ErrorCode::None);
    assert_eq!(world.join_error(9, join("g", &member)), ErrorCode::UnknownMemberId);
}

#[test]
fn a_pending_member_that_leaves_lets_the_others_go_on() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    let pending = world.member_id("g");
    let leader = world.join(join("g", &members[0]));
    assert!(world.is_waiting(leader));
    world.leave(4, "g", &[(&pending, None)]);
    assert_eq!(world.joined(leader).generation_id, 2);
}

#[test]
fn a_static_member_leaves_by_its_instance_id() {
    let mut world = World::new();
    let ticket = world.join(static_join("g", "", "i"));
    world.settle();
    let member = world.joined(ticket).member_id;
    let fenced = world.leave(4, "g", &[("other", Some("i"))]);
    assert_eq!(code(fenced.members[0].error_code), ErrorCode::FencedInstanceId);
    let unknown = world.leave(4, "g", &[(&member, Some("other"))]);
    assert_eq!(code(unknown.members[0].error_code), ErrorCode::UnknownMemberId);
    let response = world.leave(4, "g", &[("", Some("i"))]);
    assert_eq!(code(response.members[0].error_code), ErrorCode::None);
    assert_eq!(response.members[0].member_id, "", "as it was asked for");
    assert_eq!(world.state("g"), "Empty");
}

#[test]
fn a_member_named_twice_leaves_once() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    let response = world.leave(4, "g", &[(&members[0], None), (&members[0], None)]);
    assert_eq!(code(response.members[0].error_code), ErrorCode::None);
    assert_eq!(code(response.members[1].error_code), ErrorCode::UnknownMemberId);
}
