use milena_machines::app::{
    Action, BatchConfig, BulkheadId, CommitResult, DeadLetterReason, Exhausted, Failure, HandlerConfig, Limits, Order,
    Outcome, PauseReason, Publish, PublishResult, RateConfig, RecordId, Role, SchedulerConfig, StallReason, WhenFull,
    WhenStalled,
};

use super::rig::{Rig, config, handler};

fn unordered() -> HandlerConfig {
    HandlerConfig {
        order: Order::Unordered,
        ..handler()
    }
}

#[test]
fn a_full_partition_pauses_and_goes_on_at_the_low_mark() {
    let limits = Limits {
        records_high: 40,
        records_low: 28,
        ..Limits::default()
    };
    let mut rig = Rig::new(SchedulerConfig {
        ..config(HandlerConfig { limits, ..unordered() })
    });
    let ids: Vec<_> = (0..5).map(|partition| rig.assign(partition)).collect();
    for offset in 0..9 {
        rig.read(ids[0], offset, "");
    }
    assert_eq!(rig.said(), []);
    rig.read(ids[0], 9, "");
    assert_eq!(rig.said(), [Action::Pause(ids[0])]);
    assert!(rig.work.pauses(ids[0]).unwrap().contains(PauseReason::Partition));
    let all = rig.dispatch();
    for dispatched in &all[..2] {
        rig.finish(dispatched.record, Outcome::Done);
    }
    assert_eq!(rig.said(), []);
    rig.finish(all[2].record, Outcome::Done);
    assert_eq!(rig.said(), [Action::Resume(ids[0])]);
}

#[test]
fn all_partitions_pause_when_there_is_too_much_in_all() {
    let mut rig = Rig::new(SchedulerConfig {
        limits: Limits {
            bytes_high: 1_000,
            bytes_low: 500,
            ..Limits::default()
        },
        ..config(unordered())
    });
    let [first, second] = [rig.assign(0), rig.assign(1)];
    for offset in 0..10 {
        rig.read(first, offset, "");
    }
    assert_eq!(rig.said(), [Action::Pause(first), Action::Pause(second)]);
    for dispatched in rig.dispatch() {
        rig.finish(dispatched.record, Outcome::Done);
    }
    assert_eq!(rig.said(), [Action::Resume(first), Action::Resume(second)]);
}

/// Parallel Consumer #547: records of a lost partition must not count for the limits forever.
#[test]
fn a_lost_partition_takes_its_share_of_the_bounds_along() {
    let limits = Limits {
        records_high: 5,
        records_low: 2,
        ..Limits::default()
    };
    let mut rig = Rig::new(config(HandlerConfig {
        limits,
        concurrency: Some(3),
        ..unordered()
    }));
    let [first, second] = [rig.assign(0), rig.assign(1)];
    for offset in 0..5 {
        rig.read(first, offset, "");
    }
    assert_eq!(rig.dispatch().len(), 3);
    rig.said();
    rig.work.handle_lost(rig.now, &[first]);
    rig.advance(0);
    assert!(rig.said().contains(&Action::Resume(second)));
    for offset in 0..3 {
        rig.read(second, offset, "");
    }
    assert_eq!(rig.dispatch().len(), 3);
}

#[test]
fn concurrency_and_bulkheads_bound_what_runs() {
    let one = HandlerConfig {
        concurrency: Some(2),
        bulkhead: Some(BulkheadId(0)),
        ..unordered()
    };
    let mut rig = Rig::new(SchedulerConfig {
        bulkheads: vec![3],
        ..config(one)
    });
    let partition = rig.assign(0);
    for offset in 0..5 {
        rig.read(partition, offset, "");
    }
    let running = rig.dispatch();
    assert_eq!(running.len(), 2);
    rig.finish(running[0].record, Outcome::Failed(Failure::Retry));
    assert_eq!(rig.dispatch().len(), 1);
    rig.advance(59_000);
    assert_eq!(rig.dispatch().len(), 0);
}

/// A handler that shares a bulkhead of two permits.
fn full(when_full: WhenFull, order: Order) -> Rig {
    let handler = HandlerConfig {
        order,
        bulkhead: Some(BulkheadId(0)),
        when_full,
        ..handler()
    };
    Rig::new(SchedulerConfig {
        bulkheads: vec![2],
        ..config(handler)
    })
}

