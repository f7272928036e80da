//! Transactions of version 1: partitions are added before they are written to, and the epoch stays.

use milena_machines::member::CallFailure;
use milena_machines::produce::{ControlRequest, Misuse, SenderEvent, Target, TransactionError, WriteStatus};
use milena_wire::errors::ErrorCode;

use super::rig::{
    PRODUCER_ID, Rig, done, is_add_offsets, is_add_partitions, is_commit_offsets, transactional, transactional_stamp,
};

#[test]
fn calls_have_an_order() {
    let misuse = |what| Err::<(), _>(TransactionError::Misuse(what));
    let mut plain = Rig::new();
    assert_eq!(plain.sender.begin(), misuse(Misuse::NotTransactional));

    let mut rig = Rig::with(transactional());
    assert_eq!(rig.sender.begin(), misuse(Misuse::NotInitialized));
    assert_eq!(rig.sender.check_send(), misuse(Misuse::NotInitialized));
    assert_eq!(rig.sender.commit(rig.now).map(drop), misuse(Misuse::NotInitialized));
    rig.nothing_to_call();

    let mut rig = Rig::initialized(0);
    assert_eq!(
        rig.sender.init_transactions(rig.now).map(drop),
        misuse(Misuse::InitializedTwice)
    );
    assert_eq!(rig.sender.check_send(), misuse(Misuse::NoTransaction));
    assert_eq!(rig.sender.abort(rig.now).map(drop), misuse(Misuse::NoTransaction));
    let slot = rig.slot(0);
    let early = rig.push(slot, 1);
    assert_eq!(rig.outcomes(), [(early, Err(WriteStatus::NotWritten))]);
    rig.sender.begin().unwrap();
    assert_eq!(rig.sender.begin(), misuse(Misuse::InTransaction));
    assert_eq!(rig.sender.check_send(), Ok(()));
    let commit = rig.sender.commit(rig.now).unwrap();
    assert_eq!(rig.sender.check_send(), misuse(Misuse::Ending));
    assert_eq!(rig.events(), [done(commit)]);
}

#[test]
fn partitions_are_added_before_they_are_written_to() {
    let mut rig = Rig::in_transaction(1);
    let slots = [rig.slot(1), rig.slot(0)];
    assert!(rig.sender.wants_batch(slots[0]));
    let batches = slots.map(|slot| rig.push(slot, 2));
    rig.nothing_to_produce();
    let call = rig.call();
    assert_eq!(
        (call.version_max, &call.target),
        (Some(3), &Target::TransactionCoordinator)
    );
    let ControlRequest::AddPartitionsToTxn(request) = &call.request else {
        panic!("{call:?}");
    };
    assert_eq!(
        (request.v3_and_below_producer_id, request.v3_and_below_producer_epoch),
        (PRODUCER_ID, 0)
    );
    assert_eq!(request.v3_and_below_topics.len(), 1);
    let mut partitions = request.v3_and_below_topics[0].partitions.clone();
    partitions.sort_unstable();
    assert_eq!(partitions, [0, 1]);
    rig.nothing_to_call();
    // A partition that comes meanwhile is added by the next request.
    let late = rig.slot(2);
    rig.push(late, 1);
    rig.reply_error(&call, ErrorCode::None);
    let produce = rig.produce();
    assert_eq!(produce.version_max, Some(11));
    assert_eq!(produce.batches.iter().map(|sent| sent.id).collect::<Vec<_>>(), batches);
    assert_eq!(produce.batches[0].stamp, transactional_stamp(0, 0));
    rig.agree(is_add_partitions);
    assert_eq!(rig.produce().batches[0].slot, late);
    // Once added, they are part of it.
    rig.ack(&produce, 0);
    rig.push(slots[0], 1);
    rig.nothing_to_call();
    assert_eq!(rig.produce().batches[0].stamp, transactional_stamp(0, 2));
}

#[test]
fn a_commit_waits_for_all_that_was_pushed() {
    let mut rig = Rig::in_transaction(1);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    rig.agree(is_add_partitions);
    let call = rig.produce();
    let late = rig.push(slot, 1);
    let commit = rig.sender.commit(rig.now).unwrap();
    rig.nothing_to_call();
    rig.lose(&call);
    rig.nothing_to_call();
    rig.wait();
    let call = rig.produce();
    rig.ack(&call, 0);
    let call = rig.produce_only(late);
    rig.nothing_to_call();
    rig.ack(&call, 1);
    let (end, request) = rig.end_call();
    assert!(request.committed);
    assert_eq!((end.version_min, end.version_max), (0, Some(4)));
    assert_eq!((request.producer_id, request.producer_epoch), (PRODUCER_ID, 0));
    rig.reply_error(&end, ErrorCode::None);
    assert!(rig.events().contains(&done(commit)));
    rig.assert_producer(PRODUCER_ID, 0);
    // The next transaction continues the numbers, and adds its partitions anew.
    rig.sender.begin().unwrap();
    rig.push(slot, 1);
    rig.agree(is_add_partitions);
    assert_eq!(rig.produce().batches[0].stamp, transactional_stamp(0, 2));
}

