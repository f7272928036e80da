//! Records that crash the process that handles them.

use milena_machines::app::{CommitOffset, PartitionId, RecordId, commit_map};

use super::{Commit, Instance, World};
use crate::app::{checks::Base, record::Nature};

impl Instance {
    /// Whether a record crashes this process now: its handler still has it.
    pub(in crate::app) fn is_killed_by(&self, world: &mut World, record: RecordId) -> bool {
        let whole = self.wholes.get(&record).into_iter().flatten();
        let mut runs = self.runs.get(&record).into_iter().chain(whole);
        let Some(run) = runs.find(|run| run.data.nature == Nature::Kills) else {
            return false;
        };
        world.checks.killed(&world.plan, &run.data);
        true
    }

    /// A record begins: of all records that this process has out, one is alone at most.
    pub(super) fn check_alone(&self, world: &mut World, partition: usize) {
        let alone = |(at, base): (usize, &Base)| {
            let told = Base::new(world.cluster.committed[at].as_ref());
            // A quarantined record is not handed out.
            told.starts.alone && told.starts != base.starts
        };
        let begins_alone = self
            .held
            .get(&partition)
            .is_some_and(|held| alone((partition, &held.base)));
        let others = self.held.iter().filter(|(other, _)| **other != partition);
        let mut owned = others.filter(|(other, held)| {
            self.life
                .is_some_and(|life| world.cluster.is_owner(life, **other, held.id))
        });
        if begins_alone && owned.any(|(other, held)| alone((*other, &held.base))) {
            world.checks.fail(format!("a record of {partition} is not alone"));
        }
    }

    pub(super) fn quarantined(&self, world: &mut World, id: PartitionId, offset: i64, owners: u32) {
        let found = self.held.iter().find(|(_, held)| held.id == id);
        let Some((partition, _)) = found else { return };
        world.checks.quarantined(&world.plan, (*partition, offset), owners);
    }
}

impl Commit {
    pub(in crate::app) fn is_lost_with_its_sender(&self) -> bool {
        self.is_late
    }
}

/// Whether a commit announces a start.
pub(super) fn tells_of_starts(offsets: &[(usize, CommitOffset)]) -> bool {
    offsets.iter().any(|(_, offset)| {
        let told = commit_map::read(&offset.metadata, offset.offset);
        told.is_ok_and(|told| told.crashes.count > 0)
    })
}
