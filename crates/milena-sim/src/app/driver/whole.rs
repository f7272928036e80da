//! Runs of records that go to the handler as a whole.

use milena_machines::app::{Outcome, RecordId};

use super::{Instance, Run};
use crate::app::{
    World,
    record::{Nature, Record},
};

/// Records as they are handed to the machine, each piece with its first offset: without gaps, or each on its own.
pub(super) fn runs(records: Vec<(i64, Record)>, as_runs: bool) -> Vec<(i64, Vec<Record>)> {
    let mut runs: Vec<(i64, Vec<Record>)> = vec![];
    for (offset, record) in records {
        match runs.last_mut() {
            // What comes from a retry topic says something of its own.
            Some((first, run)) if as_runs && *first + run.len() as i64 == offset && record.retry.is_none() => {
                run.push(record);
            }
            _ => runs.push((offset, vec![record])),
        }
    }
    runs
}

impl Instance {
    /// The handler has ended with a run. If all went well it is done as a whole; otherwise each record has its own outcome.
    pub(super) fn run_ends(&mut self, world: &mut World, record: RecordId) {
        let (Some(runs), Some(work)) = (self.wholes.remove(&record), &mut self.work) else {
            return;
        };
        let now = world.queue.now();
        if runs.iter().all(|run| will_be_done(world, run)) {
            self.in_flight = self.in_flight.saturating_sub(runs.len());
            work.handle_finished(now, record, Outcome::Done);
            for run in &runs {
                world.note(|| format!("{} ended {} {} in a run", run.life.tag(), run.partition, run.offset));
                world.checks.effect(&world.plan, &world.cluster, &run.data);
                self.settle(world, run);
            }
            return;
        }
        let singles = work.break_up(record);
        if singles.len() != runs.len() {
            return world.checks.fail(format!("{record:?} falls into other records"));
        }
        for (single, run) in singles.into_iter().zip(runs) {
            let run = Run { record: single, ..run };
            self.runs.insert(single, run.clone());
            self.handler_ends(world, run);
        }
    }
}

fn will_be_done(world: &World, run: &Run) -> bool {
    let outcome = run
        .data
        .outcome(run.attempt, 2, world.dependency_fails, world.plan.emits);
    run.data.nature != Nature::Later && outcome == Outcome::Done
}
