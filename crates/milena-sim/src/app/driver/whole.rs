//! Runs of records that are handed out whole.

use milena_machines::app::{Outcome, RecordId};

use super::{Instance, Run};
use crate::{
    Mutation,
    app::{
        Event, World,
        record::{Nature, Record},
    },
};

/// Records as they are handed to the machine, each piece with its first offset: without gaps, or each on its own.
pub(super) fn runs(records: Vec<(i64, Record)>, as_runs: bool) -> Vec<(i64, Vec<Record>)> {
    let mut runs: Vec<(i64, Vec<Record>)> = vec![];
    for (offset, record) in records {
        match runs.last_mut() {
            // Records of a retry topic have failure headers of their own.
            Some((first, run)) if as_runs && *first + run.len() as i64 == offset && record.retry.is_none() => {
                run.push(record);
            }
            _ => runs.push((offset, vec![record])),
        }
    }
    runs
}

impl Instance {
    /// The handler has ended with a run. If all succeeded it is done as a whole; otherwise each record has its own
    /// outcome.
    pub(super) fn run_ends(&mut self, world: &mut World, record: RecordId) {
        let (Some(runs), Some(work)) = (self.wholes.remove(&record), &mut self.work) else {
            return;
        };
        let now = world.queue.now();
        if world.plan.handler().batch.is_none() {
            return self.go_through(world, record, runs);
        }
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
        let singles = work.split_run(record);
        if singles.len() != runs.len() {
            return world.checks.fail(format!("{record:?} falls into other records"));
        }
        for (single, run) in singles.into_iter().zip(runs) {
            let run = Run { record: single, ..run };
            self.runs.insert(single, run.clone());
            self.handler_ends(world, run);
        }
    }

    /// A handler of single records goes through a run as long as each record is done at once.
    fn go_through(&mut self, world: &mut World, record: RecordId, mut runs: Vec<Run>) {
        self.in_flight = self.in_flight.saturating_sub(runs.len());
        let now = world.queue.now();
        let mut done = 0;
        for (place, run) in runs.iter().enumerate() {
            self.starts(world, run);
            if !will_be_done(world, run) || world.random.below(4) == 0 {
                if world.plan.mutation == Some(Mutation::RunGoesOn) {
                    runs.iter().skip(place + 1).for_each(|run| self.starts(world, run));
                }
                break;
            }
            world.note(|| format!("{} ended {} {} at once", run.life.tag(), run.partition, run.offset));
            if self.commit_effect(world, run).is_none() {
                return;
            }
            done += 1;
        }
        let Some(work) = &mut self.work else { return };
        if done == runs.len() {
            return work.handle_finished(now, record, Outcome::Done);
        }
        let Some(record) = work.interrupt(now, record, done as u32) else {
            return world.checks.fail(format!("{record:?} is not interrupted at {done}"));
        };
        let run = Run {
            record,
            ..runs.swap_remove(done)
        };
        self.in_flight += 1;
        self.runs.insert(record, run.clone());
        let takes_ms = world.random.below(60) as i64;
        world.queue.after(takes_ms, Event::HandlerEnds(run.life, run));
    }
}

fn will_be_done(world: &World, run: &Run) -> bool {
    let outcome = run
        .data
        .outcome(run.attempt, 2, world.dependency_fails, world.plan.emits);
    run.data.nature != Nature::Later && outcome == Outcome::Done
}
