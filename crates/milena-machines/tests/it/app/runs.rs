//! Runs of records that go to a handler together.

use milena_machines::app::{
    Acceptance, Action, Arrival, Assignment, BatchConfig, Dispatch, Failure, HandlerConfig, HandlerId, Keyed, Outcome,
    PartitionId, RecordId, Role, Scheduler, SchedulerConfig, SourceId, WhenStalled,
};

use super::rig::{config, handler, topic};

const START: i64 = 1_000_000;

/// The keys of some records, one letter each.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Letters(String);

impl Keyed for Letters {
    fn key(&self) -> Option<&[u8]> {
        self.key_at(0)
    }

    fn records(&self) -> u32 {
        self.0.len() as u32
    }

    fn key_at(&self, place: u32) -> Option<&[u8]> {
        self.0.as_bytes().get(place as usize..=place as usize)
    }

    fn split(&mut self, count: u32) -> Option<Self> {
        Some(Self(self.0.split_off(count as usize)))
    }
}

fn batches() -> SchedulerConfig {
    config(HandlerConfig {
        batch: Some(BatchConfig { size: 4, linger_ms: 0 }),
        ..handler()
    })
}

fn start(config: SchedulerConfig) -> (Scheduler<Letters>, PartitionId) {
    let mut work = Scheduler::new(config, 1).unwrap();
    let assignment = Assignment {
        partition: topic(0),
        source: SourceId(0),
        handler: HandlerId(0),
        role: Role::Main,
        position: 0,
        committed: None,
        leader_epoch: None,
    };
    let partition = work.handle_assigned(START, assignment);
    (work, partition)
}

fn read(work: &mut Scheduler<Letters>, partition: PartitionId, offset: i64, keys: &str) {
    let arrival = Arrival {
        offset,
        leader_epoch: None,
        bytes: 10 * keys.len() as u32,
        retry: None,
        payload: Letters(keys.to_owned()),
    };
    let accepted = work.accept(START, partition, arrival);
    assert!(matches!(accepted, Acceptance::Taken(_)), "{accepted:?}");
}

fn dispatch(work: &mut Scheduler<Letters>, now_ms: i64) -> Vec<Dispatch> {
    let mut out = vec![];
    work.poll_dispatch(now_ms, 64, &mut out);
    out
}

/// The first offset of each, how many records it has, and which attempt it is.
fn shapes(dispatched: &[Dispatch]) -> Vec<(i64, u32, u32)> {
    let shapes = dispatched.iter().map(|one| (one.offset, one.count, one.attempt));
    shapes.collect()
}

fn said(work: &mut Scheduler<Letters>) -> Vec<Action> {
    std::iter::from_fn(|| work.poll_action()).collect()
}

#[test]
fn a_run_is_handed_out_and_done_as_a_whole_up_to_the_size_of_a_batch() {
    let (mut work, partition) = start(batches());
    read(&mut work, partition, 0, "abacab");
    let first = dispatch(&mut work, START);
    assert_eq!(shapes(&first), [(0, 4, 1)]);
    assert_eq!(work.status().in_handlers, 4);
    assert!(dispatch(&mut work, START).is_empty(), "the rest may have the same keys");
    work.handle_finished(START, first[0].record, Outcome::Done);
    let status = work.partition_status(partition).unwrap();
    assert_eq!((status.frontier, status.records, status.bytes), (4, 2, 20));
    let rest = dispatch(&mut work, START);
    assert_eq!(shapes(&rest), [(4, 2, 1)]);
    work.handle_finished(START, rest[0].record, Outcome::Done);
    let status = work.partition_status(partition).unwrap();
    assert_eq!((status.frontier, status.records, status.bytes), (6, 0, 0));
    assert_eq!(work.status().totals.done, 6);
}

#[test]
fn a_run_that_fails_is_tried_again_record_by_record_in_the_order_of_keys() {
    let (mut work, partition) = start(batches());
    read(&mut work, partition, 0, "aab");
    let whole = dispatch(&mut work, START)[0].record;
    work.handle_finished(START, whole, Outcome::Failed(Failure::Retry));
    assert_eq!(work.status().in_handlers, 0);
    let now = START + 60_000;
    work.handle_timeout(now);
    let mut seen = vec![];
    loop {
        let again = dispatch(&mut work, now);
        if again.is_empty() {
            break;
        }
        for one in &again {
            assert_eq!((one.count, one.attempt), (1, 2), "{one:?}");
            seen.push(one.offset);
            work.handle_finished(now, one.record, Outcome::Done);
        }
    }
    let place = |offset: i64| seen.iter().position(|seen| *seen == offset).unwrap();
    assert!(place(0) < place(1) && seen.len() == 3, "{seen:?}");
    assert_eq!(work.partition_status(partition).unwrap().frontier, 3);
}

