use milena_machines::app::{
    Action, CommitResult, DeadLetterReason, DlqLimitConfig, Exhausted, Failure, HandlerConfig, Order, Outcome,
    PauseReason, Publish, PublishResult, RetryInfo, RetryOrdering, RetryPolicy, Role, StallReason, StopReason,
};

use super::rig::{Rig, config, handler};

const FAILED: Outcome = Outcome::Failed(Failure::Retry);

#[test]
fn a_failure_is_tried_again_in_its_place_and_never_early() {
    let mut rig = Rig::new(config(handler()));
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    rig.read(partition, 1, "a");
    for (attempt, wait_ms) in [(1, 100), (2, 200), (3, 400)] {
        let dispatched = rig.one();
        assert_eq!((dispatched.offset, dispatched.attempt), (0, attempt));
        rig.finish(dispatched.record, FAILED);
        rig.advance(wait_ms - 1);
        assert_eq!(rig.offsets(), []);
        rig.advance(1);
    }
    let last = rig.one();
    assert_eq!(last.attempt, 4);
    rig.finish(last.record, FAILED);
    let dead = Publish::DeadLetter {
        reason: DeadLetterReason::Attempts,
        attempts: 4,
        first_failed_ms: 1_000_000,
    };
    assert_eq!(rig.publish(), dead);
}

#[test]
fn while_a_key_waits_others_go_on() {
    let mut rig = Rig::new(config(handler()));
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    let record = rig.one().record;
    rig.finish(record, FAILED);
    rig.read(partition, 1, "a");
    rig.read(partition, 2, "b");
    assert_eq!(rig.offsets(), [2]);
    assert!(rig.work.pauses(partition).unwrap().is_empty());
}

#[test]
fn in_the_order_of_the_partition_it_pauses_meanwhile() {
    let mut rig = Rig::new(config(HandlerConfig {
        order: Order::Partition,
        ..handler()
    }));
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    let record = rig.one().record;
    rig.finish(record, FAILED);
    assert_eq!(rig.said(), [Action::Pause(partition)]);
    rig.advance(100);
    assert_eq!(rig.said(), [Action::Resume(partition)]);
}

#[test]
fn dead_letters_are_acknowledged_before_the_offset_moves() {
    let mut rig = Rig::new(config(handler()));
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    rig.read(partition, 1, "a");
    let record = rig.one().record;
    rig.finish(record, Outcome::Failed(Failure::Poison));
    rig.publish();
    rig.advance(2_000);
    assert_eq!(rig.said(), []);
    assert_eq!(rig.offsets(), []);
    rig.published(record, PublishResult::Acked);
    assert_eq!(rig.offsets(), [1]);
    rig.advance(100);
    assert_eq!(rig.commit().offset, 1);
}

#[test]
fn what_is_not_acknowledged_for_long_is_in_trouble() {
    let mut rig = Rig::new(config(handler()));
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    rig.advance(60_000);
    let record = rig.one().record;
    rig.advance(60_000);
    rig.finish(record, Outcome::Failed(Failure::Poison));
    for (ms, failing) in [(0, false), (4_999, false), (1, true)] {
        rig.advance(ms);
        assert_eq!(
            rig.work.stall_reason(rig.now, partition),
            Some(StallReason::Publishing { failing })
        );
    }
    rig.published(record, PublishResult::Acked);
    assert_eq!(rig.work.stall_reason(rig.now, partition), Some(StallReason::Idle));
}

#[test]
fn dead_letters_that_cannot_be_written_stop_the_partition_and_it_goes_on_by_itself() {
    let mut rig = Rig::new(config(handler()));
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "b"]);
    let both = rig.dispatch();
    rig.finish(both[0].record, Outcome::Failed(Failure::Poison));
    rig.said();
    rig.published(both[0].record, PublishResult::Failed);
    assert_eq!(rig.said(), [Action::Pause(partition)]);
    rig.read(partition, 2, "c");
    assert_eq!(rig.offsets(), []);
    assert_eq!(
        rig.work.stall_reason(rig.now, partition),
        Some(StallReason::Publishing { failing: true })
    );
    rig.advance(200);
    rig.publish();
    rig.published(both[0].record, PublishResult::Failed);
    rig.advance(400);
    rig.publish();
    rig.published(both[0].record, PublishResult::Acked);
    assert_eq!(rig.said(), [Action::Resume(partition)]);
    assert_eq!(rig.offsets(), [2]);
}

