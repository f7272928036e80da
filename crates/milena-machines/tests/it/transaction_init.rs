//! Producer ids and epochs, and fencing.

use milena_machines::transaction::TransactionState;
use milena_wire::{errors::ErrorCode, messages::InitProducerIdRequest};

use crate::transaction_rig::{ADD_V2, END_V2, Rig, TIMEOUT_MS, init_request, init_request_as, producer, stored_at};

#[test]
fn the_first_init_gives_epoch_0_and_each_more_takes_it_away() {
    let mut rig = Rig::new();
    assert_eq!(rig.init(), Ok(producer(100, 0)));
    assert_eq!(rig.init(), Ok(producer(100, 1)));
    assert_eq!(rig.add(ADD_V2, producer(100, 0), &[1]), ErrorCode::ProducerFenced);
    assert_eq!(rig.state(), TransactionState::Empty);
}

#[test]
fn without_a_transactional_id_every_producer_is_new_and_nothing_is_stored() {
    let mut rig = Rig::new();
    let request = || InitProducerIdRequest {
        transactional_id: None,
        ..InitProducerIdRequest::default()
    };
    assert_eq!(rig.init_with(5, request()), Ok(producer(100, 0)));
    assert_eq!(rig.init_with(5, request()), Ok(producer(101, 0)));
    assert_eq!(rig.records(), 0);
}

#[test]
fn an_empty_transactional_id_is_refused() {
    let request = InitProducerIdRequest {
        transactional_id: Some("".into()),
        ..init_request()
    };
    assert_eq!(Rig::new().init_with(5, request), Err(ErrorCode::InvalidRequest));
}

#[test]
fn the_timeout_is_positive_and_at_most_what_is_allowed() {
    let mut rig = Rig::new();
    for (timeout_ms, is_allowed) in [(-1, false), (0, false), (1, true), (900_000, true), (900_001, false)] {
        let request = InitProducerIdRequest {
            transaction_timeout_ms: timeout_ms,
            ..init_request()
        };
        let outcome = rig.init_with(5, request);
        if is_allowed {
            assert!(outcome.is_ok(), "{timeout_ms}");
            assert_eq!(rig.value().transaction_timeout_ms, timeout_ms);
        } else {
            assert_eq!(outcome, Err(ErrorCode::InvalidTransactionTimeout), "{timeout_ms}");
        }
    }
}

#[test]
fn producer_id_and_epoch_come_together_or_not_at_all() {
    let mut rig = Rig::new();
    for half in [producer(100, -1), producer(-1, 0)] {
        assert_eq!(rig.init_as(half), Err(ErrorCode::InvalidRequest));
    }
}

#[test]
fn two_phase_commit_is_refused() {
    let mut rig = Rig::new();
    let request = InitProducerIdRequest {
        enable2_pc: true,
        ..init_request()
    };
    assert_eq!(
        rig.init_with(6, request),
        Err(ErrorCode::TransactionalIdAuthorizationFailed)
    );
    let request = InitProducerIdRequest {
        keep_prepared_txn: true,
        ..init_request()
    };
    assert_eq!(rig.init_with(6, request), Err(ErrorCode::UnsupportedVersion));
    assert_eq!(rig.records(), 0);
}

#[test]
fn a_producer_that_says_who_it_is_gets_the_next_epoch_once() {
    let mut rig = Rig::new();
    let first = rig.init().unwrap();
    assert_eq!(rig.init_as(first), Ok(producer(100, 1)));
    assert_eq!(
        rig.init_as(first),
        Ok(producer(100, 1)),
        "a retry gets the same response"
    );
    assert_eq!(rig.init_as(producer(100, 1)), Ok(producer(100, 2)));
    assert_eq!(rig.init_as(first), Err(ErrorCode::ProducerFenced));
}

#[test]
fn a_producer_whose_epoch_another_took_is_fenced() {
    let mut rig = Rig::new();
    let first = rig.init().unwrap();
    rig.init().unwrap();
    assert_eq!(rig.init_as(first), Err(ErrorCode::ProducerFenced));
    assert_eq!(rig.init_with(4, init_request_as(first)), Err(ErrorCode::ProducerFenced));
    assert_eq!(
        rig.init_with(3, init_request_as(first)),
        Err(ErrorCode::InvalidProducerEpoch)
    );
}

#[test]
fn a_producer_with_another_id_is_fenced() {
    let mut rig = Rig::new();
    rig.init().unwrap();
    assert_eq!(rig.init_as(producer(99, 0)), Err(ErrorCode::ProducerFenced));
}

