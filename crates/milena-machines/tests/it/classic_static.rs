//! Static members: fencing, and rejoining without a rebalance.

use bytes::Bytes;
use milena_machines::{
    Ticket,
    group::{GroupRecord, GroupRequest},
};
use milena_wire::{
    errors::ErrorCode,
    messages::{JoinGroupRequest, SyncGroupRequest},
};

use crate::world::{
    REBALANCE_MS, SESSION_MS, World, assigned_to, assignment, code, join, protocol, static_join, subscription, sync,
};

/// A stable group of static members with these instance ids; the first leads.
fn stable(world: &mut World, instances: &[&str]) -> Vec<String> {
    let tickets: Vec<Ticket> = instances
        .iter()
        .map(|instance| world.join(static_join("g", "", instance)))
        .collect();
    world.settle();
    let members: Vec<_> = tickets
        .into_iter()
        .map(|ticket| world.joined(ticket).member_id.to_string())
        .collect();
    world.sync_all("g", &members, 1);
    members
}

#[test]
fn a_static_member_joins_at_once() {
    let mut world = World::new();
    let ticket = world.join(static_join("g", "", "i"));
    world.settle();
    let response = world.joined(ticket);
    assert_eq!(code(response.error_code), ErrorCode::None);
    assert!(response.member_id.starts_with("i-"), "{}", response.member_id);
    assert_eq!(response.members[0].group_instance_id.as_deref(), Some("i"));
}

#[test]
fn in_a_stable_group_it_is_replaced_without_a_rebalance() {
    let mut world = World::new();
    let members = stable(&mut world, &["leader", "follower"]);
    let before = world.log_len();
    let ticket = world.join(static_join("g", "", "follower"));
    let response = world.joined(ticket);
    assert_eq!(code(response.error_code), ErrorCode::None);
    assert_ne!(response.member_id, members[1]);
    assert_eq!(response.generation_id, 1);
    assert_eq!(response.leader, members[0]);
    assert_eq!(response.members, []);
    assert!(!response.skip_assignment);
    assert_eq!(world.state("g"), "Stable");
    let records = world.records_from(before);
    let [GroupRecord::Classic { value: Some(value), .. }] = records.as_slice() else {
        panic!("{records:?}");
    };
    assert!(
        value
            .members
            .iter()
            .any(|member| member.member_id == response.member_id)
    );
    // It asks for the assignment of its predecessor, which is fenced.
    let synced = world.sync(sync("g", &response.member_id, 1));
    assert_eq!(world.synced(synced).assignment, assigned_to(&members[1]));
    assert_eq!(
        world.heartbeat_as("g", &members[1], Some("follower"), 1),
        ErrorCode::FencedInstanceId
    );
    assert_eq!(world.heartbeat("g", &members[1], 1), ErrorCode::UnknownMemberId);
    assert_eq!(
        world.join_error(9, static_join("g", &members[1], "follower")),
        ErrorCode::FencedInstanceId
    );
}

#[test]
fn since_version_9_a_replaced_leader_learns_all_but_skips_the_assignment() {
    let mut world = World::new();
    stable(&mut world, &["leader", "follower"]);
    let ticket = world.send(9, GroupRequest::Join(static_join("g", "", "leader")));
    let response = world.joined(ticket);
    assert!(response.skip_assignment);
    assert_eq!(response.leader, response.member_id);
    assert_eq!(response.members.len(), 2);
}

#[test]
fn before_version_9_a_replaced_leader_gets_the_id_of_the_old_leader() {
    let mut world = World::new();
    let members = stable(&mut world, &["leader", "follower"]);
    let ticket = world.send(8, GroupRequest::Join(static_join("g", "", "leader")));
    let response = world.joined(ticket);
    assert!(!response.skip_assignment);
    assert_eq!(response.leader, members[0]);
    assert_eq!(response.members, []);
    // It leads nevertheless: when it rejoins, all must.
    let again = world.join(static_join("g", &response.member_id, "leader"));
    assert!(world.is_waiting(again));
    assert_eq!(world.state("g"), "PreparingRebalance");
}

#[test]
fn other_metadata_for_the_same_protocol_is_no_reason_to_rebalance() {
    let mut world = World::new();
    stable(&mut world, &["i"]);
    let ticket = world.join(JoinGroupRequest {
        protocols: vec![protocol("range", subscription(&["payments"]))],
        ..static_join("g", "", "i")
    });
    assert_eq!(world.joined(ticket).generation_id, 1);
    assert_eq!(
        world.describe("g").members[0].member_metadata,
        subscription(&["payments"])
    );
}

