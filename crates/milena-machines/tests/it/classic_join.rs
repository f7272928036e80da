//! JoinGroup, rule by rule.

use bytes::Bytes;
use milena_machines::group::{GroupConfig, GroupRecord, GroupRequest};
use milena_wire::{errors::ErrorCode, messages::JoinGroupRequest};

use crate::world::{REBALANCE_MS, SESSION_MS, World, code, join, protocol, subscription, sync};

#[test]
fn an_empty_group_id_is_invalid() {
    let mut world = World::new();
    let ticket = world.join(join("", "me"));
    let response = world.joined(ticket);
    assert_eq!(code(response.error_code), ErrorCode::InvalidGroupId);
    assert_eq!(response.member_id, "me");
    assert_eq!(response.generation_id, -1);
    assert_eq!(world.log_len(), 0);
}

#[test]
fn a_session_timeout_must_be_in_range() {
    let mut world = World::new();
    for session_timeout_ms in [5_999, 1_800_001, 0, -1] {
        let request = JoinGroupRequest {
            session_timeout_ms,
            ..join("g", "")
        };
        assert_eq!(world.join_error(9, request), ErrorCode::InvalidSessionTimeout);
    }
    for session_timeout_ms in [6_000, 1_800_000] {
        let request = JoinGroupRequest {
            session_timeout_ms,
            ..join("g", "")
        };
        assert_eq!(world.join_error(9, request), ErrorCode::MemberIdRequired);
    }
}

#[test]
fn since_version_4_a_new_member_must_come_back_with_its_id() {
    let mut world = World::new();
    let ticket = world.send(4, GroupRequest::Join(join("g", "")));
    let response = world.joined(ticket);
    assert_eq!(code(response.error_code), ErrorCode::MemberIdRequired);
    assert!(response.member_id.starts_with("client-"), "{}", response.member_id);
    assert_eq!(response.generation_id, -1);
    assert_eq!(
        response.protocol_name.as_deref(),
        Some(""),
        "not nullable before version 7"
    );
    assert_eq!(world.state("g"), "Empty");
    assert_eq!(world.describe("g").members, []);
}

#[test]
fn before_version_4_a_new_member_is_in_at_once() {
    let mut world = World::new();
    let ticket = world.send(3, GroupRequest::Join(join("g", "")));
    assert!(world.is_waiting(ticket));
    world.settle();
    let response = world.joined(ticket);
    assert_eq!(code(response.error_code), ErrorCode::None);
    assert_eq!(response.generation_id, 1);
    assert_eq!(response.leader, response.member_id);
    assert_eq!(response.members.len(), 1);
    assert_eq!(response.members[0].metadata, subscription(&["orders"]));
}

#[test]
fn version_0_waits_for_others_as_long_as_a_session() {
    let mut world = World::new();
    let ticket = world.send(0, GroupRequest::Join(join("g", "")));
    world.settle();
    let first = world.joined(ticket).member_id;
    let other = world.send(0, GroupRequest::Join(join("g", "")));
    world.settle();
    world.pass(SESSION_MS - 1);
    assert!(world.is_waiting(other));
    assert_eq!(world.heartbeat("g", &first, 1), ErrorCode::RebalanceInProgress);
    world.pass(1);
    assert_eq!(world.joined(other).generation_id, 2);
}

#[test]
fn the_first_join_of_a_group_is_in_the_log() {
    let mut world = World::new();
    world.member_id("g");
    let records = world.records_from(0);
    let [
        GroupRecord::Classic {
            group_id,
            value: Some(value),
        },
    ] = records.as_slice()
    else {
        panic!("{records:?}");
    };
    assert_eq!(group_id, "g");
    assert_eq!(value.generation, 0);
    assert_eq!((value.protocol.as_ref(), value.leader.as_ref()), (None, None));
    assert_eq!(value.protocol_type, "");
    assert_eq!(value.current_state_timestamp, world.now_ms);
    assert_eq!(value.members, []);
    world.member_id("g");
    assert_eq!(world.log_len(), 1);
}

#[test]
fn an_unknown_member_cannot_join() {
    let mut world = World::new();
    assert_eq!(world.join_error(9, join("nowhere", "me")), ErrorCode::UnknownMemberId);
    assert_eq!(world.log_len(), 0, "such a group is not created");
    world.stable("g", 1);
    let ticket = world.join(join("g", "me"));
    let response = world.joined(ticket);
    assert_eq!(code(response.error_code), ErrorCode::UnknownMemberId);
    assert_eq!(response.member_id, "me");
    assert_eq!(response.protocol_name, None, "null since version 7");
}

