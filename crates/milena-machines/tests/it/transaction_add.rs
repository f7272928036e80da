//! Adding partitions to a transaction.

use milena_machines::{
    TopicPartition,
    transaction::{TransactionConfig, TransactionReply, TransactionRequest, TransactionState, produce_error},
};
use milena_wire::errors::ErrorCode;

use crate::transaction_rig::{ADD_V1, ADD_V2, END_V1, END_V2, ID, Rig, producer};

#[test]
fn the_first_partition_begins_a_transaction_and_more_join_it() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    assert_eq!(rig.add(ADD_V1, owner, &[2]), ErrorCode::None);
    let begun = rig.value();
    assert_eq!(rig.state(), TransactionState::Ongoing);
    assert_eq!(begun.transaction_start_timestamp_ms, rig.now_ms);
    rig.now_ms += 5;
    assert_eq!(rig.add(ADD_V1, owner, &[1, 2]), ErrorCode::None);
    let joined = rig.value();
    assert_eq!(
        joined.transaction_start_timestamp_ms,
        begun.transaction_start_timestamp_ms
    );
    assert_eq!(joined.transaction_last_update_timestamp_ms, rig.now_ms);
    assert_eq!(joined.transaction_partitions.unwrap()[0].partition_ids, [1, 2]);
}

#[test]
fn adding_again_changes_nothing() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    rig.add(ADD_V1, owner, &[1, 2]);
    let records = rig.records();
    assert_eq!(rig.add(ADD_V1, owner, &[2]), ErrorCode::None);
    assert_eq!(rig.records(), records);
}

#[test]
fn offsets_join_as_a_partition_of_their_topic() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    let add_offsets = |epoch| TransactionRequest::AddOffsets {
        transactional_id: ID.into(),
        producer: producer(owner.producer_id, epoch),
        partition: TopicPartition {
            topic: "__consumer_offsets".into(),
            partition: 12,
        },
    };
    let reply = rig.call(4, add_offsets(owner.epoch));
    assert_eq!(reply, Some(TransactionReply::AddOffsets(ErrorCode::None)));
    let topics = rig.value().transaction_partitions.unwrap();
    assert_eq!(
        (&*topics[0].topic, &*topics[0].partition_ids),
        ("__consumer_offsets", &[12][..])
    );
    let reply = rig.call(2, add_offsets(9));
    assert_eq!(reply, Some(TransactionReply::AddOffsets(ErrorCode::ProducerFenced)));
    let reply = rig.call(1, add_offsets(9));
    assert_eq!(
        reply,
        Some(TransactionReply::AddOffsets(ErrorCode::InvalidProducerEpoch))
    );
}

#[test]
fn strangers_are_refused() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    assert_eq!(rig.add_to("", ADD_V1, owner, &[1], false), ErrorCode::InvalidRequest);
    assert_eq!(
        rig.add_to("unknown", ADD_V1, owner, &[1], false),
        ErrorCode::InvalidProducerIdMapping
    );
    assert_eq!(
        rig.add(ADD_V1, producer(99, 0), &[1]),
        ErrorCode::InvalidProducerIdMapping
    );
    for epoch in [-1, 1] {
        let other = producer(owner.producer_id, epoch);
        assert_eq!(rig.add(2, other, &[1]), ErrorCode::ProducerFenced);
        assert_eq!(rig.add(1, other, &[1]), ErrorCode::InvalidProducerEpoch);
    }
    assert_eq!(rig.records(), 1);
}

#[test]
fn nothing_joins_a_transaction_that_is_being_ended() {
    for committed in [true, false] {
        let mut rig = Rig::new();
        let owner = rig.init().unwrap();
        rig.add(ADD_V1, owner, &[1]);
        assert_eq!(rig.end_now(END_V1, owner, committed), None);
        assert_eq!(rig.add(ADD_V1, owner, &[1]), ErrorCode::ConcurrentTransactions);
        assert_eq!(rig.verify(owner, &[1]), ErrorCode::ConcurrentTransactions);
        rig.write_markers();
        assert_eq!(rig.add(ADD_V1, owner, &[1]), ErrorCode::None);
    }
}

#[test]
fn the_record_tells_how_the_producer_speaks() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    assert_eq!(rig.value().client_transaction_version, 0);
    rig.add(ADD_V1, owner, &[1]);
    assert_eq!(rig.value().client_transaction_version, 0);
    rig.add(4, owner, &[2]);
    assert_eq!(rig.value().client_transaction_version, 2);
    rig.end(END_V1, owner, true);
    assert_eq!(rig.value().client_transaction_version, 0);
}

#[test]
fn verification_adds_nothing_and_tells_a_producer_to_abort() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    assert_eq!(rig.verify(owner, &[1]), ErrorCode::TransactionAbortable);
    assert_eq!(rig.state(), TransactionState::Empty);
    rig.add(ADD_V1, owner, &[1]);
    assert_eq!(rig.verify(owner, &[1]), ErrorCode::None);
    assert_eq!(rig.verify(owner, &[1, 2]), ErrorCode::TransactionAbortable);
    assert_eq!(rig.verify(producer(99, 0), &[1]), ErrorCode::InvalidProducerIdMapping);
    assert_eq!(
        rig.verify(producer(owner.producer_id, 5), &[1]),
        ErrorCode::ProducerFenced
    );
    assert_eq!(rig.add_to("", 5, owner, &[1], true), ErrorCode::InvalidRequest);
    rig.end(END_V1, owner, true);
    assert_eq!(
        rig.verify(owner, &[1]),
        ErrorCode::TransactionAbortable,
        "the next transaction has none"
    );
}

#[test]
fn verification_can_be_turned_off() {
    let mut rig = Rig::with_config(TransactionConfig {
        partition_verification: false,
        ..TransactionConfig::default()
    });
    let owner = rig.init().unwrap();
    assert_eq!(rig.verify(owner, &[1]), ErrorCode::None);
}

#[test]
fn data_that_comes_late_cannot_begin_a_transaction() {
    let mut rig = Rig::new();
    let owner = rig.init().unwrap();
    rig.add(ADD_V2, owner, &[1]);
    rig.end(END_V2, owner, true);
    assert_eq!(rig.add(ADD_V2, owner, &[1]), ErrorCode::ProducerFenced);
}

#[test]
fn producers_hear_what_their_version_knows() {
    for version in 3..=13 {
        let (knows_abortable, adds_partitions) = (version >= 11, version >= 12);
        let expected = if knows_abortable {
            ErrorCode::TransactionAbortable
        } else {
            ErrorCode::InvalidTxnState
        };
        assert_eq!(produce_error(ErrorCode::TransactionAbortable, version), expected);
        let expected = if adds_partitions {
            ErrorCode::ConcurrentTransactions
        } else {
            ErrorCode::NotEnoughReplicas
        };
        assert_eq!(produce_error(ErrorCode::ConcurrentTransactions, version), expected);
        assert_eq!(
            produce_error(ErrorCode::ProducerFenced, version),
            ErrorCode::InvalidProducerEpoch
        );
        assert_eq!(
            produce_error(ErrorCode::CoordinatorLoadInProgress, version),
            ErrorCode::NotEnoughReplicas
        );
        let mapping = ErrorCode::InvalidProducerIdMapping;
        assert_eq!(produce_error(mapping, version), mapping);
    }
}
