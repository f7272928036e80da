//! Reconciliation with the targets of the broker.

use milena_machines::member::CallFailure;
use milena_wire::{Uuid, errors::ErrorCode};

use super::rig::*;

/// The next heartbeat response has another target.
#[track_caller]
fn aim(rig: &mut Rig, epoch: i32, target: &[(&str, i32)]) {
    rig.pass(5_000);
    let (call, _) = rig.expect_modern();
    rig.respond_consumer(call, epoch, Some(target));
}

#[track_caller]
fn expect_acknowledged(rig: &mut Rig, epoch: i32, owned: &[(&str, i32)]) {
    let (call, heartbeat) = rig.expect_modern();
    assert_eq!(heartbeat.member_epoch, epoch);
    let told = heartbeat
        .topic_partitions
        .expect("what is owned is not told")
        .into_iter();
    let told = told.flat_map(|topic| {
        topic
            .partitions
            .into_iter()
            .map(move |partition| (topic.topic_id, partition))
    });
    let mut told: Vec<(Uuid, i32)> = told.collect();
    let mut owned: Vec<(Uuid, i32)> = owned
        .iter()
        .map(|(topic, partition)| (topic_id(topic), *partition))
        .collect();
    told.sort();
    owned.sort();
    assert_eq!(told, owned);
    rig.respond_consumer(call, epoch, None);
}

#[test]
fn the_first_assignment_is_an_event_even_if_it_is_empty() {
    let mut rig = Rig::consumer();
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_modern();
    rig.respond_consumer(call, 1, Some(&[]));
    assert_eq!(rig.tell(), Some(assigned(&[], &[])));
    expect_acknowledged(&mut rig, 1, &[]);
    assert_eq!(rig.tell(), None);
}

#[test]
fn first_revoked_then_assigned_then_the_broker_hears_of_it() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t", "u"], &[("t", 0), ("t", 1)]);
    aim(&mut rig, 2, &[("t", 1), ("u", 0)]);
    // Nothing happens without the application, and heartbeats do not report partitions before it has them.
    rig.pass(5_000);
    let (call, heartbeat) = rig.expect_modern();
    assert_eq!(heartbeat.topic_partitions, None);
    rig.respond_consumer(call, 2, None);
    rig.expect_no_call();
    assert_eq!(rig.member.poll_event(), Some(revoked(&[("t", 0)])));
    assert_eq!(rig.member.owned().len(), 2);
    rig.pass(5_000);
    let (call, heartbeat) = rig.expect_modern();
    assert_eq!(heartbeat.topic_partitions, None);
    rig.respond_consumer(call, 2, None);
    rig.member.handle_event_done(rig.now);
    rig.expect_no_call();
    assert_eq!(
        rig.member.poll_event(),
        Some(assigned(&[("u", 0)], &[("t", 1), ("u", 0)]))
    );
    rig.expect_no_call();
    rig.member.handle_event_done(rig.now);
    expect_acknowledged(&mut rig, 2, &[("t", 1), ("u", 0)]);
    assert_eq!(rig.tell(), None);
    rig.expect_no_call();
}

#[test]
fn others_need_not_wait_until_the_application_has_taken_over_what_is_new() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0), ("t", 1)]);
    aim(&mut rig, 2, &[("t", 1), ("t", 2)]);
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
    assert_eq!(
        rig.member.poll_event(),
        Some(assigned(&[("t", 2)], &[("t", 1), ("t", 2)]))
    );
    rig.pass(5_000);
    expect_acknowledged(&mut rig, 2, &[("t", 1), ("t", 2)]);
}

#[test]
fn no_assignment_means_no_change_and_an_empty_one_takes_all() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0)]);
    rig.pass(5_000);
    let (call, _) = rig.expect_modern();
    rig.respond_consumer(call, 2, None);
    assert_eq!(rig.tell(), None);
    aim(&mut rig, 3, &[]);
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
    assert_eq!(rig.tell(), Some(assigned(&[], &[])));
    expect_acknowledged(&mut rig, 3, &[]);
}

#[test]
fn the_same_assignment_again_changes_nothing() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0)]);
    aim(&mut rig, 2, &[("t", 0)]);
    assert_eq!(rig.tell(), None);
    rig.expect_no_call();
}

/// Found by the simulator: the broker waited for the revocation of a partition until it fenced the member.
#[test]
fn a_target_that_goes_back_to_what_is_owned_is_acknowledged() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0)]);
    aim(&mut rig, 2, &[("t", 0), ("t", 1)]);
    aim(&mut rig, 2, &[("t", 0)]);
    rig.expect_no_call();
    assert_eq!(rig.tell(), None);
    expect_acknowledged(&mut rig, 2, &[("t", 0)]);
    assert_eq!(rig.tell(), None);
    rig.expect_no_call();
}

#[test]
fn topics_without_a_name_wait_and_the_others_do_not() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0)]);
    aim(&mut rig, 2, &[("t", 1), ("new", 0)]);
    assert_eq!(
        rig.member.metadata_needed().unwrap().topic_ids,
        [topic_id("new")].into()
    );
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
    assert_eq!(rig.tell(), Some(assigned(&[("t", 1)], &[("t", 1)])));
    expect_acknowledged(&mut rig, 2, &[("t", 1)]);
    assert_eq!(rig.tell(), None);
    rig.set_topic("new", 1);
    assert_eq!(rig.member.metadata_needed(), None);
    assert_eq!(rig.tell(), Some(assigned(&[("new", 0)], &[("new", 0), ("t", 1)])));
    expect_acknowledged(&mut rig, 2, &[("t", 1), ("new", 0)]);
}

