//! SyncGroup, rule by rule.

use bytes::Bytes;
use milena_machines::group::{GroupRecord, GroupRequest};
use milena_wire::{errors::ErrorCode, messages::SyncGroupRequest};

use crate::world::{REBALANCE_MS, World, assigned_to, assignment, code, join, static_join, subscription, sync};

#[test]
fn an_empty_group_id_is_invalid() {
    assert_eq!(World::new().sync_error(sync("", "me", 1)), ErrorCode::InvalidGroupId);
}

#[test]
fn since_version_5_the_protocol_must_be_named() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    let unnamed = SyncGroupRequest {
        protocol_name: None,
        ..sync("g", &members[0], 1)
    };
    assert_eq!(world.sync_error(unnamed.clone()), ErrorCode::InconsistentGroupProtocol);
    let ticket = world.send(4, GroupRequest::Sync(unnamed));
    assert_eq!(code(world.synced(ticket).error_code), ErrorCode::None);
}

#[test]
fn strangers_are_unknown() {
    let mut world = World::new();
    assert_eq!(world.sync_error(sync("nowhere", "me", 1)), ErrorCode::UnknownMemberId);
    let members = world.stable("g", 1);
    assert_eq!(world.sync_error(sync("g", "me", 1)), ErrorCode::UnknownMemberId);
    world.leave(4, "g", &[(&members[0], None)]);
    assert_eq!(world.sync_error(sync("g", &members[0], 1)), ErrorCode::UnknownMemberId);
}

#[test]
fn the_generation_must_be_the_current_one() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    for generation_id in [0, 2, -1] {
        assert_eq!(
            world.sync_error(sync("g", &members[0], generation_id)),
            ErrorCode::IllegalGeneration
        );
    }
}

#[test]
fn the_protocol_must_be_the_selected_one() {
    let mut world = World::new();
    let members = world.completing("g", 1);
    let other_name = SyncGroupRequest {
        protocol_name: Some("sticky".into()),
        ..sync("g", &members[0], 1)
    };
    assert_eq!(world.sync_error(other_name), ErrorCode::InconsistentGroupProtocol);
    let other_type = SyncGroupRequest {
        protocol_type: Some("connect".into()),
        ..sync("g", &members[0], 1)
    };
    assert_eq!(world.sync_error(other_type), ErrorCode::InconsistentGroupProtocol);
}

#[test]
fn members_wait_for_the_leader() {
    let mut world = World::new();
    let members = world.completing("g", 2);
    let follower = world.sync(sync("g", &members[1], 1));
    assert!(world.is_waiting(follower));
    let leader = world.sync(SyncGroupRequest {
        assignments: members.iter().map(|member| assignment(member)).collect(),
        ..sync("g", &members[0], 1)
    });
    for (ticket, member) in [(follower, &members[1]), (leader, &members[0])] {
        let response = world.synced(ticket);
        assert_eq!(code(response.error_code), ErrorCode::None);
        assert_eq!(response.assignment, assigned_to(member));
        assert_eq!(response.protocol_type.as_deref(), Some("consumer"));
        assert_eq!(response.protocol_name.as_deref(), Some("range"));
    }
    assert_eq!(world.state("g"), "Stable");
}

#[test]
fn the_assignment_is_in_the_log() {
    let mut world = World::new();
    let members = world.completing("g", 1);
    let before = world.log_len();
    world.sync_all("g", &members, 1);
    let records = world.records_from(before);
    let [GroupRecord::Classic { value: Some(value), .. }] = records.as_slice() else {
        panic!("{records:?}");
    };
    assert_eq!((value.generation, value.protocol.as_deref()), (1, Some("range")));
    assert_eq!(value.protocol_type, "consumer");
    assert_eq!(value.leader.as_deref(), Some(members[0].as_str()));
    let member = &value.members[0];
    assert_eq!((member.rebalance_timeout, member.session_timeout), (60_000, 10_000));
    assert_eq!(
        (member.client_id.as_ref(), member.client_host.as_ref()),
        ("client", "/127.0.0.1")
    );
    assert_eq!(member.subscription, subscription(&["orders"]));
    assert_eq!(member.assignment, assigned_to(&members[0]));
}

#[test]
fn whom_the_leader_forgot_gets_an_assignment_of_no_bytes() {
    let mut world = World::new();
    let members = world.completing("g", 2);
    let follower = world.sync(sync("g", &members[1], 1));
    let leader = world.sync(SyncGroupRequest {
        assignments: vec![assignment(&members[0]), assignment("a stranger")],
        ..sync("g", &members[0], 1)
    });
    assert_eq!(world.synced(leader).assignment, assigned_to(&members[0]));
    let response = world.synced(follower);
    assert_eq!(
        (code(response.error_code), response.assignment),
        (ErrorCode::None, Bytes::new())
    );
}

#[test]
fn a_late_sync_gets_the_assignment_of_a_stable_group() {
    let mut world = World::new();
    let members = world.completing("g", 2);
    let leader = world.sync(SyncGroupRequest {
        assignments: members.iter().map(|member| assignment(member)).collect(),
        ..sync("g", &members[0], 1)
    });
    assert_eq!(code(world.synced(leader).error_code), ErrorCode::None);
    assert_eq!(world.state("g"), "Stable");
    let late = world.sync(sync("g", &members[1], 1));
    assert_eq!(world.synced(late).assignment, assigned_to(&members[1]));
    // All members have sent SyncGroup: the sync timer is cancelled.
    world.beat_for("g", &[&members[0], &members[1]], 1, 2 * REBALANCE_MS);
    assert_eq!(world.state("g"), "Stable");
}

#[test]
fn a_leader_of_a_stable_group_cannot_assign_again() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    let again = world.sync(SyncGroupRequest {
        assignments: vec![],
        ..sync("g", &members[0], 1)
    });
    assert_eq!(world.synced(again).assignment, assigned_to(&members[0]));
}

#[test]
fn while_preparing_all_must_join() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    world.join(join("g", &members[0]));
    assert_eq!(
        world.sync_error(sync("g", &members[1], 1)),
        ErrorCode::RebalanceInProgress
    );
}

#[test]
fn a_retried_sync_takes_the_place_of_the_one_that_waits() {
    let mut world = World::new();
    let members = world.completing("g", 2);
    let lost = world.sync(sync("g", &members[1], 1));
    let retried = world.sync(sync("g", &members[1], 1));
    assert_eq!(code(world.synced(lost).error_code), ErrorCode::RebalanceInProgress);
    let leader = world.sync(SyncGroupRequest {
        assignments: members.iter().map(|member| assignment(member)).collect(),
        ..sync("g", &members[0], 1)
    });
    assert_eq!(world.synced(retried).assignment, assigned_to(&members[1]));
    assert_eq!(world.synced(leader).assignment, assigned_to(&members[0]));
}

#[test]
fn an_instance_that_is_mapped_elsewhere_is_fenced() {
    let mut world = World::new();
    let ticket = world.join(static_join("g", "", "i"));
    world.settle();
    let member = world.joined(ticket).member_id;
    let named = |member: &str, instance: &str| SyncGroupRequest {
        group_instance_id: Some(instance.into()),
        ..sync("g", member, 1)
    };
    assert_eq!(world.sync_error(named("other", "i")), ErrorCode::FencedInstanceId);
    assert_eq!(world.sync_error(named(&member, "unknown")), ErrorCode::UnknownMemberId);
}