#[test]
fn a_producer_whose_id_was_forgotten_gets_a_new_one() {
    let mut rig = Rig::new();
    assert_eq!(rig.init_as(producer(55, 3)), Ok(producer(100, 0)));
}

#[test]
fn an_open_transaction_is_aborted_before_another_takes_over() {
    let mut rig = Rig::new();
    let first = rig.init().unwrap();
    assert_eq!(rig.add(ADD_V2, first, &[1, 2]), ErrorCode::None);
    assert_eq!(rig.init(), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(rig.state(), TransactionState::PrepareAbort);
    let markers = &rig.markers[0];
    assert_eq!((markers.committed, markers.producer), (false, producer(100, 1)));
    assert_eq!((markers.partitions.len(), markers.coordinator_epoch), (2, 7));
    assert_eq!(
        rig.init(),
        Err(ErrorCode::ConcurrentTransactions),
        "while markers are written"
    );
    assert_eq!(rig.markers.len(), 1);
    assert!(rig.write_markers().is_empty());
    assert_eq!(rig.init(), Ok(producer(100, 2)), "nobody had epoch 1");
    assert_eq!(rig.end_error(END_V2, first, true), ErrorCode::ProducerFenced);
    assert_eq!(rig.end_error(END_V2, first, false), ErrorCode::ProducerFenced);
}

#[test]
fn after_the_last_epoch_comes_a_new_producer_id() {
    let mut rig = Rig::new();
    let last = producer(55, i16::MAX - 1);
    rig.replay(stored_at(last));
    assert_eq!(rig.init_as(last), Ok(producer(100, 0)));
    assert_eq!(rig.value().previous_producer_id, 55);
    assert_eq!(
        rig.init_as(last),
        Ok(producer(100, 0)),
        "a retry gets the same response"
    );
    assert_eq!(rig.init_as(producer(55, 3)), Err(ErrorCode::ProducerFenced));
    rig.replay(stored_at(last));
    assert_eq!(rig.init(), Ok(producer(101, 0)), "without saying who it was, too");
    assert_eq!(rig.init_as(last), Err(ErrorCode::ProducerFenced));
}

#[test]
fn a_retry_that_reached_the_last_epoch_gets_the_same_response() {
    let mut rig = Rig::new();
    let (before, last) = (producer(55, i16::MAX - 2), producer(55, i16::MAX - 1));
    rig.replay(stored_at(before));
    assert_eq!(rig.init_as(before), Ok(last));
    assert_eq!(rig.init_as(before), Ok(last));
    assert_eq!(rig.init_as(producer(55, 3)), Err(ErrorCode::ProducerFenced));
}

#[test]
fn fencing_at_the_last_epoch_takes_a_new_producer_id() {
    let mut rig = Rig::new();
    let last = producer(55, i16::MAX - 1);
    rig.replay(stored_at(last));
    rig.add(ADD_V2, last, &[1]);
    assert_eq!(rig.init(), Err(ErrorCode::ConcurrentTransactions));
    assert_eq!(rig.markers[0].producer, producer(55, i16::MAX));
    rig.write_markers();
    assert_eq!((rig.value().producer_id, rig.value().producer_epoch), (100, 0));
    assert_eq!(rig.init(), Ok(producer(100, 1)));
}

#[test]
fn without_a_producer_id_to_be_had_nothing_happens() {
    let mut rig = Rig::new();
    rig.has_ids = false;
    assert_eq!(rig.init(), Err(ErrorCode::CoordinatorLoadInProgress));
    assert_eq!(rig.records(), 0);
    let last = producer(55, i16::MAX - 1);
    rig.replay(stored_at(last));
    assert_eq!(rig.init(), Err(ErrorCode::CoordinatorLoadInProgress));
    rig.add(ADD_V2, last, &[1]);
    assert_eq!(rig.init(), Err(ErrorCode::CoordinatorLoadInProgress));
    assert_eq!(rig.end_error(END_V2, last, true), ErrorCode::CoordinatorLoadInProgress);
    assert_eq!(rig.state(), TransactionState::Ongoing);
}

#[test]
fn a_new_owner_brings_its_own_timeout() {
    let mut rig = Rig::new();
    rig.init().unwrap();
    let request = InitProducerIdRequest {
        transaction_timeout_ms: TIMEOUT_MS * 2,
        ..init_request()
    };
    rig.init_with(5, request).unwrap();
    assert_eq!(rig.value().transaction_timeout_ms, TIMEOUT_MS * 2);
}