#[test]
fn another_selected_protocol_is_a_reason_to_rebalance() {
    let mut world = World::new();
    let both = |names: [&str; 2]| names.map(|name| protocol(name, Bytes::new())).to_vec();
    let ticket = world.join(JoinGroupRequest {
        protocols: both(["range", "sticky"]),
        ..static_join("g", "", "i")
    });
    world.settle();
    let member = world.joined(ticket).member_id.to_string();
    world.sync_all("g", &[member], 1);
    let ticket = world.join(JoinGroupRequest {
        protocols: both(["sticky", "range"]),
        ..static_join("g", "", "i")
    });
    let response = world.joined(ticket);
    assert_eq!(response.generation_id, 2);
    assert_eq!(response.protocol_name.as_deref(), Some("sticky"));
    assert!(!response.skip_assignment);
}

#[test]
fn while_completing_it_begins_anew_and_fences_who_waits() {
    let mut world = World::new();
    let tickets: Vec<_> = ["one", "two"]
        .map(|instance| world.join(static_join("g", "", instance)))
        .to_vec();
    world.settle();
    let members: Vec<_> = tickets
        .into_iter()
        .map(|ticket| world.joined(ticket).member_id)
        .collect();
    let parked = world.sync(SyncGroupRequest {
        group_instance_id: Some("two".into()),
        ..sync("g", &members[1], 1)
    });
    let back = world.join(static_join("g", "", "two"));
    assert_eq!(code(world.synced(parked).error_code), ErrorCode::FencedInstanceId);
    assert_eq!(world.state("g"), "PreparingRebalance");
    let other = world.join(static_join("g", &members[0], "one"));
    assert_eq!(world.joined(back).generation_id, 2);
    assert_eq!(world.joined(other).members.len(), 2);
}

#[test]
fn while_preparing_it_takes_the_place_of_who_waits() {
    let mut world = World::new();
    let members = stable(&mut world, &["one", "two"]);
    let waiting = world.join(static_join("g", &members[0], "one"));
    let back = world.join(static_join("g", "", "one"));
    let fenced = world.joined(waiting);
    assert_eq!(code(fenced.error_code), ErrorCode::FencedInstanceId);
    assert_eq!(fenced.member_id, members[0]);
    let other = world.join(static_join("g", &members[1], "two"));
    let back = world.joined(back);
    assert_eq!((back.generation_id, back.leader), (2, back.member_id));
    assert_eq!(world.joined(other).generation_id, 2);
}

#[test]
fn in_an_empty_group_it_is_new() {
    let mut world = World::new();
    stable(&mut world, &["i"]);
    world.leave(4, "g", &[("", Some("i"))]);
    let ticket = world.join(static_join("g", "", "i"));
    world.settle();
    assert_eq!(world.joined(ticket).generation_id, 3);
}

#[test]
fn it_may_be_away_during_a_rebalance_and_keeps_its_place() {
    let mut world = World::new();
    let long = |member: &str, instance: &str| JoinGroupRequest {
        session_timeout_ms: 2 * REBALANCE_MS,
        ..static_join("g", member, instance)
    };
    let tickets: Vec<_> = ["one", "two"].map(|instance| world.join(long("", instance))).to_vec();
    world.settle();
    let members: Vec<_> = tickets
        .into_iter()
        .map(|ticket| world.joined(ticket).member_id.to_string())
        .collect();
    world.sync_all("g", &members, 1);
    let there = world.join(long(&members[0], "one"));
    world.pass(REBALANCE_MS);
    let response = world.joined(there);
    assert_eq!(response.generation_id, 2);
    assert_eq!(response.members.len(), 2, "the absent one is assigned to as well");
    let leader = world.sync(SyncGroupRequest {
        assignments: members.iter().map(|member| assignment(member)).collect(),
        ..sync("g", &members[0], 2)
    });
    assert_eq!(code(world.synced(leader).error_code), ErrorCode::None);
    let back = world.join(long("", "two"));
    let back = world.joined(back);
    assert_eq!(back.generation_id, 2);
    let synced = world.sync(sync("g", &back.member_id, 2));
    assert_eq!(world.synced(synced).assignment, assigned_to(&members[1]));
}

