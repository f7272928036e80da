//! Errors of transactions, by the possible reactions.

use milena_machines::produce::{BatchCause, Remedy, SenderEvent, TransactionCause, TransactionError, WriteStatus};
use milena_wire::{api::ApiKey, errors::ErrorCode};

use super::rig::{
    DELIVERY_MS, PRODUCER_ID, Rig, done, failure_of, is_add_offsets, is_add_partitions, is_commit_offsets,
    transactional,
};

/// The remedy after a batch was refused with this error.
fn remedy_of_batch(version: i16, error: ErrorCode) -> Remedy {
    let mut rig = Rig::in_transaction(version);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    if version < 2 {
        rig.agree(is_add_partitions);
    }
    let call = rig.produce();
    rig.respond(&call, error, -1, 0);
    rig.sender.commit(rig.now).unwrap_err().remedy()
}

#[test]
fn a_refused_batch_can_be_aborted_unless_another_has_taken_over() {
    for version in [1, 2] {
        for error in [
            ErrorCode::InvalidRecord,
            ErrorCode::TopicAuthorizationFailed,
            ErrorCode::TransactionAbortable,
            ErrorCode::InvalidProducerEpoch,
            ErrorCode::OutOfOrderSequenceNumber,
            ErrorCode::InvalidTxnState,
            ErrorCode::InvalidProducerIdMapping,
        ] {
            assert_eq!(remedy_of_batch(version, error), Remedy::Abort, "{error}");
        }
        for error in [
            ErrorCode::ProducerFenced,
            ErrorCode::ClusterAuthorizationFailed,
            ErrorCode::TransactionalIdAuthorizationFailed,
        ] {
            assert_eq!(remedy_of_batch(version, error), Remedy::GiveUp, "{error}");
        }
    }
}

#[test]
fn after_an_error_the_rest_is_dropped_and_only_an_abort_is_possible() {
    let mut rig = Rig::in_transaction(2);
    let slot = rig.slot(0);
    let [first, second] = [rig.push(slot, 1), rig.push(slot, 1)];
    let call = rig.produce_only(first);
    rig.refuse(&call, ErrorCode::InvalidRecord);
    assert_eq!(
        rig.outcomes(),
        [
            (first, Err(WriteStatus::NotWritten)),
            (second, Err(WriteStatus::NotWritten))
        ]
    );
    for error in [
        rig.sender.check_send().unwrap_err(),
        rig.sender.commit(rig.now).unwrap_err(),
        rig.sender
            .send_offsets(rig.now, super::rig::group(), super::rig::offsets())
            .unwrap_err(),
    ] {
        assert_eq!(error.remedy(), Remedy::Abort);
        assert!(
            matches!(error, TransactionError::Abortable(TransactionCause::Batch { .. })),
            "{error}"
        );
    }
    let late = rig.push(slot, 1);
    assert_eq!(rig.outcomes(), [(late, Err(WriteStatus::NotWritten))]);
    let abort = rig.sender.abort(rig.now).unwrap();
    rig.respond_end(false, Some((PRODUCER_ID, 1)));
    assert_eq!(rig.events(), [done(abort)]);
    rig.sender.begin().unwrap();
}

#[test]
fn a_batch_that_fails_during_the_commit_fails_the_commit() {
    let mut rig = Rig::in_transaction(2);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    let commit = rig.sender.commit(rig.now).unwrap();
    rig.refuse(&call, ErrorCode::InvalidRecord);
    assert_eq!(failure_of(&rig.events(), commit).remedy(), Remedy::Abort);
    rig.nothing_to_call();
    rig.sender.abort(rig.now).unwrap();
    rig.respond_end(false, Some((PRODUCER_ID, 1)));
}

#[test]
fn an_expired_batch_can_be_aborted() {
    let mut rig = Rig::in_transaction(1);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    rig.agree(is_add_partitions);
    let call = rig.produce();
    rig.pass(DELIVERY_MS);
    let errors = rig.errors();
    assert_eq!(errors[0].status, WriteStatus::MayBeWritten);
    assert!(matches!(errors[0].cause, BatchCause::TimedOut { .. }));
    assert_eq!(rig.sender.commit(rig.now).unwrap_err().remedy(), Remedy::Abort);
    rig.sender.abort(rig.now).unwrap();
    // The response to the batch in flight is awaited.
    rig.nothing_to_call();
    rig.lose(&call);
    rig.respond_end(false, None);
    rig.respond_init(PRODUCER_ID, 1);
}

/// The remedy after a request was refused with this error.
fn remedy_of_call(skip: usize, error: ErrorCode) -> Option<Remedy> {
    let mut rig = Rig::in_transaction(1);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    rig.send_offsets();
    for agree in [is_add_partitions, is_add_offsets, is_commit_offsets]
        .into_iter()
        .take(skip)
    {
        rig.agree(agree);
    }
    let call = rig.call();
    rig.reply_error(&call, error);
    rig.sender.check_send().err().map(|error| error.remedy())
}