#[test]
fn a_transaction_without_anything_ends_without_a_request() {
    let mut rig = Rig::in_transaction(1);
    let commit = rig.sender.commit(rig.now).unwrap();
    assert_eq!(rig.events(), [done(commit)]);
    rig.nothing_to_call();
    rig.sender.begin().unwrap();
    let abort = rig.sender.abort(rig.now).unwrap();
    assert_eq!(rig.events(), [done(abort)]);
    rig.nothing_to_call();
}

#[test]
fn offsets_are_added_then_committed_by_the_member() {
    let mut rig = Rig::in_transaction(1);
    let sent = rig.send_offsets();
    let call = rig.agree(is_add_offsets);
    assert_eq!(call.target, Target::TransactionCoordinator);
    let call = rig.call();
    assert_eq!(call.target, Target::GroupCoordinator("group".into()));
    assert_eq!((call.version_min, call.version_max), (3, Some(4)));
    let ControlRequest::TxnOffsetCommit(request) = &call.request else {
        panic!("{call:?}");
    };
    assert_eq!((request.generation_id, &*request.member_id), (3, "member"));
    assert_eq!(request.group_instance_id.as_deref(), Some("instance"));
    assert_eq!(request.topics[0].partitions[1].committed_offset, 11);
    let commit = rig.sender.commit(rig.now).unwrap();
    rig.nothing_to_call();
    rig.reply_error(&call, ErrorCode::None);
    assert_eq!(rig.events(), [done(sent)]);
    rig.respond_end(true, None);
    assert_eq!(rig.events(), [done(commit)]);
}

#[test]
fn a_group_is_added_once_and_offsets_go_one_call_after_the_other() {
    let mut rig = Rig::in_transaction(1);
    let [first, second] = [rig.send_offsets(), rig.send_offsets()];
    rig.agree(is_add_offsets);
    rig.agree(is_commit_offsets);
    rig.agree(is_commit_offsets);
    assert_eq!(rig.events(), [done(first), done(second)]);
    let nothing = rig.sender.send_offsets(rig.now, super::rig::group(), vec![]).unwrap();
    assert_eq!(rig.events(), [done(nothing)]);
    rig.nothing_to_call();
}

#[test]
fn an_abort_drops_what_has_not_left_and_waits_for_the_rest() {
    let mut rig = Rig::in_transaction(1);
    let [slot, other] = [rig.slot(0), rig.slot(1)];
    let first = rig.push(slot, 1);
    rig.agree(is_add_partitions);
    let call = rig.produce();
    let [second, third] = [rig.push(slot, 1), rig.push(other, 1)];
    let abort = rig.sender.abort(rig.now).unwrap();
    let outcomes = rig.outcomes();
    assert_eq!(
        outcomes,
        [
            (second, Err(WriteStatus::NotWritten)),
            (third, Err(WriteStatus::NotWritten))
        ]
    );
    rig.nothing_to_call();
    rig.nothing_to_produce();
    rig.ack(&call, 0);
    rig.respond_end(false, None);
    assert_eq!(rig.outcomes().first(), Some(&(first, Ok(Some(0)))));
    assert!(rig.sender.begin().is_ok(), "{abort:?} is done");
}

#[test]
fn after_an_abort_with_missing_numbers_the_next_epoch_is_asked_for() {
    let mut rig = Rig::in_transaction(1);
    let slot = rig.slot(0);
    let batch = rig.push(slot, 1);
    rig.agree(is_add_partitions);
    let call = rig.produce();
    let abort = rig.sender.abort(rig.now).unwrap();
    rig.lose(&call);
    assert_eq!(rig.outcomes(), [(batch, Err(WriteStatus::MayBeWritten))]);
    rig.respond_end(false, None);
    assert_eq!(rig.events(), []);
    let call = rig.init_call().0;
    assert_eq!(call.version_min, 3);
    rig.lose_call(&call);
    rig.wait();
    let request = rig.respond_init(PRODUCER_ID, 1);
    assert_eq!((request.producer_id, request.producer_epoch), (PRODUCER_ID, 0));
    assert!(rig.events().contains(&done(abort)));
    rig.sender.begin().unwrap();
    rig.push(slot, 1);
    rig.agree(is_add_partitions);
    assert_eq!(rig.produce().batches[0].stamp, transactional_stamp(1, 0));
}

