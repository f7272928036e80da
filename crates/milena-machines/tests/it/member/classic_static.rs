//! Static members of the classic protocol.

use milena_machines::member::{Leave, MemberError, MemberEvent};
use milena_wire::errors::ErrorCode;

use super::rig::*;

#[test]
fn every_request_names_the_instance() {
    let mut rig = Rig::of_instance(eager());
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, join) = rig.expect_join();
    assert_eq!(join.group_instance_id.as_deref(), Some("instance"));
    rig.respond_join(call, 1, "other");
    let (call, sync) = rig.expect_sync();
    assert_eq!(sync.group_instance_id.as_deref(), Some("instance"));
    rig.respond_sync(call, &[]);
    rig.pass(HEARTBEAT_MS);
    assert_eq!(rig.expect_heartbeat().1.group_instance_id.as_deref(), Some("instance"));
    assert_eq!(rig.member.identity().instance_id.as_deref(), Some("instance"));
}

#[test]
fn a_fenced_instance_loses_all_and_does_nothing_more() {
    let mut rig = Rig::of_instance(eager());
    rig.settle(&["t"], &[("t", 0)]);
    rig.heartbeat(ErrorCode::FencedInstanceId);
    rig.poll();
    assert_eq!(rig.tell(), Some(lost(&[("t", 0)])));
    let error = MemberError::FencedInstance {
        instance_id: "instance".into(),
    };
    assert_eq!(rig.tell(), Some(MemberEvent::Fatal(error.clone())));
    assert_eq!(rig.tell(), None);
    rig.pass(10 * MAX_POLL_MS);
    rig.expect_no_call();
    assert_eq!(rig.member.failure(), Some(&error));
    // The application may subscribe again.
    rig.member.leave(rig.now, Leave::Default);
    rig.expect_no_call();
    assert!(rig.member.is_gone());
    rig.subscribe(&["t"]);
    rig.poll();
    rig.expect_join();
}

#[test]
fn fencing_is_final_in_join_and_sync_responses_too() {
    let mut rig = Rig::of_instance(eager());
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_join();
    rig.refuse_join(call, ErrorCode::FencedInstanceId);
    assert!(matches!(rig.tell(), Some(MemberEvent::Fatal(_))));
    let mut rig = Rig::of_instance(eager());
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_join();
    rig.respond_join(call, 1, "other");
    let (call, _) = rig.expect_sync();
    rig.refuse_sync(call, ErrorCode::FencedInstanceId);
    assert!(matches!(rig.tell(), Some(MemberEvent::Fatal(_))));
}

#[test]
fn a_static_member_that_does_not_poll_says_nothing_but_is_silent() {
    let mut rig = Rig::of_instance(eager());
    rig.settle(&["t"], &[("t", 0)]);
    rig.pass(MAX_POLL_MS);
    rig.expect_no_call();
    rig.pass(HEARTBEAT_MS);
    rig.expect_no_call();
    rig.poll();
    assert_eq!(rig.tell(), Some(lost(&[("t", 0)])));
    assert_eq!(rig.expect_join().1.member_id, "");
}
