//! Tests of the producer state: duplicates, epochs, sequences and transactions.

use milena_wire::records::{Attributes, BatchHeader, ControlRecord};

use super::*;

fn batch(epoch: i16, base_sequence: i32, base_offset: i64, count: i32) -> BatchHeader {
    BatchHeader {
        base_offset,
        length: 0,
        partition_leader_epoch: 0,
        crc: 0,
        attributes: Attributes::default(),
        last_offset_delta: count - 1,
        base_timestamp: 100,
        max_timestamp: 100,
        producer_id: 7,
        producer_epoch: epoch,
        base_sequence,
        record_count: count,
    }
}

fn transactional(epoch: i16, base_sequence: i32, base_offset: i64, count: i32) -> BatchHeader {
    BatchHeader {
        attributes: Attributes::default().with_transactional(true),
        ..batch(epoch, base_sequence, base_offset, count)
    }
}

fn marker(epoch: i16, base_offset: i64) -> BatchHeader {
    BatchHeader {
        attributes: Attributes::default().with_transactional(true).with_control(true),
        ..batch(epoch, -1, base_offset, 1)
    }
}

const ABORT: ControlRecord = ControlRecord::Abort { coordinator_epoch: 1 };
const COMMIT: ControlRecord = ControlRecord::Commit { coordinator_epoch: 1 };

#[test]
fn a_batch_sent_again_gets_its_first_offset() {
    let mut producers = Producers::default();
    for i in 0..6 {
        let batch = batch(0, i * 10, 100 + i64::from(i) * 10, 10);
        assert_eq!(producers.check(&batch), Ok(None));
        producers.apply(&batch);
    }
    let again = producers.check(&batch(0, 10, 0, 10)).unwrap().unwrap();
    assert_eq!((again.base_offset, again.last_offset), (110, 119));
    // The sixth is no longer remembered, and the same sequence with another length is another batch.
    for (sequence, count) in [(0, 10), (10, 9)] {
        let expected = ProducerError::OutOfOrder {
            producer_id: 7,
            sequence,
            expected: 60,
        };
        assert_eq!(producers.check(&batch(0, sequence, 0, count)), Err(expected));
    }
}

#[test]
fn sequences_have_no_gaps_and_wrap() {
    let mut producers = Producers::default();
    producers.apply(&batch(0, i32::MAX - 1, 0, 2));
    assert!(producers.check(&batch(0, 1, 0, 1)).is_err());
    assert_eq!(producers.check(&batch(0, 0, 0, 1)), Ok(None));
}

#[test]
fn a_newer_epoch_starts_at_zero_and_an_older_one_is_refused() {
    let mut producers = Producers::default();
    producers.apply(&batch(3, 0, 0, 5));
    let old = ProducerError::OldEpoch {
        producer_id: 7,
        epoch: 2,
        current: 3,
    };
    assert_eq!(producers.check(&batch(2, 5, 0, 1)), Err(old));
    let gap = ProducerError::OutOfOrder {
        producer_id: 7,
        sequence: 5,
        expected: 0,
    };
    assert_eq!(producers.check(&batch(4, 5, 0, 1)), Err(gap));
    let fresh = batch(4, 0, 5, 1);
    assert_eq!(producers.check(&fresh), Ok(None));
    producers.apply(&fresh);
    assert_eq!(producers.get(7).unwrap().last_sequence(), Some(0));
}

#[test]
fn an_unknown_producer_may_start_anywhere() {
    assert_eq!(Producers::default().check(&batch(0, 12_345, 0, 1)), Ok(None));
}

