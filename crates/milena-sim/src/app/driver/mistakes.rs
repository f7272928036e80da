//! Bugs of other frameworks, made by the driver if the run is to have one.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::app::{
    CommitOffset, Failure, Outcome, PartitionId,
    offset_map::{self, Room},
    tracker::{Finished, Tracker},
};

use super::Run;
use crate::Mutation;

/// What the bugs remember.
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
                offset.metadata.clear();
            }
            Some(Mutation::CommitLatest) => {
                let latest = done.last().map_or(offset.offset, |last| last + 1);
                offset.offset = offset.offset.max(latest);
                offset.metadata.clear();
            }
            Some(Mutation::MapOfOtherBase) => shift(offset),
            _ => {}
        }
    }
}

/// The map is written for an offset beside the one that is committed.
fn shift(offset: &mut CommitOffset) {
    let finished = offset_map::decode(&offset.metadata, offset.offset).unwrap_or_default();
    let shifted = finished.iter().map(|range| Finished {
        start: range.start - 1,
        end: range.end - 1,
    });
    let tracker = Tracker::new(0, offset.offset, shifted.collect());
    let room = Room {
        chars: 4_096,
        wide: true,
    };
    offset.metadata = offset_map::encode(&tracker, room).text;
}