#[test]
fn a_target_of_which_nothing_new_has_a_name_is_acknowledged_once() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0)]);
    aim(&mut rig, 2, &[("t", 0), ("new", 0)]);
    rig.expect_no_call();
    assert_eq!(rig.tell(), None);
    expect_acknowledged(&mut rig, 2, &[("t", 0)]);
    assert_eq!(rig.tell(), None);
    rig.expect_no_call();
}

/// Found by the simulator: the broker took the heartbeat as the revocation of the new partition.
#[test]
fn nothing_new_is_taken_while_a_report_without_it_is_in_flight() {
    let mut rig = Rig::consumer();
    rig.set_topic("t", 9);
    rig.subscribe(&["t"]);
    rig.poll();
    let (call, _) = rig.expect_modern();
    rig.respond_consumer(call, 1, Some(&[]));
    rig.pass(5_000);
    let (call, _) = rig.expect_modern();
    assert_eq!(rig.tell(), Some(assigned(&[], &[])));
    rig.respond_consumer(call, 1, Some(&[("t", 0)]));
    // This reports that nothing is owned.
    let (call, heartbeat) = rig.expect_modern();
    assert_eq!(heartbeat.topic_partitions.as_deref(), Some(&[][..]));
    assert_eq!(rig.tell(), None);
    // Nor is it if the broker may not have seen it.
    rig.fail(call, CallFailure::Disconnected);
    assert_eq!(rig.tell(), None);
    rig.pass(BACKOFF_MS);
    let (call, _) = rig.expect_modern();
    assert_eq!(rig.tell(), None);
    rig.respond_consumer(call, 1, Some(&[("t", 0)]));
    assert_eq!(rig.tell(), Some(assigned(&[("t", 0)], &[("t", 0)])));
}

#[test]
fn partitions_being_taken_are_in_a_full_report() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0)]);
    aim(&mut rig, 2, &[("t", 0), ("t", 1)]);
    rig.pass(5_000);
    let (call, _) = rig.expect_modern();
    assert_eq!(
        rig.member.poll_event(),
        Some(assigned(&[("t", 1)], &[("t", 0), ("t", 1)]))
    );
    rig.respond_consumer(call, 2, None);
    rig.pass(5_000);
    let (call, heartbeat) = rig.expect_modern();
    assert_eq!(heartbeat.topic_partitions, None);
    rig.fail(call, CallFailure::TimedOut);
    rig.pass(BACKOFF_MS);
    expect_acknowledged(&mut rig, 2, &[("t", 0), ("t", 1)]);
}

#[test]
fn a_topic_that_was_made_anew_is_another_topic() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0)]);
    let anew = Uuid::from_bytes([9; 16]);
    rig.recreate_topic("t", anew);
    rig.pass(5_000);
    let (call, _) = rig.expect_modern();
    rig.respond_consumer_by_id(call, 2, Some(vec![(anew, 0)]));
    assert_eq!(rig.tell(), Some(revoked(&[("t", 0)])));
    assert_eq!(rig.tell(), Some(assigned(&[("t", 0)], &[("t", 0)])));
    let (_, heartbeat) = rig.expect_modern();
    let told = heartbeat.topic_partitions.unwrap();
    assert_eq!((told.len(), told[0].topic_id), (1, anew));
}

#[test]
fn a_newer_target_takes_the_place_of_one_that_is_not_reached() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0), ("t", 1)]);
    aim(&mut rig, 2, &[("t", 1), ("t", 2)]);
    assert_eq!(rig.member.poll_event(), Some(revoked(&[("t", 0)])));
    aim(&mut rig, 3, &[("t", 3)]);
    rig.member.handle_event_done(rig.now);
    assert_eq!(rig.tell(), Some(revoked(&[("t", 1)])));
    assert_eq!(rig.tell(), Some(assigned(&[("t", 3)], &[("t", 3)])));
    expect_acknowledged(&mut rig, 3, &[("t", 3)]);
}

#[test]
fn a_member_fenced_in_the_middle_loses_the_rest() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0), ("t", 1)]);
    aim(&mut rig, 2, &[("t", 1), ("t", 2)]);
    assert_eq!(rig.member.poll_event(), Some(revoked(&[("t", 0)])));
    rig.pass(5_000);
    let (call, _) = rig.expect_modern();
    rig.refuse_modern(call, ErrorCode::FencedMemberEpoch);
    rig.member.handle_event_done(rig.now);
    assert_eq!(rig.tell(), Some(lost(&[("t", 1)])));
    assert_eq!(rig.tell(), None);
    assert_eq!(rig.expect_modern().1.member_epoch, 0);
}

#[test]
fn a_member_fenced_while_taking_partitions_loses_them_and_acknowledges_nothing() {
    let mut rig = Rig::consumer();
    rig.settle_modern(&["t"], &[("t", 0)]);
    aim(&mut rig, 2, &[("t", 0), ("t", 1)]);
    assert_eq!(
        rig.member.poll_event(),
        Some(assigned(&[("t", 1)], &[("t", 0), ("t", 1)]))
    );
    rig.pass(5_000);
    let (call, _) = rig.expect_modern();
    rig.refuse_modern(call, ErrorCode::FencedMemberEpoch);
    rig.member.handle_event_done(rig.now);
    rig.expect_no_call();
    assert_eq!(rig.tell(), Some(lost(&[("t", 0), ("t", 1)])));
    assert_eq!(rig.expect_modern().1.topic_partitions.as_deref(), Some(&[][..]));
}
