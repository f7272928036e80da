//! Check of emitted records: they are in the order of their input records.

use milena_machines::app::{CommittedOffset, Delivery, PartitionId};

use super::{Base, Checks, Run, lane_of};
use crate::app::{Life, plan::Plan};

impl Checks {
    /// A producer has taken the output of a call. Where nothing may be repeated, or keys have an order that outlives
    /// processes, others wait for it all the same.
    pub(in crate::app) fn taken(&mut self, plan: &Plan, run: &Run) {
        if plan.config.delivery != Delivery::AtMostOnce && !plan.holds_keys() {
            self.taken.insert((run.life.number, run.id, run.offset));
        }
    }

    /// The output of a call is in the log, behind all that is there.
    pub(in crate::app) fn wrote(&mut self, plan: &Plan, run: &Run) {
        self.last_output += 1;
        if let Some(lane) = lane_of(plan, run) {
            self.outputs
                .entry(lane)
                .or_default()
                .insert(run.offset, self.last_output);
        }
    }

    /// A record ends in a retry topic or as a dead letter. An earlier call may have emitted for it: that is a
    /// duplicate, outside of the order.
    pub(in crate::app) fn gave_up_output(&mut self, plan: &Plan, run: &Run) {
        if let Some(lane) = lane_of(plan, run) {
            self.outputs.entry(lane).or_default().remove(&run.offset);
        }
    }

    /// Of the records that an owner commits as done, the output that was written last is in the order of the offsets.
    /// Records of one call have no order: each has an outcome of its own.
    pub(in crate::app) fn committed_output(&mut self, life: Life, id: PartitionId, commit: &CommittedOffset) {
        let base = Base::new(Some(commit));
        let calls = |offset: i64| self.calls.get(&(life.number, id, offset)).into_iter().flatten();
        let are_one = |first: i64, next: i64| calls(first).any(|call| calls(next).any(|other| call == other));
        let lanes = self.outputs.iter();
        let mut lanes = lanes.filter(|((number, partition, _), _)| *number == life.number && *partition == id);
        let wrong = lanes.find_map(|(_, written)| {
            let done = || written.iter().filter(|(offset, _)| base.tells(**offset));
            done().find_map(|(next, at)| {
                let mut before = done().take_while(|(offset, _)| *offset < next);
                let later = before.find(|(first, other)| *other > at && !are_one(**first, *next));
                later.map(|(first, _)| (*first, *next))
            })
        });
        if let Some((first, next)) = wrong {
            self.fail(format!(
                "the output of {next} is before that of {first}, which has its key"
            ));
        }
    }
}
