//! Joining a group of the classic protocol, and the errors of the coordinator.

use milena_machines::member::{CallFailure, MemberConfig, MemberConfigError, MemberError, MemberEvent, Membership};
use milena_machines::{TopicPartition, assign::RebalanceProtocol, member::Member};
use milena_wire::{api::ApiKey, errors::ErrorCode, messages::JoinGroupResponse};

use super::rig::*;

#[test]
fn nothing_is_sent_before_the_application_polls() {
    let mut rig = Rig::eager();
    rig.subscribe(&["t"]);
    rig.expect_no_call();
    assert_eq!(rig.member.poll_timeout(), None);
    rig.poll();
    let (_, join) = rig.expect_join();
    assert_eq!((&*join.group_id, &*join.member_id, join.reason), ("group", "", None));
    assert_eq!((join.session_timeout_ms, join.rebalance_timeout_ms), (45_000, 300_000));
    assert_eq!((&*join.protocol_type, &*join.protocols[0].name), ("consumer", "greedy"));
}

#[test]
fn a_join_may_take_as_long_as_a_rebalance() {
    let mut rig = Rig::eager();
    rig.subscribe(&["t"]);
    rig.poll();
    assert_eq!(rig.expect_call().timeout_ms, MAX_POLL_MS + 5_000);
}

#[test]
fn member_id_required_joins_again_at_once_with_the_given_id() {
    let mut rig = Rig::eager();
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_join();
    let response = JoinGroupResponse {
        error_code: ErrorCode::MemberIdRequired.code(),
        member_id: "given".into(),
        ..Default::default()
    };
    rig.respond(call, milena_machines::member::MemberResponse::Join(response));
    assert_eq!(rig.tell(), None);
    let (_, join) = rig.expect_join();
    assert_eq!(join.member_id, "given");
    assert_eq!(join.reason.as_deref(), Some("need to re-join with the given member-id"));
}

#[test]
fn heartbeats_start_with_the_join_response() {
    let mut rig = Rig::eager();
    rig.subscribe(&["t"]);
    rig.poll();
    let (join, _) = rig.expect_join();
    rig.pass(2 * HEARTBEAT_MS);
    rig.expect_no_call();
    rig.respond_join(join, 1, "other");
    let (sync, _) = rig.expect_sync();
    rig.pass(HEARTBEAT_MS);
    let (call, heartbeat) = rig.expect_heartbeat();
    assert_eq!((heartbeat.generation_id, &*heartbeat.member_id), (1, "me"));
    // The SyncGroup response tells: a rebalance that begins now is nothing new.
    rig.respond_heartbeat(call, ErrorCode::RebalanceInProgress);
    rig.expect_no_call();
    rig.respond_sync(sync, &[("t", 0)]);
    assert_eq!(rig.tell(), Some(assigned(&[("t", 0)], &[("t", 0)])));
    rig.expect_no_call();
}

#[test]
fn one_heartbeat_is_in_flight_and_a_failed_one_is_soon_retried() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0)]);
    rig.pass(HEARTBEAT_MS);
    let (call, _) = rig.expect_heartbeat();
    rig.pass(HEARTBEAT_MS);
    rig.expect_no_call();
    rig.fail(call, CallFailure::Disconnected);
    assert!(rig.member.take_coordinator_moved());
    assert!(!rig.member.take_coordinator_moved());
    rig.expect_no_call();
    rig.pass(BACKOFF_MS);
    rig.expect_heartbeat();
}

#[test]
fn after_a_session_without_a_response_the_coordinator_is_looked_up() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0)]);
    rig.pass(HEARTBEAT_MS);
    let (silent, _) = rig.expect_heartbeat();
    rig.pass(SESSION_MS);
    assert!(rig.member.take_coordinator_moved());
    let (call, _) = rig.expect_heartbeat();
    // Nothing is lost as long as the coordinator has not said so.
    rig.poll();
    assert_eq!(rig.tell(), None);
    rig.respond_heartbeat(silent, ErrorCode::UnknownMemberId);
    assert_eq!(rig.tell(), None);
    rig.respond_heartbeat(call, ErrorCode::None);
    rig.pass(HEARTBEAT_MS - 1);
    rig.expect_no_call();
}

#[test]
fn unknown_member_id_resets_it_and_partitions_are_lost() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0), ("t", 1)]);
    rig.heartbeat(ErrorCode::UnknownMemberId);
    assert_eq!(rig.member.membership(), Membership::NotMember);
    assert_eq!(rig.member.identity().generation, -1);
    rig.expect_no_call();
    assert_eq!(rig.tell(), Some(lost(&[("t", 0), ("t", 1)])));
    let (_, join) = rig.expect_join();
    assert_eq!(join.member_id, "");
}

