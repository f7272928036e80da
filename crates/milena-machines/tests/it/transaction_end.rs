//! Ends of transactions.

use milena_machines::transaction::TransactionState;
use milena_wire::errors::ErrorCode;

use crate::transaction_rig::{
    ADD_V1, ADD_V2, END_V1, END_V2, ID, Rig, end_request, end_response, error, producer, stored_at,
};

fn complete(committed: bool) -> TransactionState {
    if committed {
        TransactionState::CompleteCommit
    } else {
        TransactionState::CompleteAbort
    }
}

#[test]
fn an_end_gets_its_reply_when_its_markers_are_written() {
    for (version, epoch, transaction_version) in [(END_V1, 0, 0), (END_V2, 1, 2)] {
        for committed in [true, false] {
            let mut rig = Rig::new();
            let owner = rig.init().unwrap();
            rig.add(ADD_V1, owner, &[1, 2]);
            assert_eq!(rig.end_now(version, owner, committed), None);
            assert_eq!(rig.state().prepared(), Some(committed));
            let markers = rig.markers[0].clone();
            assert_eq!((markers.committed, &*markers.transactional_id), (committed, ID));
            assert_eq!(markers.producer, producer(owner.producer_id, epoch));
            assert_eq!(
                (markers.partitions.len(), markers.transaction_version),
                (2, transaction_version)
            );
            let responses = rig.write_markers();
            assert_eq!(responses.len(), 1);
            assert_eq!(error(responses[0].error_code), ErrorCode::None);
            assert_eq!(rig.state(), complete(committed));
            assert!(rig.value().transaction_partitions.unwrap().is_empty());
        }
    }
}

#[test]
fn only_the_markers_that_were_asked_for_complete_a_transaction() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    rig.add(ADD_V2, owner, &[1]);
    rig.end_now(END_V2, owner, true);
    let (asked, now_ms) = (rig.markers[0].producer, rig.now_ms);
    for (id, other) in [(ID, owner), (ID, producer(99, 1)), ("unknown", asked)] {
        let effects = rig.coordinator.handle_markers_written(now_ms, id, other);
        assert_eq!(effects, Default::default());
    }
    assert_eq!(rig.write_markers().len(), 1);
    let effects = rig.coordinator.handle_markers_written(now_ms, ID, asked);
    assert_eq!(effects, Default::default(), "said twice");
}

#[test]
fn strangers_cannot_end() {
    for version in [END_V1, END_V2] {
        let mut rig = Rig::new();
        let owner = rig.init().unwrap();
        rig.add(ADD_V1, owner, &[1]);
        for (id, expected) in [
            ("", ErrorCode::InvalidRequest),
            ("unknown", ErrorCode::InvalidProducerIdMapping),
        ] {
            let reply = rig.call(version, end_request(id, owner, true)).unwrap();
            assert_eq!(error(end_response(reply).error_code), expected);
        }
        let other = producer(99, 0);
        assert_eq!(rig.end_error(version, other, true), ErrorCode::InvalidProducerIdMapping);
        for epoch in [-1, 1] {
            let other = producer(owner.producer_id, epoch);
            assert_eq!(rig.end_error(version, other, true), ErrorCode::ProducerFenced);
        }
    }
}

#[test]
fn old_clients_hear_of_an_invalid_epoch_when_they_are_fenced() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    let other = producer(owner.producer_id, 4);
    assert_eq!(rig.end_error(2, other, true), ErrorCode::ProducerFenced);
    assert_eq!(rig.end_error(1, other, true), ErrorCode::InvalidProducerEpoch);
}

#[test]
fn while_markers_are_written_the_same_end_waits_and_another_is_refused() {
    for version in [END_V1, END_V2] {
        for committed in [true, false] {
            let mut rig = Rig::new();
            let owner = rig.init().unwrap();
            rig.add(ADD_V1, owner, &[1]);
            rig.end_now(version, owner, committed);
            assert_eq!(
                rig.end_error(version, owner, committed),
                ErrorCode::ConcurrentTransactions
            );
            assert_eq!(rig.end_error(version, owner, !committed), ErrorCode::InvalidTxnState);
            assert_eq!(rig.write_markers().len(), 1);
        }
    }
}

#[test]
fn with_version_1_a_retry_succeeds_and_another_decision_is_refused() {
    for committed in [true, false] {
        let mut rig = Rig::new();
        let owner = rig.init().unwrap();
        rig.add(ADD_V1, owner, &[1]);
        let response = rig.end(END_V1, owner, committed);
        assert_eq!((response.producer_id, response.producer_epoch), (-1, -1));
        let records = rig.records();
        assert_eq!(rig.end_now(END_V1, owner, committed), Some(response));
        assert_eq!(rig.end_error(END_V1, owner, !committed), ErrorCode::InvalidTxnState);
        assert_eq!(rig.records(), records);
    }
}

#[test]
fn with_version_1_there_is_nothing_to_end_before_the_first_partition() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    for committed in [true, false] {
        assert_eq!(rig.end_error(END_V1, owner, committed), ErrorCode::InvalidTxnState);
    }
}

#[test]
fn with_version_2_every_end_takes_a_new_epoch() {
    for committed in [true, false] {
        let mut rig = Rig::new();
        let mut owner = rig.init().unwrap();
        for epoch in 1..4 {
            rig.add(ADD_V2, owner, &[1]);
            let response = rig.end(END_V2, owner, committed);
            assert_eq!((response.producer_id, response.producer_epoch), (100, epoch));
            let records = rig.records();
            assert_eq!(
                rig.end_now(END_V2, owner, committed),
                Some(response),
                "a retry gets the same response"
            );
            assert_eq!(rig.end_error(END_V2, owner, !committed), ErrorCode::InvalidTxnState);
            assert_eq!(rig.records(), records);
            owner.epoch = epoch;
        }
    }
}