#[test]
fn a_full_bulkhead_makes_dead_letters_if_the_policy_says_so() {
    let mut rig = full(WhenFull::DeadLetter, Order::Unordered);
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "b", "c", "d"]);
    let running = rig.dispatch();
    assert_eq!(running.iter().map(|it| it.offset).collect::<Vec<_>>(), [0, 1]);
    let said = rig.said();
    let dead: Vec<RecordId> = said
        .iter()
        .filter_map(|action| match action {
            Action::Publish {
                record,
                what:
                    Publish::DeadLetter {
                        reason: DeadLetterReason::Bulkhead,
                        attempts: 0,
                        ..
                    },
            } => Some(*record),
            _ => None,
        })
        .collect();
    assert_eq!(dead.len(), 2, "{said:?}");
    // None of them is done before its dead letter is acknowledged.
    for dispatched in &running {
        rig.finish(dispatched.record, Outcome::Done);
    }
    rig.published(dead[1], PublishResult::Acked);
    rig.advance(2_000);
    assert_eq!(rig.commit().offset, 2);
    rig.committed(CommitResult::Ok);
    rig.published(dead[0], PublishResult::Acked);
    rig.advance(2_000);
    assert_eq!(rig.commit().offset, 4);
    rig.committed(CommitResult::Ok);
    // With a permit the next one is handled.
    rig.read(partition, 4, "e");
    assert_eq!(rig.one().offset, 4);
    assert_eq!(rig.work.status().totals.dead_letters, 2);
}

#[test]
fn a_full_bulkhead_skips_if_the_policy_says_so() {
    let mut rig = full(WhenFull::Skip, Order::Unordered);
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "b", "c", "d"]);
    let running = rig.dispatch();
    assert_eq!(running.len(), 2);
    let said = rig.said();
    for offset in [2, 3] {
        assert!(said.contains(&Action::Skipped { partition, offset }), "{said:?}");
    }
    for dispatched in running {
        rig.finish(dispatched.record, Outcome::Done);
    }
    rig.advance(2_000);
    assert_eq!(rig.commit().offset, 4);
    assert_eq!(
        (rig.work.status().totals.skipped, rig.work.status().totals.done),
        (2, 2)
    );
}

#[test]
fn a_record_that_waits_for_its_key_is_not_turned_away() {
    let mut rig = full(WhenFull::Skip, Order::Key);
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "b", "a", "c"]);
    let running = rig.dispatch();
    assert_eq!(running.iter().map(|it| it.offset).collect::<Vec<_>>(), [0, 1]);
    let skipped = Action::Skipped { partition, offset: 3 };
    assert_eq!(rig.said(), [skipped], "only c could be handled but for the bulkhead");
    rig.finish(running[0].record, Outcome::Done);
    assert_eq!(rig.one().offset, 2);
}

#[test]
fn a_handler_that_is_at_its_own_limit_turns_nothing_away() {
    let handler = HandlerConfig {
        concurrency: Some(1),
        bulkhead: Some(BulkheadId(0)),
        when_full: WhenFull::Skip,
        ..unordered()
    };
    let mut rig = Rig::new(SchedulerConfig {
        bulkheads: vec![2],
        ..config(handler)
    });
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "b", "c"]);
    assert_eq!(rig.offsets(), [0]);
    assert_eq!(rig.said(), []);
}

#[test]
fn a_choice_for_a_full_bulkhead_that_contradicts_the_policy_is_refused() {
    let none = HandlerConfig {
        when_full: WhenFull::Skip,
        ..handler()
    };
    let error = config(none).check().unwrap_err();
    assert!(error.to_string().contains("it has no bulkhead"), "{error}");
    let mut skips = HandlerConfig {
        bulkhead: Some(BulkheadId(0)),
        when_full: WhenFull::DeadLetter,
        ..handler()
    };
    skips.retry.exhausted = Exhausted::Skip;
    let config = SchedulerConfig {
        bulkheads: vec![2],
        ..config(skips)
    };
    let error = config.check().unwrap_err();
    assert!(error.to_string().contains("no dead letters"), "{error}");
}

