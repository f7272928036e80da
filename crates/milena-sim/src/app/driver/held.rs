//! Keys that stay in order through retries: the driver's part of the key holds.

use milena_machines::app::{CommittedOffset, HeldRecord, PartitionId, RecordId};

use super::{Event, Instance, Life, Run, World};
use crate::{Mutation, app::checks::Base};

impl Instance {
    /// A new owner of a main partition reads its held records.
    pub(super) fn read_held(&mut self, world: &mut World, partition: usize, id: PartitionId) {
        let Some(held) = world.plan.held_of(partition) else {
            return;
        };
        let Some(work) = &mut self.work else { return };
        let base = Base::new(world.cluster.committed[held].as_ref());
        let records = world.cluster.logs[held].iter();
        let left = records.filter(|(offset, _)| !base.tells(**offset));
        let mut left: Vec<HeldRecord> = left
            .map(|(offset, record)| HeldRecord {
                key: record.key.map(|key| key.to_vec()),
                offset: *offset,
            })
            .collect();
        // An open transaction may write more, and is waited for.
        left.extend(world.cluster.reserved_in(held).map(|(offset, key)| HeldRecord {
            key: key.map(|key| key.to_vec()),
            offset,
        }));
        if world.plan.mutation == Some(Mutation::ForgetHeld) {
            left.clear();
        }
        work.handle_held_records(world.queue.now(), id, left);
    }

    /// Calls were cancelled, and their records have other ids now.
    pub(super) fn called_off(&mut self, world: &mut World, life: Life, records: &[RecordId]) {
        let Some(work) = &self.work else { return };
        for (id, offset) in records.iter().filter_map(|record| work.position(*record)) {
            world.checks.begins_anew(life, id, offset);
        }
    }

    pub(super) fn ask_held(&self, world: &mut World, life: Life, ids: Vec<PartitionId>) {
        let takes_ms = 1 + world.random.below(40) as i64;
        world.queue.after(takes_ms, Event::HeldAnswered(life, ids));
    }

    pub(super) fn held_answered(&mut self, world: &World, ids: &[PartitionId]) {
        let Some(work) = &mut self.work else { return };
        for (partition, of) in &self.held {
            let Some(held) = world.plan.held_of(*partition).filter(|_| ids.contains(&of.id)) else {
                continue;
            };
            let mut committed = world.cluster.committed[held].clone();
            if world.plan.mutation == Some(Mutation::FreeKeysEarly) {
                committed = world.cluster.logs[held]
                    .last_key_value()
                    .map(|(last, _)| CommittedOffset {
                        offset: last + 1,
                        metadata: String::new(),
                    });
            }
            if let Some(committed) = committed {
                work.handle_held_commit(of.id, &committed);
            }
        }
    }

    /// A record that goes to another topic without a decision of its handler.
    pub(super) fn diverted(&mut self, life: Life, record: RecordId) {
        let Some(work) = &self.work else { return };
        let data = work.payload(record).and_then(|records| records.0.first());
        let (Some((id, offset)), Some(data)) = (work.position(record), data) else {
            return;
        };
        let Some(partition) = self.held.iter().find(|(_, held)| held.id == id).map(|(at, _)| *at) else {
            return;
        };
        self.publishing.entry(record).or_insert_with(|| Run {
            life,
            record,
            id,
            partition,
            offset,
            attempt: 0,
            data: *data,
            call: 0,
            base: None,
            is_stored: false,
        });
    }
}
