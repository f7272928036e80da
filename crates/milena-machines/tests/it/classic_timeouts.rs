//! Members without heartbeats, in every state.

use milena_wire::{
    errors::ErrorCode,
    messages::{JoinGroupRequest, SyncGroupRequest},
};

use crate::world::{REBALANCE_MS, SESSION_MS, World, assignment, code, join, protocol, subscription, sync};

#[test]
fn an_unused_member_id_is_removed() {
    let mut world = World::new();
    let member = world.member_id("g");
    world.pass(SESSION_MS - 1);
    let other = world.member_id("g");
    world.pass(1);
    assert_eq!(world.join_error(9, join("g", &member)), ErrorCode::UnknownMemberId);
    let ticket = world.join(join("g", &other));
    world.settle();
    assert_eq!(code(world.joined(ticket).error_code), ErrorCode::None);
}

#[test]
fn a_forgotten_member_id_lets_the_others_go_on() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    world.member_id("g");
    let leader = world.join(join("g", &members[0]));
    world.pass(SESSION_MS - 1);
    assert!(world.is_waiting(leader));
    world.pass(1);
    assert_eq!(world.joined(leader).generation_id, 2);
}

#[test]
fn a_forgotten_member_id_does_not_disturb_a_stable_group() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    world.member_id("g");
    world.beat_for("g", &[&members[0]], 1, 2 * SESSION_MS);
    assert_eq!(world.state("g"), "Stable");
}

#[test]
fn a_silent_member_of_a_stable_group_is_gone_after_its_session() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    world.beat_for("g", &[&members[0]], 1, SESSION_MS / 2);
    world.pass(SESSION_MS / 2);
    assert_eq!(world.state("g"), "PreparingRebalance");
    assert_eq!(world.heartbeat("g", &members[1], 1), ErrorCode::UnknownMemberId);
    let ticket = world.join(join("g", &members[0]));
    assert_eq!(world.joined(ticket).members.len(), 1);
}

/// As in Kafka: a stable group repeats its replies, but only heartbeats renew the sessions.
#[test]
fn asking_a_stable_group_again_does_not_lengthen_a_session() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    world.beat_for("g", &[&members[0]], 1, SESSION_MS / 2);
    world.pass(SESSION_MS / 2 - 1);
    let again = world.join(join("g", &members[1]));
    assert_eq!(world.joined(again).generation_id, 1);
    let again = world.sync(sync("g", &members[1], 1));
    assert_eq!(code(world.synced(again).error_code), ErrorCode::None);
    assert_eq!(world.state("g"), "Stable");
    world.pass(1);
    assert_eq!(world.state("g"), "PreparingRebalance");
    assert_eq!(world.heartbeat("g", &members[1], 1), ErrorCode::UnknownMemberId);
}

#[test]
fn when_all_are_silent_the_group_is_empty() {
    let mut world = World::new();
    world.stable("g", 2);
    world.pass(SESSION_MS + REBALANCE_MS);
    assert_eq!(world.state("g"), "Empty");
}

#[test]
fn who_does_not_join_in_time_is_out() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    let leader = world.join(join("g", &members[0]));
    world.beat_for("g", &[&members[1]], 1, REBALANCE_MS - SESSION_MS);
    assert!(world.is_waiting(leader), "a member that is alive may take its time");
    world.pass(SESSION_MS / 2);
    assert_eq!(world.heartbeat("g", &members[1], 1), ErrorCode::RebalanceInProgress);
    world.pass(SESSION_MS / 2);
    assert_eq!(world.joined(leader).members.len(), 1);
    assert_eq!(world.heartbeat("g", &members[1], 2), ErrorCode::UnknownMemberId);
}

#[test]
fn the_longest_rebalance_timeout_counts() {
    let mut world = World::new();
    let members = [world.member_id("g"), world.member_id("g")];
    let request = |member: &str, rebalance_timeout_ms: i32| JoinGroupRequest {
        rebalance_timeout_ms,
        session_timeout_ms: 1_000_000,
        ..join("g", member)
    };
    let first = world.join(request(&members[0], 100_000));
    let second = world.join(request(&members[1], 300_000));
    world.settle();
    assert_eq!(world.joined(first).generation_id, 1);
    assert_eq!(world.joined(second).generation_id, 1);
    world.sync_all("g", &members, 1);
    let leader = world.join(request(&members[0], 100_000));
    world.pass(299_999);
    assert!(world.is_waiting(leader));
    world.pass(1);
    assert_eq!(world.joined(leader).generation_id, 2);
}

