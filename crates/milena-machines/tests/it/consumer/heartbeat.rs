//! Heartbeat requests and their responses.

use milena_machines::group::{GroupConfig, GroupOverrides};
use milena_wire::{errors::ErrorCode, messages::ConsumerGroupHeartbeatRequest};

use super::harness::*;

#[test]
fn requests_that_no_group_can_grant_are_invalid() {
    let join = || joining("a", &["t"]);
    let beat = || beating("a", 5);
    let wrong: Vec<ConsumerGroupHeartbeatRequest> = vec![
        ConsumerGroupHeartbeatRequest {
            member_id: "".into(),
            ..join()
        },
        ConsumerGroupHeartbeatRequest {
            member_id: "".into(),
            ..beat()
        },
        ConsumerGroupHeartbeatRequest {
            member_id: "".into(),
            member_epoch: -1,
            ..beat()
        },
        ConsumerGroupHeartbeatRequest {
            group_id: " ".into(),
            ..join()
        },
        ConsumerGroupHeartbeatRequest {
            instance_id: Some("".into()),
            ..join()
        },
        ConsumerGroupHeartbeatRequest {
            rack_id: Some("".into()),
            ..join()
        },
        ConsumerGroupHeartbeatRequest {
            rebalance_timeout_ms: -1,
            ..join()
        },
        ConsumerGroupHeartbeatRequest {
            topic_partitions: None,
            ..join()
        },
        ConsumerGroupHeartbeatRequest {
            topic_partitions: Some(topic_partitions(&owned(&[("t", &[0])]))),
            ..join()
        },
        ConsumerGroupHeartbeatRequest {
            subscribed_topic_names: None,
            ..join()
        },
        ConsumerGroupHeartbeatRequest {
            member_epoch: -2,
            ..beat()
        },
        ConsumerGroupHeartbeatRequest {
            member_epoch: -3,
            ..beat()
        },
    ];
    let mut world = World::with_topics(&[("t", 1)]);
    for request in wrong {
        assert_eq!(world.refused(request.clone()), ErrorCode::InvalidRequest, "{request:?}");
    }
}

#[test]
fn an_assignor_that_there_is_not_is_refused_with_those_there_are() {
    let mut world = World::with_topics(&[("t", 1)]);
    let mut request = joining("a", &["t"]);
    request.server_assignor = Some("sticky".into());
    let response = world.heartbeat(request);
    assert_eq!(response.error_code, ErrorCode::UnsupportedAssignor.code());
    let message = response.error_message.unwrap();
    assert!(message.contains("uniform, range"), "{message}");
}

#[test]
fn in_version_0_the_broker_names_the_member() {
    let mut world = World::with_topics(&[("t", 2)]);
    world.version = 0;
    let response = world.granted(joining("", &["t"]));
    let member_id = response.member_id.clone().unwrap();
    assert!(!member_id.is_empty());
    assert_eq!(assignment(&response).unwrap(), owned(&[("t", &[0, 1])]));
    let response = world.granted(beating(&member_id, response.member_epoch));
    assert_eq!(response.member_id.unwrap(), member_id);
}

#[test]
fn a_first_member_gets_everything_at_once() {
    let mut world = World::with_topics(&[("t", 2), ("u", 1), ("other", 1)]);
    let response = world.granted(joining("a", &["t", "u", "missing"]));
    assert_eq!(response.member_id.as_deref(), Some("a"));
    assert_eq!(response.member_epoch, 2);
    assert_eq!(response.heartbeat_interval_ms, 5_000);
    assert_eq!(assignment(&response).unwrap(), owned(&[("t", &[0, 1]), ("u", &[0])]));
    assert_eq!(world.state(), "Stable");
    world.restart();
}

#[test]
fn an_assignment_is_sent_only_when_it_is_new_or_all_is_said() {
    let mut world = World::with_topics(&[("t", 2)]);
    let epoch = world.granted(joining("a", &["t"])).member_epoch;
    let records = world.log.len();
    assert_eq!(assignment(&world.granted(beating("a", epoch))), None);
    let mut full = joining("a", &["t"]);
    full.member_epoch = epoch;
    full.topic_partitions = Some(topic_partitions(&owned(&[("t", &[0, 1])])));
    assert_eq!(assignment(&world.granted(full)).unwrap(), owned(&[("t", &[0, 1])]));
    assert_eq!(world.log.len(), records, "what is known is not written again");
}

#[test]
fn a_join_returns_the_assignment_also_the_second_time() {
    let mut world = World::with_topics(&[("t", 2)]);
    let first = world.granted(joining("a", &["t"]));
    let second = world.granted(joining("a", &["t"]));
    assert_eq!(first, second);
}

#[test]
fn a_group_without_a_join_is_not_found() {
    let mut world = World::with_topics(&[("t", 1)]);
    assert_eq!(world.refused(beating("a", 1)), ErrorCode::GroupIdNotFound);
    assert_eq!(world.refused(beating("a", -1)), ErrorCode::GroupIdNotFound);
}