#[test]
fn errors_of_requests_have_different_remedies() {
    use ErrorCode as E;
    // In this order: AddPartitionsToTxn, AddOffsetsToTxn, TxnOffsetCommit.
    let (none, abort, give_up) = (None, Some(Remedy::Abort), Some(Remedy::GiveUp));
    for (error, remedies) in [
        (E::ConcurrentTransactions, [none, none, none]),
        (E::CoordinatorLoadInProgress, [none, none, none]),
        (E::NotCoordinator, [none, none, none]),
        (E::UnknownTopicOrPartition, [none, none, none]),
        (E::TransactionAbortable, [abort, abort, abort]),
        (E::InvalidProducerIdMapping, [abort, abort, abort]),
        (E::TopicAuthorizationFailed, [abort, abort, abort]),
        (E::GroupAuthorizationFailed, [abort, abort, abort]),
        (E::IllegalGeneration, [abort, abort, abort]),
        (E::UnknownMemberId, [abort, abort, abort]),
        (E::FencedInstanceId, [abort, abort, abort]),
        (E::ProducerFenced, [give_up, give_up, give_up]),
        (E::InvalidProducerEpoch, [give_up, give_up, give_up]),
        (E::TransactionalIdAuthorizationFailed, [give_up, give_up, give_up]),
        (E::InvalidTxnState, [give_up, give_up, give_up]),
        (E::UnknownServerError, [abort, give_up, give_up]),
    ] {
        for (skip, remedy) in remedies.into_iter().enumerate() {
            assert_eq!(remedy_of_call(skip, error), remedy, "{error} after {skip} calls");
        }
    }
}

#[test]
fn refused_offsets_fail_the_waiting_operation() {
    let mut rig = Rig::in_transaction(2);
    let [first, second] = [rig.send_offsets(), rig.send_offsets()];
    let call = rig.call();
    rig.reply_error(&call, ErrorCode::IllegalGeneration);
    let events = rig.events();
    let cause = TransactionCause::Refused {
        api: ApiKey::TxnOffsetCommit,
        error: ErrorCode::IllegalGeneration,
    };
    for operation in [first, second] {
        assert_eq!(
            failure_of(&events, operation),
            TransactionError::Abortable(cause.clone())
        );
    }
    rig.nothing_to_call();
}

#[test]
fn only_offsets_that_were_not_taken_go_again() {
    let mut rig = Rig::in_transaction(2);
    let sent = rig.send_offsets();
    let call = rig.call();
    let milena_machines::produce::ControlRequest::TxnOffsetCommit(mut request) = call.request.clone() else {
        panic!("{call:?}");
    };
    let mut some = call.clone();
    request.topics[0].partitions.pop();
    some.request = milena_machines::produce::ControlRequest::TxnOffsetCommit(request);
    rig.reply_error(&some, ErrorCode::None);
    rig.wait();
    let again = rig.call();
    let milena_machines::produce::ControlRequest::TxnOffsetCommit(request) = &again.request else {
        panic!("{again:?}");
    };
    assert_eq!(request.topics[0].partitions.len(), 1);
    assert_eq!(request.topics[0].partitions[0].partition_index, 1);
    rig.reply_error(&again, ErrorCode::None);
    assert_eq!(rig.events(), [done(sent)]);
}

#[test]
fn a_commit_that_came_too_late_can_be_aborted_in_version_2() {
    for (version, remedy) in [(1, Remedy::GiveUp), (2, Remedy::Abort)] {
        let mut rig = Rig::in_transaction(version);
        rig.send_offsets();
        while let Some(call) = rig.sender.poll_control_request(rig.now) {
            rig.reply_error(&call, ErrorCode::None);
        }
        let _sent = rig.events();
        let commit = rig.sender.commit(rig.now).unwrap();
        let (end, _) = rig.end_call();
        // The error of a coordinator that has aborted it meanwhile because of its timeout.
        rig.reply_error(&end, ErrorCode::InvalidTxnState);
        assert_eq!(failure_of(&rig.events(), commit).remedy(), remedy);
        if remedy == Remedy::Abort {
            let abort = rig.sender.abort(rig.now).unwrap();
            rig.respond_end(false, Some((PRODUCER_ID, 1)));
            assert_eq!(rig.events(), [done(abort)]);
            rig.assert_producer(PRODUCER_ID, 1);
            rig.sender.begin().unwrap();
        }
    }
}