#[test]
fn the_first_to_join_leads_and_only_it_learns_who_is_there() {
    let mut world = World::new();
    let members: Vec<_> = (0..3).map(|_| world.member_id("g")).collect();
    let tickets: Vec<_> = members.iter().map(|member| world.join(join("g", member))).collect();
    world.settle();
    let responses: Vec<_> = tickets.into_iter().map(|ticket| world.joined(ticket)).collect();
    for (response, member) in responses.iter().zip(&members) {
        assert_eq!(code(response.error_code), ErrorCode::None);
        assert_eq!(response.member_id, *member);
        assert_eq!(response.leader, members[0]);
        assert_eq!(response.generation_id, 1);
        assert_eq!(response.protocol_type.as_deref(), Some("consumer"));
        assert_eq!(response.protocol_name.as_deref(), Some("range"));
        assert!(!response.skip_assignment);
    }
    let mut listed: Vec<_> = responses[0]
        .members
        .iter()
        .map(|member| member.member_id.to_string())
        .collect();
    listed.sort();
    let mut expected = members.clone();
    expected.sort();
    assert_eq!(listed, expected);
    assert_eq!((responses[1].members.len(), responses[2].members.len()), (0, 0));
}

#[test]
fn the_protocol_that_most_prefer_among_common_ones_is_selected() {
    let mut world = World::new();
    let preferences = [
        vec!["only-mine", "sticky", "range"],
        vec!["range", "sticky"],
        vec!["range", "sticky", "other"],
    ];
    let tickets: Vec<_> = preferences
        .iter()
        .map(|names| {
            let member = world.member_id("g");
            let metadata = |name: &str| protocol(name, format!("{name} of {member}").into());
            world.join(JoinGroupRequest {
                protocols: names.iter().map(|name| metadata(name)).collect(),
                ..join("g", &member)
            })
        })
        .collect();
    world.settle();
    let responses: Vec<_> = tickets.into_iter().map(|ticket| world.joined(ticket)).collect();
    for response in &responses {
        assert_eq!(response.protocol_name.as_deref(), Some("range"));
    }
    for member in &responses[0].members {
        assert_eq!(member.metadata, Bytes::from(format!("range of {}", member.member_id)));
    }
}

#[test]
fn protocols_must_fit_together() {
    let mut world = World::new();
    let nothing = JoinGroupRequest {
        protocols: vec![],
        ..join("new", "")
    };
    assert_eq!(world.join_error(9, nothing), ErrorCode::InconsistentGroupProtocol);
    let without_type = JoinGroupRequest {
        protocol_type: "".into(),
        ..join("new", "")
    };
    assert_eq!(world.join_error(9, without_type), ErrorCode::InconsistentGroupProtocol);
    let members = world.stable("g", 1);
    let other_type = JoinGroupRequest {
        protocol_type: "connect".into(),
        ..join("g", "")
    };
    assert_eq!(world.join_error(9, other_type), ErrorCode::InconsistentGroupProtocol);
    let other_name = JoinGroupRequest {
        protocols: vec![protocol("sticky", Bytes::new())],
        ..join("g", &members[0])
    };
    let ticket = world.join(other_name);
    let response = world.joined(ticket);
    assert_eq!(code(response.error_code), ErrorCode::InconsistentGroupProtocol);
    assert_eq!(response.member_id, members[0]);
    assert_eq!(world.state("g"), "Stable");
}

#[test]
fn an_empty_group_takes_any_protocol_type() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    world.leave(4, "g", &[(&members[0], None)]);
    assert_eq!(world.state("g"), "Empty");
    assert_eq!(world.describe("g").protocol_type, "consumer");
    let ticket = world.send(
        3,
        GroupRequest::Join(JoinGroupRequest {
            protocol_type: "connect".into(),
            ..join("g", "")
        }),
    );
    world.settle();
    assert_eq!(world.joined(ticket).protocol_type.as_deref(), Some("connect"));
}

#[test]
fn a_full_group_refuses_joins() {
    let mut world = World::with(GroupConfig {
        classic_size_max: 2,
        ..Default::default()
    });
    let members = world.stable("g", 2);
    let ticket = world.join(join("g", ""));
    let response = world.joined(ticket);
    assert_eq!(code(response.error_code), ErrorCode::GroupMaxSizeReached);
    assert_eq!(response.member_id, "");
    // Members may rejoin.
    let leader = world.join(join("g", &members[0]));
    let follower = world.join(join("g", &members[1]));
    assert_eq!(world.joined(leader).generation_id, 2);
    assert_eq!(world.joined(follower).generation_id, 2);
}

