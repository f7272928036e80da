//! Expiry of offsets, and of groups with them.

use milena_machines::group::GroupRecord;
use milena_wire::{
    errors::ErrorCode,
    messages::{JoinGroupRequest, OffsetCommitRequest},
};

use crate::{
    offsets_commit::{commit, commit_error, request},
    offsets_txn::{PRODUCER, commit_in_transaction},
    world::{World, join},
};

const DAY_MS: i32 = 24 * 3_600_000;
const CHECK_MS: i32 = 600_000;

/// One member with a session of half an hour, which it keeps alive.
fn stable_for_days(world: &mut World, protocol_type: &str) -> String {
    let member = world.member_id("g");
    let ticket = world.join(JoinGroupRequest {
        session_timeout_ms: 1_800_000,
        protocol_type: protocol_type.into(),
        ..join("g", &member)
    });
    world.settle();
    assert_eq!(world.joined(ticket).generation_id, 1);
    let mut request = crate::world::sync("g", &member, 1);
    request.protocol_type = Some(protocol_type.into());
    let ticket = world.sync(request);
    assert_eq!(world.synced(ticket).error_code, 0);
    member
}

fn commit_as(world: &mut World, member_id: &str, topic: &str) {
    let request = OffsetCommitRequest {
        member_id: member_id.into(),
        generation_id_or_member_epoch: 1,
        ..request("g", topic, 0, 5)
    };
    assert_eq!(commit_error(world, 8, request), ErrorCode::None);
}

fn beat_for_days(world: &mut World, member_id: &str, days: i32) {
    for _ in 0..days * 96 {
        world.pass(DAY_MS / 96);
        assert_eq!(world.heartbeat("g", member_id, 1), ErrorCode::None);
    }
}

#[test]
fn those_of_a_simple_group_expire_a_week_after_their_commit() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 0, 5);
    world.pass(DAY_MS);
    commit(&mut world, "g", "orders", 1, 6);
    world.pass(6 * DAY_MS - 1);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, 5);
    world.pass(CHECK_MS);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, -1);
    assert_eq!(world.fetch("g", "orders", 1).committed_offset, 6);
    world.pass(DAY_MS);
    assert_eq!(world.list(), []);
}

#[test]
fn those_of_an_empty_group_expire_a_week_after_it_became_empty() {
    let mut world = World::new();
    let member = stable_for_days(&mut world, "consumer");
    commit_as(&mut world, &member, "orders");
    beat_for_days(&mut world, &member, 3);
    world.leave(4, "g", &[(&member, None)]);
    world.pass(7 * DAY_MS - 1);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, 5);
    let before = world.log_len();
    world.pass(CHECK_MS);
    let records = world.records_from(before);
    assert!(
        matches!(
            records.as_slice(),
            [
                GroupRecord::Offset { value: None, .. },
                GroupRecord::Classic { value: None, .. }
            ]
        ),
        "{records:?}"
    );
    assert_eq!(world.list(), []);
}

#[test]
fn what_consumers_read_never_expires_and_the_rest_does() {
    let mut world = World::new();
    let member = stable_for_days(&mut world, "consumer");
    commit_as(&mut world, &member, "orders");
    commit_as(&mut world, &member, "payments");
    beat_for_days(&mut world, &member, 8);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, 5);
    assert_eq!(world.fetch("g", "payments", 0).committed_offset, -1);
    assert_eq!(world.state("g"), "Stable");
}

#[test]
fn those_of_other_groups_with_members_never_expire() {
    let mut world = World::new();
    let member = stable_for_days(&mut world, "connect");
    commit_as(&mut world, &member, "payments");
    beat_for_days(&mut world, &member, 8);
    assert_eq!(world.fetch("g", "payments", 0).committed_offset, 5);
}

#[test]
fn an_own_retention_time_counts_from_the_commit() {
    let mut world = World::new();
    let request = OffsetCommitRequest {
        retention_time_ms: i64::from(DAY_MS),
        ..request("g", "orders", 0, 5)
    };
    assert_eq!(commit_error(&mut world, 4, request), ErrorCode::None);
    world.pass(DAY_MS - 1);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, 5);
    world.pass(CHECK_MS);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, -1);
}

#[test]
fn nothing_expires_under_an_open_transaction() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 0, 5);
    commit_in_transaction(&mut world, 42);
    world.pass(8 * DAY_MS);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, 5);
    world.end_transaction(PRODUCER, true);
    assert_eq!(world.fetch("g", "orders", 0).committed_offset, 42);
    world.pass(CHECK_MS);
    assert_eq!(world.list(), [], "the transaction's commit is a week old as well");
}

#[test]
fn an_empty_group_without_offsets_goes_at_the_next_check() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    world.leave(4, "g", &[(&members[0], None)]);
    assert_eq!(world.list().len(), 1);
    world.pass(CHECK_MS);
    assert_eq!(world.list(), []);
}

#[test]
fn after_a_restart_offsets_still_expire() {
    let mut world = World::new();
    commit(&mut world, "g", "orders", 0, 5);
    world.pass(6 * DAY_MS);
    world.restart();
    world.pass(DAY_MS + CHECK_MS);
    assert_eq!(world.list(), []);
}
