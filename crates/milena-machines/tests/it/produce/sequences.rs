//! Sequence numbers, producer ids and epochs.

use milena_machines::{
    member::CallFailure,
    produce::{BatchCause, ProducePartitionResponse, SenderConfig, SenderEvent, WriteStatus},
};
use milena_wire::errors::ErrorCode;

use super::rig::{PRODUCER_ID, Rig, config, stamp};

#[test]
fn sequences_begin_at_zero_in_each_partition_and_count_records() {
    let mut rig = Rig::new();
    let slots = [rig.slot(0), rig.slot(1)];
    for sequence in [0, 3, 6] {
        for slot in slots {
            rig.push(slot, 3);
        }
        let call = rig.produce();
        for sent in &call.batches {
            assert_eq!(sent.stamp, stamp(0, sequence));
        }
        assert_eq!((call.version_min, call.version_max), (3, None));
        rig.ack(&call, i64::from(sequence));
    }
}

#[test]
fn after_the_last_sequence_comes_zero() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    rig.push(slot, i32::MAX as u32 - 1);
    let call = rig.produce();
    rig.ack(&call, 0);
    for (records, sequence) in [(4, i32::MAX - 1), (1, 2)] {
        rig.push(slot, records);
        let call = rig.produce();
        assert_eq!(call.batches[0].stamp, stamp(0, sequence));
        rig.ack(&call, 0);
    }
}

#[test]
fn a_repeated_batch_keeps_its_numbers() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    let batch = rig.push(slot, 2);
    for failure in [CallFailure::Disconnected, CallFailure::TimedOut, CallFailure::NotSent] {
        let call = rig.produce_only(batch);
        assert_eq!(call.batches[0].stamp, stamp(0, 0));
        rig.fail(&call, failure);
        rig.wait();
    }
    let call = rig.produce_only(batch);
    assert_eq!(call.batches[0].stamp, stamp(0, 0));
    rig.ack(&call, 9);
    assert_eq!(rig.outcomes(), [(batch, Ok(Some(9)))]);
}

#[test]
fn a_duplicate_is_a_success_whose_offset_is_not_known() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    let batch = rig.push(slot, 2);
    let call = rig.produce();
    rig.lose(&call);
    rig.wait();
    let call = rig.produce();
    rig.respond(&call, ErrorCode::DuplicateSequenceNumber, 5, -1);
    assert_eq!(rig.outcomes(), [(batch, Ok(None))]);
    rig.push(slot, 1);
    assert_eq!(rig.produce().batches[0].stamp, stamp(0, 2));
}

#[test]
fn the_second_batch_of_a_producer_waits_for_the_first() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    let [first, second] = [rig.push(slot, 1), rig.push(slot, 1)];
    let call = rig.produce_only(first);
    // A broker without state of the producer would take the second one as the first.
    rig.nothing_to_produce();
    rig.refuse(&call, ErrorCode::NotEnoughReplicas);
    rig.nothing_to_produce();
    rig.wait();
    let call = rig.produce_only(first);
    rig.ack(&call, 0);
    rig.produce_only(second);
}

#[test]
fn a_batch_that_is_out_of_order_because_of_an_earlier_one_goes_again() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    rig.ack(&call, 0);
    let [first, second] = [rig.push(slot, 1), rig.push(slot, 1)];
    let calls = [rig.produce_only(first), rig.produce_only(second)];
    rig.refuse(&calls[1], ErrorCode::OutOfOrderSequenceNumber);
    // The first is written by now: that does not tell how it was when the second was checked.
    rig.ack(&calls[0], 1);
    rig.wait();
    assert_eq!(rig.produce_only(second).batches[0].stamp, stamp(0, 2));
}

