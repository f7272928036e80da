use milena_machines::app::{
    Acceptance, Action, CommitResult, Delivery, Failure, Outcome, PublishResult, RecordId, SchedulerConfig, Stage,
};

use super::rig::{Rig, config, handler, rig, topic};

#[test]
fn a_revoked_partition_ends_what_runs_commits_and_is_released() {
    let mut rig = rig();
    let [partition, other] = [rig.assign(0), rig.assign(1)];
    rig.read_keys(partition, &["a", "b", "b"]);
    let running = rig.dispatch();
    rig.read(other, 0, "a");
    rig.said();
    rig.work.handle_revoking(rig.now, &[partition]);
    assert_eq!(rig.read(partition, 3, "c"), Acceptance::Stale);
    // Other partitions go on, and no more records of this one are handed out.
    let others = rig.dispatch();
    assert!(others.iter().all(|dispatched| dispatched.partition == other) && others.len() == 1);
    rig.finish(running[1].record, Outcome::Done);
    rig.said();
    rig.finish(running[0].record, Outcome::Done);
    assert_eq!(rig.commit().offset, 2);
    rig.committed(CommitResult::Ok);
    assert_eq!(rig.said(), [Action::Released(partition)]);
    assert_eq!(rig.work.partition(partition), None);
    assert_eq!(rig.work.status().records, 1);
}

#[test]
fn a_partition_without_work_is_released_at_once() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.work.handle_revoking(rig.now, &[partition]);
    rig.advance(0);
    assert_eq!(rig.said(), [Action::Pause(partition), Action::Released(partition)]);
}

#[test]
fn handlers_that_take_too_long_are_cancelled() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "b"]);
    let running = rig.dispatch();
    rig.finish(running[0].record, Outcome::Done);
    rig.work.handle_revoking(rig.now, &[partition]);
    rig.said();
    rig.advance(14_999);
    assert_eq!(rig.work.status().in_handlers, 1);
    rig.committed(CommitResult::Ok);
    rig.said();
    rig.advance(1);
    assert_eq!(
        rig.said(),
        [Action::Cancel(running[1].record), Action::Released(partition)]
    );
    // A late result is stale.
    rig.finish(running[1].record, Outcome::Done);
    assert_eq!(rig.work.status().totals.done, 1);
}

#[test]
fn a_failure_while_a_partition_is_given_back_is_left_to_the_next_owner() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "b", "c"]);
    let running = rig.dispatch();
    rig.work.handle_revoking(rig.now, &[partition]);
    rig.finish(running[0].record, Outcome::Failed(Failure::Retry));
    rig.finish(running[1].record, Outcome::Failed(Failure::Poison));
    rig.finish(running[2].record, Outcome::Done);
    rig.said();
    rig.published(running[1].record, PublishResult::Failed);
    let commit = rig.commit();
    assert_eq!(commit.offset, 0);
    assert_ne!(commit.metadata, "");
    rig.committed(CommitResult::Ok);
    assert_eq!(rig.said(), [Action::Released(partition)]);
}

#[test]
fn the_last_commit_is_tried_for_a_while_and_then_the_partition_goes_anyway() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.handle(partition, 0);
    rig.work.handle_revoking(rig.now, &[partition]);
    rig.advance(0);
    rig.commit();
    rig.committed(CommitResult::Failed);
    rig.advance(1_000);
    rig.commit();
    rig.advance(4_000);
    assert_eq!(rig.said(), [Action::Released(partition)]);
}

#[test]
fn a_lost_partition_is_cancelled_without_a_commit() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "b", "b"]);
    let running = rig.dispatch();
    rig.finish(running[0].record, Outcome::Done);
    rig.work.handle_lost(rig.now, &[partition]);
    rig.advance(20_000);
    assert_eq!(rig.said(), [Action::Cancel(running[1].record)]);
    let status = rig.work.status();
    assert_eq!(
        (status.records, status.bytes, status.in_handlers, status.keys),
        (0, 0, 0, 0)
    );
}

