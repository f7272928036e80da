//! The cooperative protocol: members keep their partitions.

use milena_machines::assign::decode_subscription;
use milena_wire::errors::ErrorCode;

use super::rig::*;

#[test]
fn a_join_that_gives_nothing_back_does_not_wait_for_the_application() {
    let mut rig = Rig::cooperative();
    rig.settle(&["t"], &[("t", 0), ("t", 1)]);
    rig.heartbeat(ErrorCode::RebalanceInProgress);
    let (_, join) = rig.expect_join();
    let subscription = decode_subscription("me".into(), None, &join.protocols[0].metadata).unwrap();
    assert_eq!(subscription.owned, places(&[("t", 0), ("t", 1)]));
    assert_eq!(subscription.generation, 1);
    assert_eq!(rig.tell(), None);
    assert_eq!(rig.member.owned().len(), 2);
}

#[test]
fn only_partitions_of_topics_that_are_no_longer_wanted_are_revoked_before_the_join() {
    let mut rig = Rig::cooperative();
    rig.settle(&["t", "u"], &[("t", 0), ("u", 0)]);
    rig.subscribe(&["u"]);
    rig.expect_no_call();
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
    let (_, join) = rig.expect_join();
    let subscription = decode_subscription("me".into(), None, &join.protocols[0].metadata).unwrap();
    assert_eq!(subscription.owned, places(&[("u", 0)]));
}

#[test]
fn after_the_sync_revoked_comes_first_then_assigned_then_another_join() {
    let mut rig = Rig::cooperative();
    rig.settle(&["t"], &[("t", 0), ("t", 1), ("t", 2)]);
    rig.heartbeat(ErrorCode::RebalanceInProgress);
    rig.rebalance(2, &[("t", 0), ("t", 3)]);
    rig.expect_no_call();
    let event = rig.member.poll_event();
    assert_eq!(event, Some(revoked(&[("t", 1), ("t", 2)])));
    assert!(
        matches!(rig.member.membership(), milena_machines::member::Membership::Member { identity, .. } if identity.generation == 2)
    );
    rig.expect_no_call();
    rig.member.handle_event_done(rig.now);
    rig.expect_no_call();
    assert_eq!(rig.tell(), Some(assigned(&[("t", 3)], &[("t", 0), ("t", 3)])));
    let join = rig.rebalance(3, &[("t", 0), ("t", 3)]);
    assert_eq!(join.reason.as_deref(), Some("need to revoke partitions and re-join"));
    // `Assigned` comes even if nothing is new; `Revoked` does not come without partitions.
    assert_eq!(rig.tell(), Some(assigned(&[], &[("t", 0), ("t", 3)])));
    assert_eq!(rig.tell(), None);
    rig.expect_no_call();
}

#[test]
fn a_generation_that_is_lost_while_partitions_are_revoked_is_lost_with_the_rest() {
    let mut rig = Rig::cooperative();
    rig.settle(&["t"], &[("t", 0), ("t", 1)]);
    rig.heartbeat(ErrorCode::RebalanceInProgress);
    rig.rebalance(2, &[("t", 0), ("t", 2)]);
    assert_eq!(rig.member.poll_event(), Some(revoked(&[("t", 1)])));
    rig.heartbeat(ErrorCode::UnknownMemberId);
    rig.member.handle_event_done(rig.now);
    assert_eq!(rig.tell(), Some(lost(&[("t", 0)])));
    assert_eq!(rig.tell(), None);
    assert_eq!(rig.expect_join().1.member_id, "");
}

#[test]
fn an_unknown_member_id_in_the_join_response_loses_kept_partitions() {
    let mut rig = Rig::cooperative();
    rig.settle(&["t"], &[("t", 0)]);
    rig.heartbeat(ErrorCode::RebalanceInProgress);
    let (call, _) = rig.expect_join();
    rig.refuse_join(call, ErrorCode::UnknownMemberId);
    rig.expect_no_call();
    assert_eq!(rig.tell(), Some(lost(&[("t", 0)])));
    rig.expect_join();
}

#[test]
fn an_assignment_that_does_not_match_changes_nothing() {
    let mut rig = Rig::cooperative();
    rig.settle(&["t", "u"], &[("t", 0)]);
    rig.heartbeat(ErrorCode::RebalanceInProgress);
    let (call, _) = rig.expect_join();
    rig.subscribe(&["t"]);
    rig.respond_join(call, 2, "other");
    let (call, _) = rig.expect_sync();
    rig.respond_sync(call, &[("t", 1), ("u", 0)]);
    assert_eq!(rig.tell(), None);
    let (_, join) = rig.expect_join();
    let subscription = decode_subscription("me".into(), None, &join.protocols[0].metadata).unwrap();
    assert_eq!(subscription.owned, places(&[("t", 0)]));
    assert_eq!(
        join.reason.as_deref(),
        Some("received assignment does not match the current subscription")
    );
}

#[test]
fn an_application_that_does_not_poll_stops_joining_too() {
    let mut rig = Rig::cooperative();
    rig.settle(&["t"], &[("t", 0)]);
    rig.heartbeat(ErrorCode::RebalanceInProgress);
    let (call, _) = rig.expect_join();
    rig.pass(MAX_POLL_MS);
    rig.expect_leave();
    rig.respond_join(call, 2, "other");
    rig.expect_no_call();
    rig.poll();
    assert_eq!(rig.tell(), Some(lost(&[("t", 0)])));
    assert_eq!(rig.expect_join().1.member_id, "");
}
