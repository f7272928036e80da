//! Transactions of version 2: `Produce` adds partitions, and each end bumps the epoch.

use milena_machines::{
    member::CallFailure,
    produce::{Operation, Remedy, SenderEvent, TransactionCause, TransactionError, WriteStatus},
};
use milena_wire::{api::ApiKey, errors::ErrorCode};

use super::rig::{PRODUCER_ID, Rig, done, failure_of, is_commit_offsets, transactional, transactional_stamp};

#[test]
fn writing_adds_and_the_end_gives_the_next_epoch() {
    let mut rig = Rig::in_transaction(2);
    let slot = rig.slot(0);
    for epoch in [0, 1] {
        rig.push(slot, 2);
        rig.nothing_to_call();
        let call = rig.produce();
        assert_eq!((call.version_min, call.version_max), (12, None));
        assert_eq!(call.batches[0].stamp, transactional_stamp(epoch, 0));
        rig.ack(&call, 0);
        let sent = rig.send_offsets();
        let call = rig.agree(is_commit_offsets);
        assert_eq!((call.version_min, call.version_max), (5, None));
        assert!(rig.events().contains(&done(sent)));
        let commit = rig.sender.commit(rig.now).unwrap();
        let (end, request) = rig.end_call();
        assert_eq!((end.version_min, end.version_max), (5, None));
        assert_eq!(request.producer_epoch, epoch);
        let response = milena_wire::messages::EndTxnResponse {
            producer_id: PRODUCER_ID,
            producer_epoch: epoch + 1,
            ..Default::default()
        };
        rig.reply(&end, milena_machines::produce::ControlResponse::EndTxn(response));
        assert_eq!(rig.events(), [done(commit)]);
        rig.assert_producer(PRODUCER_ID, epoch + 1);
        rig.sender.begin().unwrap();
    }
}

#[test]
fn the_end_can_give_another_producer_id() {
    let mut rig = Rig::in_transaction(2);
    let slot = rig.slot(0);
    rig.push(slot, 2);
    let call = rig.produce();
    rig.ack(&call, 0);
    rig.sender.commit(rig.now).unwrap();
    rig.respond_end(true, Some((8, 0)));
    rig.sender.begin().unwrap();
    rig.push(slot, 1);
    let stamp = rig.produce().batches[0].stamp;
    assert_eq!(
        (stamp.producer_id, stamp.producer_epoch, stamp.base_sequence),
        (8, 0, 0)
    );
}

#[test]
fn a_transaction_without_anything_ends_without_a_request() {
    let mut rig = Rig::in_transaction(2);
    let commit = rig.sender.commit(rig.now).unwrap();
    assert_eq!(rig.events(), [done(commit)]);
    rig.sender.begin().unwrap();
    let slot = rig.slot(0);
    let batch = rig.push(slot, 1);
    let abort = rig.sender.abort(rig.now).unwrap();
    let events = rig.events();
    assert!(matches!(events[0], SenderEvent::Failed { batch: failed, .. } if failed == batch));
    assert_eq!(events[1..], [done(abort)]);
    rig.nothing_to_call();
    rig.assert_producer(PRODUCER_ID, 0);
}

#[test]
fn an_abort_needs_no_epoch_of_its_own() {
    let mut rig = Rig::in_transaction(2);
    let slot = rig.slot(0);
    let batch = rig.push(slot, 1);
    let call = rig.produce();
    let abort = rig.sender.abort(rig.now).unwrap();
    rig.nothing_to_call();
    rig.fail(&call, CallFailure::TimedOut);
    assert_eq!(rig.outcomes(), [(batch, Err(WriteStatus::MayBeWritten))]);
    rig.respond_end(false, Some((PRODUCER_ID, 1)));
    assert!(rig.events().contains(&done(abort)));
    rig.nothing_to_call();
}

#[test]
fn a_lost_response_to_the_end_is_neither_a_commit_nor_an_abort() {
    for version in [1, 2] {
        let mut rig = Rig::in_transaction(version);
        rig.send_offsets();
        while let Some(call) = rig.sender.poll_control_request(rig.now) {
            rig.reply_error(&call, ErrorCode::None);
        }
        let _sent = rig.events();
        let commit = rig.sender.commit(rig.now).unwrap();
        let (lost, first) = rig.end_call();
        rig.lose_call(&lost);
        assert!(
            !rig.events()
                .iter()
                .any(|event| matches!(event, SenderEvent::Done { .. }))
        );
        assert_eq!(rig.sender.begin(), Err(TransactionError::InProgress(Operation::Commit)));
        rig.wait();
        let (again, second) = rig.end_call();
        assert_eq!(first, second);
        rig.reply_error(&again, ErrorCode::ConcurrentTransactions);
        assert_eq!(rig.sender.poll_timeout(), Some(rig.now + 20));
        rig.pass(20);
        rig.respond_end(true, (version == 2).then_some((PRODUCER_ID, 1)));
        assert_eq!(rig.events(), [done(commit)]);
    }
}

