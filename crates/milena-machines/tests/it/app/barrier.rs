use milena_machines::app::{Action, Delivery, Outcome, SchedulerConfig};

use super::rig::{Rig, config, handler};

fn rig() -> Rig {
    Rig::new(SchedulerConfig {
        delivery: Delivery::ExactlyOnce,
        ..config(handler())
    })
}

#[test]
fn a_barrier_waits_for_what_runs_and_lets_nothing_through() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "b"]);
    let running = rig.dispatch();
    rig.read(partition, 2, "c");
    rig.work.begin_barrier(rig.now);
    assert_eq!(rig.offsets(), []);
    rig.finish(running[0].record, Outcome::Done);
    assert_eq!(rig.said(), []);
    assert_eq!(rig.work.barrier_offsets(rig.now), None);
    rig.finish(running[1].record, Outcome::Done);
    assert_eq!(rig.said(), [Action::Barrier]);
    let offsets = rig.work.barrier_offsets(rig.now).unwrap();
    assert_eq!(offsets.len(), 1);
    assert_eq!(offsets[0].offset, 2);
    assert_eq!(rig.work.end_barrier(rig.now, true), []);
    assert_eq!(rig.offsets(), [2]);
    rig.advance(10_000);
    assert!(!rig.said().iter().any(|action| matches!(action, Action::Commit { .. })));
}

#[test]
fn a_partition_that_is_given_back_asks_for_a_transaction() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    let record = rig.one().record;
    rig.work.handle_revoking(rig.now, &[partition]);
    rig.finish(record, Outcome::Done);
    assert_eq!(rig.said(), [Action::Pause(partition), Action::BarrierNeeded]);
    rig.work.begin_barrier(rig.now);
    assert_eq!(rig.work.barrier_offsets(rig.now).unwrap().len(), 1);
    rig.work.end_barrier(rig.now, true);
    rig.advance(0);
    assert_eq!(rig.said(), [Action::Barrier, Action::Released(partition)]);
}

#[test]
fn an_aborted_transaction_names_what_must_be_read_again() {
    let mut rig = rig();
    let [partition, _other] = [rig.assign(0), rig.assign(1)];
    rig.handle(partition, 0);
    rig.work.begin_barrier(rig.now);
    assert!(rig.work.barrier_offsets(rig.now).is_some());
    assert_eq!(rig.work.end_barrier(rig.now, false), [partition]);
}

/// Outputs for a lost partition would be in the log without its offset.
#[test]
fn a_transaction_with_records_of_a_partition_that_is_gone_must_be_aborted() {
    let mut rig = rig();
    let [first, second] = [rig.assign(0), rig.assign(1)];
    rig.read(first, 0, "a");
    rig.read(second, 0, "a");
    for dispatched in rig.dispatch() {
        rig.finish(dispatched.record, Outcome::Done);
    }
    rig.work.handle_lost(rig.now, &[first]);
    rig.work.begin_barrier(rig.now);
    assert_eq!(rig.work.barrier_offsets(rig.now), None);
    assert_eq!(rig.work.end_barrier(rig.now, false), [second]);
    rig.work.handle_lost(rig.now, &[second]);
    let again = rig.assign(1);
    rig.handle(again, 0);
    // The next transaction is not spoiled by partitions that were lost after the abort.
    rig.work.begin_barrier(rig.now);
    assert!(rig.work.barrier_offsets(rig.now).is_some());
}
