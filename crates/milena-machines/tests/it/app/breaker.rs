use milena_machines::app::{
    Action, BreakerAttempts, BreakerConfig, BreakerId, BreakerState, Failure, HandlerConfig, Outcome, PauseReason,
    SchedulerConfig, StallReason,
};

use super::rig::{Rig, config, handler};

const DOWN: Outcome = Outcome::Failed(Failure::Dependency(BreakerId(0)));
const KEYS: [&str; 6] = ["a", "b", "c", "d", "e", "f"];

fn rig() -> Rig {
    let handler = HandlerConfig {
        breakers: vec![BreakerId(0)],
        ..handler()
    };
    Rig::new(SchedulerConfig {
        breakers: vec![BreakerConfig {
            window: 4,
            calls_min: 4,
            open_ms: 1_000,
            probes: 2,
            ..BreakerConfig::default()
        }],
        ..config(handler)
    })
}

#[test]
fn an_open_breaker_pauses_partitions_and_burns_no_attempts() {
    let mut rig = rig();
    let partition = rig.assign(0);
    for (offset, key) in KEYS.iter().enumerate() {
        rig.read(partition, offset as i64, key);
    }
    let all = rig.dispatch();
    for dispatched in &all {
        rig.finish(dispatched.record, DOWN);
    }
    let said = rig.said();
    let opened = Action::BreakerChanged {
        breaker: BreakerId(0),
        state: BreakerState::Open,
    };
    assert_eq!(said, [opened, Action::Pause(partition)]);
    assert_eq!(rig.offsets(), []);
    rig.advance(900);
    assert_eq!(rig.offsets(), []);
    // The first three failed while it was closed; theirs counted.
    assert_eq!(
        rig.work.stall_reason(rig.now, partition),
        Some(StallReason::Breaker(BreakerId(0)))
    );
    rig.said();
    rig.advance(100);
    assert_eq!(rig.said().last(), Some(&Action::Resume(partition)));
    let probes = rig.dispatch();
    assert_eq!(probes.len(), 2);
    for probe in &probes {
        let expected = if probe.offset < 3 { 2 } else { 1 };
        assert_eq!(probe.attempt, expected, "{probe:?}");
        rig.finish(probe.record, Outcome::Done);
    }
    assert_eq!(rig.work.breaker(BreakerId(0)).unwrap().state(), BreakerState::Closed);
    assert_eq!(rig.dispatch().len(), 4);
}

#[test]
fn a_call_that_fails_late_for_a_breaker_that_spares_attempts_is_no_attempt() {
    let handler = HandlerConfig {
        breakers: vec![BreakerId(0)],
        ..handler()
    };
    let mut rig = Rig::new(SchedulerConfig {
        breakers: vec![BreakerConfig {
            failure_percent: 100,
            window: 1,
            calls_min: 1,
            open_ms: 1_000,
            probes: 1,
            attempts: BreakerAttempts::Never,
            ..BreakerConfig::default()
        }],
        ..config(handler)
    });
    let partition = rig.assign(0);
    for (offset, key) in KEYS[..3].iter().enumerate() {
        rig.read(partition, offset as i64, key);
    }
    let calls = rig.dispatch();
    // The first failure opens it.
    rig.finish(calls[0].record, DOWN);
    assert_eq!(rig.work.breaker(BreakerId(0)).unwrap().state(), BreakerState::Open);
    rig.advance(1_000);
    let probe = rig.dispatch();
    assert_eq!((probe.len(), probe[0].attempt), (1, 1));
    rig.finish(probe[0].record, Outcome::Done);
    assert_eq!(rig.work.breaker(BreakerId(0)).unwrap().state(), BreakerState::Closed);
    // These began before it opened and fail only now that it is closed again.
    for late in &calls[1..] {
        rig.finish(late.record, DOWN);
    }
    let again = rig.dispatch();
    assert_eq!(again.iter().map(|call| call.attempt).collect::<Vec<_>>(), [1, 1]);
}

#[test]
fn a_partition_that_comes_while_a_breaker_is_open_is_paused() {
    let mut rig = rig();
    let partition = rig.assign(0);
    for (offset, key) in KEYS[..4].iter().enumerate() {
        rig.read(partition, offset as i64, key);
    }
    for dispatched in rig.dispatch() {
        rig.finish(dispatched.record, DOWN);
    }
    rig.said();
    let other = rig.assign(1);
    assert_eq!(rig.said(), [Action::Pause(other)]);
    assert!(rig.work.pauses(other).unwrap().contains(PauseReason::Breaker));
}

#[test]
fn a_cancelled_probe_lets_another_try() {
    let mut rig = rig();
    let [first, second] = [rig.assign(0), rig.assign(1)];
    for (offset, key) in KEYS.iter().enumerate() {
        rig.read(if offset < 4 { first } else { second }, offset as i64, key);
    }
    for dispatched in rig.dispatch() {
        rig.finish(dispatched.record, DOWN);
    }
    rig.advance(1_000);
    assert_eq!(rig.dispatch().len(), 2);
    assert_eq!(rig.dispatch().len(), 0);
    rig.work.handle_lost(rig.now, &[first, second]);
    let third = rig.assign(2);
    rig.read(third, 0, "a");
    assert_eq!(rig.dispatch().len(), 1);
}
