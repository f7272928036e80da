//! Handlers whose offsets are stored with their effects.

use milena_machines::app::{Dispatch, Order, Outcome};

use super::{Instance, Run};
use crate::{Mutation, app::World};

impl Instance {
    /// Whether the offset of a record is stored with its effect: it is the lowest unfinished one of a partition in order.
    pub(super) fn is_stored(&self, world: &mut World, partition: usize, dispatched: Dispatch) -> bool {
        let is_in_order = world.plan.handler().order == Order::Partition;
        let frontier = self.work.as_ref().and_then(|work| work.frontier(dispatched.partition));
        let is_stored = world.database.is_some() && is_in_order && frontier == Some(dispatched.offset);
        if is_stored && world.plan.mutation == Some(Mutation::OffsetBeforeEffect) {
            store(world, partition, dispatched.offset + 1);
        }
        is_stored
    }

    /// A handler has succeeded: its effect happens, in a transaction if there is a database. Returns the outcome; `None` if
    /// the transaction was refused, because the partition has a newer owner.
    pub(super) fn commit_effect(&mut self, world: &mut World, run: &Run) -> Option<Outcome> {
        let mut outcome = Outcome::Done;
        if let Some(database) = &mut world.database {
            if database.is_processed(run.data.id) {
                outcome = Outcome::Duplicate;
            } else if !may_commit(
                world.plan.mutation,
                database.is_claimed(run.life, run.partition, run.id),
            ) {
                world.note(|| format!("{} is fenced at {} {}", run.life.tag(), run.partition, run.offset));
                if self.held.get(&run.partition).is_some_and(|held| held.id == run.id) {
                    self.lose(world, run.partition);
                }
                return None;
            } else {
                database.process(run.data.id);
                world.checks.committed_effect(&world.plan, run);
            }
        }
        if outcome == Outcome::Done {
            world.checks.effect(&world.plan, &world.cluster, &run.data);
        }
        self.settle(world, run);
        if run.is_stored && outcome == Outcome::Done {
            store(world, run.partition, run.offset + 1);
        }
        Some(outcome)
    }
}

/// Whether a transaction or a commit of an owner succeeds.
pub(super) fn may_commit(mutation: Option<Mutation>, is_claimed: bool) -> bool {
    is_claimed || mutation == Some(Mutation::ZombiesCommit)
}

fn store(world: &mut World, partition: usize, offset: i64) {
    world.checks.stored(&world.plan, &world.cluster, partition, offset);
    if let Some(database) = &mut world.database {
        database.store(partition, offset);
    }
}
