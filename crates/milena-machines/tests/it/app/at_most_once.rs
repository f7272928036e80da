//! Only records that handlers can take at once are committed before they are handled.

use milena_machines::app::{
    Action, BreakerConfig, BreakerId, BreakerState, BulkheadId, CommitResult, Delivery, Failure, HandlerConfig, Order,
    Outcome, PartitionId, RateConfig, RecordId, SchedulerConfig, WhenFull,
};

use super::rig::{Rig, config, handler, topic};

/// A handler whose records are in no order.
fn once(change: impl FnOnce(&mut HandlerConfig)) -> Rig {
    let mut once = handler();
    once.retry.attempts = 1;
    once.order = Order::Unordered;
    change(&mut once);
    Rig::new(SchedulerConfig {
        delivery: Delivery::AtMostOnce,
        ..config(once)
    })
}

/// A driver that commits at once, and what it knows.
struct Driven {
    rig: Rig,
    partition: PartitionId,
    committed: i64,
    commits: usize,
    running: Vec<RecordId>,
    handled: i64,
}

impl Driven {
    fn new(mut rig: Rig, records: i64) -> Self {
        let partition = rig.assign(0);
        for offset in 0..records {
            rig.read(partition, offset, "a");
        }
        let mut driven = Self {
            rig,
            partition,
            committed: 0,
            commits: 0,
            running: vec![],
            handled: 0,
        };
        driven.settle();
        driven
    }

    /// Commits and hands out until nothing is left to do but to wait for handlers.
    fn settle(&mut self) {
        self.rig.advance(0);
        loop {
            let dispatched = self.rig.dispatch();
            self.running.extend(dispatched.iter().map(|it| it.record));
            let mut commits = self.rig.said().into_iter().filter_map(|action| match action {
                Action::Commit { offsets, .. } => offsets.first().map(|commit| commit.offset),
                _ => None,
            });
            match commits.next() {
                Some(offset) => self.committed = offset,
                None if dispatched.is_empty() => return,
                None => continue,
            }
            self.commits += 1;
            self.rig.committed(CommitResult::Ok);
        }
    }

    /// Ends this many of the running calls.
    fn finish(&mut self, count: usize) {
        let count = count.min(self.running.len());
        for record in self.running.drain(..count) {
            self.rig.finish(record, Outcome::Done);
            self.handled += 1;
        }
        self.settle();
    }

    fn ahead(&self) -> i64 {
        self.committed - self.handled
    }
}

#[test]
fn no_more_is_committed_than_may_be_in_the_handler() {
    let mut driven = Driven::new(once(|once| once.concurrency = Some(3)), 100);
    assert_eq!((driven.committed, driven.running.len()), (3, 3));
    while driven.handled < 97 {
        driven.finish(1);
        assert_eq!(driven.ahead(), 3, "{} handled", driven.handled);
    }
    let mut one = Driven::new(once(|once| once.concurrency = Some(1)), 100);
    assert_eq!(one.ahead(), 1);
    one.finish(1);
    assert_eq!((one.handled, one.committed), (1, 2));
}

#[test]
fn without_a_limit_at_most_256_are_committed_and_not_done() {
    let mut driven = Driven::new(once(|_| {}), 5_000);
    assert_eq!((driven.committed, driven.running.len()), (256, 256));
    let commits = driven.commits;
    while driven.handled < 4_608 {
        driven.finish(128);
        assert_eq!(driven.ahead(), 256, "{} handled", driven.handled);
    }
    // Calls that end at once need few commits.
    let commits = driven.commits - commits;
    assert!(commits < 200, "{commits} commits for 4,608 records");
}

#[test]
fn records_that_wait_for_their_key_are_a_seconds_work_of_a_slow_handler() {
    let mut driven = Driven::new(once(|once| once.order = Order::Key), 1_000);
    assert_eq!(driven.running.len(), 1);
    for _ in 0..60 {
        driven.rig.advance(200);
        driven.finish(1);
    }
    assert!(
        (5..=7).contains(&driven.ahead()),
        "{} ahead of calls of 200 ms",
        driven.ahead()
    );
    for _ in 0..200 {
        driven.finish(1);
    }
    assert!(
        driven.ahead() > 100,
        "{} ahead of calls that end at once",
        driven.ahead()
    );
}

