//! The order of a partition is that of its pushes.

use milena_machines::{
    Random, TopicPartition,
    member::CallFailure,
    produce::{BatchId, ProduceCall, SenderConfig, SenderEvent, Stamp, WriteStatus},
};
use milena_wire::errors::ErrorCode;

use super::rig::{BATCH_BYTES, LEADER, Rig, config, stamp};

/// A partition as a broker keeps it, as far as order and sequence numbers go.
#[derive(Default)]
struct Log {
    epoch: i16,
    next: i32,
    written: Vec<BatchId>,
}

impl Log {
    fn append(&mut self, id: BatchId, stamp: Stamp, records: i32) -> ErrorCode {
        if stamp.producer_epoch < self.epoch {
            return ErrorCode::InvalidProducerEpoch;
        }
        let expected = if stamp.producer_epoch > self.epoch {
            0
        } else {
            self.next
        };
        if stamp.base_sequence != expected {
            let is_known = stamp.producer_epoch == self.epoch && self.written.contains(&id);
            return if is_known {
                ErrorCode::DuplicateSequenceNumber
            } else {
                ErrorCode::OutOfOrderSequenceNumber
            };
        }
        self.epoch = stamp.producer_epoch;
        self.next = expected + records;
        self.written.push(id);
        ErrorCode::None
    }
}

/// Random histories: responses are lost before or after the append, leaders change, requests fail.
#[test]
fn order_is_kept_through_losses_and_leader_changes_with_any_number_in_flight() {
    for seed in 0..2_000_u64 {
        let mut random = Random::new(seed);
        let max_in_flight = 1 + random.below(5) as usize;
        let mut rig = Rig::with_epoch(
            SenderConfig {
                max_in_flight,
                ..config()
            },
            0,
        );
        let slot = rig.slot(0);
        let mut log = Log::default();
        let mut pushed = vec![];
        let mut calls: Vec<ProduceCall> = vec![];
        for _ in 0..120 {
            match random.below(8) {
                0..=2 if pushed.len() < 20 => pushed.push(rig.push(slot, 2)),
                3 => {
                    let leader = random.below(3) as i32;
                    rig.sender.handle_leader(rig.now, slot, (leader > 0).then_some(leader));
                }
                4 => rig.pass(random.below(300) as i64),
                _ => {}
            }
            calls.extend(std::iter::from_fn(|| rig.sender.poll_produce_request(rig.now)));
            assert!(calls.len() <= max_in_flight);
            if !calls.is_empty() && random.below(2) == 0 {
                // A connection keeps the order; when it breaks, all requests behind are lost too.
                if random.below(4) == 0 {
                    let arrived = random.below(calls.len() as u64 + 1) as usize;
                    for (place, call) in calls.drain(..).enumerate() {
                        let sent = call.batches[0];
                        if place < arrived {
                            log.append(sent.id, sent.stamp, 2);
                        }
                        rig.lose(&call);
                    }
                } else {
                    let call = calls.remove(0);
                    let sent = call.batches[0];
                    let error = match random.below(6) {
                        0 => ErrorCode::NotEnoughReplicas,
                        1 => ErrorCode::NotLeaderOrFollower,
                        _ => log.append(sent.id, sent.stamp, 2),
                    };
                    rig.refuse(&call, error);
                }
            }
        }
        rig.sender.handle_leader(rig.now, slot, Some(LEADER));
        while rig.sender.has_batches() {
            for call in calls.drain(..) {
                let sent = call.batches[0];
                let error = log.append(sent.id, sent.stamp, 2);
                rig.refuse(&call, error);
            }
            rig.wait();
            calls.extend(std::iter::from_fn(|| rig.sender.poll_produce_request(rig.now)));
        }
        assert_eq!(log.written, pushed, "seed {seed}");
        let mut acked: Vec<BatchId> = rig.outcomes().into_iter().map(|(batch, _)| batch).collect();
        acked.sort_unstable();
        assert_eq!(acked, pushed, "seed {seed}");
    }
}

#[test]
fn a_repeated_batch_goes_before_newer_ones() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    let first = rig.push(slot, 1);
    let call = rig.produce_only(first);
    rig.ack(&call, 0);
    let [second, third] = [rig.push(slot, 2), rig.push(slot, 3)];
    let calls = [rig.produce_only(second), rig.produce_only(third)];
    let fourth = rig.push(slot, 1);
    rig.lose(&calls[0]);
    rig.lose(&calls[1]);
    rig.nothing_to_produce();
    rig.wait();
    // Batches that were sent go one after the other, and before those that were not.
    let again = rig.produce_only(second);
    assert_eq!(again.batches[0].stamp, stamp(0, 1));
    rig.nothing_to_produce();
    rig.ack(&again, 1);
    let again = rig.produce_only(third);
    assert_eq!(again.batches[0].stamp, stamp(0, 3));
    let call = rig.produce_only(fourth);
    assert_eq!(call.batches[0].stamp, stamp(0, 6));
}

#[test]
fn a_batch_waits_for_requests_in_flight_to_the_old_leader() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    let first = rig.push(slot, 1);
    let call = rig.produce_only(first);
    rig.ack(&call, 0);
    let [second, third] = [rig.push(slot, 1), rig.push(slot, 1)];
    let call = rig.produce_only(second);
    rig.sender.handle_leader(rig.now, slot, Some(2));
    rig.nothing_to_produce();
    rig.refuse(&call, ErrorCode::NotLeaderOrFollower);
    rig.wait();
    assert_eq!(rig.produce_only(second).node, 2);
    assert_eq!(rig.produce_only(third).node, 2);
    assert_eq!(rig.sender.partition(slot), Some(&TopicPartition::new("t", 0)));
}