#[test]
fn while_preparing_the_first_to_come_fill_the_group() {
    let mut world = World::with(GroupConfig {
        classic_size_max: 2,
        ..Default::default()
    });
    let members: Vec<_> = (0..3).map(|_| world.member_id("g")).collect();
    let first = world.join(join("g", &members[0]));
    let second = world.join(join("g", &members[1]));
    assert_eq!(
        world.join_error(9, join("g", &members[2])),
        ErrorCode::GroupMaxSizeReached
    );
    // A refused member is removed.
    world.settle();
    assert_eq!(world.joined(first).members.len(), 2);
    assert_eq!(world.joined(second).generation_id, 1);
    assert_eq!(world.heartbeat("g", &members[2], 1), ErrorCode::UnknownMemberId);
}

#[test]
fn a_new_member_makes_a_stable_group_rebalance() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    let new = world.member_id("g");
    assert_eq!(world.state("g"), "Stable", "a member id alone changes nothing");
    let newcomer = world.join(join("g", &new));
    assert_eq!(world.state("g"), "PreparingRebalance");
    let rejoins: Vec<_> = members.iter().map(|member| world.join(join("g", member))).collect();
    for ticket in rejoins {
        assert_eq!(world.joined(ticket).generation_id, 2);
    }
    assert_eq!(world.joined(newcomer).leader, members[0]);
    assert_eq!(world.state("g"), "CompletingRebalance");
}

#[test]
fn the_join_phase_waits_for_pending_members() {
    let mut world = World::new();
    let members = world.stable("g", 1);
    let first = world.member_id("g");
    let second = world.member_id("g");
    let ticket = world.join(join("g", &first));
    let leader = world.join(join("g", &members[0]));
    assert!(world.is_waiting(ticket), "somebody was given an id and may come");
    let late = world.join(join("g", &second));
    for ticket in [ticket, leader, late] {
        assert_eq!(world.joined(ticket).generation_id, 2);
    }
}

#[test]
fn an_unchanged_follower_of_a_stable_group_gets_the_current_generation() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    let ticket = world.join(join("g", &members[1]));
    let response = world.joined(ticket);
    assert_eq!(code(response.error_code), ErrorCode::None);
    assert_eq!(response.generation_id, 1);
    assert_eq!(response.leader, members[0]);
    assert_eq!(response.members, []);
    assert_eq!(world.state("g"), "Stable");
}

#[test]
fn a_changed_follower_of_a_stable_group_makes_it_rebalance() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    let ticket = world.join(JoinGroupRequest {
        protocols: vec![protocol("range", subscription(&["orders", "payments"]))],
        ..join("g", &members[1])
    });
    assert!(world.is_waiting(ticket));
    assert_eq!(world.state("g"), "PreparingRebalance");
}

#[test]
fn a_leader_that_joins_a_stable_group_makes_it_rebalance() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    let leader = world.join(join("g", &members[0]));
    assert_eq!(world.state("g"), "PreparingRebalance");
    assert_eq!(world.heartbeat("g", &members[1], 1), ErrorCode::RebalanceInProgress);
    let follower = world.join(join("g", &members[1]));
    assert_eq!(world.joined(leader).generation_id, 2);
    assert_eq!(world.joined(follower).generation_id, 2);
}

#[test]
fn a_join_in_completing_with_the_same_metadata_gets_the_same_reply() {
    let mut world = World::new();
    let members = world.completing("g", 2);
    let leader = world.join(join("g", &members[0]));
    let follower = world.join(join("g", &members[1]));
    let response = world.joined(leader);
    assert_eq!((response.generation_id, response.members.len()), (1, 2));
    let response = world.joined(follower);
    assert_eq!((response.generation_id, response.members.len()), (1, 0));
    world.sync_all("g", &members, 1);
}

#[test]
fn a_join_in_completing_with_other_metadata_begins_anew() {
    let mut world = World::new();
    let members = world.completing("g", 2);
    let parked = world.sync(sync("g", &members[1], 1));
    let changed = world.join(JoinGroupRequest {
        protocols: vec![protocol("range", subscription(&["payments"]))],
        ..join("g", &members[0])
    });
    assert_eq!(code(world.synced(parked).error_code), ErrorCode::RebalanceInProgress);
    assert!(world.is_waiting(changed));
    let follower = world.join(join("g", &members[1]));
    assert_eq!(world.joined(changed).generation_id, 2);
    assert_eq!(world.joined(follower).generation_id, 2);
}