#[test]
fn a_member_that_is_not_in_the_group_is_unknown() {
    let mut world = World::with_topics(&[("t", 1)]);
    world.join("a", &["t"]);
    assert_eq!(world.refused(beating("b", 2)), ErrorCode::UnknownMemberId);
    assert_eq!(world.refused(beating("b", -1)), ErrorCode::UnknownMemberId);
}

#[test]
fn an_epoch_ahead_of_the_members_is_fenced() {
    let mut world = World::with_topics(&[("t", 1)]);
    let a = world.join("a", &["t"]);
    assert_eq!(world.refused(beating("a", a.epoch + 1)), ErrorCode::FencedMemberEpoch);
}

#[test]
fn the_epoch_before_is_granted_only_to_who_owns_no_more_than_it_has() {
    let mut world = World::with_topics(&[("t", 2)]);
    let before = world.join("a", &["t"]).epoch;
    world.create_topic("u", 1);
    let mut request = beating("a", before);
    request.subscribed_topic_names = Some(names(&["t", "u"]));
    let now = world.granted(request).member_epoch;
    assert!(now > before);
    // The response was lost: the member reports its partitions again.
    let mut retry = beating("a", before);
    assert_eq!(world.refused(retry.clone()), ErrorCode::FencedMemberEpoch);
    retry.topic_partitions = Some(topic_partitions(&owned(&[("t", &[0, 1]), ("v", &[0])])));
    assert_eq!(world.refused(retry.clone()), ErrorCode::FencedMemberEpoch);
    retry.topic_partitions = Some(topic_partitions(&owned(&[("t", &[0, 1])])));
    assert_eq!(world.granted(retry.clone()).member_epoch, now);
    retry.member_epoch = before - 1;
    assert_eq!(world.refused(retry), ErrorCode::FencedMemberEpoch);
}

#[test]
fn a_full_group_refuses_new_members() {
    let config = GroupConfig {
        consumer_size_max: 2,
        ..GroupConfig::default()
    };
    let mut world = World::new(config);
    world.create_topic("t", 4);
    let mut a = world.join("a", &["t"]);
    world.join("b", &["t"]);
    assert_eq!(world.refused(joining("c", &["t"])), ErrorCode::GroupMaxSizeReached);
    world.granted(joining("b", &["t"]));
    a.leave(&mut world);
    world.join("c", &["t"]);
}

#[test]
fn a_broker_without_the_protocol_says_so() {
    let config = GroupConfig {
        consumer_protocol_enabled: false,
        ..GroupConfig::default()
    };
    let mut world = World::new(config);
    assert_eq!(world.refused(joining("a", &["t"])), ErrorCode::UnsupportedVersion);
}

#[test]
fn a_group_has_its_own_interval_and_session() {
    let overrides = GroupOverrides {
        consumer_session_timeout_ms: Some(50_000),
        consumer_heartbeat_interval_ms: Some(7_000),
    };
    let config = GroupConfig {
        overrides: [(GROUP.into(), overrides)].into(),
        ..GroupConfig::default()
    };
    let mut world = World::new(config);
    world.create_topic("t", 1);
    assert_eq!(world.granted(joining("a", &["t"])).heartbeat_interval_ms, 7_000);
    world.pass(49_999);
    assert_eq!(world.state(), "Stable");
    world.pass(1);
    assert_eq!(world.state(), "Empty");
}

#[test]
fn a_silent_member_is_taken_out_when_its_session_ends() {
    let mut world = World::with_topics(&[("t", 2)]);
    let mut a = world.join("a", &["t"]);
    let mut b = world.join("b", &["t"]);
    world.settle(&mut [&mut a, &mut b]);
    world.pass(30_000);
    a.beat(&mut world);
    world.pass(15_000);
    assert_eq!(world.refused(beating("b", b.epoch)), ErrorCode::UnknownMemberId);
    a.beat(&mut world);
    assert_eq!(a.owned, owned(&[("t", &[0, 1])]));
    world.restart();
}

#[test]
fn after_a_restart_every_session_is_fresh() {
    let mut world = World::with_topics(&[("t", 2)]);
    let a = world.join("a", &["t"]);
    world.pass(44_000);
    world.restart();
    world.pass(44_000);
    world.granted(beating("a", a.epoch));
    world.pass(45_000);
    assert_eq!(world.state(), "Empty");
}

#[test]
fn a_session_that_is_made_shorter_ends_sooner_also_after_its_timer_has_looked() {
    let mut world = World::with_topics(&[("t", 1)]);
    let mut a = world.join("a", &["t"]);
    world.pass(30_000);
    a.beat(&mut world);
    // The timer of the first 45 seconds fires, and is set to the end of the new ones.
    world.pass(16_000);
    let config = GroupConfig {
        consumer_session_timeout_ms: 5_000,
        ..world.config.clone()
    };
    world.coordinator.set_config(config);
    a.beat(&mut world);
    world.pass(4_999);
    assert_eq!(world.state(), "Stable");
    world.pass(1);
    assert_eq!(world.state(), "Empty");
}
