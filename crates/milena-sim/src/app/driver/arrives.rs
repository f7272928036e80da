//! Writes and commits of an instance reach the logs and the group.

use milena_machines::app::{CommitOffset, CommitResult, CommittedOffset, Publish, PublishResult, RetryInfo};

use super::{Commit, Event, Life, Run, World, stored::may_commit};
use crate::app::record::Record;

/// The record in the held-keys topic.
pub(in crate::app) fn held_record(run: &Run, what: Publish) -> Record {
    let retry = match what {
        Publish::HeldKeys {
            due_ms,
            attempts,
            first_failed_ms,
        } => Some(RetryInfo {
            attempts,
            due_ms,
            first_failed_ms,
            returns: 0,
        }),
        _ => None,
    };
    Record { retry, ..run.data }
}

/// A record is written to another topic, or the output of its handler is.
pub(in crate::app) fn write(world: &mut World, run: &Run, what: Publish) -> PublishResult {
    match what {
        Publish::Output => {}
        Publish::DeadLetter { .. } => world.checks.died(&world.plan, &world.cluster, &run.data),
        Publish::Return {
            attempts,
            first_failed_ms,
            returns,
        } => {
            let retry = RetryInfo {
                attempts,
                due_ms: None,
                first_failed_ms,
                returns,
            };
            let record = Record {
                retry: Some(retry),
                ..run.data
            };
            world.cluster.append(run.data.origin, record);
        }
        Publish::HeldKeys { .. } => {
            let partition = world.plan.partitions + run.data.origin;
            let offset = world.cluster.append(partition, held_record(run, what));
            return PublishResult::AckedAt(offset);
        }
        Publish::RetryTopic {
            index,
            due_ms,
            attempts,
            first_failed_ms,
        } => {
            let retry = RetryInfo {
                attempts,
                due_ms: Some(due_ms),
                first_failed_ms: Some(first_failed_ms),
                returns: 0,
            };
            let record = Record {
                retry: Some(retry),
                ..run.data
            };
            let partition = world.plan.partitions * (1 + usize::from(index)) + run.data.origin;
            world.cluster.append(partition, record);
        }
    }
    PublishResult::Acked
}

/// A commit reaches the group.
pub(in crate::app) fn commit_arrives(world: &mut World, life: Life, commit: Commit) {
    let owns = |partition: usize, id| match &world.database {
        Some(database) => may_commit(world.plan.mutation, database.is_claimed(life, partition, id)),
        None => world.cluster.is_owner(life, partition, id),
    };
    let mut offsets = commit.offsets.iter();
    let owned = offsets.all(|(partition, offset)| owns(*partition, offset.id));
    let result = match (owned, world.commits_fail) {
        (false, _) => CommitResult::Lost,
        (true, true) => CommitResult::Failed,
        (true, false) => CommitResult::Ok,
    };
    for (_, offset) in &commit.offsets {
        let committed = CommittedOffset {
            offset: offset.offset,
            metadata: offset.metadata.clone(),
        };
        world.checks.committed_output(life, offset.id, &committed);
    }
    if owned && (result == CommitResult::Ok || world.random.below(2) == 0) {
        apply(world, &commit.offsets);
        // Its success is unknown: at most once, the records that it cleared may never be handled.
        world.checks.forced |= result != CommitResult::Ok;
    }
    if commit.is_late {
        return;
    }
    let takes_ms = 1 + world.random.below(30) as i64;
    world
        .queue
        .after(takes_ms, Event::CommitAnswered(life, commit.source, result));
}

pub(in crate::app) fn apply(world: &mut World, offsets: &[(usize, CommitOffset)]) {
    for (partition, offset) in offsets {
        let committed = CommittedOffset {
            offset: offset.offset,
            metadata: offset.metadata.clone(),
        };
        world.note(|| format!("committed {partition} {} {}", committed.offset, committed.metadata));
        world
            .checks
            .committed(&world.plan, &world.cluster, *partition, &committed);
        world.cluster.committed[*partition] = Some(committed);
    }
}