#[test]
fn what_a_handler_writes_is_acknowledged_before_its_record_is_done() {
    let mut rig = Rig::new(config(handler()));
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    let record = rig.one().record;
    rig.finish(record, Outcome::Emit);
    assert_eq!(rig.publish(), Publish::Output);
    rig.advance(1_000);
    assert_eq!(rig.said(), []);
    rig.published(record, PublishResult::Acked);
    rig.advance(100);
    assert_eq!(rig.commit().offset, 1);
}

#[test]
fn after_the_attempts_come_the_tiers_and_then_the_dead_letters() {
    let retry = RetryPolicy {
        attempts: 1,
        delays_ms: vec![60_000, 300_000],
        exhausted: Exhausted::DeadLetter,
        ..RetryPolicy::default()
    };
    let mut rig = Rig::new(config(HandlerConfig { retry, ..handler() }));
    let main = rig.assign(0);
    rig.read(main, 0, "a");
    let record = rig.one().record;
    rig.finish(record, FAILED);
    let Publish::RetryTopic {
        index: 0,
        due_ms: 1_060_000,
        attempts: 1,
        first_failed_ms: 1_000_000,
    } = rig.publish()
    else {
        panic!("the first tier comes first")
    };
    let tier = rig.assign_at(
        1,
        Role::RetryTopic {
            index: 1,
            delay_ms: 300_000,
        },
        0,
        None,
    );
    let info = RetryInfo {
        attempts: 2,
        due_ms: Some(1_200_000),
        first_failed_ms: Some(1_000_000),
        returns: 0,
    };
    rig.read_retry(tier, 0, "a", Some(info));
    assert_eq!(rig.said(), [Action::Pause(tier)]);
    // Records behind it may be due soon after it, so fetching resumes a little before.
    rig.advance(197_999);
    assert!(!rig.said().contains(&Action::Resume(tier)));
    rig.advance(1);
    assert!(rig.said().contains(&Action::Resume(tier)));
    rig.advance(1_999);
    assert_eq!(rig.offsets(), []);
    assert_eq!(
        rig.work.stall_reason(rig.now, tier),
        Some(StallReason::NotDue { until_ms: 1_200_000 })
    );
    rig.said();
    rig.advance(1);
    let dispatched = rig.one();
    assert_eq!(dispatched.attempt, 3);
    rig.finish(dispatched.record, FAILED);
    let dead = Publish::DeadLetter {
        reason: DeadLetterReason::Attempts,
        attempts: 3,
        first_failed_ms: 1_000_000,
    };
    assert_eq!(rig.publish(), dead);
}

/// Spring Kafka #4504 lost the first of two.
#[test]
fn two_records_of_a_partition_that_fail_together_are_both_kept() {
    let mut rig = Rig::new(config(HandlerConfig {
        order: Order::Unordered,
        ..handler()
    }));
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    rig.read(partition, 1, "b");
    for dispatched in rig.dispatch() {
        rig.finish(dispatched.record, FAILED);
    }
    rig.advance(100);
    let mut again = rig.offsets();
    again.sort_unstable();
    assert_eq!(again, [0, 1]);
}

#[test]
fn a_handler_that_asks_for_later_burns_no_attempt() {
    let mut rig = Rig::new(config(handler()));
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    for _ in 0..10 {
        let dispatched = rig.one();
        assert_eq!(dispatched.attempt, 1);
        rig.finish(dispatched.record, Outcome::RetryAfter { ms: 50 });
        rig.advance(49);
        assert_eq!(rig.offsets(), []);
        rig.advance(1);
    }
}

