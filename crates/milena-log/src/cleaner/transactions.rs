//! The transaction of each batch, for a pass over all batches of a log in order.

use std::collections::{HashMap, HashSet};

use milena_wire::records::{BatchHeader, ControlRecord};

use crate::producers::AbortedTransaction;

/// The transactions around the current offset of a pass.
pub(super) struct Transactions {
    /// Aborted ones that the walk has not come to yet; the nearest is the last.
    ahead: Vec<AbortedTransaction>,
    /// Aborted ones that have begun, by producer, and whether the pass has seen a batch of them.
    aborted: HashMap<i64, (AbortedTransaction, bool)>,
    /// Producers with a batch that a later marker commits.
    committed: HashSet<i64>,
}

/// Whether the marker of a transaction can be removed.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Marker {
    /// Kept as long as there are batches of its transaction, with its entry for the transaction index.
    Needed(Option<AbortedTransaction>),
    /// Nothing is left of its transaction.
    Superfluous,
}

impl Transactions {
    /// `aborted` are all that have records where the walk goes.
    pub(super) fn new(mut aborted: Vec<AbortedTransaction>) -> Self {
        aborted.sort_by_key(|transaction| std::cmp::Reverse(transaction.first_offset));
        Self {
            ahead: aborted,
            aborted: HashMap::new(),
            committed: HashSet::new(),
        }
    }

    /// Handles a data batch; returns whether it was aborted.
    pub(super) fn handle_data(&mut self, header: &BatchHeader) -> bool {
        self.advance(header.last_offset());
        if !header.attributes.is_transactional() {
            return false;
        }
        match self.aborted.get_mut(&header.producer_id) {
            Some((_, met)) => {
                *met = true;
                true
            }
            None => {
                self.committed.insert(header.producer_id);
                false
            }
        }
    }

    /// Handles a batch of control records; `None` if an earlier compaction has emptied it.
    pub(super) fn handle_marker(&mut self, header: &BatchHeader, record: Option<ControlRecord>) -> Marker {
        self.advance(header.last_offset());
        match record {
            Some(ControlRecord::Abort { .. }) => match self.aborted.remove(&header.producer_id) {
                Some((transaction, true)) => Marker::Needed(Some(transaction)),
                _ => Marker::Superfluous,
            },
            Some(ControlRecord::Commit { .. }) => match self.committed.remove(&header.producer_id) {
                true => Marker::Needed(None),
                false => Marker::Superfluous,
            },
            Some(ControlRecord::Other { .. }) => Marker::Needed(None),
            None => Marker::Superfluous,
        }
    }

    /// Handles a batch of control records without decoding them: the producer's transaction ends.
    pub(super) fn handle_end(&mut self, header: &BatchHeader) {
        self.advance(header.last_offset());
        self.aborted.remove(&header.producer_id);
    }

    fn advance(&mut self, offset: i64) {
        while let Some(next) = self.ahead.pop_if(|next| next.first_offset <= offset) {
            self.aborted.insert(next.producer_id, (next, false));
        }
    }
}

#[cfg(test)]
mod tests {
    use milena_wire::records::Attributes;

    use super::*;

    const ABORT: Option<ControlRecord> = Some(ControlRecord::Abort { coordinator_epoch: 0 });
    const COMMIT: Option<ControlRecord> = Some(ControlRecord::Commit { coordinator_epoch: 0 });

    fn batch(producer_id: i64, base_offset: i64) -> BatchHeader {
        BatchHeader {
            base_offset,
            length: 0,
            partition_leader_epoch: 0,
            crc: 0,
            attributes: Attributes::default().with_transactional(true),
            last_offset_delta: 0,
            base_timestamp: 0,
            max_timestamp: 0,
            producer_id,
            producer_epoch: 0,
            base_sequence: 0,
            record_count: 1,
        }
    }

    #[test]
    fn markers_stay_while_batches_of_their_transaction_do() {
        let aborted = |producer_id, first_offset, last_offset| AbortedTransaction {
            producer_id,
            first_offset,
            last_offset,
            last_stable_offset: first_offset,
        };
        let first = aborted(1, 2, 4);
        let mut walk = Transactions::new(vec![first, aborted(1, 6, 7), aborted(2, 9, 10)]);
        assert!(!walk.handle_data(&batch(1, 0)));
        assert_eq!(walk.handle_marker(&batch(1, 1), COMMIT), Marker::Needed(None));
        assert!(walk.handle_data(&batch(1, 2)));
        assert!(!walk.handle_data(&batch(2, 3)));
        assert_eq!(walk.handle_marker(&batch(1, 4), ABORT), Marker::Needed(Some(first)));
        assert_eq!(walk.handle_marker(&batch(2, 5), COMMIT), Marker::Needed(None));
        // The data of these was compacted away.
        assert_eq!(walk.handle_marker(&batch(1, 7), ABORT), Marker::Superfluous);
        assert_eq!(walk.handle_marker(&batch(1, 8), COMMIT), Marker::Superfluous);
        assert_eq!(walk.handle_marker(&batch(2, 10), None), Marker::Superfluous);
    }
}