#[test]
fn with_version_2_a_retry_is_too_late_when_the_next_transaction_began() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    rig.add(ADD_V2, owner, &[1]);
    rig.end(END_V2, owner, true);
    rig.add(ADD_V2, producer(100, 1), &[1]);
    assert_eq!(rig.end_error(END_V2, owner, true), ErrorCode::ProducerFenced);
    assert_eq!(rig.end_error(END_V2, owner, false), ErrorCode::ProducerFenced);
    assert_eq!(rig.state(), TransactionState::Ongoing);
}

#[test]
fn with_version_2_an_abort_needs_no_transaction() {
    let mut rig = Rig::new();
    let mut owner = rig.init().unwrap();
    for epoch in 1..4 {
        let response = rig
            .end_now(END_V2, owner, false)
            .expect("there are no markers to wait for");
        assert_eq!(error(response.error_code), ErrorCode::None);
        assert_eq!((response.producer_id, response.producer_epoch), (100, epoch));
        assert_eq!(rig.state(), TransactionState::CompleteAbort);
        assert!(rig.markers.is_empty());
        owner.epoch = epoch;
    }
    rig.add(ADD_V2, owner, &[1]);
    rig.end(END_V2, owner, true);
    owner.epoch += 1;
    let response = rig
        .end_now(END_V2, owner, false)
        .expect("there are no markers to wait for");
    assert_eq!(response.producer_epoch, owner.epoch + 1, "after a commit, too");
}

#[test]
fn with_version_2_a_commit_needs_a_transaction() {
    let mut rig = Rig::new();
    let mut owner = rig.init().unwrap();
    assert_eq!(rig.end_error(END_V2, owner, true), ErrorCode::InvalidTxnState);
    for committed in [true, false] {
        rig.add(ADD_V2, owner, &[1]);
        owner.epoch = rig.end(END_V2, owner, committed).producer_epoch;
        assert_eq!(rig.end_error(END_V2, owner, true), ErrorCode::InvalidTxnState);
    }
}

#[test]
fn with_version_2_the_last_epoch_ends_with_a_new_producer_id() {
    for committed in [true, false] {
        let mut rig = Rig::new();
        let last = producer(55, i16::MAX - 1);
        rig.replay(stored_at(last));
        rig.add(ADD_V2, last, &[1]);
        assert_eq!(rig.end_now(END_V2, last, committed), None);
        assert_eq!(rig.markers[0].producer, producer(55, i16::MAX));
        assert_eq!(rig.value().next_producer_id, 100);
        assert_eq!(
            rig.end_error(END_V2, last, committed),
            ErrorCode::ConcurrentTransactions
        );
        let responses = rig.write_markers();
        assert_eq!((responses[0].producer_id, responses[0].producer_epoch), (100, 0));
        assert_eq!(rig.value().previous_producer_id, 55);
        assert_eq!(
            rig.end_now(END_V2, last, committed),
            responses.into_iter().next(),
            "a retry"
        );
        assert_eq!(rig.end_error(END_V2, last, !committed), ErrorCode::InvalidTxnState);
        let before = producer(55, i16::MAX - 2);
        assert_eq!(
            rig.end_error(END_V2, before, committed),
            ErrorCode::InvalidProducerIdMapping
        );
        rig.add(ADD_V2, producer(100, 0), &[1]);
        assert_eq!(
            rig.end_error(END_V2, last, committed),
            ErrorCode::InvalidProducerIdMapping
        );
    }
}

#[test]
fn with_version_2_who_missed_the_end_learns_its_epoch_from_an_init() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    rig.add(ADD_V2, owner, &[1]);
    rig.end(END_V2, owner, true);
    assert_eq!(rig.init_as(owner), Ok(producer(100, 1)));
}

#[test]
fn a_restart_between_verdict_and_markers_asks_for_them_again() {
    for committed in [true, false] {
        let mut rig = Rig::new();
        let owner = rig.init().unwrap();
        rig.add(ADD_V2, owner, &[1, 2]);
        rig.end_now(END_V2, owner, committed);
        let asked = rig.markers[0].clone();
        rig.restart();
        let again = rig.markers[0].clone();
        assert_eq!(again.coordinator_epoch, 8);
        assert_eq!((again.producer, again.committed), (asked.producer, asked.committed));
        assert_eq!(again.partitions, asked.partitions);
        assert!(rig.write_markers().is_empty(), "who asked is gone");
        assert_eq!(rig.state(), complete(committed));
        let response = rig.end_now(END_V2, owner, committed).unwrap();
        assert_eq!(
            (error(response.error_code), response.producer_epoch),
            (ErrorCode::None, 1)
        );
    }
}

#[test]
fn a_restart_completes_a_verdict_without_partitions() {
    let mut rig = Rig::new();
    let mut value = stored_at(producer(55, 3));
    value.transaction_status = TransactionState::PrepareAbort.id();
    value.transaction_partitions = Some(Vec::new());
    rig.replay(value);
    rig.restart();
    assert_eq!(rig.state(), TransactionState::CompleteAbort);
}

#[test]
fn a_restart_leaves_open_transactions_open() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    rig.add(ADD_V2, owner, &[1]);
    rig.restart();
    assert!(rig.markers.is_empty());
    assert_eq!(rig.add(ADD_V2, owner, &[2]), ErrorCode::None);
    assert_eq!(rig.end(END_V2, owner, true).producer_epoch, 1);
}
