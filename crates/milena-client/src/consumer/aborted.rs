//! Filter for the batches of aborted transactions (`isolation.level=read_committed`).

use std::collections::{BTreeSet, VecDeque};

use milena_wire::{
    messages::fetch_response::AbortedTransaction,
    records::{BatchHeader, ControlRecord, NO_PRODUCER, RecordSet},
};

/// The aborted transactions of one fetch, ordered by first offset.
///
/// The broker lists each with its producer and first offset. It ends at the producer's marker, so the batches must be
/// passed in order.
#[derive(Debug, Default)]
pub(crate) struct AbortedTransactions {
    upcoming: VecDeque<(i64, i64)>,
    open: BTreeSet<i64>,
}

impl AbortedTransactions {
    pub(crate) fn new(aborted: Option<&[AbortedTransaction]>) -> Self {
        let mut upcoming: Vec<(i64, i64)> = aborted
            .unwrap_or_default()
            .iter()
            .map(|aborted| (aborted.first_offset, aborted.producer_id))
            .collect();
        upcoming.sort_unstable();
        Self {
            upcoming: upcoming.into(),
            open: BTreeSet::new(),
        }
    }

    /// Whether this batch belongs to an aborted transaction. Only its header is needed.
    pub(crate) fn covers(&mut self, batch: &BatchHeader) -> bool {
        if batch.producer_id == NO_PRODUCER {
            return false;
        }
        while let Some((first_offset, producer)) = self.upcoming.front().copied()
            && first_offset <= batch.last_offset()
        {
            self.upcoming.pop_front();
            self.open.insert(producer);
        }
        batch.attributes.is_transactional() && !batch.attributes.is_control() && self.open.contains(&batch.producer_id)
    }

    /// Handles a control batch. Only an abort marker ends an aborted transaction.
    pub(crate) fn handle_control(&mut self, batch: &BatchHeader, records: &RecordSet) {
        let marker = records.get(0).and_then(|record| ControlRecord::parse(&record).ok());
        if let Some(ControlRecord::Abort { .. }) = marker {
            self.open.remove(&batch.producer_id);
        }
    }
}