#[test]
fn a_producer_that_the_coordinator_has_forgotten_asks_who_it_is() {
    let mut rig = Rig::in_transaction(2);
    rig.send_offsets();
    rig.agree(is_commit_offsets);
    let _sent = rig.events();
    let commit = rig.sender.commit(rig.now).unwrap();
    let (end, _) = rig.end_call();
    rig.reply_error(&end, ErrorCode::InvalidProducerIdMapping);
    assert_eq!(failure_of(&rig.events(), commit).remedy(), Remedy::Abort);
    let abort = rig.sender.abort(rig.now).unwrap();
    // It cannot end what the coordinator does not know.
    let request = rig.respond_init(9, 0);
    assert_eq!(request.producer_id, PRODUCER_ID);
    assert_eq!(rig.events(), [done(abort)]);
    rig.assert_producer(9, 0);
}

#[test]
fn a_fenced_producer_sends_nothing_more() {
    for version in [1, 2] {
        let mut rig = Rig::in_transaction(version);
        rig.send_offsets();
        while let Some(call) = rig.sender.poll_control_request(rig.now) {
            rig.reply_error(&call, ErrorCode::None);
        }
        let commit = rig.sender.commit(rig.now).unwrap();
        let (end, _) = rig.end_call();
        rig.reply_error(&end, ErrorCode::ProducerFenced);
        let error = failure_of(&rig.events(), commit);
        let cause = TransactionCause::Refused {
            api: ApiKey::EndTxn,
            error: ErrorCode::ProducerFenced,
        };
        assert_eq!(error, TransactionError::Fatal(cause));
        assert_eq!(rig.sender.abort(rig.now), Err(error.clone()));
        assert_eq!(rig.sender.begin(), Err(error.clone()));
        assert_eq!(rig.sender.failure(), Some(&error));
        rig.wait();
        rig.nothing_to_call();
        assert_eq!(rig.sender.poll_timeout(), None);
    }
}

#[test]
fn a_producer_that_may_not_use_the_id_can_ask_again() {
    let mut rig = Rig::with(transactional());
    let init = rig.sender.init_transactions(rig.now).unwrap();
    let call = rig.call();
    rig.reply_error(&call, ErrorCode::TransactionalIdAuthorizationFailed);
    assert_eq!(failure_of(&rig.events(), init).remedy(), Remedy::GiveUp);
    rig.wait();
    rig.nothing_to_call();
    let again = rig.sender.init_transactions(rig.now).unwrap();
    rig.respond_init(PRODUCER_ID, 0);
    assert_eq!(rig.events(), [done(again)]);
}

#[test]
fn a_coordinator_that_may_not_be_asked_for_is_an_error_of_who_needs_it() {
    let mut rig = Rig::with(transactional());
    let init = rig.sender.init_transactions(rig.now).unwrap();
    let call = rig.call();
    rig.sender
        .handle_lookup_refused(rig.now, call.id, ErrorCode::TransactionalIdAuthorizationFailed);
    assert_eq!(failure_of(&rig.events(), init).remedy(), Remedy::GiveUp);

    let mut rig = Rig::in_transaction(2);
    let sent = rig.send_offsets();
    let call = rig.call();
    rig.sender
        .handle_lookup_refused(rig.now, call.id, ErrorCode::GroupAuthorizationFailed);
    assert_eq!(failure_of(&rig.events(), sent).remedy(), Remedy::Abort);
}

#[test]
fn a_log_that_was_trimmed_does_not_cost_the_transaction() {
    let mut rig = Rig::in_transaction(1);
    let slot = rig.slot(0);
    rig.push(slot, 2);
    rig.agree(is_add_partitions);
    let call = rig.produce();
    rig.ack(&call, 10);
    let batch = rig.push(slot, 1);
    let call = rig.produce();
    rig.respond(&call, ErrorCode::UnknownProducerId, -1, 50);
    rig.wait();
    let again = rig.produce_only(batch);
    assert_eq!(again.batches[0].stamp, super::rig::transactional_stamp(0, 0));
    // Where it was not trimmed, the state that the broker lost cannot be known: abort.
    rig.respond(&again, ErrorCode::UnknownProducerId, -1, 5);
    assert_eq!(rig.sender.check_send().unwrap_err().remedy(), Remedy::Abort);
}

#[test]
fn a_batch_that_is_being_split_when_the_transaction_fails_is_dropped_with_it() {
    let mut rig = Rig::in_transaction(2);
    let slot = rig.slot(0);
    let large = rig.push(slot, 4);
    let call = rig.produce();
    rig.refuse(&call, ErrorCode::MessageTooLarge);
    assert_eq!(rig.events(), [SenderEvent::Split { batch: large, slot }]);
    let abort = rig.sender.abort(rig.now).unwrap();
    rig.nothing_to_call();
    let parts = [rig.new_batch(2), rig.new_batch(2)];
    rig.sender.push_split(rig.now, slot, large, &parts);
    assert_eq!(
        rig.outcomes(),
        parts.map(|part| (part.id, Err(WriteStatus::NotWritten)))
    );
    rig.respond_end(false, Some((PRODUCER_ID, 1)));
    assert_eq!(rig.events(), [done(abort)]);
}
