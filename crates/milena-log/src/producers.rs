//! State of idempotent and transactional producers: rejects duplicates and gaps, and tracks open transactions.
//!
//! [`Producers::check`] decides, [`Producers::apply`] changes the state, and replaying the log after a snapshot
//! leads to the same state.

use std::collections::{BTreeMap, VecDeque};

use milena_wire::records::{BatchHeader, ControlRecord};

/// Remembered batches per producer: the maximum that it may have in flight.
const BATCHES_MAX: usize = 5;

/// A producer has given up a batch after this time, with any sane `delivery.timeout.ms`.
const RETRIES_END_MS: i64 = 600_000;

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Producers {
    by_id: BTreeMap<i64, Producer>,
    /// Transactions whose end is written but may not be durable yet: first offset, and offset of the end
    /// marker.
    ended: BTreeMap<i64, i64>,
}

/// One producer as this partition saw it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Producer {
    pub epoch: i16,
    pub coordinator_epoch: i32,
    pub last_timestamp: i64,
    /// First offset of its open transaction in this partition.
    pub transaction_start: Option<i64>,
    batches: VecDeque<RememberedBatch>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct RememberedBatch {
    last_sequence: i32,
    last_offset: i64,
    offset_delta: i32,
    timestamp: i64,
}

/// A batch that is in the log already: the response is the same as the first time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Duplicate {
    pub base_offset: i64,
    pub last_offset: i64,
    pub timestamp: i64,
}

/// Why a batch of a producer is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum ProducerError {
    #[error("producer {producer_id} has epoch {epoch}, but {current} has written since")]
    OldEpoch { producer_id: i64, epoch: i16, current: i16 },
    #[error("producer {producer_id} sent sequence {sequence}, but {expected} is next")]
    OutOfOrder {
        producer_id: i64,
        sequence: i32,
        expected: i32,
    },
    #[error("producer {producer_id} wrote outside its open transaction")]
    OutsideTransaction { producer_id: i64 },
    #[error(
        "producer {producer_id} is refused: the partition remembers {producers} producers, as many as \
         milena.max.producers.per.partition allows, and all have written lately"
    )]
    TooMany { producer_id: i64, producers: usize },
    #[error("coordinator epoch {epoch} of producer {producer_id} is older than {current}")]
    OldCoordinator { producer_id: i64, epoch: i32, current: i32 },
}

/// A transaction that an abort marker ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    pub producer_id: i64,
    pub first_offset: i64,
    /// The offset of the marker.
    pub last_offset: i64,
    /// The last stable offset before the marker.
    pub last_stable_offset: i64,
}

impl Producers {
    pub fn get(&self, producer_id: i64) -> Option<&Producer> {
        self.by_id.get(&producer_id)
    }

    pub fn iter(&self) -> impl Iterator<Item = (i64, &Producer)> {
        self.by_id.iter().map(|(id, producer)| (*id, producer))
    }

    /// Whether a batch holds the newest state of its producer: its last data, or else a marker with its epoch.
    pub(crate) fn last_seen_in(&self, header: &BatchHeader) -> bool {
        self.by_id
            .get(&header.producer_id)
            .is_some_and(|producer| match producer.batches.back() {
                Some(last) => last.last_offset == header.last_offset(),
                None => header.attributes.is_control() && producer.epoch == header.producer_epoch,
            })
    }

