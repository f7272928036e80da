//! How far groups have come: commit, fetch, expiry, deletion, and offsets that a transaction has yet to commit.
//!
//! A group that nobody has joined exists as long as it has offsets.

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
    committed: ByPartition<Committed>,
    /// By producer id: what its open transaction has written.
    pending: BTreeMap<i64, ByPartition<Committed>>,
    /// The producers with open transactions, by what they have written.
    open: ByPartition<BTreeSet<i64>>,
    records: u64,
}

#[derive(Debug, Clone)]
struct Committed {
    value: OffsetCommitValue,
    /// Its place among all records. A transaction that ends late does not undo what was committed after it wrote.
    place: u64,
}

impl Offsets {
    /// Whether the group exists because of its offsets.
    pub(super) fn has_group(&self, group_id: &str) -> bool {
        self.committed.has_group(group_id) || self.open.has_group(group_id)
    }

    /// The groups that have offsets, each once, in the order of their names.
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
        let place = offsets.records;
        let committed = Committed { value, place };
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

    /// Offsets of a transaction count once it has committed.
    pub(super) fn end_txn_offsets(&mut self, producer: ProducerEpoch, committed: bool) {
        let offsets = &mut self.offsets;
        let Some(pending) = offsets.pending.remove(&producer.producer_id) else {
            return;
        };
        for (key, offset) in pending.into_entries() {
            if let Some(producers) = offsets.open.get_mut(&key) {
                producers.remove(&producer.producer_id);
                if producers.is_empty() {
                    offsets.open.remove(&key);
                }
            }
            let newer = offsets.committed.get(&key);
            if committed && newer.is_none_or(|newer| newer.place < offset.place) {
                offsets.committed.insert(key, offset);
            }
        }
    }
}