#[test]
fn the_rate_spreads_what_begins() {
    let rate = RateConfig {
        per_second: 100,
        burst: 2,
    };
    let mut rig = Rig::new(config(HandlerConfig {
        rate: Some(rate),
        ..unordered()
    }));
    let partition = rig.assign(0);
    for offset in 0..5 {
        rig.read(partition, offset, "");
    }
    assert_eq!(rig.dispatch().len(), 2);
    assert_eq!(rig.work.poll_timeout(), Some(rig.now + 10));
    rig.advance(10);
    assert_eq!(rig.dispatch().len(), 1);
}

#[test]
fn batches_wait_until_they_are_full_or_patience_ends() {
    let batch = BatchConfig { size: 3, linger_ms: 20 };
    let mut rig = Rig::new(config(HandlerConfig {
        batch: Some(batch),
        ..handler()
    }));
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    rig.read(partition, 1, "a");
    assert_eq!(rig.offsets(), []);
    rig.read(partition, 2, "b");
    assert_eq!(rig.offsets(), [0, 1, 2]);
    rig.read(partition, 3, "c");
    assert_eq!(rig.offsets(), []);
    rig.advance(20);
    assert_eq!(rig.offsets(), [3]);
}

#[test]
fn what_does_not_move_is_reported_with_its_cause() {
    let mut rig = Rig::new(config(handler()));
    let partition = rig.assign(0);
    rig.advance(30_000);
    rig.read(partition, 7, "a");
    rig.dispatch();
    rig.said();
    rig.advance(59_999);
    assert_eq!(rig.said(), []);
    rig.advance(15_001);
    let said = rig.said();
    let [
        Action::Stalled {
            offset: 7,
            reason: StallReason::InHandler { attempt: 1, for_ms },
            since_ms: 1_030_000,
            ..
        },
    ] = said[..]
    else {
        panic!("{said:?}")
    };
    assert!(for_ms >= 60_000);
}

/// Code that blocks its thread cannot be cancelled, and returns later.
#[test]
fn a_call_that_was_cancelled_for_standing_in_the_way_says_nothing_about_the_next() {
    let mut rig = Rig::new(SchedulerConfig {
        when_stalled: WhenStalled::Retry,
        ..config(handler())
    });
    let partition = rig.assign(0);
    rig.read(partition, 7, "a");
    let first = rig.one().record;
    rig.said();
    rig.advance(75_000);
    let said = rig.said();
    let [Action::Cancel(cancelled), Action::Stalled { action, .. }] = &said[..] else {
        panic!("{said:?}")
    };
    assert_eq!((*cancelled, *action), (first, WhenStalled::Retry));
    rig.advance(1_000);
    let second = rig.one();
    assert_eq!((second.offset, second.attempt), (7, 2));
    rig.finish(first, Outcome::Done);
    assert_eq!(rig.work.status().in_handlers, 1);
    rig.finish(second.record, Outcome::Done);
    assert_eq!(rig.work.status().records, 0);
}

/// Otherwise records that wait for minutes would stop all others.
#[test]
fn what_is_not_due_counts_for_its_partition_alone() {
    let limits = Limits {
        records_high: 8,
        records_low: 4,
        ..Limits::default()
    };
    let mut rig = Rig::new(SchedulerConfig {
        limits,
        ..config(unordered())
    });
    let role = Role::RetryTopic {
        index: 0,
        delay_ms: 60_000,
    };
    let [main, tier] = [rig.assign(0), rig.assign_at(1, role, 0, None)];
    for offset in 0..20 {
        rig.read(tier, offset, "");
    }
    assert!(rig.work.pauses(main).unwrap().is_empty());
    assert_eq!(rig.work.status().records, 0);
    rig.advance(60_000);
    assert!(rig.work.pauses(main).unwrap().contains(PauseReason::Global));
    let all = rig.dispatch();
    assert_eq!(all.len(), 20);
    for dispatched in all {
        rig.finish(dispatched.record, Outcome::Done);
    }
    assert!(rig.work.pauses(main).unwrap().is_empty());
    assert_eq!((rig.work.status().records, rig.work.status().bytes), (0, 0));
}