#[test]
fn an_open_transaction_holds_the_stable_offset_until_its_end_is_durable() {
    let mut producers = Producers::default();
    producers.apply(&transactional(0, 0, 10, 5));
    assert_eq!(producers.first_unstable_offset(), Some(10));
    let outside = ProducerError::OutsideTransaction { producer_id: 7 };
    assert_eq!(producers.check(&batch(0, 5, 0, 1)), Err(outside));

    let aborted = producers.apply_marker(&marker(0, 15), ABORT).unwrap();
    assert_eq!(
        (aborted.first_offset, aborted.last_offset, aborted.last_stable_offset),
        (10, 15, 10)
    );
    assert_eq!(producers.first_unstable_offset(), Some(10));
    producers.advance(15);
    assert_eq!(
        producers.first_unstable_offset(),
        Some(10),
        "the marker itself is at 15"
    );
    producers.advance(16);
    assert_eq!(producers.first_unstable_offset(), None);
    assert_eq!(producers.apply_marker(&marker(0, 16), COMMIT), None);
}

#[test]
fn markers_of_an_old_coordinator_or_epoch_are_refused() {
    let mut producers = Producers::default();
    producers.apply(&transactional(1, 0, 0, 1));
    producers.apply_marker(&marker(1, 1), ControlRecord::Commit { coordinator_epoch: 5 });
    let old = ProducerError::OldCoordinator {
        producer_id: 7,
        epoch: 1,
        current: 5,
    };
    assert_eq!(producers.check_marker(&marker(1, 2), ABORT, false), Err(old));
    let old = ProducerError::OldEpoch {
        producer_id: 7,
        epoch: 0,
        current: 1,
    };
    assert_eq!(producers.check_marker(&marker(0, 2), ABORT, false), Err(old));
}

#[test]
fn only_idle_producers_without_a_transaction_expire() {
    let mut producers = Producers::default();
    producers.apply(&batch(0, 0, 0, 1));
    producers.expire(199, 100);
    assert!(producers.get(7).is_some());
    producers.expire(200, 100);
    assert!(producers.get(7).is_none());
    producers.apply(&transactional(0, 0, 0, 1));
    producers.expire(i64::MAX, 100);
    assert!(producers.get(7).is_some());
}

#[test]
fn after_a_marker_with_a_new_epoch_the_old_one_is_refused_and_the_new_starts_at_zero() {
    let mut producers = Producers::default();
    producers.apply(&transactional(0, 0, 10, 5));
    assert_eq!(producers.check_marker(&marker(1, 15), COMMIT, true), Ok(()));
    producers.apply_marker(&marker(1, 15), COMMIT);
    let old = ProducerError::OldEpoch {
        producer_id: 7,
        epoch: 0,
        current: 1,
    };
    assert_eq!(producers.check(&transactional(0, 5, 16, 1)), Err(old));
    let gap = ProducerError::OutOfOrder {
        producer_id: 7,
        sequence: 5,
        expected: 0,
    };
    assert_eq!(producers.check(&transactional(1, 5, 16, 1)), Err(gap));
    assert_eq!(producers.check(&transactional(1, 0, 16, 1)), Ok(None));
}

#[test]
fn a_late_marker_does_not_end_the_next_transaction() {
    let mut producers = Producers::default();
    producers.apply(&transactional(0, 0, 10, 5));
    producers.apply_marker(&marker(1, 15), COMMIT);
    assert_eq!(
        producers.check_marker(&marker(1, 16), COMMIT, true),
        Ok(()),
        "written again"
    );
    producers.apply(&transactional(1, 0, 16, 5));
    let late = ProducerError::OldEpoch {
        producer_id: 7,
        epoch: 1,
        current: 1,
    };
    assert_eq!(producers.check_marker(&marker(1, 21), COMMIT, true), Err(late));
    assert_eq!(producers.check_marker(&marker(2, 21), COMMIT, true), Ok(()));
    assert_eq!(
        producers.check_marker(&marker(1, 21), COMMIT, false),
        Ok(()),
        "version 1 keeps its epoch"
    );
    producers.apply(&transactional(i16::MAX, 0, 21, 5));
    assert_eq!(
        producers.check_marker(&marker(i16::MAX, 26), ABORT, true),
        Ok(()),
        "there is none above"
    );
}
