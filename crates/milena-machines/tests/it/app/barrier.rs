use milena_machines::app::{Action, Delivery, Outcome, WorkConfig};

use super::rig::{Rig, config, handler};

fn rig() -> Rig {
    Rig::new(WorkConfig {
        delivery: Delivery::ExactlyOnce,
        ..config(handler())
    })
}

#[test]
fn a_barrier_waits_for_what_runs_and_lets_nothing_through() {
    let mut rig = rig();
    let partition = rig.assign(0);
    for (offset, key) in [(0, "a"), (1, "b")] {
        rig.read(partition, offset, key);
    }
    let running = rig.dispatch();
    rig.read(partition, 2, "c");
    rig.work.begin_barrier(rig.now);
    assert_eq!(rig.offsets(), []);
    rig.finish(running[0].record, Outcome::Done);
    assert_eq!(rig.said(), []);
    assert_eq!(rig.work.barrier_offsets(rig.now), []);
    rig.finish(running[1].record, Outcome::Done);
    assert_eq!(rig.said(), [Action::Barrier]);
    assert_eq!(rig.work.touched(), [partition]);
    let offsets = rig.work.barrier_offsets(rig.now);
    assert_eq!(offsets.len(), 1);
    assert_eq!(offsets[0].offset, 2);
    rig.work.end_barrier(rig.now, true);
    assert_eq!(rig.work.touched(), []);
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
    assert_eq!(rig.said(), [Action::Pause(partition), Action::BarrierWanted]);
    rig.work.begin_barrier(rig.now);
    assert_eq!(rig.work.barrier_offsets(rig.now).len(), 1);
    rig.work.end_barrier(rig.now, true);
    rig.advance(0);
    assert_eq!(rig.said(), [Action::Barrier, Action::Released(partition)]);
}