#[test]
fn a_gap_that_the_broker_sees_renews_the_numbers_in_the_next_epoch() {
    let mut rig = Rig::new();
    let [slot, other] = [rig.slot(0), rig.slot(1)];
    for slot in [slot, other] {
        rig.push(slot, 2);
    }
    let call = rig.produce();
    rig.ack(&call, 0);
    let _quiet = rig.outcomes();
    let [first, second] = [rig.push(slot, 1), rig.push(slot, 1)];
    let elsewhere = rig.push(other, 1);
    let call = rig.produce();
    let behind = rig.produce_only(second);
    // The log lost acknowledged records: the batches were certainly refused, so they get new numbers.
    let responses = call.batches.iter().map(|sent| ProducePartitionResponse {
        slot: sent.slot,
        error: if sent.slot == slot {
            ErrorCode::OutOfOrderSequenceNumber
        } else {
            ErrorCode::NotLeaderOrFollower
        },
        base_offset: -1,
        log_append_time_ms: -1,
        log_start_offset: -1,
    });
    let responses: Vec<ProducePartitionResponse> = responses.collect();
    rig.sender.handle_produce_response(rig.now, call.id, Ok(&responses));
    rig.wait();
    assert!(!rig.sender.wants_batch(slot), "numbers are being renewed");
    rig.assert_producer(PRODUCER_ID, 0);
    // Batches of other partitions that were sent keep their numbers.
    let call = rig.produce_only(elsewhere);
    assert_eq!(call.batches[0].stamp, stamp(0, 2));
    rig.refuse(&behind, ErrorCode::OutOfOrderSequenceNumber);
    rig.assert_producer(PRODUCER_ID, 1);
    rig.wait();
    let again = rig.produce_only(first);
    assert_eq!(again.batches[0].stamp, stamp(1, 0));
    // A new batch of another partition begins the new epoch there, after the old one is done.
    let later = rig.push(other, 1);
    rig.nothing_to_produce();
    rig.ack(&call, 2);
    assert_eq!(rig.produce_only(later).batches[0].stamp, stamp(1, 0));
    rig.ack(&again, 5);
    assert_eq!(rig.produce_only(second).batches[0].stamp, stamp(1, 1));
}

#[test]
fn what_may_be_written_never_gets_new_numbers() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    rig.push(slot, 2);
    let call = rig.produce();
    rig.ack(&call, 0);
    let _quiet = rig.outcomes();
    let [first, second] = [rig.push(slot, 1), rig.push(slot, 1)];
    let call = rig.produce_only(first);
    rig.lose(&call);
    rig.wait();
    let call = rig.produce_only(first);
    rig.refuse(&call, ErrorCode::OutOfOrderSequenceNumber);
    assert_eq!(rig.outcomes(), [(first, Err(WriteStatus::MayBeWritten))]);
    assert_eq!(rig.produce_only(second).batches[0].stamp, stamp(1, 0));
}

#[test]
fn a_producer_that_the_broker_has_forgotten_begins_anew() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    let batch = rig.push(slot, 2);
    let call = rig.produce();
    // The log start offset is not known: nothing follows from that.
    rig.respond(&call, ErrorCode::UnknownProducerId, -1, -1);
    rig.wait();
    let call = rig.produce_only(batch);
    assert_eq!(call.batches[0].stamp, stamp(0, 0));
    rig.respond(&call, ErrorCode::UnknownProducerId, -1, 100);
    rig.wait();
    assert_eq!(rig.produce_only(batch).batches[0].stamp, stamp(1, 0));
}

#[test]
fn a_refused_batch_leaves_a_gap_that_the_next_epoch_closes() {
    for error in [ErrorCode::InvalidRecord, ErrorCode::InvalidProducerEpoch] {
        let mut rig = Rig::new();
        let slot = rig.slot(0);
        rig.push(slot, 2);
        let call = rig.produce();
        rig.ack(&call, 0);
        let _quiet = rig.outcomes();
        let [bad, good] = [rig.push(slot, 1), rig.push(slot, 1)];
        let calls = [rig.produce_only(bad), rig.produce_only(good)];
        rig.refuse(&calls[0], error);
        assert_eq!(rig.outcomes(), [(bad, Err(WriteStatus::NotWritten))]);
        rig.wait();
        rig.nothing_to_produce();
        rig.refuse(&calls[1], ErrorCode::OutOfOrderSequenceNumber);
        rig.wait();
        assert_eq!(rig.produce_only(good).batches[0].stamp, stamp(1, 0));
    }
}