    /// Whether this producer has a transaction open here.
    pub fn has_open_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        self.by_id
            .get(&producer_id)
            .is_some_and(|producer| producer.epoch == epoch && producer.transaction_start.is_some())
    }

    /// Decides about a batch of data that a client sent.
    pub fn check(&self, header: &BatchHeader) -> Result<Option<Duplicate>, ProducerError> {
        let producer_id = header.producer_id;
        if producer_id < 0 {
            return Ok(None);
        }
        self.check_epoch(producer_id, header.producer_epoch)?;
        let epoch = header.producer_epoch;
        let producer = self.by_id.get(&producer_id);
        let same_epoch = producer.filter(|producer| producer.epoch == epoch);
        if let Some(duplicate) = same_epoch.and_then(|producer| producer.find(header)) {
            return Ok(Some(duplicate));
        }
        let is_transactional = header.attributes.is_transactional();
        self.check_sequence(header, producer)?;
        if producer.is_some_and(|producer| producer.transaction_start.is_some()) && !is_transactional {
            return Err(ProducerError::OutsideTransaction { producer_id });
        }
        Ok(None)
    }

    /// Makes room for a new producer, if there are `producers_max`: forgets those that were idle for so long that none of
    /// their batches can be sent again, and refuses if there are none.
    pub fn make_room(&mut self, header: &BatchHeader, producers_max: usize, now_ms: i64) -> Result<(), ProducerError> {
        let producer_id = header.producer_id;
        if producer_id < 0 || self.by_id.len() < producers_max || self.by_id.contains_key(&producer_id) {
            return Ok(());
        }
        self.expire(now_ms, RETRIES_END_MS);
        if self.by_id.len() < producers_max {
            return Ok(());
        }
        let producers = self.by_id.len();
        Err(ProducerError::TooMany { producer_id, producers })
    }

    /// Refuses a producer that another one with the same id has replaced.
    pub fn check_epoch(&self, producer_id: i64, epoch: i16) -> Result<(), ProducerError> {
        match self.by_id.get(&producer_id).map(|producer| producer.epoch) {
            Some(current) if epoch < current => Err(ProducerError::OldEpoch {
                producer_id,
                epoch,
                current,
            }),
            _ => Ok(()),
        }
    }

    fn check_sequence(&self, header: &BatchHeader, producer: Option<&Producer>) -> Result<(), ProducerError> {
        let sequence = header.base_sequence;
        let last = producer.and_then(|producer| producer.batches.back());
        let expected = match (producer, last) {
            // An unknown producer may continue its sequence: its state here may have expired.
            (None, _) => sequence,
            (Some(producer), Some(last)) if producer.epoch == header.producer_epoch => {
                next_sequence(last.last_sequence)
            }
            // A new epoch begins at 0, whether its first batch announces it or a marker did.
            (Some(_), _) => 0,
        };
        if sequence == expected {
            return Ok(());
        }
        Err(ProducerError::OutOfOrder {
            producer_id: header.producer_id,
            sequence,
            expected,
        })
    }

    /// Notes a batch of data that is in the log, with its offsets.
    pub fn apply(&mut self, header: &BatchHeader) {
        if header.producer_id < 0 {
            return;
        }
        let producer = self.entry(header.producer_id, header.producer_epoch);
        if producer.batches.len() == BATCHES_MAX {
            producer.batches.pop_front();
        }
        producer.batches.push_back(RememberedBatch {
            last_sequence: header.last_sequence(),
            last_offset: header.last_offset(),
            offset_delta: header.last_offset_delta,
            timestamp: header.max_timestamp,
        });
        producer.last_timestamp = header.max_timestamp;
        if header.attributes.is_transactional() && producer.transaction_start.is_none() {
            producer.transaction_start = Some(header.base_offset);
        }
    }

    /// Decides about the marker that ends a transaction. If it has a new epoch, as in version 2, then a transaction of
    /// that very epoch is not the one it means: that began after the marker was written for the first time.
    pub fn check_marker(
        &self,
        header: &BatchHeader,
        marker: ControlRecord,
        has_new_epoch: bool,
    ) -> Result<(), ProducerError> {
        let producer_id = header.producer_id;
        let Some(producer) = self.by_id.get(&producer_id) else {
            return Ok(());
        };
        let (epoch, current) = (header.producer_epoch, producer.epoch);
        let is_late = has_new_epoch && epoch == current && producer.transaction_start.is_some() && epoch != i16::MAX;
        if epoch < current || is_late {
            return Err(ProducerError::OldEpoch {
                producer_id,
                epoch,
                current,
            });
        }
        match coordinator_epoch(marker) {
            Some(epoch) if epoch < producer.coordinator_epoch => {
                let current = producer.coordinator_epoch;
                Err(ProducerError::OldCoordinator {
                    producer_id,
                    epoch,
                    current,
                })
            }
            _ => Ok(()),
        }
    }

    /// Applies a marker that is in the log; returns the transaction if it was aborted.
    pub fn apply_marker(&mut self, header: &BatchHeader, marker: ControlRecord) -> Option<AbortedTransaction> {
        let coordinator_epoch = coordinator_epoch(marker)?;
        let stable_before = self.first_unstable_offset();
        let producer = self.entry(header.producer_id, header.producer_epoch);
        producer.coordinator_epoch = coordinator_epoch;
        producer.last_timestamp = header.max_timestamp;
        let first_offset = producer.transaction_start.take()?;
        self.ended.insert(first_offset, header.base_offset);
        matches!(marker, ControlRecord::Abort { .. }).then_some(AbortedTransaction {
            producer_id: header.producer_id,
            first_offset,
            last_offset: header.base_offset,
            last_stable_offset: stable_before.unwrap_or(first_offset),
        })
    }

    /// The first offset that readers of committed records may not see yet; `None` if nothing is open.
    pub fn first_unstable_offset(&self) -> Option<i64> {
        let ended = self.ended.keys().next().copied();
        match (self.first_open_offset(), ended) {
            (Some(open), Some(ended)) => Some(open.min(ended)),
            (open, ended) => open.or(ended),
        }
    }

    /// First offset of the first transaction without a marker; `None` if none is open.
    pub(crate) fn first_open_offset(&self) -> Option<i64> {
        let open = self.by_id.values().filter_map(|producer| producer.transaction_start);
        open.min()
    }

    /// Drops ended transactions whose marker is below the high watermark.
    pub fn advance(&mut self, high_watermark: i64) {
        self.ended.retain(|_, marker| *marker >= high_watermark);
    }

    /// Forgets producers that were last seen `expiration_ms` ago or longer, unless they have a transaction open.
    pub fn expire(&mut self, now_ms: i64, expiration_ms: i64) {
        self.by_id.retain(|_, producer| {
            producer.transaction_start.is_some() || now_ms.saturating_sub(producer.last_timestamp) < expiration_ms
        });
    }

    /// The producer, moved to `epoch` if that is newer.
    fn entry(&mut self, producer_id: i64, epoch: i16) -> &mut Producer {
        let producer = self.by_id.entry(producer_id).or_insert_with(|| Producer::new(epoch));
        if producer.epoch != epoch {
            producer.epoch = epoch;
            producer.batches.clear();
        }
        producer
    }

    pub(crate) fn restore(&mut self, producer_id: i64, producer: Producer) {
        self.by_id.insert(producer_id, producer);
    }
}