#[test]
fn if_no_static_member_comes_back_the_group_waits_once_more() {
    let mut world = World::new();
    let long = |member: &str, instance: &str| JoinGroupRequest {
        session_timeout_ms: 10 * REBALANCE_MS,
        ..static_join("g", member, instance)
    };
    let ticket = world.join(long("", "one"));
    world.settle();
    let member = world.joined(ticket).member_id.to_string();
    world.sync_all("g", std::slice::from_ref(&member), 1);
    let dynamic = world.member_id("g");
    let waiting = world.join(join("g", &dynamic));
    world.leave(4, "g", &[(&dynamic, None)]);
    assert_eq!(code(world.joined(waiting).error_code), ErrorCode::UnknownMemberId);
    world.pass(REBALANCE_MS);
    assert_eq!(world.state("g"), "PreparingRebalance");
    let back = world.join(long(&member, "one"));
    assert_eq!(world.joined(back).generation_id, 2);
}

#[test]
fn a_leader_that_stays_away_is_replaced_by_one_who_joined() {
    let mut world = World::new();
    let long = |member: &str, instance: &str| JoinGroupRequest {
        session_timeout_ms: 10 * REBALANCE_MS,
        ..static_join("g", member, instance)
    };
    let tickets: Vec<_> = ["one", "two"].map(|instance| world.join(long("", instance))).to_vec();
    world.settle();
    let members: Vec<_> = tickets
        .into_iter()
        .map(|ticket| world.joined(ticket).member_id.to_string())
        .collect();
    world.sync_all("g", &members, 1);
    let changed = world.join(JoinGroupRequest {
        protocols: vec![protocol("range", subscription(&["payments"]))],
        ..long(&members[1], "two")
    });
    world.pass(REBALANCE_MS);
    let response = world.joined(changed);
    assert_eq!(
        (response.leader, response.members.len()),
        (members[1].as_str().into(), 2)
    );
}

#[test]
fn its_session_ends_like_any_other() {
    let mut world = World::new();
    let members = stable(&mut world, &["one", "two"]);
    world.beat_for("g", &[&members[0]], 1, 2 * SESSION_MS);
    let described = world.describe("g");
    assert_eq!(described.group_state, "PreparingRebalance");
    assert_eq!(described.members.len(), 1);
    assert_eq!(described.members[0].group_instance_id.as_deref(), Some("one"));
}

#[test]
fn one_replaced_before_it_asked_for_its_assignment_can_still_ask() {
    let mut world = World::new();
    let tickets: Vec<_> = ["one", "two"]
        .map(|instance| world.join(static_join("g", "", instance)))
        .to_vec();
    world.settle();
    let members: Vec<_> = tickets
        .into_iter()
        .map(|ticket| world.joined(ticket).member_id.to_string())
        .collect();
    let leader = world.sync(SyncGroupRequest {
        assignments: members.iter().map(|member| assignment(member)).collect(),
        ..sync("g", &members[0], 1)
    });
    assert_eq!(code(world.synced(leader).error_code), ErrorCode::None);
    let back = world.join(static_join("g", "", "two"));
    let back = world.joined(back).member_id.to_string();
    let synced = world.sync(sync("g", &back, 1));
    assert_eq!(world.synced(synced).assignment, assigned_to(&members[1]));
    world.beat_for("g", &[&members[0], &back], 1, 2 * REBALANCE_MS);
    assert_eq!(world.state("g"), "Stable");
}

#[test]
fn one_with_a_rebalance_timeout_of_nothing_does_not_keep_the_clock_busy() {
    let mut world = World::new();
    let hasty = |member: &str, instance: &str| JoinGroupRequest {
        rebalance_timeout_ms: 0,
        ..static_join("g", member, instance)
    };
    stable(&mut world, &["one", "two"]);
    let tickets = ["one", "two"].map(|instance| world.join(hasty("", instance)));
    let members = tickets.map(|ticket| world.joined(ticket).member_id);
    assert_eq!(world.state("g"), "Stable");
    world.leave(4, "g", &[("", Some("one"))]);
    world.settle();
    assert_eq!(world.state("g"), "PreparingRebalance");
    assert!(world.machine.poll_timeout() > Some(world.now_ms));
    let back = world.join(hasty(&members[1], "two"));
    assert_eq!(world.joined(back).generation_id, 2);
}
