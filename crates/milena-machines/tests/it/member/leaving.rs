//! Unsubscribing and closing, in both protocols.

use milena_machines::member::{
    CallFailure, ForVersion, GroupProtocol, Leave, Member, MemberConfig, MemberRequest, Membership,
};
use milena_wire::{errors::ErrorCode, messages::LeaveGroupRequest};

use super::rig::*;

#[test]
fn a_member_gives_back_what_it_has_and_then_leaves() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0)]);
    rig.member.leave(rig.now, Leave::Default);
    rig.expect_no_call();
    assert!(!rig.member.is_gone());
    let event = rig.member.poll_event();
    assert_eq!(event, Some(revoked(&[("t", 0)])));
    // Commits work here, and heartbeats go on.
    assert!(matches!(rig.member.membership(), Membership::Member { .. }));
    rig.heartbeat(ErrorCode::None);
    rig.member.handle_event_done(rig.now);
    let (call, leave) = rig.expect_leave();
    assert_eq!(leave.members[0].member_id, "me");
    assert!(!rig.member.is_gone());
    rig.fail(call, CallFailure::TimedOut);
    assert!(rig.member.is_gone());
    assert_eq!(rig.member.membership(), Membership::Standalone);
    rig.expect_no_call();
    assert_eq!(rig.member.poll_timeout(), None);
}

#[test]
fn in_the_middle_of_a_rebalance_or_out_of_the_group_it_is_lost() {
    let mut rig = Rig::cooperative();
    rig.settle(&["t"], &[("t", 0)]);
    rig.heartbeat(ErrorCode::RebalanceInProgress);
    rig.expect_join();
    rig.member.leave(rig.now, Leave::Default);
    assert_eq!(rig.tell(), Some(lost(&[("t", 0)])));
    rig.expect_leave();

    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0)]);
    rig.heartbeat(ErrorCode::UnknownMemberId);
    rig.member.leave(rig.now, Leave::Default);
    assert_eq!(rig.tell(), Some(lost(&[("t", 0)])));
    rig.expect_no_call();
    assert!(rig.member.is_gone());
}

#[test]
fn classic_modes_of_leaving() {
    for (is_static, how, leaves) in [
        (false, Leave::Default, true),
        (false, Leave::Leave, true),
        (false, Leave::Remain, false),
        (true, Leave::Default, false),
        (true, Leave::Leave, true),
        (true, Leave::Remain, false),
    ] {
        let mut rig = if is_static {
            Rig::of_instance(eager())
        } else {
            Rig::eager()
        };
        rig.settle(&["t"], &[]);
        rig.member.leave(rig.now, how);
        assert_eq!(rig.call().is_some(), leaves, "{is_static} {how:?}");
        assert_eq!(rig.member.is_gone(), !leaves);
    }
}

#[test]
fn consumer_modes_of_leaving() {
    for (is_static, how, epoch) in [
        (false, Leave::Default, Some(-1)),
        (false, Leave::Leave, Some(-1)),
        (false, Leave::Remain, None),
        (true, Leave::Default, Some(-2)),
        (true, Leave::Leave, Some(-1)),
        (true, Leave::Remain, Some(-2)),
    ] {
        let mut rig = Rig::new(MemberConfig {
            instance_id: is_static.then(|| "instance".into()),
            ..config(GroupProtocol::Consumer { remote_assignor: None })
        });
        rig.settle_modern(&["t"], &[("t", 0)]);
        rig.member.leave(rig.now, how);
        rig.expect_no_call();
        assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
        let sent = rig.call().map(|call| match call.request {
            MemberRequest::ConsumerHeartbeat(request) => {
                assert_eq!((request.rebalance_timeout_ms, &request.topic_partitions), (-1, &None));
                assert_eq!(request.instance_id.is_some(), is_static);
                request.member_epoch
            }
            request => panic!("{request:?}"),
        });
        assert_eq!(sent, epoch, "{is_static} {how:?}");
        assert_eq!(rig.member.is_gone(), epoch.is_none());
    }
}

#[test]
fn a_member_that_has_not_joined_has_nothing_to_leave() {
    for mut rig in [Rig::eager(), Rig::consumer()] {
        rig.member.leave(rig.now, Leave::Default);
        assert!(rig.member.is_gone());
        rig.subscribe(&["t"]);
        rig.member.leave(rig.now, Leave::Default);
        assert!(rig.member.is_gone());
        rig.expect_no_call();
    }
}

#[test]
fn a_join_that_may_still_succeed_is_taken_back() {
    let mut rig = Rig::consumer();
    rig.subscribe(&["t"]);
    rig.poll();
    let (join, _) = rig.expect_modern();
    rig.member.leave(rig.now, Leave::Default);
    let (leave, request) = rig.expect_modern();
    assert_eq!(request.member_epoch, -1);
    rig.respond_consumer(join, 1, Some(&[("t", 0)]));
    assert_eq!(rig.tell(), None);
    rig.respond_consumer(leave, -1, None);
    assert!(rig.member.is_gone());
}

#[test]
fn one_may_subscribe_again_before_the_leaving_is_over() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0)]);
    rig.member.leave(rig.now, Leave::Default);
    rig.subscribe(&["u"]);
    rig.poll();
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
    rig.expect_leave();
    assert_eq!(rig.expect_join().1.member_id, "");
}

#[test]
fn leaving_from_inside_a_callback_waits_for_its_end() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0)]);
    rig.heartbeat(ErrorCode::RebalanceInProgress);
    assert_eq!(rig.member.poll_event(), Some(revoked(&[("t", 0)])));
    rig.member.leave(rig.now, Leave::Default);
    rig.expect_no_call();
    rig.member.handle_event_done(rig.now);
    // The application got that event: no second time.
    assert_eq!(rig.tell(), None);
    rig.expect_leave();
}

#[test]
fn errors_that_were_not_polled_are_dropped_on_leave() {
    let mut rig = Rig::eager();
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_join();
    rig.refuse_join(call, ErrorCode::GroupAuthorizationFailed);
    rig.member.leave(rig.now, Leave::Default);
    assert_eq!(rig.tell(), None);
}

#[test]
fn old_versions_name_the_member_in_another_field() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[]);
    rig.member.leave(rig.now, Leave::Default);
    let call = rig.expect_call();
    assert_eq!(call.min_version, 0);
    let MemberRequest::Leave(request) = call.request else {
        unreachable!()
    };
    let expected = LeaveGroupRequest {
        group_id: "group".into(),
        member_id: "me".into(),
        ..Default::default()
    };
    assert_eq!(request.for_version(2), expected);
}

#[test]
fn a_member_moves_between_threads() {
    fn is_send<T: Send>() {}
    is_send::<Member>();
}