#[test]
fn who_stopped_waiting_calls_again_and_hears_how_it_ended() {
    let mut rig = Rig::in_transaction(2);
    rig.send_offsets();
    rig.agree(is_commit_offsets);
    let _sent = rig.events();
    let commit = rig.sender.commit(rig.now).unwrap();
    rig.sender.stop_waiting(commit);
    let error = rig.sender.abort(rig.now).unwrap_err();
    assert_eq!(
        (error.remedy(), &error),
        (Remedy::Retry, &TransactionError::InProgress(Operation::Commit))
    );
    // Still in progress: the same operation.
    assert_eq!(rig.sender.commit(rig.now), Ok(commit));
    rig.sender.stop_waiting(commit);
    rig.respond_end(true, Some((PRODUCER_ID, 1)));
    assert_eq!(rig.events(), []);
    assert_eq!(rig.sender.begin(), Err(TransactionError::InProgress(Operation::Commit)));
    // Done meanwhile.
    let again = rig.sender.commit(rig.now).unwrap();
    assert_eq!(rig.events(), [done(again)]);
    rig.sender.begin().unwrap();
}

#[test]
fn an_init_that_timed_out_can_be_called_again() {
    let mut rig = Rig::with(transactional());
    let init = rig.sender.init_transactions(rig.now).unwrap();
    let (call, _) = rig.init_call();
    rig.sender.stop_waiting(init);
    rig.lose_call(&call);
    rig.wait();
    rig.respond_init(PRODUCER_ID, 0);
    assert!(
        !rig.events()
            .iter()
            .any(|event| matches!(event, SenderEvent::Done { .. }))
    );
    let again = rig.sender.init_transactions(rig.now).unwrap();
    assert_eq!(rig.events(), [done(again)]);
    rig.sender.begin().unwrap();
}

#[test]
fn a_failure_after_the_wait_timed_out_is_reported_too() {
    let mut rig = Rig::in_transaction(2);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    let commit = rig.sender.commit(rig.now).unwrap();
    rig.sender.stop_waiting(commit);
    rig.refuse(&call, ErrorCode::ProducerFenced);
    assert!(
        !rig.events()
            .iter()
            .any(|event| matches!(event, SenderEvent::Done { .. }))
    );
    let again = rig.sender.commit(rig.now).unwrap();
    let error = failure_of(&rig.events(), again);
    assert_eq!(error.remedy(), Remedy::GiveUp);
    assert_eq!(rig.sender.commit(rig.now), Err(error));
}

#[test]
fn a_producer_whose_transaction_timed_out_aborts_and_goes_on() {
    let mut rig = Rig::in_transaction(2);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    // The coordinator has aborted, and bumped the epoch.
    rig.refuse(&call, ErrorCode::InvalidProducerEpoch);
    let error = rig.sender.commit(rig.now).unwrap_err();
    assert_eq!(error.remedy(), Remedy::Abort);
    let abort = rig.sender.abort(rig.now).unwrap();
    rig.respond_end(false, Some((PRODUCER_ID, 1)));
    assert!(rig.events().contains(&done(abort)));
    rig.sender.begin().unwrap();
}

#[test]
fn the_end_of_the_transaction_before_is_waited_for_by_batches_too() {
    let mut rig = Rig::in_transaction(2);
    let slot = rig.slot(0);
    let batch = rig.push(slot, 1);
    let call = rig.produce();
    rig.refuse(&call, ErrorCode::ConcurrentTransactions);
    rig.pass(20);
    let call = rig.produce_only(batch);
    rig.ack(&call, 0);
}

#[test]
fn a_broker_that_cannot_do_version_2_ends_the_producer() {
    let mut rig = Rig::in_transaction(2);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.produce();
    rig.fail(&call, CallFailure::Unsupported { api: ApiKey::Produce });
    let cause = TransactionCause::Unsupported { api: ApiKey::Produce };
    assert_eq!(rig.sender.check_send(), Err(TransactionError::Fatal(cause)));
}
