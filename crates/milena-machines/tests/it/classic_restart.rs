//! A coordinator that starts from its log, in every state of a group.

use milena_machines::group::GroupConfig;
use milena_wire::{errors::ErrorCode, messages::JoinGroupRequest};

use crate::world::{SESSION_MS, World, assigned_to, code, join, protocol, static_join, subscription, sync};

#[test]
fn a_stable_group_goes_on() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    let before = world.describe("g");
    world.restart();
    assert_eq!(world.describe("g"), before);
    for member in &members {
        assert_eq!(world.heartbeat("g", member, 1), ErrorCode::None);
        let ticket = world.sync(sync("g", member, 1));
        assert_eq!(world.synced(ticket).assignment, assigned_to(member));
    }
    let ticket = world.join(join("g", &members[1]));
    assert_eq!(
        world.joined(ticket).generation_id,
        1,
        "the same metadata is no reason to rebalance"
    );
}

#[test]
fn members_get_a_fresh_session() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    world.pass(SESSION_MS - 1);
    world.restart();
    world.pass(SESSION_MS - 1);
    assert_eq!(world.heartbeat("g", &members[0], 1), ErrorCode::None);
    world.pass(1);
    assert_eq!(world.describe("g").members.len(), 1);
    assert_eq!(world.heartbeat("g", &members[0], 1), ErrorCode::RebalanceInProgress);
}

#[test]
fn a_group_that_was_preparing_falls_back_to_its_last_generation() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    world.join(join("g", &members[0]));
    assert_eq!(world.state("g"), "PreparingRebalance");
    world.restart();
    assert_eq!(world.state("g"), "Stable");
    let leader = world.join(join("g", &members[0]));
    let follower = world.join(JoinGroupRequest {
        protocols: vec![protocol("range", subscription(&["payments"]))],
        ..join("g", &members[1])
    });
    assert_eq!(world.joined(leader).generation_id, 2);
    assert_eq!(world.joined(follower).generation_id, 2);
}

#[test]
fn a_group_that_was_completing_falls_back_to_its_last_generation() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    let ticket = world.join(join("g", &members[0]));
    assert_eq!(world.joined(ticket).generation_id, 2);
    world.restart();
    assert_eq!(world.state("g"), "Stable");
    assert_eq!(
        world.sync_error(sync("g", &members[0], 2)),
        ErrorCode::IllegalGeneration
    );
    assert_eq!(world.heartbeat("g", &members[0], 1), ErrorCode::None);
}

#[test]
fn members_of_a_first_generation_that_was_never_assigned_are_unknown() {
    let mut world = World::new();
    let members = world.completing("g", 1);
    world.restart();
    assert_eq!(world.state("g"), "Empty");
    assert_eq!(world.sync_error(sync("g", &members[0], 1)), ErrorCode::UnknownMemberId);
    assert_eq!(world.join_error(9, join("g", &members[0])), ErrorCode::UnknownMemberId);
}

#[test]
fn pending_members_are_forgotten() {
    let mut world = World::new();
    let member = world.member_id("g");
    world.restart();
    assert_eq!(world.join_error(9, join("g", &member)), ErrorCode::UnknownMemberId);
}

#[test]
fn an_empty_group_keeps_its_generation() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    world.leave(4, "g", &[(&members[0], None)]);
    world.restart();
    assert_eq!(world.state("g"), "Empty");
    let member = world.member_id("g");
    let ticket = world.join(join("g", &member));
    world.settle();
    assert_eq!(world.joined(ticket).generation_id, 3);
}

#[test]
fn static_members_are_known_by_their_instance_ids() {
    let mut world = World::new();
    let ticket = world.join(static_join("g", "", "i"));
    world.settle();
    let member = world.joined(ticket).member_id.to_string();
    world.sync_all("g", std::slice::from_ref(&member), 1);
    world.restart();
    let ticket = world.join(static_join("g", "", "i"));
    let response = world.joined(ticket);
    assert_eq!(
        (code(response.error_code), response.generation_id),
        (ErrorCode::None, 1)
    );
    assert_eq!(
        world.heartbeat_as("g", &member, Some("i"), 1),
        ErrorCode::FencedInstanceId
    );
}

#[test]
fn a_group_that_is_too_large_now_must_shrink() {
    let mut world = World::new();
    let members = world.stable("g", 3);
    world.restart_with(GroupConfig {
        classic_size_max: 2,
        ..Default::default()
    });
    assert_eq!(world.state("g"), "PreparingRebalance");
    let first = world.join(join("g", &members[0]));
    let second = world.join(join("g", &members[1]));
    assert_eq!(
        world.join_error(9, join("g", &members[2])),
        ErrorCode::GroupMaxSizeReached
    );
    world.pass(60_000);
    assert_eq!(world.joined(first).members.len(), 2);
    assert_eq!(world.joined(second).generation_id, 2);
}

#[test]
fn only_the_selected_protocol_of_a_member_is_in_the_log() {
    let mut world = World::new();
    let both = |member: &str| JoinGroupRequest {
        protocols: ["range", "sticky"]
            .map(|name| protocol(name, subscription(&["orders"])))
            .to_vec(),
        ..join("g", member)
    };
    let members = [world.member_id("g"), world.member_id("g")];
    let tickets = members.clone().map(|member| world.join(both(&member)));
    world.settle();
    for ticket in tickets {
        assert_eq!(world.joined(ticket).generation_id, 1);
    }
    world.sync_all("g", &members, 1);
    let ticket = world.join(both(&members[1]));
    assert_eq!(world.joined(ticket).generation_id, 1, "it says what it said before");
    world.restart();
    let ticket = world.join(both(&members[1]));
    assert!(world.is_waiting(ticket), "as far as the log knows, it has changed");
    let leader = world.join(both(&members[0]));
    assert_eq!(world.joined(ticket).generation_id, 2);
    assert_eq!(world.joined(leader).generation_id, 2);
}
