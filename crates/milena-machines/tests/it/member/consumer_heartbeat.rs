//! The heartbeats of the consumer protocol.

use milena_machines::member::{
    CallFailure, GroupProtocol, Member, MemberConfig, MemberError, MemberEvent, Membership, Subscription,
};
use milena_wire::{api::ApiKey, errors::ErrorCode, messages::ConsumerGroupHeartbeatResponse};

use super::rig::*;

const INTERVAL_MS: i64 = 5_000;

#[test]
fn a_join_says_everything_and_owns_nothing() {
    let mut rig = Rig::new(MemberConfig {
        rack: Some("rack".into()),
        ..config(GroupProtocol::Consumer {
            remote_assignor: Some("uniform".into()),
        })
    });
    rig.subscribe(&["u", "t"]);
    rig.expect_no_call();
    rig.poll();
    let (_, join) = rig.expect_modern();
    assert_eq!((join.member_epoch, join.rebalance_timeout_ms), (0, 300_000));
    assert_eq!(
        join.subscribed_topic_names.as_deref(),
        Some(&["t".into(), "u".into()][..])
    );
    assert_eq!(join.topic_partitions.as_deref(), Some(&[][..]));
    assert_eq!(
        (join.rack_id.as_deref(), join.server_assignor.as_deref()),
        (Some("rack"), Some("uniform"))
    );
    assert_eq!(join.subscribed_topic_regex, None);
    // A version 4 UUID.
    assert_eq!((join.member_id.len(), join.member_id.as_bytes()[14]), (36, b'4'));
    rig.expect_no_call();
}

#[test]
fn member_ids_differ_between_processes_and_stay_within_one() {
    let ids = [1, 2].map(|seed| {
        let mut member = Member::new(config(GroupProtocol::Consumer { remote_assignor: None }), seed).unwrap();
        member.subscribe(0, Subscription::Topics(names(&["t"])));
        member.handle_poll(0);
        format!("{:?}", member.poll_request(0).unwrap().request)
    });
    assert_ne!(ids[0], ids[1]);
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[]);
    let id = rig.member.identity().member_id;
    rig.pass(INTERVAL_MS);
    let (call, _) = rig.expect_modern();
    rig.refuse_modern(call, ErrorCode::FencedMemberEpoch);
    assert_eq!(rig.expect_modern().1.member_id, id);
}

#[test]
fn a_member_id_that_the_broker_chose_is_taken() {
    let mut rig = Rig::consumer();
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_modern();
    let response = ConsumerGroupHeartbeatResponse {
        member_id: Some("chosen".into()),
        member_epoch: 1,
        heartbeat_interval_ms: 5_000,
        ..Default::default()
    };
    rig.respond(
        call,
        milena_machines::member::MemberResponse::ConsumerHeartbeat(response),
    );
    assert_eq!(rig.member.identity().member_id, "chosen");
}

#[test]
fn later_heartbeats_come_at_the_interval_of_the_broker_and_say_only_what_has_changed() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0)]);
    rig.pass(INTERVAL_MS - 1);
    rig.expect_no_call();
    rig.pass(1);
    let (call, heartbeat) = rig.expect_modern();
    assert_eq!((heartbeat.member_epoch, heartbeat.rebalance_timeout_ms), (1, -1));
    assert_eq!(
        (heartbeat.subscribed_topic_names, heartbeat.topic_partitions),
        (None, None)
    );
    // Never two in flight.
    rig.subscribe(&["t", "u"]);
    rig.expect_no_call();
    rig.respond_consumer(call, 2, None);
    let (_, heartbeat) = rig.expect_modern();
    assert_eq!((heartbeat.member_epoch, heartbeat.topic_partitions), (2, None));
    assert_eq!(
        heartbeat.subscribed_topic_names.as_deref(),
        Some(&["t".into(), "u".into()][..])
    );
    assert_eq!(rig.member.identity().generation, 2);
}

#[test]
fn a_changed_subscription_does_not_wait_for_the_interval() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0)]);
    rig.subscribe(&["t", "u"]);
    assert!(rig.expect_modern().1.subscribed_topic_names.is_some());
}

#[test]
fn after_an_error_everything_is_said_again() {
    for failure in [Some(CallFailure::Disconnected), Some(CallFailure::TimedOut), None] {
        let mut rig = Rig::consumer();
        rig.settle_modern(&["t"], &[("t", 0)]);
        rig.pass(INTERVAL_MS);
        let (call, _) = rig.expect_modern();
        match failure {
            Some(failure) => rig.fail(call, failure),
            None => rig.refuse_modern(call, ErrorCode::NotCoordinator),
        }
        assert!(rig.member.take_coordinator_moved());
        rig.expect_no_call();
        rig.pass(BACKOFF_MS);
        let (_, heartbeat) = rig.expect_modern();
        assert_eq!((heartbeat.member_epoch, heartbeat.rebalance_timeout_ms), (1, 300_000));
        assert!(heartbeat.subscribed_topic_names.is_some());
        assert_eq!(heartbeat.topic_partitions.unwrap()[0].partitions, [0]);
    }
}

#[test]
fn a_broker_pattern_goes_to_the_broker() {
    let mut rig = Rig::consumer();
    rig.member.subscribe(rig.now, Subscription::BrokerPattern("t.*".into()));
    rig.poll();
    let call = rig.expect_call();
    assert_eq!(call.min_version, 1);
    match &call.request {
        milena_machines::member::MemberRequest::ConsumerHeartbeat(join) => {
            assert_eq!(join.subscribed_topic_regex.as_deref(), Some("t.*"));
            assert_eq!(join.subscribed_topic_names.as_deref(), Some(&[][..]));
        }
        request => panic!("{request:?}"),
    }
    let unsupported = CallFailure::Unsupported {
        api: ApiKey::ConsumerGroupHeartbeat,
    };
    rig.fail(call.id, unsupported);
    assert_eq!(rig.tell(), Some(MemberEvent::Fatal(MemberError::PatternUnsupported)));
}

