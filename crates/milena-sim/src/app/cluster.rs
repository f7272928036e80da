//! A simple model of the logs and the group.

use std::collections::BTreeMap;

use milena_machines::{
    Random, TopicPartition,
    app::{CommittedOffset, PartitionId},
};

use super::{Life, database::Database, plan::Plan, record::Record};

#[derive(Debug)]
pub(super) struct Cluster {
    /// The main partitions, then those of each retry topic. Offsets without a record never had one.
    pub(super) logs: Vec<BTreeMap<i64, Record>>,
    ends: Vec<i64>,
    pub(super) committed: Vec<Option<CommittedOffset>>,
    members: Vec<Life>,
    owners: Vec<Option<Owner>>,
    last_id: u64,
    /// The number of further records that may crash processes.
    killers_left: u32,
    /// Records of open transactions: no reader reads beyond them before these have ended.
    reserved: BTreeMap<(usize, i64), Option<[u8; 1]>>,
}

#[derive(Debug, Clone, Copy)]
struct Owner {
    life: Life,
    /// The owner's id of it, once it has it.
    id: Option<PartitionId>,
    revoking: bool,
}

#[derive(Debug, Clone, Copy)]
pub(super) enum Step {
    Assign(Life, usize),
    Revoke(Life, usize),
}

impl Cluster {
    pub(super) fn new(plan: &Plan) -> Self {
        let logs = plan.logs();
        Self {
            logs: vec![BTreeMap::new(); logs],
            ends: vec![0; logs],
            committed: vec![None; logs],
            members: vec![],
            owners: vec![None; logs],
            last_id: 0,
            killers_left: plan.killers,
            reserved: BTreeMap::new(),
        }
    }

    pub(super) fn produce(&mut self, plan: &Plan, random: &mut Random) {
        let partition = random.below(plan.partitions as u64) as usize;
        for _ in 0..1 + random.below(6) {
            if random.below(6) == 0 {
                self.ends[partition] += 1 + random.below(3) as i64;
            }
            self.last_id += 1;
            let kills = self.killers_left > 0 && random.below(12) == 0;
            self.killers_left -= u32::from(kills);
            let record = Record::random(self.last_id, partition, kills, random);
            self.append(partition, record);
        }
    }

    /// Returns its offset.
    pub(super) fn append(&mut self, partition: usize, record: Record) -> i64 {
        let offset = self.ends[partition];
        self.logs[partition].insert(offset, record);
        self.ends[partition] += 1;
        offset
    }

    /// Reserves an offset for a record of an open transaction.
    pub(super) fn reserve(&mut self, partition: usize, key: Option<[u8; 1]>) -> i64 {
        let offset = self.ends[partition];
        self.ends[partition] += 1;
        self.reserved.insert((partition, offset), key);
        offset
    }

    /// Ends that transaction: the record counts or does not.
    pub(super) fn end_reserved(&mut self, partition: usize, offset: i64, record: Option<Record>) {
        self.reserved.remove(&(partition, offset));
        if let Some(record) = record {
            self.logs[partition].insert(offset, record);
        }
    }

    pub(super) fn reserved_in(&self, partition: usize) -> impl Iterator<Item = (i64, Option<[u8; 1]>)> {
        let of_partition = self.reserved.range((partition, 0)..(partition + 1, 0));
        of_partition.map(|((_, offset), key)| (*offset, *key))
    }

    pub(super) fn join(&mut self, life: Life) {
        self.members.push(life);
    }

    /// It leaves, and gives back its partitions.
    pub(super) fn leave(&mut self, life: Life) {
        self.members.retain(|member| *member != life);
    }

    /// It is no member any more, and owns nothing.
    pub(super) fn expire(&mut self, life: Life) {
        self.members.retain(|member| *member != life);
        self.release_all(life);
    }

    /// It stays a member, but loses its partitions.
    pub(super) fn expel(&mut self, life: Life) -> Vec<usize> {
        self.release_all(life)
    }

    fn release_all(&mut self, life: Life) -> Vec<usize> {
        let mut released = vec![];
        for (partition, owner) in self.owners.iter_mut().enumerate() {
            if owner.is_some_and(|owner| owner.life == life) {
                *owner = None;
                released.push(partition);
            }
        }
        released
    }

    pub(super) fn release(&mut self, life: Life, partition: usize, id: PartitionId) {
        if self.is_owner(life, partition, id) {
            self.owners[partition] = None;
        }
    }

    pub(super) fn is_owner(&self, life: Life, partition: usize, id: PartitionId) -> bool {
        self.owners[partition].is_some_and(|owner| owner.life == life && owner.id == Some(id))
    }

    pub(super) fn took(&mut self, partition: usize, id: PartitionId) {
        if let Some(owner) = &mut self.owners[partition] {
            owner.id = Some(id);
        }
    }

    /// The partitions of an owner, known to it or not.
    pub(super) fn owned_by(&self, life: Life) -> impl Iterator<Item = usize> {
        let owners = self.owners.iter().enumerate();
        let owned = owners.filter(move |(_, owner)| owner.is_some_and(|owner| owner.life == life));
        owned.map(|(partition, _)| partition)
    }

    /// Whether an owner has a partition that is not being revoked.
    pub(super) fn keeps(&self, life: Life, partition: usize) -> bool {
        self.owners[partition].is_some_and(|owner| owner.life == life && !owner.revoking)
    }

    pub(super) fn rebalance(&mut self) -> Vec<Step> {
        let mut steps = vec![];
        if self.members.is_empty() {
            return steps;
        }
        for partition in 0..self.owners.len() {
            let target = self.members[partition % self.members.len()];
            match &mut self.owners[partition] {
                None => {
                    self.owners[partition] = Some(Owner {
                        life: target,
                        id: None,
                        revoking: false,
                    });
                    steps.push(Step::Assign(target, partition));
                }
                Some(owner) if owner.life != target && !owner.revoking => {
                    owner.revoking = true;
                    steps.push(Step::Revoke(owner.life, partition));
                }
                Some(_) => {}
            }
        }
        steps
    }

    /// Up to `max` records from an offset on, and the next offset.
    pub(super) fn read(&self, partition: usize, from: i64, max: usize) -> (Vec<(i64, Record)>, i64) {
        let end = self
            .reserved_in(partition)
            .next()
            .map_or(self.ends[partition], |first| first.0);
        let records: Vec<_> = self.logs[partition]
            .range(from..end.max(from))
            .take(max)
            .map(|(offset, record)| (*offset, *record))
            .collect();
        let full = records.len() == max;
        let next = if full {
            records.last().map_or(from, |last| last.0 + 1)
        } else {
            end.max(from)
        };
        (records, next)
    }

    /// Whether everything that was written is committed.
    pub(super) fn check_settled(&self, plan: &Plan, database: Option<&Database>) -> Result<(), String> {
        for (partition, committed) in self.committed.iter().enumerate() {
            let end = self.ends[partition];
            let offset = database.map_or_else(
                || committed.as_ref().map_or(0, |committed| committed.offset),
                |database| database.position(partition, committed.as_ref()),
            );
            if offset < end {
                return Err(format!(
                    "{} is committed up to {offset} of {end}",
                    name(plan, partition)
                ));
            }
        }
        Ok(())
    }
}

pub(super) fn name(plan: &Plan, partition: usize) -> TopicPartition {
    let (topic, number) = (partition / plan.partitions, partition % plan.partitions);
    let topic = match topic {
        0 => "in".to_owned(),
        _ if plan.holds_keys() => "in.held".to_owned(),
        _ => format!("in.retry-{topic}"),
    };
    TopicPartition::new(topic, number as i32)
}