#[test]
fn a_new_leader_is_tried_at_once() {
    let mut rig = Rig::new();
    let slot = rig.slot(0);
    let batch = rig.push(slot, 1);
    let call = rig.produce();
    rig.refuse(&call, ErrorCode::NotLeaderOrFollower);
    assert_eq!(rig.events(), [SenderEvent::MetadataStale]);
    rig.nothing_to_produce();
    rig.sender.handle_leader(rig.now, slot, Some(2));
    assert_eq!(rig.produce_only(batch).node, 2);
}

#[test]
fn without_idempotence_one_request_in_flight_keeps_the_order() {
    for acks in [1, -1] {
        let mut rig = Rig::with(SenderConfig {
            acks,
            idempotent: false,
            max_in_flight: 1,
            ..config()
        });
        rig.nothing_to_call();
        let slot = rig.slot(0);
        let [first, second] = [rig.push(slot, 1), rig.push(slot, 1)];
        let call = rig.produce_only(first);
        assert_eq!(call.batches[0].stamp, Stamp::NONE);
        rig.nothing_to_produce();
        rig.lose(&call);
        rig.nothing_to_produce();
        rig.wait();
        let call = rig.produce_only(first);
        rig.ack(&call, 5);
        let call = rig.produce_only(second);
        rig.fail(&call, CallFailure::TimedOut);
        assert_eq!(rig.outcomes(), [(first, Ok(Some(5)))]);
    }
}

#[test]
fn without_acknowledgements_a_batch_is_done_when_it_has_left() {
    let mut rig = Rig::with(SenderConfig {
        acks: 0,
        idempotent: false,
        ..config()
    });
    let slot = rig.slot(0);
    let [first, second] = [rig.push(slot, 1), rig.push(slot, 1)];
    let calls = [rig.produce_only(first), rig.produce_only(second)];
    rig.sender.handle_sent(rig.now, calls[0].id);
    rig.fail(&calls[1], CallFailure::NotSent);
    assert_eq!(rig.outcomes(), [(first, Ok(None))]);
    rig.pass(super::rig::DELIVERY_MS);
    assert_eq!(rig.outcomes(), [(second, Err(WriteStatus::NotWritten))]);
}

#[test]
fn a_node_has_at_most_so_many_requests_and_a_request_so_many_bytes() {
    let mut rig = Rig::with_epoch(
        SenderConfig {
            max_in_flight: 2,
            max_request_bytes: 2 * BATCH_BYTES,
            ..config()
        },
        0,
    );
    let slots: Vec<_> = (0..5).map(|partition| rig.slot(partition)).collect();
    let batches: Vec<BatchId> = slots.iter().map(|slot| rig.push(*slot, 1)).collect();
    let ids = |call: &ProduceCall| call.batches.iter().map(|sent| sent.id).collect::<Vec<_>>();
    let [first, second] = [rig.produce(), rig.produce()];
    assert_eq!(
        (ids(&first), ids(&second)),
        (batches[..2].to_vec(), batches[2..4].to_vec())
    );
    assert!(!rig.sender.wants_batch(slots[4]));
    rig.nothing_to_produce();
    // Those that were served come last.
    rig.ack(&first, 0);
    let again = rig.push(slots[0], 1);
    assert_eq!(ids(&rig.produce()), [batches[4], again]);
    // Another node has requests of its own.
    let other = rig.sender.slot(&TopicPartition::new("t", 9));
    rig.sender.handle_leader(rig.now, other, Some(2));
    assert!(rig.sender.wants_batch(other));
}

#[test]
fn large_requests_wait_where_batches_grow_and_small_ones_fill_the_connection() {
    for (bytes_max, in_flight) in [(100 * BATCH_BYTES, 5), (3 * BATCH_BYTES, 3), (BATCH_BYTES, 2)] {
        let mut rig = Rig::with_epoch(
            SenderConfig {
                max_request_bytes: bytes_max,
                ..config()
            },
            0,
        );
        let slots: Vec<_> = (0..6).map(|partition| rig.slot(partition)).collect();
        let mut calls = vec![];
        for slot in &slots {
            rig.push(*slot, 1);
            calls.extend(rig.sender.poll_produce_request(rig.now));
        }
        assert_eq!(calls.len(), in_flight, "requests of at most {bytes_max} bytes");
        assert!(!rig.sender.wants_batch(slots[5]));
        rig.ack(&calls[0], 0);
        rig.produce();
        rig.nothing_to_produce();
    }
}

#[test]
fn an_open_batch_is_wanted_only_if_it_would_leave_at_once() {
    let mut rig = Rig::with(config());
    let slot = rig.slot(0);
    assert!(!rig.sender.wants_batch(slot), "who writes is not known yet");
    rig.respond_init(super::rig::PRODUCER_ID, 0);
    assert!(rig.sender.wants_batch(slot));
    let first = rig.push(slot, 1);
    assert!(!rig.sender.wants_batch(slot), "another is before it");
    let call = rig.produce_only(first);
    assert!(
        !rig.sender.wants_batch(slot),
        "the broker does not know this producer yet"
    );
    rig.ack(&call, 0);
    let second = rig.push(slot, 1);
    let call = rig.produce_only(second);
    assert!(rig.sender.wants_batch(slot));
    rig.lose(&call);
    assert!(!rig.sender.wants_batch(slot), "another is to be repeated");
    rig.wait();
    let call = rig.produce_only(second);
    assert!(rig.sender.wants_batch(slot));
    rig.sender.handle_leader(rig.now, slot, None);
    assert!(!rig.sender.wants_batch(slot), "nobody leads");
    rig.ack(&call, 1);
}