#[test]
fn a_cluster_without_the_protocol_is_an_error_that_says_what_to_do() {
    let mut rig = Rig::consumer();
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_modern();
    rig.refuse_modern(call, ErrorCode::UnsupportedVersion);
    match rig.tell() {
        Some(MemberEvent::Fatal(error)) => assert!(error.to_string().contains("group.protocol=classic")),
        event => panic!("{event:?}"),
    }
    rig.expect_no_call();
}

#[test]
fn a_fenced_member_loses_all_and_rejoins_with_the_same_id() {
    for error in [
        ErrorCode::FencedMemberEpoch,
        ErrorCode::UnknownMemberId,
        ErrorCode::GroupIdNotFound,
    ] {
        let mut rig = Rig::consumer();
        rig.settle_modern(&["t"], &[("t", 0)]);
        let id = rig.member.identity().member_id;
        rig.pass(INTERVAL_MS);
        let (call, _) = rig.expect_modern();
        rig.refuse_modern(call, error);
        assert_eq!(rig.member.membership(), Membership::NotMember);
        assert_eq!(
            (rig.member.identity().generation, &*rig.member.identity().member_id),
            (-1, "")
        );
        rig.expect_no_call();
        assert_eq!(rig.tell(), Some(lost(&[("t", 0)])));
        let (_, join) = rig.expect_modern();
        assert_eq!((join.member_epoch, &join.member_id), (0, &id));
        assert_eq!(join.topic_partitions.as_deref(), Some(&[][..]));
        assert!(join.subscribed_topic_names.is_some());
    }
}

#[test]
fn errors_that_end_a_member() {
    for error in [
        ErrorCode::GroupAuthorizationFailed,
        ErrorCode::UnsupportedAssignor,
        ErrorCode::InvalidRequest,
        ErrorCode::GroupMaxSizeReached,
        ErrorCode::InvalidRegularExpression,
        ErrorCode::UnreleasedInstanceId,
        ErrorCode::FencedInstanceId,
        ErrorCode::UnknownServerError,
    ] {
        let mut rig = Rig::consumer();
        rig.settle_modern(&["t"], &[("t", 0)]);
        rig.pass(INTERVAL_MS);
        let (call, _) = rig.expect_modern();
        rig.refuse_modern(call, error);
        assert_eq!(rig.tell(), Some(lost(&[("t", 0)])), "{error}");
        assert!(matches!(rig.tell(), Some(MemberEvent::Fatal(_))), "{error}");
        rig.pass(10 * MAX_POLL_MS);
        rig.expect_no_call();
    }
    let mut rig = Rig::consumer();
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_modern();
    rig.refuse_modern(call, ErrorCode::GroupIdNotFound);
    assert!(matches!(rig.tell(), Some(MemberEvent::Fatal(_))));
}

#[test]
fn unreleased_instance_id_is_fatal_for_the_one_that_comes() {
    let mut rig = Rig::new(MemberConfig {
        instance_id: Some("instance".into()),
        ..config(GroupProtocol::Consumer { remote_assignor: None })
    });
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, join) = rig.expect_modern();
    assert_eq!(join.instance_id.as_deref(), Some("instance"));
    rig.refuse_modern(call, ErrorCode::UnreleasedInstanceId);
    let error = MemberError::UnreleasedInstance {
        instance_id: "instance".into(),
    };
    assert_eq!(rig.tell(), Some(MemberEvent::Fatal(error)));
}

#[test]
fn an_unauthorized_topic_is_an_error_and_the_member_stays() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0)]);
    for _ in 0..2 {
        rig.pass(INTERVAL_MS);
        let (call, _) = rig.expect_modern();
        rig.refuse_modern(call, ErrorCode::TopicAuthorizationFailed);
    }
    let error = MemberError::Refused {
        api: ApiKey::ConsumerGroupHeartbeat,
        error: ErrorCode::TopicAuthorizationFailed,
        message: Some("because".into()),
    };
    assert_eq!(rig.tell(), Some(MemberEvent::Error(error)));
    assert_eq!(rig.tell(), None);
    assert_eq!(rig.member.identity().generation, 1);
    rig.pass(BACKOFF_MS);
    assert_eq!(rig.expect_modern().1.member_epoch, 1);
}

#[test]
fn too_long_without_a_poll_leaves_and_the_next_poll_hears_of_the_loss() {
    for (instance_id, epoch) in [(None, -1), (Some("instance".into()), -2)] {
        let mut rig = Rig::new(MemberConfig {
            instance_id,
            ..config(GroupProtocol::Consumer { remote_assignor: None })
        });
        rig.settle_modern(&["t"], &[("t", 0)]);
        rig.pass(MAX_POLL_MS);
        let (_, leave) = rig.expect_modern();
        assert_eq!(leave.member_epoch, epoch);
        rig.pass(MAX_POLL_MS);
        rig.expect_no_call();
        rig.poll();
        rig.expect_no_call();
        assert_eq!(rig.tell(), Some(lost(&[("t", 0)])));
        assert_eq!(rig.expect_modern().1.member_epoch, 0);
    }
}

#[test]
fn a_rebalance_cannot_be_enforced() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0)]);
    rig.member.enforce_rebalance("test");
    assert_eq!(rig.tell(), None);
    rig.expect_no_call();
}
