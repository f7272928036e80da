//! Heartbeat, rule by rule.

use milena_wire::errors::ErrorCode;

use crate::world::{SESSION_MS, World, join, static_join};

#[test]
fn an_empty_group_id_is_invalid() {
    assert_eq!(World::new().heartbeat("", "me", 1), ErrorCode::InvalidGroupId);
}

#[test]
fn strangers_are_unknown() {
    let mut world = World::new();
    assert_eq!(world.heartbeat("nowhere", "me", 1), ErrorCode::UnknownMemberId);
    let members = world.stable("g", 1);
    assert_eq!(world.heartbeat("g", "me", 1), ErrorCode::UnknownMemberId);
    let pending = world.member_id("g");
    assert_eq!(world.heartbeat("g", &pending, 1), ErrorCode::UnknownMemberId);
    world.leave(4, "g", &[(&members[0], None)]);
    assert_eq!(
        world.heartbeat("g", &members[0], 2),
        ErrorCode::UnknownMemberId,
        "the group is empty"
    );
}

#[test]
fn the_generation_must_be_the_current_one() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    for generation_id in [0, 2, -1] {
        assert_eq!(
            world.heartbeat("g", &members[0], generation_id),
            ErrorCode::IllegalGeneration
        );
    }
}

#[test]
fn who_is_heard_of_stays() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    world.beat_for("g", &[&members[0], &members[1]], 1, 10 * SESSION_MS);
    assert_eq!(world.describe("g").members.len(), 2);
}

#[test]
fn in_completing_and_stable_all_is_well() {
    let mut world = World::new();
    let members = world.completing("g", 1);
    assert_eq!(world.heartbeat("g", &members[0], 1), ErrorCode::None);
    world.sync_all("g", &members, 1);
    assert_eq!(world.heartbeat("g", &members[0], 1), ErrorCode::None);
}

#[test]
fn in_preparing_a_member_learns_to_join_and_stays_alive() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    let waiting = world.join(join("g", &members[0]));
    world.beat_for("g", &[&members[1]], 1, 3 * SESSION_MS);
    assert_eq!(world.heartbeat("g", &members[1], 1), ErrorCode::RebalanceInProgress);
    assert!(world.is_waiting(waiting));
}

#[test]
fn an_instance_that_is_mapped_elsewhere_is_fenced() {
    let mut world = World::new();
    let ticket = world.join(static_join("g", "", "i"));
    world.settle();
    let member = world.joined(ticket).member_id;
    assert_eq!(
        world.heartbeat_as("g", "other", Some("i"), 1),
        ErrorCode::FencedInstanceId
    );
    assert_eq!(
        world.heartbeat_as("g", &member, Some("unknown"), 1),
        ErrorCode::UnknownMemberId
    );
    assert_eq!(world.heartbeat_as("g", &member, Some("i"), 1), ErrorCode::None);
}

#[test]
fn a_heartbeat_leaves_the_timer_where_it_is() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    let deadline = world.machine.poll_timeout();
    world.now_ms += 1_000;
    assert_eq!(world.heartbeat("g", &members[0], 1), ErrorCode::None);
    assert_eq!(world.machine.poll_timeout(), deadline);
    // The timer fires early, finds the member alive, and is set to the end of its session.
    world.pass(SESSION_MS - 1);
    assert_eq!(world.state("g"), "Stable");
    world.pass(1);
    assert_eq!(world.state("g"), "Empty");
}
