//! Committed offsets: commit, fetch, expiry, deletion, and offsets of open transactions.
//!
//! A group without members exists as long as it has offsets.

mod by_partition;
mod commit;
mod delete;
mod expiry;
mod fetch;

use std::collections::{BTreeMap, BTreeSet};

use milena_wire::messages::OffsetCommitValue;

use super::{GroupCoordinator, OffsetKey};
use crate::transaction::ProducerEpoch;

use by_partition::ByPartition;

#[derive(Debug, Default)]
pub(super) struct Offsets {
    committed: ByPartition<CommittedOffset>,
    /// Offsets of open transactions, by producer id.
    pending: BTreeMap<i64, ByPartition<CommittedOffset>>,
    /// The producers with open transactions, by the partitions they have committed.
    open: ByPartition<BTreeSet<i64>>,
    records: u64,
}

#[derive(Debug, Clone)]
struct CommittedOffset {
    value: OffsetCommitValue,
    /// The number of its record. A transaction that ends late does not undo a commit that was written after its own.
    sequence: u64,
}

impl Offsets {
    /// Whether the group exists because of its offsets.
    pub(super) fn has_group(&self, group_id: &str) -> bool {
        self.committed.has_group(group_id) || self.open.has_group(group_id)
    }

    /// The number of groups with committed offsets, and of those with offsets of open transactions, together.
    pub(super) fn groups_len(&self) -> usize {
        self.committed.groups_len() + self.open.groups_len()
    }

    /// The groups that have offsets, each once, sorted.
    pub(super) fn group_ids(&self) -> BTreeSet<&bytestring::ByteString> {
        self.committed.group_ids().chain(self.open.group_ids()).collect()
    }

    fn remove(&mut self, key: &OffsetKey) {
        self.committed.remove(key);
        for producer_id in self.open.remove(key).into_iter().flatten() {
            if let Some(pending) = self.pending.get_mut(&producer_id) {
                pending.remove(key);
            }
        }
    }
}

impl GroupCoordinator {
    pub(super) fn replay_offset(
        &mut self,
        producer: Option<ProducerEpoch>,
        key: OffsetKey,
        value: Option<OffsetCommitValue>,
    ) {
        let offsets = &mut self.offsets;
        offsets.records += 1;
        let Some(value) = value else {
            offsets.remove(&key);
            return;
        };
        let sequence = offsets.records;
        let committed = CommittedOffset { value, sequence };
        match producer {
            None => {
                offsets.committed.insert(key, committed);
            }
            Some(ProducerEpoch { producer_id, .. }) => {
                offsets.open.entry(key.clone()).insert(producer_id);
                offsets.pending.entry(producer_id).or_default().insert(key, committed);
            }
        }
    }

    /// Applies or drops the offsets of a transaction when it ends.
    pub(super) fn end_txn_offsets(&mut self, producer: ProducerEpoch, committed: bool) {
        let offsets = &mut self.offsets;
        let Some(pending) = offsets.pending.remove(&producer.producer_id) else {
            return; // The transaction has no offsets in this partition.
        };
        for (key, offset) in pending.into_entries() {
            if let Some(producers) = offsets.open.get_mut(&key) {
                producers.remove(&producer.producer_id);
                if producers.is_empty() {
                    offsets.open.remove(&key);
                }
            }
            let newer = offsets.committed.get(&key);
            if committed && newer.is_none_or(|newer| newer.sequence < offset.sequence) {
                offsets.committed.insert(key, offset);
            }
        }
    }
}
