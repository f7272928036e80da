//! Check of crashed owners: the order of announcements, and the blame for crashes.

use milena_machines::app::{CommittedOffset, Delivery};

use super::{Base, Checks};
use crate::app::{
    cluster::{Cluster, name},
    driver::Run,
    plan::Plan,
    record::Record,
};

impl Checks {
    /// An owner crashed, or lost its partition without a revocation.
    pub(in crate::app) fn died_as_owner(&mut self, partitions: impl Iterator<Item = usize>) {
        for partition in partitions {
            self.went_without_a_word(partition);
        }
    }

    /// The group may take a live owner for dead.
    pub(in crate::app) fn went_without_a_word(&mut self, partition: usize) {
        *self.deaths.entry(partition).or_default() += 1;
    }

    /// A record has crashed a process. An owner on the way to it may crash uncounted, because it moves on; when nothing
    /// is left before it, each counts.
    pub(in crate::app) fn killed(&mut self, plan: &Plan, record: &Record) {
        let kills = self.kills.entry(record.id).or_default();
        *kills += 1;
        let kills = *kills;
        if plan.config.crash_limit.is_some_and(|limit| kills > 2 * limit + 2) {
            self.fail(format!("record {} has ended {kills} processes", record.id));
        }
    }

    /// Nothing is handed out before the group knows what the next owner needs.
    pub(super) fn check_told(&mut self, plan: &Plan, cluster: &Cluster, run: &Run, place: &str) {
        let (Some(limit), Some(base)) = (plan.config.crash_limit, &run.base) else {
            return;
        };
        let is_owner = cluster.is_owner(run.life, run.partition, run.id);
        if plan.config.delivery != Delivery::AtLeastOnce || !is_owner {
            return;
        }
        let found = base.starts;
        let told = self.found(cluster, run.partition);
        let is_past = told.starts.count == 0 && told.offset > base.offset;
        if is_past {
            return;
        }
        let is_isolating = found.count + 1 >= limit;
        if told.starts.count <= found.count {
            self.fail(format!(
                "{place} is handed out before the group knows that somebody begins"
            ));
        } else if is_isolating && !(told.starts.alone && told.offset == run.offset) {
            self.fail(format!("{place} is handed out before the group knows that it alone is"));
        } else if found.count > 0 && told.starts.reach.is_none_or(|reach| reach <= run.offset) {
            self.fail(format!("{place} is handed out before the group knows that so much is"));
        }
    }

    /// A record is quarantined. As many owners as were counted crashed, and the last announced that it would handle
    /// this one alone.
    pub(in crate::app) fn quarantined(&mut self, plan: &Plan, (partition, offset): (usize, i64), owners: u32) {
        let place = format!("{} offset {offset}", name(plan, partition));
        let deaths = self.deaths.get(&partition).copied().unwrap_or(0);
        if owners > deaths || plan.config.crash_limit.is_none_or(|limit| owners < limit) {
            self.fail(format!(
                "{place} is put away for {owners} deaths, and there were {deaths}"
            ));
        }
        if !self.suspects.contains(&(partition, offset)) {
            self.fail(format!("{place} is put away, and was never under suspicion"));
        }
    }

    /// A commit counts: it may announce a record that is handed out alone.
    pub(super) fn note_suspect(&mut self, partition: usize, committed: &CommittedOffset) {
        if Base::new(Some(committed)).starts.alone {
            self.suspects.insert((partition, committed.offset));
        }
    }

    /// A partition was revoked: if the group knows that, there was no crash.
    pub(in crate::app) fn given_back(
        &mut self,
        plan: &Plan,
        cluster: &Cluster,
        partition: usize,
        found: &Base,
        is_known: bool,
    ) {
        let told = self.found(cluster, partition);
        if told.starts.count <= found.starts.count {
            return;
        }
        if is_known {
            self.fail(format!(
                "{} was given back, and that counts as a death",
                name(plan, partition)
            ));
        }
        self.went_without_a_word(partition);
    }
}