#[test]
fn after_the_last_epoch_comes_another_producer_id() {
    let mut rig = Rig::with_epoch(config(), i16::MAX);
    let slot = rig.slot(0);
    let [bad, good] = [rig.push(slot, 1), rig.push(slot, 1)];
    let call = rig.produce_only(bad);
    rig.refuse(&call, ErrorCode::InvalidRecord);
    rig.nothing_to_produce();
    let request = rig.respond_init(8, 0);
    assert_eq!((request.producer_id, request.producer_epoch), (-1, -1));
    let call = rig.produce_only(good);
    assert_eq!(
        (call.batches[0].stamp.producer_id, call.batches[0].stamp.producer_epoch),
        (8, 0)
    );
}

#[test]
fn a_fenced_producer_sends_nothing_more() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    let [first, second] = [rig.push(slot, 1), rig.push(slot, 1)];
    let call = rig.produce_only(first);
    rig.refuse(&call, ErrorCode::ProducerFenced);
    let outcomes = rig.outcomes();
    assert_eq!(
        outcomes,
        [
            (first, Err(WriteStatus::NotWritten)),
            (second, Err(WriteStatus::NotWritten))
        ]
    );
    assert!(rig.sender.check_send().is_err());
    let late = rig.push(slot, 1);
    assert_eq!(rig.outcomes(), [(late, Err(WriteStatus::NotWritten))]);
    rig.nothing_to_produce();
    rig.nothing_to_call();
}

#[test]
fn a_producer_that_may_not_have_an_id_asks_again() {
    let mut rig = Rig::with(config());
    let slot = rig.slot(0);
    let batch = rig.push(slot, 1);
    let call = rig.call();
    rig.reply_error(&call, ErrorCode::ClusterAuthorizationFailed);
    assert_eq!(rig.outcomes(), [(batch, Err(WriteStatus::NotWritten))]);
    rig.nothing_to_call();
    rig.wait();
    let call = rig.call();
    rig.lose_call(&call);
    rig.wait();
    rig.respond_init(PRODUCER_ID, 0);
    rig.push(slot, 1);
    assert_eq!(rig.produce().batches[0].stamp, stamp(0, 0));
}

#[test]
fn a_batch_that_is_too_large_is_split_and_its_parts_share_its_numbers() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    rig.ack(&call, 0);
    let _quiet = rig.outcomes();
    let [large, next] = [rig.push(slot, 5), rig.push(slot, 1)];
    let calls = [rig.produce_only(large), rig.produce_only(next)];
    rig.refuse(&calls[0], ErrorCode::MessageTooLarge);
    assert_eq!(rig.events(), [SenderEvent::Split { batch: large, slot }]);
    rig.refuse(&calls[1], ErrorCode::OutOfOrderSequenceNumber);
    rig.wait();
    rig.nothing_to_produce();
    let parts = [rig.new_batch(2), rig.new_batch(3)];
    rig.sender.push_split(rig.now, slot, large, &parts);
    for (id, sequence) in [(parts[0].id, 1), (parts[1].id, 3), (next, 6)] {
        let call = rig.produce_only(id);
        assert_eq!(call.batches[0].stamp, stamp(0, sequence));
        rig.ack(&call, i64::from(sequence));
        assert_eq!(rig.outcomes(), [(id, Ok(Some(i64::from(sequence))))]);
    }
}

#[test]
fn a_record_that_is_too_large_fails() {
    let mut rig = Rig::with_epoch(SenderConfig { ..config() }, 0);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    rig.refuse(&call, ErrorCode::MessageTooLarge);
    let errors = rig.errors();
    assert_eq!(errors[0].cause, BatchCause::Refused(ErrorCode::MessageTooLarge));
    assert_eq!(errors[0].status, WriteStatus::NotWritten);
}
