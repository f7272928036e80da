//! Batches over their delivery timeout.

use milena_machines::{
    member::{CallCause, CallFailure},
    produce::{BatchCause, SenderConfig, WriteStatus},
};
use milena_wire::errors::ErrorCode;

use super::rig::{DELIVERY_MS, PRODUCER_ID, Rig, config, stamp};

#[test]
fn a_batch_that_never_left_is_not_written() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    rig.sender.handle_leader(rig.now, slot, None);
    let batch = rig.push(slot, 1);
    assert_eq!(rig.sender.poll_timeout(), Some(rig.now + DELIVERY_MS));
    rig.pass(DELIVERY_MS);
    assert_eq!(rig.outcomes(), [(batch, Err(WriteStatus::NotWritten))]);
    assert!(!rig.sender.has_batches());
    rig.assert_producer(PRODUCER_ID, 0);
    assert_eq!(rig.sender.poll_timeout(), None);
}

#[test]
fn a_batch_in_flight_may_be_written() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    let batch = rig.push(slot, 1);
    let call = rig.produce();
    rig.pass(DELIVERY_MS);
    assert_eq!(rig.outcomes(), [(batch, Err(WriteStatus::MayBeWritten))]);
    rig.ack(&call, 0);
    assert_eq!(rig.outcomes(), []);
}

#[test]
fn a_batch_that_was_surely_refused_is_not_written() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    rig.refuse(&call, ErrorCode::NotEnoughReplicas);
    rig.pass(DELIVERY_MS);
    let errors = rig.errors();
    assert_eq!(errors[0].status, WriteStatus::NotWritten);
    let last_cause = Some(CallCause::Error(ErrorCode::NotEnoughReplicas));
    assert_eq!(errors[0].cause, BatchCause::TimedOut { last_cause });
}

#[test]
fn a_batch_without_a_response_may_be_written() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    rig.fail(&call, CallFailure::TimedOut);
    rig.pass(DELIVERY_MS);
    assert_eq!(rig.errors()[0].status, WriteStatus::MayBeWritten);
}

#[test]
fn a_batch_that_found_no_connection_is_not_written() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    rig.fail(&call, CallFailure::NotSent);
    rig.pass(DELIVERY_MS);
    assert_eq!(rig.errors()[0].status, WriteStatus::NotWritten);
}

/// A sender with a batch of two records that expired in doubt, and another behind it that was sent.
fn unresolved() -> (
    Rig,
    milena_machines::produce::Slot,
    [milena_machines::produce::ProduceCall; 2],
) {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    rig.ack(&call, 0);
    rig.push(slot, 2);
    let expiring = rig.produce();
    rig.pass(DELIVERY_MS / 2);
    rig.push(slot, 1);
    let behind = rig.produce();
    rig.pass(DELIVERY_MS / 2);
    let outcomes = rig.outcomes();
    assert_eq!(outcomes[1].1, Err(WriteStatus::MayBeWritten));
    (rig, slot, [expiring, behind])
}

#[test]
fn while_the_fate_of_a_batch_is_unknown_no_other_gets_numbers() {
    let (mut rig, slot, [expiring, behind]) = unresolved();
    let next = rig.push(slot, 1);
    rig.nothing_to_produce();
    assert!(!rig.sender.wants_batch(slot));
    // The one behind it was accepted: so it was written.
    rig.ack(&behind, 3);
    let call = rig.produce_only(next);
    assert_eq!(call.batches[0].stamp, stamp(0, 4));
    rig.lose(&expiring);
    rig.assert_producer(PRODUCER_ID, 0);
}

#[test]
fn a_late_response_settles_the_gap_too() {
    let (mut rig, slot, [expiring, _behind]) = unresolved();
    let next = rig.push(slot, 1);
    rig.nothing_to_produce();
    rig.ack(&expiring, 1);
    assert_eq!(rig.produce_only(next).batches[0].stamp, stamp(0, 4));
}

#[test]
fn if_the_next_batch_does_not_fit_the_lost_one_was_not_written() {
    let (mut rig, slot, [expiring, behind]) = unresolved();
    let next = rig.push(slot, 1);
    rig.lose(&expiring);
    rig.refuse(&behind, ErrorCode::OutOfOrderSequenceNumber);
    rig.wait();
    // It was checked while the other was in flight. Now it is the first.
    let again = rig.produce();
    assert_eq!(again.batches[0].stamp, stamp(0, 3));
    rig.refuse(&again, ErrorCode::OutOfOrderSequenceNumber);
    rig.assert_producer(PRODUCER_ID, 1);
    rig.wait();
    let again = rig.produce();
    assert_eq!(again.batches[0].stamp, stamp(1, 0));
    rig.ack(&again, 1);
    assert_eq!(rig.produce_only(next).batches[0].stamp, stamp(1, 1));
}

#[test]
fn if_nothing_is_behind_the_next_epoch_comes_once_nothing_is_in_flight() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    rig.push(slot, 2);
    let call = rig.produce();
    rig.pass(DELIVERY_MS);
    let next = rig.push(slot, 1);
    rig.nothing_to_produce();
    rig.lose(&call);
    rig.assert_producer(PRODUCER_ID, 1);
    assert_eq!(rig.produce_only(next).batches[0].stamp, stamp(1, 0));
}

#[test]
fn without_idempotence_an_expired_batch_is_just_gone() {
    let mut rig = Rig::with(SenderConfig {
        acks: 1,
        idempotent: false,
        ..config()
    });
    let slot = rig.slot(0);
    let first = rig.push(slot, 1);
    let call = rig.produce();
    rig.pass(DELIVERY_MS);
    assert_eq!(rig.outcomes(), [(first, Err(WriteStatus::MayBeWritten))]);
    let second = rig.push(slot, 1);
    rig.produce_only(second);
    rig.lose(&call);
}

#[test]
fn the_parts_of_a_batch_expire_when_it_would_have() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    let large = rig.push(slot, 2);
    let call = rig.produce();
    rig.refuse(&call, ErrorCode::MessageTooLarge);
    rig.pass(DELIVERY_MS);
    let parts = [rig.new_batch(1), rig.new_batch(1)];
    rig.sender.push_split(rig.now, slot, large, &parts);
    assert_eq!(rig.sender.poll_timeout(), None);
    assert_eq!(
        rig.outcomes(),
        parts.map(|part| (part.id, Err(WriteStatus::NotWritten)))
    );
}