#[test]
fn who_waits_for_a_join_needs_no_heartbeat() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    let leader = world.join(join("g", &members[0]));
    world.beat_for("g", &[&members[1]], 1, 3 * SESSION_MS);
    assert!(world.is_waiting(leader));
    let follower = world.join(join("g", &members[1]));
    assert_eq!(world.joined(leader).members.len(), 2);
    assert_eq!(world.joined(follower).generation_id, 2);
    // From here on heartbeats are expected again.
    world.pass(SESSION_MS);
    assert_eq!(world.heartbeat("g", &members[0], 2), ErrorCode::UnknownMemberId);
}

#[test]
fn a_new_member_does_not_wait_for_ever() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    let patient = JoinGroupRequest {
        rebalance_timeout_ms: 1_000_000,
        ..join("g", &members[0])
    };
    let leader = world.join(patient.clone());
    assert_eq!(world.joined(leader).generation_id, 2);
    world.sync_all("g", &members, 2);
    let new = world.member_id("g");
    let newcomer = world.join(join("g", &new));
    world.beat_for("g", &[&members[0]], 2, 295_000);
    assert!(world.is_waiting(newcomer));
    world.beat_for("g", &[&members[0]], 2, 5_000);
    let response = world.joined(newcomer);
    assert_eq!(code(response.error_code), ErrorCode::UnknownMemberId);
    assert_eq!(response.member_id, "");
}

#[test]
fn who_never_asks_for_its_assignment_is_out() {
    let mut world = World::new();
    let members = world.completing("g", 2);
    let leader = world.sync(SyncGroupRequest {
        assignments: members.iter().map(|member| assignment(member)).collect(),
        ..sync("g", &members[0], 1)
    });
    assert_eq!(code(world.synced(leader).error_code), ErrorCode::None);
    world.beat_for("g", &[&members[0], &members[1]], 1, REBALANCE_MS - SESSION_MS / 2);
    assert_eq!(world.state("g"), "Stable");
    world.pass(SESSION_MS / 2);
    assert_eq!(world.state("g"), "PreparingRebalance");
    assert_eq!(world.heartbeat("g", &members[1], 1), ErrorCode::UnknownMemberId);
    assert_eq!(world.heartbeat("g", &members[0], 1), ErrorCode::RebalanceInProgress);
}

#[test]
fn a_leader_that_never_assigns_is_out() {
    let mut world = World::new();
    let members = world.completing("g", 2);
    let follower = world.sync(sync("g", &members[1], 1));
    world.beat_for("g", &[&members[0]], 1, REBALANCE_MS - SESSION_MS / 2);
    assert!(world.is_waiting(follower));
    world.pass(SESSION_MS / 2);
    assert_eq!(code(world.synced(follower).error_code), ErrorCode::RebalanceInProgress);
    let again = world.join(join("g", &members[1]));
    assert_eq!(world.joined(again).leader, members[1]);
}

#[test]
fn a_leader_that_dies_before_it_assigns_makes_the_others_begin_anew() {
    let mut world = World::new();
    let members = world.completing("g", 2);
    let follower = world.sync(sync("g", &members[1], 1));
    world.pass(SESSION_MS);
    assert_eq!(code(world.synced(follower).error_code), ErrorCode::RebalanceInProgress);
    assert_eq!(world.state("g"), "PreparingRebalance");
    let again = world.join(join("g", &members[1]));
    let response = world.joined(again);
    assert_eq!(
        (response.generation_id, response.leader.as_ref()),
        (2, members[1].as_str())
    );
}

#[test]
fn a_shorter_session_ends_earlier() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    let ticket = world.join(JoinGroupRequest {
        session_timeout_ms: 6_000,
        protocols: vec![protocol("range", subscription(&["orders"]))],
        ..join("g", &members[0])
    });
    assert_eq!(world.joined(ticket).generation_id, 2);
    world.sync_all("g", &members, 2);
    world.pass(5_999);
    assert_eq!(world.state("g"), "Stable");
    world.pass(1);
    assert_eq!(world.state("g"), "Empty");
}

#[test]
fn if_all_leave_during_the_first_delay_the_group_is_empty_again() {
    let mut world = World::new();
    let member = world.member_id("g");
    let ticket = world.join(join("g", &member));
    world.leave(4, "g", &[(&member, None)]);
    assert_eq!(code(world.joined(ticket).error_code), ErrorCode::UnknownMemberId);
    assert_eq!(world.state("g"), "PreparingRebalance");
    world.settle();
    assert_eq!(world.state("g"), "Empty");
}
