//! A log with a durable end: a power cut leaves everything before it.

use std::collections::BTreeSet;

use milena_machines::{StoredRecord, transaction::ProducerEpoch};

#[derive(Debug, Clone, Default)]
pub(crate) struct Journal {
    entries: Vec<Entry>,
    durable: usize,
}

/// A unit of appending, which exists as a whole or not at all.
#[derive(Debug, Clone)]
pub(crate) enum Entry {
    /// Records of a coordinator, perhaps in a transaction.
    Records {
        producer: Option<ProducerEpoch>,
        records: Vec<StoredRecord>,
    },
    /// Records of a producer, perhaps in a transaction.
    Data {
        is_transactional: bool,
        producer: ProducerEpoch,
        base_sequence: i32,
        values: Vec<u64>,
    },
    /// The end of a transaction.
    Marker {
        producer: ProducerEpoch,
        coordinator_epoch: i32,
        committed: bool,
    },
}

impl Journal {
    pub(crate) fn append(&mut self, entry: Entry) {
        self.entries.push(entry);
    }

    pub(crate) fn end(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn durable(&self) -> usize {
        self.durable
    }

    pub(crate) fn sync_to(&mut self, end: usize) {
        self.durable = self.durable.max(end.min(self.entries.len()));
    }

    /// Cuts the power.
    pub(crate) fn cut(&mut self) {
        self.entries.truncate(self.durable);
    }

    /// Compacts: leaves the last record of each key, and those of transactions, which only their end decides.
    pub(crate) fn compact(&mut self) {
        let mut newer = BTreeSet::new();
        for entry in self.entries.iter_mut().rev() {
            if let Entry::Records {
                producer: None,
                records,
            } = entry
            {
                let mut kept: Vec<StoredRecord> = records.drain(..).rev().collect();
                kept.retain(|record| newer.insert(record.key.clone()));
                records.extend(kept.into_iter().rev());
            }
        }
    }

    pub(crate) fn entries(&self) -> &[Entry] {
        &self.entries
    }
}
