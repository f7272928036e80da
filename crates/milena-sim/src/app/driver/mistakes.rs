//! Bugs of other frameworks, made by the driver if the run is to have one.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::app::{
    CommitOffset, CommittedOffset, CrashCounters, Failure, Outcome, PartitionId,
    commit_map::{self, CommitMetadata, Room},
    tracker::{FinishedRange, Tracker},
};

use super::Run;
use crate::Mutation;

const ROOM: Room = Room {
    chars: 4_096,
    wide: true,
};

/// The state of the bugs.
#[derive(Debug, Default)]
pub(super) struct Memory {
    resident: BTreeSet<(usize, i64)>,
    failing: BTreeMap<PartitionId, i64>,
}

impl Memory {
    /// A record that was there in an earlier assignment hides the one that is read again.
    pub(super) fn swallows(&mut self, mutation: Option<Mutation>, partition: usize, offset: i64) -> bool {
        mutation == Some(Mutation::StaleResident) && !self.resident.insert((partition, offset))
    }

    /// Of two records of a partition that fail, only the last is remembered.
    pub(super) fn outcome(&mut self, mutation: Option<Mutation>, run: &Run, outcome: Outcome) -> Outcome {
        if mutation != Some(Mutation::FirstFailureLost) || outcome != Outcome::Failed(Failure::Retry) {
            return outcome;
        }
        match self.failing.insert(run.id, run.offset) {
            Some(other) if other != run.offset => Outcome::Skipped,
            _ => outcome,
        }
    }

    pub(super) fn commit(
        &self,
        mutation: Option<Mutation>,
        highest_seen: i64,
        done: &BTreeSet<i64>,
        offset: &mut CommitOffset,
    ) {
        match mutation {
            Some(Mutation::CommitHighestSeen) if highest_seen >= offset.offset => {
                offset.offset = highest_seen + 1;
                write(offset, vec![], CrashCounters::default());
            }
            Some(Mutation::CommitLatest) => {
                let latest = done.last().map_or(offset.offset, |last| last + 1);
                let starts = read(&offset.metadata, offset.offset).crashes;
                offset.offset = offset.offset.max(latest);
                write(offset, vec![], starts);
            }
            Some(Mutation::MapOfOtherBase) => shift(offset),
            _ => {}
        }
    }
}

/// The crash counters in a commit are never cleared.
pub(super) fn keep_starts(before: Option<&CommittedOffset>, offset: &mut CommitOffset) {
    let before = before.map(|before| read(&before.metadata, before.offset).crashes);
    let told = read(&offset.metadata, offset.offset);
    if let Some(before) = before.filter(|before| before.count > told.crashes.count) {
        write(offset, told.finished, before);
    }
}

/// The map is written for an offset beside the one that is committed.
fn shift(offset: &mut CommitOffset) {
    let told = read(&offset.metadata, offset.offset);
    let shifted = told.finished.iter().map(|range| FinishedRange {
        start: range.start - 1,
        end: range.end - 1,
    });
    write(offset, shifted.collect(), told.crashes);
}

fn read(metadata: &str, at: i64) -> CommitMetadata {
    commit_map::read(metadata, at).unwrap_or_default()
}

fn write(offset: &mut CommitOffset, finished: Vec<FinishedRange>, starts: CrashCounters) {
    let tracker = Tracker::new(0, offset.offset, finished);
    offset.metadata = commit_map::encode_with(&tracker, starts, ROOM).text;
}
