//! Retries of batches, and the write status of those that failed.

use milena_machines::{
    member::CallFailure,
    produce::{BatchCause, SenderConfig, SenderEvent, WriteStatus},
};
use milena_wire::{api::ApiKey, errors::ErrorCode};

use super::rig::{Rig, config};

fn status_after(error: ErrorCode) -> WriteStatus {
    let mut rig = Rig::with_epoch(SenderConfig { retries: 0, ..config() }, 0);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    rig.respond(&call, error, -1, 0);
    rig.pass(super::rig::DELIVERY_MS);
    let errors = rig.errors();
    assert_eq!(errors.len(), 1);
    errors[0].status
}

#[test]
fn a_refusal_is_sure_only_if_it_comes_before_the_append() {
    for error in [
        ErrorCode::NotEnoughReplicas,
        ErrorCode::TopicAuthorizationFailed,
        ErrorCode::InvalidRecord,
        ErrorCode::CorruptMessage,
    ] {
        assert_eq!(status_after(error), WriteStatus::NotWritten, "{error}");
    }
    for error in [
        ErrorCode::RequestTimedOut,
        ErrorCode::NotEnoughReplicasAfterAppend,
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::KafkaStorageError,
        ErrorCode::UnknownServerError,
        ErrorCode::UnknownTopicOrPartition,
    ] {
        assert_eq!(status_after(error), WriteStatus::MayBeWritten, "{error}");
    }
}

#[test]
fn retriable_errors_are_retried_and_others_are_not() {
    for error in [
        ErrorCode::NotLeaderOrFollower,
        ErrorCode::RequestTimedOut,
        ErrorCode::CorruptMessage,
    ] {
        let mut rig = Rig::new();
        let slot = rig.slot(0);
        let batch = rig.push(slot, 1);
        let call = rig.produce();
        rig.refuse(&call, error);
        rig.wait();
        rig.produce_only(batch);
    }
    for error in [ErrorCode::TopicAuthorizationFailed, ErrorCode::UnknownServerError] {
        let mut rig = Rig::new();
        let slot = rig.slot(0);
        rig.push(slot, 1);
        let call = rig.produce();
        rig.refuse(&call, error);
        assert_eq!(rig.errors()[0].cause, BatchCause::Refused(error));
    }
}

#[test]
fn retries_have_a_limit() {
    let mut rig = Rig::with_epoch(SenderConfig { retries: 2, ..config() }, 0);
    let slot = rig.slot(0);
    let batch = rig.push(slot, 1);
    for _ in 0..3 {
        let call = rig.produce_only(batch);
        rig.refuse(&call, ErrorCode::NotEnoughReplicas);
        rig.wait();
    }
    let errors = rig.errors();
    assert_eq!(errors[0].cause, BatchCause::Refused(ErrorCode::NotEnoughReplicas));
    assert_eq!(errors[0].status, WriteStatus::NotWritten);
}

#[test]
fn a_sure_refusal_does_not_undo_an_earlier_doubt() {
    let mut rig = Rig::with_epoch(SenderConfig { retries: 1, ..config() }, 0);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    rig.lose(&call);
    rig.wait();
    let call = rig.produce();
    rig.refuse(&call, ErrorCode::NotEnoughReplicas);
    assert_eq!(rig.errors()[0].status, WriteStatus::MayBeWritten);
}

#[test]
fn waits_between_tries_grow() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let mut last = 0;
    for _ in 0..3 {
        let call = rig.produce();
        rig.refuse(&call, ErrorCode::NotEnoughReplicas);
        let next = rig.sender.poll_timeout().unwrap();
        assert!(next - rig.now > last);
        last = next - rig.now;
        rig.now = next - 1;
        rig.nothing_to_produce();
        rig.now = next;
    }
}

#[test]
fn a_broken_connection_and_an_old_leader_make_metadata_stale_once() {
    let mut rig = Rig::new();
    let slots = [rig.slot(0), rig.slot(1)];
    for slot in slots {
        rig.push(slot, 1);
    }
    let call = rig.produce();
    rig.refuse(&call, ErrorCode::NotLeaderOrFollower);
    assert_eq!(rig.events(), [SenderEvent::MetadataStale]);
    rig.wait();
    let call = rig.produce();
    rig.lose(&call);
    assert_eq!(rig.events(), [SenderEvent::MetadataStale]);
}

#[test]
fn a_broker_that_is_too_old_gets_nothing() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    let failure = CallFailure::Unsupported { api: ApiKey::Produce };
    rig.fail(&call, failure);
    let errors = rig.errors();
    assert_eq!(
        (&errors[0].cause, errors[0].status),
        (&BatchCause::NoResponse(failure), WriteStatus::NotWritten)
    );
}

#[test]
fn a_response_without_a_partition_is_none_for_it() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    let batch = rig.push(slot, 1);
    let call = rig.produce();
    rig.sender.handle_produce_response(rig.now, call.id, Ok(&[]));
    rig.wait();
    rig.produce_only(batch);
    // A response without a request changes nothing.
    rig.ack(&call, 3);
    assert_eq!(rig.outcomes(), []);
}

#[test]
fn offsets_and_times_are_returned_if_there_are_any() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    let batch = rig.push(slot, 1);
    let call = rig.produce();
    let produced = milena_machines::produce::ProducePartitionResponse {
        slot,
        error: ErrorCode::None,
        base_offset: 4,
        log_append_time_ms: 99,
        log_start_offset: 0,
    };
    rig.sender.handle_produce_response(rig.now, call.id, Ok(&[produced]));
    let acked = SenderEvent::Acked {
        batch,
        slot,
        base_offset: Some(4),
        log_append_time_ms: Some(99),
    };
    assert_eq!(rig.events(), [acked]);
}