#[test]
fn a_retried_join_takes_the_place_of_the_one_that_waits() {
    let mut world = World::new();
    let members = world.stable("g", 2);
    let lost = world.join(join("g", &members[0]));
    let retried = world.join(join("g", &members[0]));
    assert_eq!(code(world.joined(lost).error_code), ErrorCode::RebalanceInProgress);
    let follower = world.join(join("g", &members[1]));
    assert_eq!(code(world.joined(retried).error_code), ErrorCode::None);
    assert_eq!(code(world.joined(follower).error_code), ErrorCode::None);
}

#[test]
fn a_pending_member_cannot_become_static() {
    let mut world = World::new();
    let member = world.member_id("g");
    let request = JoinGroupRequest {
        group_instance_id: Some("i".into()),
        ..join("g", &member)
    };
    assert_eq!(world.join_error(9, request), ErrorCode::UnknownServerError);
}

#[test]
fn the_first_rebalance_waits_for_its_delay_and_longer_while_members_come() {
    let mut world = World::with(GroupConfig {
        initial_rebalance_delay_ms: 3_000,
        ..Default::default()
    });
    let members: Vec<_> = (0..2).map(|_| world.member_id("g")).collect();
    let first = world.join(join("g", &members[0]));
    world.pass(2_999);
    let second = world.join(join("g", &members[1]));
    world.pass(2_999);
    assert!(world.is_waiting(first), "somebody came, so it waits once more");
    world.pass(2);
    assert_eq!(world.joined(first).members.len(), 2);
    assert_eq!(world.joined(second).generation_id, 1);
}

#[test]
fn the_first_rebalance_waits_no_longer_than_the_rebalance_timeout() {
    let mut world = World::with(GroupConfig {
        initial_rebalance_delay_ms: 3_000,
        ..Default::default()
    });
    let request = |member: &str| JoinGroupRequest {
        rebalance_timeout_ms: 7_000,
        ..join("g", member)
    };
    let member = world.member_id("g");
    let first = world.join(request(&member));
    for _ in 0..6 {
        world.pass(1_000);
        let member = world.member_id("g");
        world.join(request(&member));
    }
    assert!(world.is_waiting(first));
    world.pass(1_000);
    assert_eq!(world.joined(first).members.len(), 7);
}

/// The broker's default delay.
fn with_grace() -> World {
    World::with(GroupConfig {
        initial_rebalance_delay_ms: 20,
        ..Default::default()
    })
}

#[test]
fn members_that_start_together_are_in_one_generation() {
    let mut world = with_grace();
    let members: Vec<_> = (0..2).map(|_| world.member_id("g")).collect();
    let first = world.join(join("g", &members[0]));
    world.pass(19);
    let second = world.join(join("g", &members[1]));
    world.pass(21);
    let (first, second) = (world.joined(first), world.joined(second));
    assert_eq!((first.generation_id, second.generation_id), (1, 1));
    assert_eq!(first.members.len() + second.members.len(), 2);
}

#[test]
fn a_member_alone_waits_for_the_grace_and_no_longer() {
    let mut world = with_grace();
    let member = world.member_id("g");
    let ticket = world.join(join("g", &member));
    world.pass(19);
    assert!(world.is_waiting(ticket));
    world.pass(1);
    assert_eq!(world.joined(ticket).generation_id, 1);
}

#[test]
fn a_member_that_has_just_got_its_id_is_waited_for_once() {
    let mut world = with_grace();
    let member = world.member_id("g");
    let first = world.join(join("g", &member));
    world.pass(19);
    let late = world.member_id("g");
    world.pass(5);
    assert!(world.is_waiting(first));
    let second = world.join(join("g", &late));
    world.pass(40);
    assert_eq!(
        (world.joined(first).generation_id, world.joined(second).generation_id),
        (1, 1)
    );

    let mut world = with_grace();
    let member = world.member_id("g");
    let first = world.join(join("g", &member));
    world.member_id("g");
    world.pass(40);
    assert_eq!(
        world.joined(first).generation_id,
        1,
        "a member that never comes back does not hold up the others"
    );
}

#[test]
fn without_a_delay_no_member_waits() {
    let mut world = World::new();
    let member = world.member_id("g");
    let ticket = world.join(join("g", &member));
    assert_eq!(world.machine.poll_timeout(), Some(world.now_ms));
    world.settle();
    assert_eq!(world.joined(ticket).generation_id, 1);
    assert_eq!(REBALANCE_MS, 60_000);
}
