//! A simple model of a database that has the offsets of partitions beside the effects of their records.

use std::collections::BTreeSet;

use milena_machines::app::{CommittedOffset, PartitionId};

use super::{Life, plan::Plan};

#[derive(Debug)]
pub(super) struct Database {
    /// The last claim of each partition.
    claims: Vec<Option<(Life, PartitionId)>>,
    /// Offsets that were stored with effects. Those of commits are with their maps in the cluster.
    stored: Vec<i64>,
    /// Ids of the records that have an effect.
    processed: BTreeSet<u64>,
}

impl Database {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            claims: vec![None; plan.logs()],
            stored: vec![0; plan.logs()],
            processed: BTreeSet::new(),
        }
    }

    pub(super) fn claim(&mut self, life: Life, partition: usize, id: PartitionId) {
        self.claims[partition] = Some((life, id));
    }

    pub(super) fn is_claimed(&self, life: Life, partition: usize, id: PartitionId) -> bool {
        self.claims[partition] == Some((life, id))
    }

    /// Inserts the row of a processed event; `false` if it is there.
    pub(super) fn process(&mut self, record: u64) -> bool {
        self.processed.insert(record)
    }

    pub(super) fn is_processed(&self, record: u64) -> bool {
        self.processed.contains(&record)
    }

    pub(super) fn store(&mut self, partition: usize, offset: i64) {
        let stored = &mut self.stored[partition];
        *stored = offset.max(*stored);
    }

    /// The offset where the next owner of a partition begins.
    pub(super) fn position(&self, partition: usize, committed: Option<&CommittedOffset>) -> i64 {
        let committed = committed.map_or(0, |committed| committed.offset);
        committed.max(self.stored[partition])
    }
}
