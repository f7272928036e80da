use milena_machines::app::{
    Acceptance, Action, CommitConfig, CommitResult, CommittedOffset, Delivery, HandlerConfig, MapError, MapRestore,
    Order, Outcome, PauseReason, ReplayBound, Role, SchedulerConfig,
};

use super::rig::{Rig, config, handler, rig};

#[test]
fn what_is_done_is_committed_when_nothing_happens_for_a_while() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.handle(partition, 0);
    rig.advance(99);
    assert_eq!(rig.said(), []);
    rig.advance(1);
    let commit = rig.commit();
    assert_eq!(
        (commit.offset, commit.leader_epoch, commit.metadata.as_str()),
        (1, Some(3), "")
    );
    rig.committed(CommitResult::Ok);
    rig.advance(10_000);
    assert_eq!(rig.said(), []);
}

#[test]
fn work_that_never_rests_is_committed_every_second() {
    let mut rig = rig();
    let partition = rig.assign(0);
    let mut commits = 0;
    for offset in 0..400 {
        rig.handle(partition, offset);
        rig.advance(10);
        if rig.said().iter().any(|action| matches!(action, Action::Commit { .. })) {
            commits += 1;
            rig.committed(CommitResult::Ok);
        }
    }
    assert_eq!(commits, 4);
}

#[test]
fn every_n_records_or_each() {
    for every in [1, 3] {
        let mut rig = Rig::new(SchedulerConfig {
            commit: CommitConfig {
                every_records: Some(every),
                ..CommitConfig::default()
            },
            ..config(handler())
        });
        let partition = rig.assign(0);
        for offset in 0..every as i64 {
            assert_eq!(rig.said(), []);
            rig.handle(partition, offset);
        }
        assert_eq!(rig.commit().offset, every as i64);
    }
}

#[test]
fn one_commit_is_under_way_at_a_time_and_the_next_has_all_that_is_new() {
    let mut rig = Rig::new(SchedulerConfig {
        commit: CommitConfig {
            every_records: Some(1),
            ..CommitConfig::default()
        },
        ..config(handler())
    });
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "b", "c"]);
    for dispatched in rig.dispatch() {
        rig.finish(dispatched.record, Outcome::Done);
    }
    assert_eq!(rig.commit().offset, 1);
    rig.committed(CommitResult::Ok);
    assert_eq!(rig.commit().offset, 3);
}

#[test]
fn a_commit_that_failed_is_tried_again_later() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.handle(partition, 0);
    rig.advance(100);
    rig.commit();
    rig.committed(CommitResult::Failed);
    rig.advance(99);
    assert_eq!(rig.said(), []);
    rig.advance(100);
    assert_eq!(rig.commit().offset, 1);
}

/// Offsets that are done above the commit are in its metadata, and the next owner does not handle them again.
#[test]
fn the_next_owner_does_not_repeat_what_the_map_has() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "b", "c"]);
    for dispatched in rig.dispatch() {
        if dispatched.offset != 0 {
            rig.finish(dispatched.record, Outcome::Done);
        }
    }
    rig.advance(100);
    let commit = rig.commit();
    assert_eq!(commit.offset, 0);
    let committed = CommittedOffset {
        offset: 0,
        metadata: commit.metadata,
    };
    let mut next = Rig::new(config(handler()));
    let partition = next.assign_at(0, Role::Main, 0, Some(committed.clone()));
    assert_eq!(
        next.work.map_restore(partition),
        Some(MapRestore::Restored { finished: 2 })
    );
    assert!(matches!(next.read(partition, 0, "a"), Acceptance::Taken(_)));
    assert_eq!(next.read(partition, 1, "b"), Acceptance::Finished);
    assert_eq!(next.read(partition, 2, "c"), Acceptance::Finished);
    assert_eq!(next.offsets(), [0]);
    // An owner that begins above uses the part above: the offset may be stored with effects, between two commits.
    let partition = next.assign_at(1, Role::Main, 2, Some(committed.clone()));
    assert_eq!(
        next.work.map_restore(partition),
        Some(MapRestore::Restored { finished: 1 })
    );
    assert_eq!(next.read(partition, 2, "c"), Acceptance::Finished);
    // One that begins below must not use it.
    let partition = next.assign_at(2, Role::Main, -1, Some(committed));
    let error = MapError::OtherBase {
        made_for: 0,
        committed: -1,
    };
    assert_eq!(next.work.map_restore(partition), Some(MapRestore::Ignored(error)));
}

#[test]
fn a_broker_that_takes_no_large_metadata_gets_smaller_ones() {
    let mut rig = rig();
    let partition = rig.assign(0);
    for offset in 0..2 {
        rig.read(partition, offset, if offset == 0 { "a" } else { "b" });
    }
    let second = rig.dispatch()[1].record;
    rig.finish(second, Outcome::Done);
    rig.advance(100);
    assert_ne!(rig.commit().metadata, "");
    for _ in 0..12 {
        rig.committed(CommitResult::MetadataTooLarge);
        if rig.commit().metadata.is_empty() {
            return;
        }
    }
    panic!("it never gives up");
}

#[test]
fn with_a_strict_bound_records_wait_for_the_map() {
    let unordered = HandlerConfig {
        order: Order::Unordered,
        ..handler()
    };
    let mut rig = Rig::new(SchedulerConfig {
        commit: CommitConfig {
            metadata_chars: 29,
            replay_bound: ReplayBound::Strict,
            ..CommitConfig::default()
        },
        ..config(unordered)
    });
    let partition = rig.assign(0);
    let mut first = None;
    for offset in 0..600 {
        rig.read(partition, offset, "");
        for dispatched in rig.dispatch() {
            if dispatched.offset == 0 {
                first = Some(dispatched.record);
            } else {
                rig.finish(dispatched.record, Outcome::Done);
            }
        }
    }
    let waiting = rig.work.partition_status(partition).unwrap().records;
    assert!(waiting > 1, "{waiting}");
    assert!(rig.work.pauses(partition).unwrap().contains(PauseReason::Map));
    rig.advance(100);
    let metadata = rig.commit().metadata;
    assert!(metadata.encode_utf16().count() <= 29, "{metadata}");
    assert!(!rig.work.partition_status(partition).unwrap().map_cut);
    rig.finish(first.unwrap(), Outcome::Done);
    assert!(!rig.dispatch().is_empty());
}

#[test]
fn at_most_once_hands_out_what_is_committed() {
    let mut once = handler();
    once.retry.attempts = 1;
    let mut rig = Rig::new(SchedulerConfig {
        delivery: Delivery::AtMostOnce,
        ..config(once)
    });
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    rig.read(partition, 1, "b");
    assert_eq!(rig.offsets(), []);
    rig.advance(0);
    assert_eq!(rig.commit().offset, 1);
    rig.read(partition, 2, "c");
    assert_eq!(rig.offsets(), []);
    rig.committed(CommitResult::Ok);
    assert_eq!(rig.offsets(), [0]);
    assert_eq!(rig.commit().offset, 2);
    rig.committed(CommitResult::Failed);
    assert_eq!(rig.offsets(), []);
    rig.advance(200);
    rig.committed(CommitResult::Ok);
    assert_eq!(rig.offsets(), [1]);
}