#[test]
fn illegal_generation_keeps_the_member_id_and_partitions_are_lost() {
    let mut rig = Rig::cooperative();
    rig.settle(&["t"], &[("t", 0)]);
    rig.heartbeat(ErrorCode::IllegalGeneration);
    assert_eq!(rig.tell(), Some(lost(&[("t", 0)])));
    let (_, join) = rig.expect_join();
    assert_eq!(join.member_id, "me");
}

#[test]
fn errors_count_only_if_the_generation_is_that_of_the_request() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0)]);
    let identity = rig.member.identity();
    rig.pass(HEARTBEAT_MS);
    let (old, _) = rig.expect_heartbeat();
    rig.member.enforce_rebalance("test");
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
    rig.rebalance(2, &[("t", 0)]);
    assert_eq!(rig.tell(), Some(assigned(&[("t", 0)], &[("t", 0)])));
    rig.respond_heartbeat(old, ErrorCode::IllegalGeneration);
    rig.member
        .handle_commit_refused(rig.now, &identity, ErrorCode::IllegalGeneration);
    assert_eq!(rig.tell(), None);
    let identity = rig.member.identity();
    assert_eq!(identity.generation, 2);
    rig.member
        .handle_commit_refused(rig.now, &identity, ErrorCode::IllegalGeneration);
    assert_eq!(rig.tell(), Some(lost(&[("t", 0)])));
}

#[test]
fn a_commit_during_a_rebalance_that_we_did_not_know_of_makes_us_join() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0)]);
    let identity = rig.member.identity();
    rig.member
        .handle_commit_refused(rig.now, &identity, ErrorCode::RebalanceInProgress);
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
    let (_, join) = rig.expect_join();
    assert_eq!(
        join.reason.as_deref(),
        Some("offset commit failed since group is already rebalancing")
    );
}

#[test]
fn errors_of_sync_lead_to_another_join() {
    for (error, member_id) in [
        (ErrorCode::RebalanceInProgress, "me"),
        (ErrorCode::IllegalGeneration, "me"),
        (ErrorCode::UnknownMemberId, ""),
    ] {
        let mut rig = Rig::eager();
        rig.subscribe(&["t"]);
        rig.poll();
        let (call, _) = rig.expect_join();
        rig.respond_join(call, 1, "other");
        let (call, _) = rig.expect_sync();
        rig.refuse_sync(call, error);
        assert_eq!(rig.tell(), None, "{error}");
        assert_eq!(rig.expect_join().1.member_id, member_id, "{error}");
    }
}

#[test]
fn what_passes_is_tried_again_later_and_later() {
    let mut rig = Rig::eager();
    rig.subscribe(&["t"]);
    rig.poll();
    let mut waits = vec![];
    for error in [
        ErrorCode::CoordinatorLoadInProgress,
        ErrorCode::NotCoordinator,
        ErrorCode::CoordinatorNotAvailable,
    ] {
        let (call, _) = rig.expect_join();
        rig.refuse_join(call, error);
        assert_eq!(
            rig.member.take_coordinator_moved(),
            error != ErrorCode::CoordinatorLoadInProgress
        );
        assert_eq!(rig.tell(), None);
        rig.expect_no_call();
        let wait = rig.member.poll_timeout().unwrap() - rig.now;
        waits.push(wait);
        rig.pass(wait);
    }
    let (call, _) = rig.expect_join();
    rig.fail(call, CallFailure::CoordinatorUnknown);
    waits.push(rig.member.poll_timeout().unwrap() - rig.now);
    for (wait, plain) in waits.into_iter().zip([100, 200, 400, 800]) {
        assert!((plain * 4 / 5..=plain * 6 / 5).contains(&wait), "{wait} for {plain}");
    }
}

#[test]
fn a_lasting_error_is_reported_and_the_join_retried_after_that() {
    let mut rig = Rig::eager();
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_join();
    rig.refuse_join(call, ErrorCode::GroupAuthorizationFailed);
    rig.pass(BACKOFF_MS);
    rig.expect_no_call();
    let error = MemberError::Refused {
        api: ApiKey::JoinGroup,
        error: ErrorCode::GroupAuthorizationFailed,
        message: None,
    };
    assert_eq!(rig.tell(), Some(MemberEvent::Error(error)));
    assert_eq!(rig.tell(), None);
    rig.expect_join();
}