#[test]
fn whether_there_is_anything_to_abort_is_found_out_first() {
    // Ending what never began is an error in version 1, so a request without a response is repeated.
    let mut rig = Rig::in_transaction(1);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let add = rig.call();
    rig.sender.abort(rig.now).unwrap();
    rig.nothing_to_call();
    rig.lose_call(&add);
    rig.wait();
    let again = rig.call();
    assert_eq!(again.request, add.request);
    rig.reply_error(&again, ErrorCode::CoordinatorLoadInProgress);
    rig.wait();
    rig.agree(is_add_partitions);
    rig.respond_end(false, None);

    // One that was never sent did not begin anything.
    rig.sender.begin().unwrap();
    rig.push(slot, 1);
    for failure in [CallFailure::NotSent, CallFailure::CoordinatorUnknown] {
        let add = rig.call();
        rig.sender.handle_control_response(rig.now, add.id, Err(failure));
        rig.wait();
    }
    let add = rig.call();
    rig.sender
        .handle_lookup_refused(rig.now, add.id, ErrorCode::CoordinatorNotAvailable);
    let abort = rig.sender.abort(rig.now).unwrap();
    assert!(rig.events().contains(&done(abort)));
    rig.wait();
    rig.nothing_to_call();

    // Neither did one that was refused.
    rig.sender.begin().unwrap();
    rig.push(slot, 1);
    let add = rig.call();
    rig.reply_error(&add, ErrorCode::ConcurrentTransactions);
    rig.sender.abort(rig.now).unwrap();
    let events = rig.events();
    assert!(
        events
            .iter()
            .any(|event| matches!(event, SenderEvent::Done { result: Ok(()), .. }))
    );
    rig.nothing_to_call();
}

#[test]
fn the_end_of_the_transaction_before_is_waited_for_a_short_while() {
    let mut rig = Rig::in_transaction(1);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    let call = rig.call();
    rig.reply_error(&call, ErrorCode::ConcurrentTransactions);
    rig.nothing_to_call();
    assert_eq!(rig.sender.poll_timeout(), Some(rig.now + 20));
    rig.pass(20);
    rig.agree(is_add_partitions);
}

#[test]
fn a_coordinator_that_moved_is_looked_for() {
    let mut rig = Rig::in_transaction(1);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    for error in [ErrorCode::NotCoordinator, ErrorCode::CoordinatorNotAvailable] {
        let call = rig.call();
        rig.reply_error(&call, error);
        assert_eq!(
            rig.events(),
            [SenderEvent::CoordinatorMoved(Target::TransactionCoordinator)]
        );
        rig.wait();
    }
    let call = rig.call();
    rig.lose_call(&call);
    assert_eq!(
        rig.events(),
        [SenderEvent::CoordinatorMoved(Target::TransactionCoordinator)]
    );
    rig.wait();
    rig.agree(is_add_partitions);
    rig.send_offsets();
    rig.agree(is_add_offsets);
    let call = rig.call();
    rig.reply_error(&call, ErrorCode::NotCoordinator);
    let group = Target::GroupCoordinator("group".into());
    assert_eq!(rig.events(), [SenderEvent::CoordinatorMoved(group)]);
}

#[test]
fn from_version_1_to_2_the_epoch_changes_before_anything_is_written() {
    let mut rig = Rig::in_transaction(1);
    let slot = rig.slot(0);
    rig.push(slot, 1);
    rig.agree(is_add_partitions);
    let call = rig.produce();
    rig.sender.handle_features(2);
    // This transaction keeps its version.
    assert_eq!(call.version_max, Some(11));
    rig.ack(&call, 0);
    rig.sender.commit(rig.now).unwrap();
    rig.respond_end(true, None);
    rig.sender.begin().unwrap();
    rig.push(slot, 1);
    assert!(!rig.sender.wants_batch(slot));
    rig.nothing_to_produce();
    let request = rig.respond_init(PRODUCER_ID, 1);
    assert_eq!((request.producer_id, request.producer_epoch), (PRODUCER_ID, 0));
    let call = rig.produce();
    assert_eq!((call.version_min, call.version_max), (12, None));
    assert_eq!(call.batches[0].stamp, transactional_stamp(1, 0));
}