#[test]
fn nothing_is_committed_that_the_rate_does_not_allow() {
    let rate = RateConfig {
        per_second: 10,
        burst: 1,
    };
    let mut driven = Driven::new(once(|once| once.rate = Some(rate)), 100);
    assert_eq!(driven.committed, 1);
    for second in 1..=3 {
        driven.rig.advance(100);
        driven.settle();
        driven.finish(1);
        assert_eq!(driven.committed, second + 1);
    }
}

#[test]
fn a_shutdown_hands_back_what_was_not_handed_out() {
    let mut driven = Driven::new(once(|once| once.concurrency = Some(2)), 100);
    driven.finish(5);
    driven.rig.work.handle_shutdown(driven.rig.now);
    driven.finish(2);
    let (committed, handled) = (driven.committed, driven.handled);
    assert_eq!(committed, handled, "committed and handled");
    assert_eq!(driven.rig.work.partitions().next(), None);
    assert_eq!(driven.rig.work.status().totals.lost, 0);
}

#[test]
fn what_does_not_end_in_time_is_told_to_be_lost() {
    let mut driven = Driven::new(once(|once| once.concurrency = Some(2)), 100);
    let partition = driven.partition;
    driven.rig.work.handle_revoking(driven.rig.now, &[partition]);
    driven.rig.advance(60_000);
    let lost = Action::Lost {
        partition: topic(0),
        offset: 0,
        records: 2,
    };
    assert!(driven.rig.said().contains(&lost));
}

#[test]
fn a_full_bulkhead_that_skips_does_not_keep_records_from_being_committed() {
    let mut once = handler();
    once.retry.attempts = 1;
    once.order = Order::Unordered;
    once.bulkhead = Some(BulkheadId(0));
    once.when_full = WhenFull::Skip;
    let rig = Rig::new(SchedulerConfig {
        delivery: Delivery::AtMostOnce,
        bulkheads: vec![2],
        ..config(once)
    });
    let driven = Driven::new(rig, 10);
    assert_eq!((driven.running.len(), driven.committed), (2, 10));
    assert_eq!(driven.rig.work.status().totals.skipped, 8);
}

/// A commit fails, its partition is taken away, and another one finds no room at the time of the next attempt: it is committed
/// when there is room, although no commit came back that ended the failures.
#[test]
fn a_partition_goes_on_after_a_failed_commit_of_one_that_was_lost() {
    let mut once = handler();
    once.retry.attempts = 1;
    once.order = Order::Unordered;
    once.breakers = vec![BreakerId(0)];
    let mut rig = Rig::new(SchedulerConfig {
        delivery: Delivery::AtMostOnce,
        breakers: vec![BreakerConfig {
            failure_percent: 100,
            window: 1,
            calls_min: 1,
            open_ms: 5_000,
            probes: 1,
            ..BreakerConfig::default()
        }],
        ..config(once)
    });
    let [lost, other] = [rig.assign(0), rig.assign(1)];
    rig.read(lost, 0, "a");
    rig.advance(0);
    rig.committed(CommitResult::Ok);
    let running = rig.one();
    rig.read(lost, 1, "a");
    rig.advance(0);
    rig.committed(CommitResult::Failed);
    rig.read(other, 0, "b");
    rig.finish(running.record, Outcome::Failed(Failure::Dependency(BreakerId(0))));
    assert_ne!(rig.work.breaker(BreakerId(0)).unwrap().state(), BreakerState::Closed);
    rig.work.handle_lost(rig.now, &[lost]);
    rig.said();
    rig.advance(1_000);
    assert!(!rig.said().iter().any(|action| matches!(action, Action::Commit { .. })));
    rig.advance(60_000);
    rig.dispatch();
    let commit = rig.commit();
    assert_eq!((commit.id, commit.offset), (other, 1));
}