#[test]
fn too_long_without_a_poll_leaves_the_group_by_itself() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0)]);
    rig.pass(MAX_POLL_MS - 1);
    let (call, _) = rig.expect_heartbeat();
    rig.respond_heartbeat(call, ErrorCode::None);
    rig.pass(1);
    let (call, leave) = rig.expect_leave();
    assert_eq!(
        (&*leave.members[0].member_id, leave.members[0].reason.as_deref()),
        ("me", Some("consumer poll timeout has expired."))
    );
    rig.fail(call, CallFailure::Disconnected);
    rig.pass(10 * MAX_POLL_MS);
    rig.expect_no_call();
    rig.poll();
    rig.expect_no_call();
    assert_eq!(rig.tell(), Some(lost(&[("t", 0)])));
    assert_eq!(rig.expect_join().1.member_id, "");
}

#[test]
fn while_it_waits_inside_poll_the_application_lives() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0)]);
    for _ in 0..3 {
        rig.now += MAX_POLL_MS;
        rig.poll();
        rig.member.handle_timeout(rig.now);
        let (call, _) = rig.expect_heartbeat();
        rig.respond_heartbeat(call, ErrorCode::None);
    }
}

#[test]
fn an_enforced_rebalance_tells_its_reason_and_happens_once() {
    let mut rig = Rig::cooperative();
    rig.settle(&["t"], &[("t", 0)]);
    rig.member.enforce_rebalance(&"ü".repeat(200));
    rig.member.enforce_rebalance("too late");
    let join = rig.rebalance(2, &[("t", 0)]);
    assert_eq!(join.reason.as_deref(), Some(&*"ü".repeat(127)));
    assert_eq!(rig.tell(), Some(assigned(&[], &[("t", 0)])));
    rig.expect_no_call();
}

#[test]
fn the_protocol_is_the_greatest_that_all_assignors_have() {
    use RebalanceProtocol::{Cooperative, Eager};
    let greedy = |name, protocols: &[RebalanceProtocol]| -> Box<dyn milena_machines::assign::Assignor> {
        let (protocols, user_data) = (protocols.to_vec(), None);
        Box::new(Greedy {
            name,
            protocols,
            user_data,
        })
    };
    let new = |assignors| Member::new(config(classic(assignors)), 1).map(|_| ());
    assert_eq!(new(vec![]), Err(MemberConfigError::NoAssignor));
    let both = new(vec![greedy("a", &[Eager]), greedy("b", &[Cooperative])]);
    assert_eq!(
        both,
        Err(MemberConfigError::NoCommonProtocol {
            names: "a, b".to_owned()
        })
    );
    let twice = new(vec![greedy("a", &[Eager]), greedy("a", &[Eager])]);
    assert_eq!(twice, Err(MemberConfigError::AssignorTwice { name: "a".to_owned() }));
    // One that can only be eager makes all of them eager: everything is revoked.
    let mut rig = Rig::new(config(classic(vec![
        greedy("other", &[Eager]),
        greedy("greedy", &[Eager, Cooperative]),
    ])));
    rig.settle(&["t"], &[("t", 0)]);
    rig.heartbeat(ErrorCode::RebalanceInProgress);
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
}

#[test]
fn a_broker_pattern_needs_the_other_protocol() {
    let mut rig = Rig::eager();
    rig.member.subscribe(
        rig.now,
        milena_machines::member::Subscription::BrokerPattern("t.*".into()),
    );
    rig.poll();
    rig.expect_no_call();
    assert_eq!(
        rig.tell(),
        Some(MemberEvent::Fatal(MemberError::PatternNeedsConsumerProtocol))
    );
}

#[test]
fn an_old_broker_that_knows_no_instance_ids_is_an_error_that_says_so() {
    let mut rig = Rig::of_instance(eager());
    rig.subscribe(&["t"]);
    rig.poll();
    let call = rig.expect_call();
    assert_eq!(call.min_version, 5);
    rig.fail(call.id, CallFailure::Unsupported { api: ApiKey::JoinGroup });
    rig.expect_no_call();
    assert_eq!(rig.tell(), Some(MemberEvent::Fatal(MemberError::InstanceUnsupported)));
    assert_eq!(rig.tell(), None);
    assert_eq!(rig.member.failure(), Some(&MemberError::InstanceUnsupported));
}

#[test]
fn a_group_of_another_type_is_an_error_that_names_it() {
    let mut rig = Rig::new(MemberConfig {
        rack: Some("".into()),
        ..config(classic(vec![eager()]))
    });
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_join();
    let response = JoinGroupResponse {
        protocol_type: Some("connect".into()),
        ..Default::default()
    };
    rig.respond(call, milena_machines::member::MemberResponse::Join(response));
    let error = MemberError::OtherProtocolType {
        found: "connect".into(),
    };
    assert_eq!(rig.tell(), Some(MemberEvent::Error(error)));
    let _ = TopicPartition::new("t", 0);
}
