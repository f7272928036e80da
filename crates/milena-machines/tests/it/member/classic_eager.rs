//! The eager protocol: all partitions are revoked before each join.

use milena_machines::{
    assign::decode_subscription,
    member::{MemberEvent, Membership, Subscription},
};
use milena_wire::{errors::ErrorCode, messages::SyncGroupResponse};
use regex::Regex;

use super::rig::*;

#[test]
fn a_rebalance_revokes_all_then_joins_then_assigns() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0), ("t", 1)]);
    assert!(matches!(rig.member.membership(), Membership::Member { .. }));
    rig.heartbeat(ErrorCode::RebalanceInProgress);
    // The application has not got the event: nothing happens without it, and heartbeats go on.
    rig.expect_no_call();
    rig.heartbeat(ErrorCode::RebalanceInProgress);
    let event = rig.member.poll_event();
    assert_eq!(event, Some(revoked(&[("t", 0), ("t", 1)])));
    // Commits work here, in the old generation.
    assert!(matches!(rig.member.membership(), Membership::Member { .. }));
    assert_eq!(rig.member.owned().len(), 2);
    rig.heartbeat(ErrorCode::RebalanceInProgress);
    rig.expect_no_call();
    rig.member.handle_event_done(rig.now);
    assert!(rig.member.owned().is_empty());
    let (call, join) = rig.expect_join();
    assert_eq!(join.reason.as_deref(), Some("group is already rebalancing"));
    assert_eq!(rig.member.membership(), Membership::Rebalancing);
    rig.respond_join(call, 2, "other");
    let (call, sync) = rig.expect_sync();
    assert_eq!(
        (sync.generation_id, &*sync.member_id, sync.assignments.len()),
        (2, "me", 0)
    );
    rig.respond_sync(call, &[("t", 1)]);
    assert_eq!(rig.tell(), Some(assigned(&[("t", 1)], &[("t", 1)])));
    assert_eq!(rig.member.identity().generation, 2);
    assert_eq!(rig.tell(), None);
}

#[test]
fn revoked_and_assigned_are_events_even_if_they_are_empty() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[]);
    rig.heartbeat(ErrorCode::RebalanceInProgress);
    assert_eq!(rig.tell(), Some(revoked(&[])));
    rig.rebalance(2, &[]);
    assert_eq!(rig.tell(), Some(assigned(&[], &[])));
}

#[test]
fn a_changed_subscription_joins_again() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0)]);
    rig.subscribe(&["t"]);
    assert_eq!(rig.tell(), None);
    rig.subscribe(&["t", "u"]);
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
    let join = rig.rebalance(2, &[("u", 0)]);
    assert_eq!(join.reason.as_deref(), Some("subscription has changed"));
    let subscription = decode_subscription("me".into(), None, &join.protocols[0].metadata).unwrap();
    assert_eq!(subscription.topics, ["t", "u"]);
    assert_eq!((subscription.owned, subscription.generation), (vec![], 1));
    assert_eq!(rig.tell(), Some(assigned(&[("u", 0)], &[("u", 0)])));
    rig.expect_no_call();
}

#[test]
fn an_assignment_that_does_not_match_the_subscription_is_ignored() {
    let mut rig = Rig::eager();
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_join();
    rig.subscribe(&["u"]);
    rig.respond_join(call, 1, "other");
    let (call, _) = rig.expect_sync();
    rig.respond_sync(call, &[("t", 0)]);
    // As with Kafka's client the next round begins with a revocation of nothing.
    assert_eq!(rig.tell(), Some(revoked(&[])));
    let join = rig.rebalance(2, &[("u", 0)]);
    assert_eq!(
        join.reason.as_deref(),
        Some("received assignment does not match the current subscription")
    );
    assert_eq!(rig.tell(), Some(assigned(&[("u", 0)], &[("u", 0)])));
}

#[test]
fn topics_that_only_the_leader_has_seen_become_part_of_a_pattern() {
    let mut rig = Rig::eager();
    let topics = names(&["t1"]);
    let pattern = Regex::new("^(?:t.*)$").unwrap();
    let filter = pattern.into();
    rig.member.subscribe(rig.now, Subscription::Matching { topics, filter });
    rig.poll();
    rig.rebalance(1, &[("t1", 0), ("t2", 0)]);
    let all = [("t1", 0), ("t2", 0)];
    assert_eq!(rig.tell(), Some(assigned(&all, &all)));
    assert_eq!(rig.tell(), None);
    rig.expect_no_call();
}

#[test]
fn the_same_subscription_is_always_the_same_bytes() {
    let mut joins = vec![];
    for topics in [["b", "a", "c"], ["c", "b", "a"]] {
        let mut rig = Rig::eager();
        rig.subscribe(&topics);
        rig.poll();
        joins.push(rig.expect_join().1.protocols);
    }
    assert_eq!(joins[0], joins[1]);
}

#[test]
fn the_assignor_hears_of_each_assignment() {
    let mut rig = Rig::eager();
    rig.settle(&["t"], &[("t", 0), ("t", 1)]);
    rig.member.enforce_rebalance("test");
    rig.tell();
    let (_, join) = rig.expect_join();
    let subscription = decode_subscription("me".into(), None, &join.protocols[0].metadata).unwrap();
    assert_eq!(subscription.user_data.as_deref(), Some(&b"2 in 1"[..]));
}

#[test]
fn whom_the_leader_forgot_has_nothing() {
    let mut rig = Rig::eager();
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_join();
    rig.respond_join(call, 1, "other");
    let (call, _) = rig.expect_sync();
    let response = milena_machines::member::MemberResponse::Sync(SyncGroupResponse::default());
    rig.respond(call, response);
    assert_eq!(rig.tell(), Some(assigned(&[], &[])));
}

#[test]
fn an_assignment_of_nonsense_is_an_error_and_then_a_rebalance() {
    let mut rig = Rig::eager();
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_join();
    rig.respond_join(call, 1, "other");
    let (call, _) = rig.expect_sync();
    let response = SyncGroupResponse {
        assignment: vec![0, 3, 0xff, 0xff, 0xff].into(),
        ..Default::default()
    };
    rig.respond(call, milena_machines::member::MemberResponse::Sync(response));
    assert!(matches!(rig.tell(), Some(MemberEvent::Error(_))));
    rig.pass(BACKOFF_MS);
    rig.expect_join();
}

#[test]
fn a_generation_that_was_reset_before_the_application_heard_of_it_is_forgotten() {
    let mut rig = Rig::eager();
    rig.subscribe(&["t"]);
    rig.poll();
    rig.rebalance(1, &[("t", 0)]);
    rig.heartbeat(ErrorCode::UnknownMemberId);
    assert_eq!(rig.tell(), None);
    rig.expect_join();
}

#[test]
fn a_loss_during_an_assignment_is_an_event_afterwards() {
    let mut rig = Rig::eager();
    rig.subscribe(&["t"]);
    rig.poll();
    rig.rebalance(1, &[("t", 0)]);
    assert_eq!(rig.member.poll_event(), Some(assigned(&[("t", 0)], &[("t", 0)])));
    rig.heartbeat(ErrorCode::UnknownMemberId);
    rig.expect_no_call();
    assert_eq!(rig.member.poll_event(), None);
    rig.member.handle_event_done(rig.now);
    rig.expect_no_call();
    assert_eq!(rig.tell(), Some(lost(&[("t", 0)])));
    rig.expect_join();
}