/// Parallel Consumer #875: records of an earlier assignment must not hide those that are read again.
#[test]
fn a_record_that_is_read_again_after_a_loss_is_handled_again() {
    let mut rig = rig();
    let old = rig.assign(0);
    rig.read(old, 0, "a");
    let stale = rig.one().record;
    rig.work.handle_lost(rig.now, &[old]);
    let new = rig.assign(0);
    assert!(matches!(rig.read(new, 0, "a"), Acceptance::Taken(_)));
    let again = rig.one();
    assert_eq!((again.offset, again.partition), (0, new));
    rig.finish(stale, Outcome::Done);
    rig.advance(1_000);
    assert!(!rig.said().iter().any(|action| matches!(action, Action::Commit { .. })));
    rig.finish(again.record, Outcome::Done);
    rig.advance(100);
    assert_eq!(rig.commit().offset, 1);
}

#[test]
fn a_commit_for_an_assignment_that_is_over_counts_for_nothing() {
    let mut rig = rig();
    let old = rig.assign(0);
    rig.handle(old, 0);
    rig.advance(100);
    rig.commit();
    rig.work.handle_lost(rig.now, &[old]);
    let new = rig.assign(0);
    rig.committed(CommitResult::Ok);
    assert_eq!(rig.work.partition_status(new).unwrap().committed, None);
}

#[test]
fn a_shutdown_goes_through_its_stages() {
    let mut rig = rig();
    let partition = rig.assign(0);
    rig.read(partition, 0, "a");
    let record = rig.one().record;
    assert_eq!(rig.work.stage(), Stage::Running);
    rig.work.handle_shutdown(rig.now);
    assert_eq!(rig.work.stage(), Stage::Draining);
    rig.finish(record, Outcome::Done);
    assert_eq!(rig.work.stage(), Stage::Committing);
    assert_eq!(rig.commit().offset, 1);
    rig.committed(CommitResult::Ok);
    assert_eq!(rig.said(), [Action::Released(partition), Action::Closed]);
    assert_eq!(rig.work.stage(), Stage::Closed);
    rig.work.handle_shutdown(rig.now);
    assert_eq!(rig.work.poll_action(), None);
}

#[test]
fn the_users_pause_outlives_a_rebalance() {
    let mut rig = rig();
    let old = rig.assign(0);
    rig.work.pause(rig.now, &topic(0));
    rig.work.handle_lost(rig.now, &[old]);
    rig.advance(0);
    rig.said();
    let new = rig.assign(0);
    assert_eq!(rig.said(), [Action::Pause(new)]);
    rig.work.resume(rig.now, &topic(0));
    rig.advance(0);
    assert_eq!(rig.said(), [Action::Resume(new)]);
}

/// Records that are committed before they are handled would otherwise be lost.
#[test]
fn at_most_once_ends_what_is_committed_before_it_lets_go() {
    let mut once = handler();
    once.retry.attempts = 1;
    let mut rig = Rig::new(SchedulerConfig {
        delivery: Delivery::AtMostOnce,
        ..config(once)
    });
    let partition = rig.assign(0);
    rig.read_keys(partition, &["a", "a", "b", "c"]);
    rig.advance(0);
    rig.committed(CommitResult::Ok);
    let first: RecordId = rig.one().record;
    rig.said();
    rig.work.handle_revoking(rig.now, &[partition]);
    rig.finish(first, Outcome::Done);
    // A commit is in flight for one more record, and for no others.
    assert_eq!(rig.said(), [Action::Pause(partition)]);
    assert_eq!(rig.offsets(), []);
    rig.committed(CommitResult::Ok);
    let second = rig.one();
    assert_eq!(second.offset, 1);
    rig.finish(second.record, Outcome::Done);
    assert_eq!(rig.said(), [Action::Released(partition)]);
}
