//! Emitted records that a producer has taken and not yet acknowledged.

use milena_machines::app::{Publish, RecordId};

use super::{Event, Instance, Life, Publishing, Run, World};

impl Instance {
    /// The producer takes the output of a handler. All output that it takes later is behind it in the log.
    pub(in crate::app) fn take(&mut self, world: &mut World, run: &Run, is_written: bool) {
        if is_written {
            world.checks.wrote(&world.plan, run);
        }
        world.checks.taken(&world.plan, run);
        if let Some(work) = &mut self.work {
            work.handle_taken(run.record);
        }
    }

    pub(in crate::app) fn acknowledge_later(&mut self, world: &mut World, life: Life, record: RecordId) {
        let takes_ms = 1 + world.random.below(40) as i64;
        let publishing = Publishing {
            record,
            what: Publish::Output,
            acked: !world.publishing_fails,
            written: true,
        };
        world.queue.after(takes_ms, Event::Published(life, publishing));
    }

    /// Settles acknowledged records that the machine counts as done. If a record before one failed, it is given back instead.
    pub(super) fn settle_acked(&mut self, world: &mut World) {
        let Some(work) = &self.work else { return };
        let is_gone = |record: &&RecordId| work.payload(**record).is_none();
        let gone: Vec<RecordId> = self.acked.keys().filter(is_gone).copied().collect();
        for record in gone {
            let is_done = |run: &Run| self.work.as_ref().is_some_and(|work| work.is_done(run.id, run.offset));
            if let Some(run) = self.acked.remove(&record).filter(is_done) {
                self.settle(world, &run);
            }
        }
    }
}
