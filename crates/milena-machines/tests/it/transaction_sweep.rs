//! Timeouts and expiry of transactions, and their description.

use milena_machines::transaction::{
    IdPattern, TransactionConfig, TransactionRecord, TransactionReply, TransactionRequest, TransactionState,
};
use milena_wire::{errors::ErrorCode, messages::InitProducerIdRequest};

use crate::transaction_rig::{
    ADD_V1, ADD_V2, END_V1, END_V2, ID, Rig, TIMEOUT_MS, error, init_request, producer, stored_at,
};

const DAY_MS: i64 = 24 * 60 * 60 * 1000;

#[test]
fn a_transaction_that_takes_too_long_is_aborted_and_its_producer_fenced() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    rig.add(ADD_V1, owner, &[1]);
    rig.pass(TIMEOUT_MS.into());
    assert_eq!(rig.state(), TransactionState::Ongoing, "not before the timeout is over");
    assert_eq!(rig.coordinator.poll_timeout(), Some(rig.now_ms + 10_000));
    rig.pass(10_000);
    assert_eq!(rig.state(), TransactionState::PrepareAbort);
    assert_eq!(rig.markers[0].producer, producer(100, 1));
    assert!(!rig.markers[0].committed);
    rig.write_markers();
    assert_eq!(rig.state(), TransactionState::CompleteAbort);
    assert_eq!(rig.add(ADD_V1, owner, &[1]), ErrorCode::ProducerFenced);
    assert_eq!(rig.end_error(END_V1, owner, true), ErrorCode::ProducerFenced);
    assert_eq!(rig.end_error(END_V2, owner, true), ErrorCode::InvalidTxnState);
}

#[test]
fn with_version_2_a_producer_that_took_too_long_can_abort_and_go_on() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    rig.add(ADD_V2, owner, &[1]);
    rig.pass(i64::from(TIMEOUT_MS) + 10_000);
    rig.write_markers();
    let response = rig.end_now(END_V2, owner, false).unwrap();
    assert_eq!(
        (error(response.error_code), response.producer_epoch),
        (ErrorCode::None, 1)
    );
    assert_eq!(rig.add(ADD_V2, producer(100, 1), &[1]), ErrorCode::None);
}

#[test]
fn the_sweep_finds_transactions_after_a_restart() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    rig.add(ADD_V1, owner, &[1]);
    rig.restart();
    rig.pass(i64::from(TIMEOUT_MS) + 10_000);
    assert_eq!(rig.state(), TransactionState::PrepareAbort);
}

#[test]
fn the_sweep_tries_again_when_there_was_no_producer_id() {
    let mut rig = Rig::new();
    let last = producer(55, i16::MAX - 1);
    rig.replay(stored_at(last));
    rig.add(ADD_V2, last, &[1]);
    rig.has_ids = false;
    rig.pass(i64::from(TIMEOUT_MS) + 10_000);
    assert_eq!(rig.state(), TransactionState::Ongoing);
    rig.has_ids = true;
    rig.pass(10_000);
    assert_eq!(rig.state(), TransactionState::PrepareAbort);
}

#[test]
fn without_an_open_transaction_nothing_is_swept_for() {
    let mut rig = Rig::new();
    assert_eq!(rig.coordinator.poll_timeout(), None);
    rig.init().unwrap();
    assert_eq!(rig.coordinator.poll_timeout(), Some(rig.now_ms + 3_600_000));
}

#[test]
fn an_unused_id_is_removed_after_a_week() {
    for is_ended in [false, true] {
        let mut rig = Rig::new();
        let owner = rig.init().unwrap();
        if is_ended {
            rig.add(ADD_V1, owner, &[1]);
            rig.end(END_V1, owner, true);
        }
        rig.pass(7 * DAY_MS - 1);
        assert_eq!(rig.coordinator.snapshot().len(), 1);
        rig.pass(3_600_000);
        assert!(rig.coordinator.snapshot().is_empty());
        assert_eq!(rig.coordinator.poll_timeout(), None);
        let (key, value) = rig.stored().last().unwrap();
        let record = TransactionRecord::decode(key, value.as_ref()).unwrap().unwrap();
        assert_eq!((&*record.transactional_id, record.value), (ID, None));
        assert_eq!(rig.add(ADD_V1, owner, &[1]), ErrorCode::InvalidProducerIdMapping);
        assert_eq!(rig.init(), Ok(producer(101, 0)));
    }
}