#[test]
fn without_dead_letters_the_partition_stops_until_somebody_looks() {
    let mut rig = Rig::new(config(HandlerConfig::default()));
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    rig.read(partition, 1, "b");
    let both = rig.dispatch();
    rig.finish(both[1].record, Outcome::Done);
    rig.finish(both[0].record, Outcome::Failed(Failure::Poison));
    let stopped = Action::Stopped {
        partition,
        offset: 0,
        reason: StopReason::Exhausted,
    };
    assert_eq!(rig.said(), [stopped, Action::Pause(partition)]);
    rig.advance(100);
    assert_eq!(rig.commit().offset, 0);
    rig.committed(CommitResult::Ok);
    assert_eq!(rig.offsets(), []);
    assert_eq!(
        rig.work.stall_reason(rig.now, partition),
        Some(StallReason::Stopped(StopReason::Exhausted))
    );
    rig.work.restart_partition(rig.now, partition);
    assert_eq!(rig.offsets(), [0]);
}

#[test]
fn a_flood_of_dead_letters_stops_the_partition() {
    let mut rig = Rig::new(config(HandlerConfig {
        dlq_limit: Some(DlqLimitConfig {
            consecutive: 3,
            ..DlqLimitConfig::default()
        }),
        ..handler()
    }));
    let partition = rig.assign(0);
    for offset in 0..5 {
        rig.read(partition, offset, "a");
    }
    for offset in 0..3 {
        let dispatched = rig.one();
        assert_eq!(dispatched.offset, offset);
        rig.finish(dispatched.record, Outcome::Failed(Failure::Poison));
        rig.published(dispatched.record, PublishResult::Acked);
    }
    let stopped = Action::Stopped {
        partition,
        offset: 2,
        reason: StopReason::DlqLimit,
    };
    assert!(rig.said().contains(&stopped));
    assert_eq!(rig.offsets(), []);
    assert!(rig.work.pauses(partition).unwrap().contains(PauseReason::Stopped));
    rig.work.restart_partition(rig.now, partition);
    assert_eq!(rig.offsets(), [2]);
}

#[test]
fn what_goes_back_to_its_own_topic_goes_on_there_with_the_next_delay() {
    let retry = RetryPolicy {
        attempts: 3,
        delays_ms: vec![30_000, 300_000],
        ordering: RetryOrdering::Return,
        exhausted: Exhausted::DeadLetter,
        ..RetryPolicy::default()
    };
    let mut rig = Rig::new(config(HandlerConfig { retry, ..handler() }));
    let main = rig.assign(0);
    let delay_ms = 30_000;
    let tier = rig.assign_at(1, Role::RetryTopic { index: 0, delay_ms }, 0, None);
    let waiting = RetryInfo {
        attempts: 3,
        due_ms: Some(rig.now + delay_ms),
        first_failed_ms: Some(1_000_000),
        returns: 0,
    };
    rig.read_retry(tier, 0, "a", Some(waiting));
    rig.said();
    rig.advance(delay_ms);
    assert_eq!(rig.offsets(), [], "no handler gets it from here");
    let said = rig.said();
    let [Action::Resume(_), Action::Publish { record, what }] = said[..] else {
        panic!("{said:?}")
    };
    let back = Publish::Return {
        attempts: 3,
        first_failed_ms: Some(1_000_000),
        returns: 1,
    };
    assert_eq!(what, back);
    rig.published(record, PublishResult::Acked);
    let returned = RetryInfo {
        due_ms: None,
        returns: 1,
        ..waiting
    };
    rig.read_retry(main, 0, "a", Some(returned));
    let dispatched = rig.one();
    assert_eq!(dispatched.attempt, 4);
    rig.said();
    rig.finish(dispatched.record, FAILED);
    assert!(matches!(
        rig.publish(),
        Publish::RetryTopic {
            index: 1,
            attempts: 4,
            ..
        }
    ));
    // A header that claims more returns than there are delays leaves no attempt.
    let claimed = RetryInfo {
        returns: u8::MAX,
        ..returned
    };
    rig.read_retry(main, 1, "b", Some(claimed));
    let record = rig.one().record;
    rig.said();
    rig.finish(record, FAILED);
    assert!(matches!(rig.publish(), Publish::DeadLetter { .. }));
}