impl Producer {
    fn new(epoch: i16) -> Self {
        Self {
            epoch,
            coordinator_epoch: -1,
            last_timestamp: -1,
            transaction_start: None,
            batches: VecDeque::new(),
        }
    }

    /// A producer as a snapshot has it: with its last batch alone.
    pub(crate) fn restored(snapshot: &SnapshotEntry) -> Self {
        let mut producer = Self::new(snapshot.epoch);
        producer.coordinator_epoch = snapshot.coordinator_epoch;
        producer.last_timestamp = snapshot.timestamp;
        producer.transaction_start = (snapshot.transaction_start >= 0).then_some(snapshot.transaction_start);
        if snapshot.last_sequence >= 0 {
            producer.batches.push_back(RememberedBatch {
                last_sequence: snapshot.last_sequence,
                last_offset: snapshot.last_offset,
                offset_delta: snapshot.offset_delta,
                timestamp: snapshot.timestamp,
            });
        }
        producer
    }

    pub(crate) fn to_snapshot(&self) -> SnapshotEntry {
        let last = self.batches.back();
        SnapshotEntry {
            epoch: self.epoch,
            last_sequence: last.map_or(-1, |batch| batch.last_sequence),
            last_offset: last.map_or(-1, |batch| batch.last_offset),
            offset_delta: last.map_or(0, |batch| batch.offset_delta),
            timestamp: self.last_timestamp,
            coordinator_epoch: self.coordinator_epoch,
            transaction_start: self.transaction_start.unwrap_or(-1),
        }
    }

    pub fn last_sequence(&self) -> Option<i32> {
        self.batches.back().map(|batch| batch.last_sequence)
    }

    fn find(&self, header: &BatchHeader) -> Option<Duplicate> {
        let same = |batch: &&RememberedBatch| {
            batch.last_sequence == header.last_sequence() && batch.offset_delta == header.last_offset_delta
        };
        self.batches.iter().find(same).map(|batch| Duplicate {
            base_offset: batch.last_offset - i64::from(batch.offset_delta),
            last_offset: batch.last_offset,
            timestamp: batch.timestamp,
        })
    }
}

/// The numbers of a producer in a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SnapshotEntry {
    pub(crate) epoch: i16,
    pub(crate) last_sequence: i32,
    pub(crate) last_offset: i64,
    pub(crate) offset_delta: i32,
    pub(crate) timestamp: i64,
    pub(crate) coordinator_epoch: i32,
    pub(crate) transaction_start: i64,
}

fn coordinator_epoch(marker: ControlRecord) -> Option<i32> {
    match marker {
        ControlRecord::Abort { coordinator_epoch } | ControlRecord::Commit { coordinator_epoch } => {
            Some(coordinator_epoch)
        }
        ControlRecord::Other { .. } => None,
    }
}

/// Sequences wrap from the largest number to 0.
fn next_sequence(sequence: i32) -> i32 {
    sequence.wrapping_add(1) & i32::MAX
}

#[cfg(test)]
mod tests;