#[test]
fn a_run_whose_call_does_not_return_is_called_off_and_its_records_come_again() {
    let (mut work, partition) = start(SchedulerConfig {
        when_stalled: WhenStalled::Retry,
        ..batches()
    });
    read(&mut work, partition, 0, "abc");
    let whole: RecordId = dispatch(&mut work, START)[0].record;
    said(&mut work);
    let mut now = START;
    let mut told = vec![];
    while told.is_empty() {
        now = work.poll_timeout().expect("somebody watches");
        work.handle_timeout(now);
        told = said(&mut work);
        told.retain(|action| matches!(action, Action::Cancel(_) | Action::Stalled { .. }));
    }
    let [Action::Cancel(cancelled), Action::Stalled { cancelled: all, .. }] = &told[..] else {
        panic!("{told:?}")
    };
    assert_eq!((*cancelled, all.len()), (whole, 3));
    assert_eq!(work.status().in_handlers, 0);
    // The late result of the cancelled call is stale.
    work.handle_finished(now, whole, Outcome::Done);
    assert_eq!(work.partition_status(partition).unwrap().frontier, 0);
    let now = now + 60_000;
    work.handle_timeout(now);
    let mut left = 3;
    while left > 0 {
        let again = dispatch(&mut work, now);
        assert!(!again.is_empty());
        for one in again {
            left -= one.count;
            work.handle_finished(now, one.record, Outcome::Done);
        }
    }
    assert_eq!(work.partition_status(partition).unwrap().frontier, 3);
    assert_eq!(work.status().totals.cancelled, 3);
}

/// Handles all records that are left one by one, and returns their offsets in that order.
fn drain(work: &mut Scheduler<Letters>, now_ms: i64) -> Vec<i64> {
    let mut seen = vec![];
    loop {
        let next = dispatch(work, now_ms);
        if next.is_empty() {
            return seen;
        }
        for one in next {
            assert_eq!(one.count, 1);
            seen.push(one.offset);
            work.handle_finished(now_ms, one.record, Outcome::Done);
        }
    }
}

#[test]
fn a_handler_of_single_records_goes_through_one_run_of_a_partition_at_a_time() {
    let (mut work, partition) = start(config(handler()));
    assert!(work.takes_run(START, partition));
    read(&mut work, partition, 0, "abc");
    read(&mut work, partition, 3, "ad");
    let first = dispatch(&mut work, START);
    assert_eq!(shapes(&first), [(0, 3, 1)]);
    assert!(
        dispatch(&mut work, START).is_empty(),
        "its first record may have to wait for the other run"
    );
    work.handle_finished(START, first[0].record, Outcome::Done);
    let second = dispatch(&mut work, START);
    assert_eq!(shapes(&second), [(3, 2, 1)]);
    work.handle_finished(START, second[0].record, Outcome::Done);
    assert_eq!(work.partition_status(partition).unwrap().frontier, 5);
}

#[test]
fn a_run_that_is_interrupted_goes_on_by_keys() {
    let (mut work, partition) = start(config(handler()));
    read(&mut work, partition, 0, "xabac");
    read(&mut work, partition, 5, "ab");
    let run = dispatch(&mut work, START)[0].record;
    // `x` is done, the first `a` waits for something.
    let waits = work.interrupt(START, run, 1).unwrap();
    assert_eq!(work.position(waits), Some((partition, 1)));
    assert_eq!(work.partition_status(partition).unwrap().frontier, 1);
    assert_eq!(work.status().in_handlers, 1);
    assert_eq!(work.interrupt(START, run, 1), None, "there is no such run any more");
    assert!(!work.takes_run(START, partition), "the next would have to wait too");
    let others = drain(&mut work, START);
    let place = |offset: i64| others.iter().position(|other| *other == offset);
    assert!(
        others.len() == 3 && place(4).is_some(),
        "b, c and b again, but no a: {others:?}"
    );
    assert!(place(2).is_some() && place(2) < place(6), "{others:?}");
    work.handle_finished(START, waits, Outcome::Done);
    assert_eq!(drain(&mut work, START), [3, 5]);
    assert_eq!(work.partition_status(partition).unwrap().frontier, 7);
    assert_eq!(work.status().totals.done, 7);
    assert!(work.takes_run(START + 50, partition), "it may have been a bad moment");
}

#[test]
fn an_interrupted_run_burns_no_attempts_of_what_was_not_begun() {
    let (mut work, partition) = start(config(handler()));
    read(&mut work, partition, 0, "abc");
    let run = dispatch(&mut work, START)[0].record;
    let waits = work.interrupt(START, run, 0).unwrap();
    let mut others = shapes(&dispatch(&mut work, START));
    others.sort_unstable();
    assert_eq!(others, [(1, 1, 1), (2, 1, 1)]);
    work.handle_finished(START, waits, Outcome::Failed(Failure::Retry));
    let now = START + 60_000;
    work.handle_timeout(now);
    assert_eq!(shapes(&dispatch(&mut work, now)), [(0, 1, 2)]);
}

#[test]
fn what_is_left_of_an_interrupted_run_is_not_begun_when_its_partition_is_given_back() {
    let (mut work, partition) = start(config(handler()));
    read(&mut work, partition, 0, "abc");
    let run = dispatch(&mut work, START)[0].record;
    work.handle_revoking(START, &[partition]);
    let waits = work.interrupt(START, run, 1).unwrap();
    assert!(dispatch(&mut work, START).is_empty());
    work.handle_finished(START, waits, Outcome::Done);
    let committed = said(&mut work).into_iter().find_map(|action| match action {
        Action::Commit { offsets, .. } => offsets.first().map(|offset| offset.offset),
        _ => None,
    });
    assert_eq!(committed, Some(2), "the next owner begins with what was not begun");
}