#[test]
fn an_id_with_an_open_transaction_is_never_forgotten() {
    let mut rig = Rig::with_config(TransactionConfig {
        id_expiration_ms: 1,
        ..TransactionConfig::default()
    });
    let owner = rig.init().unwrap();
    rig.add(ADD_V1, owner, &[1]);
    rig.pass(DAY_MS);
    assert_eq!(rig.state(), TransactionState::PrepareAbort);
    rig.pass(DAY_MS);
    assert_eq!(
        rig.state(),
        TransactionState::PrepareAbort,
        "its markers are still to be written"
    );
}

#[test]
fn settings_can_change_while_it_runs() {
    let mut rig = Rig::new();
    rig.coordinator.set_config(TransactionConfig {
        max_timeout_ms: TIMEOUT_MS - 1,
        ..TransactionConfig::default()
    });
    assert_eq!(rig.init(), Err(ErrorCode::InvalidTransactionTimeout));
}

#[test]
fn describing_shows_the_transaction() {
    let mut rig = Rig::new();
    let describe = |rig: &mut Rig, id: &str| {
        let transactional_id = id.into();
        match rig.call(0, TransactionRequest::Describe { transactional_id }) {
            Some(TransactionReply::Describe(described)) => described,
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(error(describe(&mut rig, "").error_code), ErrorCode::InvalidRequest);
    let unknown = describe(&mut rig, ID);
    assert_eq!(error(unknown.error_code), ErrorCode::TransactionalIdNotFound);
    assert_eq!(&*unknown.transactional_id, ID);
    let owner = rig.init().unwrap();
    rig.add(ADD_V1, owner, &[3, 1]);
    let described = describe(&mut rig, ID);
    assert_eq!(error(described.error_code), ErrorCode::None);
    assert_eq!(&*described.transaction_state, "Ongoing");
    assert_eq!((described.producer_id, described.producer_epoch), (100, 0));
    assert_eq!(described.transaction_timeout_ms, TIMEOUT_MS);
    assert_eq!(described.transaction_start_time_ms, rig.now_ms);
    assert_eq!(
        (&*described.topics[0].topic, &*described.topics[0].partitions),
        ("sales", &[1, 3][..])
    );
}

#[test]
fn listing_filters_by_state_producer_age_and_name() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    rig.add(ADD_V1, owner, &[1]);
    rig.now_ms += 500;
    for id in ["stock", "stocks"] {
        let request = InitProducerIdRequest {
            transactional_id: Some(id.into()),
            ..init_request()
        };
        rig.init_with(5, request).unwrap();
    }
    let mut list = |states: &[&str], producer_ids: &[i64], duration_ms, pattern: Option<&str>| -> Vec<String> {
        let request = TransactionRequest::List {
            states: states.iter().map(|state| (*state).into()).collect(),
            producer_ids: producer_ids.to_vec(),
            duration_ms,
            pattern: pattern.map(|pattern| IdPattern::new(pattern).unwrap()),
        };
        match rig.call(2, request) {
            Some(TransactionReply::List(listed)) => listed.iter().map(|one| one.transactional_id.to_string()).collect(),
            other => panic!("{other:?}"),
        }
    };
    assert_eq!(list(&[], &[], -1, None), ["orders", "stock", "stocks"]);
    assert_eq!(list(&["Ongoing"], &[], -1, None), ["orders"]);
    assert_eq!(list(&["Ongoing", "Empty"], &[], -1, None).len(), 3);
    assert_eq!(list(&["Nonsense"], &[], -1, None).len(), 0);
    assert_eq!(list(&[], &[101, 999], -1, None), ["stock"]);
    assert_eq!(list(&["Ongoing"], &[], 499, None), ["orders"]);
    assert_eq!(list(&["Ongoing"], &[], 500, None).len(), 0);
    assert_eq!(list(&[], &[], -1, Some("stock")), ["stock"]);
    assert_eq!(list(&[], &[], -1, Some("st.*|x")), ["stock", "stocks"]);
    assert!(IdPattern::new("(").is_err());
    assert!(IdPattern::new("a)|(b").is_err());
}

#[test]
fn states_have_the_numbers_names_and_predecessors_of_kafka() {
    use TransactionState::{
        CompleteAbort, CompleteCommit, Dead, Empty, Ongoing, PrepareAbort, PrepareCommit, PrepareEpochFence,
    };
    let table: [(TransactionState, &str, &[TransactionState]); 8] = [
        (Empty, "Empty", &[Empty, CompleteCommit, CompleteAbort]),
        (Ongoing, "Ongoing", &[Empty, Ongoing, CompleteCommit, CompleteAbort]),
        (PrepareCommit, "PrepareCommit", &[Ongoing]),
        (
            PrepareAbort,
            "PrepareAbort",
            &[Empty, Ongoing, CompleteCommit, CompleteAbort, PrepareEpochFence],
        ),
        (CompleteCommit, "CompleteCommit", &[PrepareCommit]),
        (CompleteAbort, "CompleteAbort", &[PrepareAbort]),
        (Dead, "Dead", &[Empty, CompleteCommit, CompleteAbort]),
        (PrepareEpochFence, "PrepareEpochFence", &[Ongoing]),
    ];
    for (id, (state, name, predecessors)) in (0..).zip(table) {
        assert_eq!((state.id(), state.name()), (id, name));
        assert_eq!(TransactionState::from_id(id), Some(state));
        assert_eq!(TransactionState::from_name(name), Some(state));
        let may_follow = TransactionState::ALL
            .into_iter()
            .filter(|previous| state.may_follow(*previous));
        assert_eq!(may_follow.collect::<Vec<_>>(), predecessors, "{name}");
    }
    assert_eq!(TransactionState::from_id(8), None);
    assert_eq!(TransactionState::from_name("ongoing"), None);
}

#[test]
fn records_are_stored_as_kafka_stores_them() {
    let mut rig = Rig::new();
    rig.init().unwrap();
    rig.add(ADD_V2, producer(100, 0), &[1]);
    let (key, value) = &rig.stored()[1];
    assert_eq!(key[..], *b"\x00\x00\x00\x06orders");
    let mut expected = vec![0, 1];
    expected.extend(100_i64.to_be_bytes());
    expected.extend(0_i16.to_be_bytes());
    expected.extend(TIMEOUT_MS.to_be_bytes());
    expected.push(1);
    expected.extend(b"\x02\x06sales\x02\x00\x00\x00\x01\x00");
    expected.extend(rig.now_ms.to_be_bytes());
    expected.extend(rig.now_ms.to_be_bytes());
    expected.extend([2, 0, 8]);
    expected.extend(100_i64.to_be_bytes());
    expected.extend([2, 2, 0, 2]);
    assert_eq!(value.as_deref(), Some(&*expected));
}

#[test]
fn records_of_another_kind_are_left_alone_and_damaged_ones_named() {
    let mut rig = Rig::new();
    let other = bytes::Bytes::from_static(b"\x00\x05whatever");
    rig.coordinator.replay_stored(&other, None).unwrap();
    assert!(rig.coordinator.snapshot().is_empty());
    let damaged = bytes::Bytes::from_static(b"\x00\x00\x00\x06or");
    assert!(rig.coordinator.replay_stored(&damaged, None).is_err());
}

#[test]
fn with_a_state_that_is_not_known_nothing_can_be_done() {
    let mut rig = Rig::new();
    let owner = producer(55, 3);
    let mut value = stored_at(owner);
    value.transaction_status = 9;
    rig.replay(value);
    assert_eq!(rig.init(), Err(ErrorCode::UnknownServerError));
    assert_eq!(rig.add(ADD_V2, owner, &[1]), ErrorCode::UnknownServerError);
    for version in [END_V1, END_V2] {
        assert_eq!(rig.end_error(version, owner, false), ErrorCode::UnknownServerError);
    }
    rig.restart();
    rig.pass(30 * DAY_MS);
    assert_eq!(rig.records(), 1);
}
