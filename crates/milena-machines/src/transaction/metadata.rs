//! State of one transactional id, and its transitions.
//!
//! A transition makes a new value and changes nothing. It keeps the producer id that it came from: a retry that missed
//! the rotation to a new producer id is recognized by it.

use std::collections::BTreeSet;

use milena_wire::{
    errors::ErrorCode,
    messages::{TransactionLogValue, transaction_log_value::PartitionsSchema},
};

use super::{ClientVersion, NO_EPOCH, NO_PRODUCER_ID, ProducerEpoch, TransactionState};
use crate::TopicPartition;

const NO_TIMESTAMP: i64 = -1;

/// The last epoch that a producer is given; the one after it only fences.
pub(super) const LAST_EPOCH: i16 = i16::MAX - 1;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) producer: ProducerEpoch,
    /// The previous epoch, if its owner may still retry the request that bumped it. Kafka's format has no field for it:
    /// after a restart such a retry is fenced.
    pub(super) last_epoch: i16,
    pub(super) previous_producer_id: i64,
    /// The producer id that takes over when the transaction is complete, if the epochs are exhausted.
    pub(super) next_producer_id: i64,
    pub(super) timeout_ms: i32,
    pub(super) state: TransactionState,
    pub(super) partitions: BTreeSet<TopicPartition>,
    pub(super) start_ms: i64,
    pub(super) updated_ms: i64,
    /// The transaction version of the client that did the last transition, as Kafka numbers it.
    pub(super) client_version: i16,
}

impl Transaction {
    /// The state before the first transition, which gives epoch 0.
    pub(super) fn fresh(producer_id: i64, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            producer: ProducerEpoch {
                producer_id,
                epoch: NO_EPOCH,
            },
            last_epoch: NO_EPOCH,
            previous_producer_id: NO_PRODUCER_ID,
            next_producer_id: NO_PRODUCER_ID,
            timeout_ms,
            state: TransactionState::Empty,
            partitions: BTreeSet::new(),
            start_ms: NO_TIMESTAMP,
            updated_ms: now_ms,
            client_version: ClientVersion::V1.level(),
        }
    }

    pub(super) fn is_epoch_exhausted(&self) -> bool {
        is_exhausted(self.producer.epoch)
    }

    /// Whether a producer that claims an id may continue with it. Its epoch is checked later.
    pub(super) fn knows(&self, producer: ProducerEpoch) -> bool {
        self.producer.epoch == NO_EPOCH
            || self.producer.producer_id == producer.producer_id
            || (self.previous_producer_id == producer.producer_id && is_exhausted(producer.epoch))
    }

    /// Bumps the epoch. A producer that claims its current epoch gets the next one only once, however often it retries.
    pub(super) fn next_epoch(
        &self,
        expected_epoch: Option<i16>,
        timeout_ms: i32,
        now_ms: i64,
    ) -> Result<Self, ErrorCode> {
        let current = self.producer.epoch;
        let (epoch, last_epoch) = match expected_epoch {
            None => (current.saturating_add(1), NO_EPOCH),
            Some(expected) if current == NO_EPOCH || expected == current => (current.saturating_add(1), current),
            Some(expected) if expected == self.last_epoch => (current, self.last_epoch),
            Some(_) => return Err(ErrorCode::ProducerFenced),
        };
        let producer = ProducerEpoch {
            producer_id: self.producer.producer_id,
            epoch,
        };
        Ok(self.given_to(producer, last_epoch, timeout_ms, now_ms))
    }

    /// Moves to a new producer id: all epochs of the old one are exhausted.
    pub(super) fn rotated(&self, producer_id: i64, is_expected: bool, timeout_ms: i32, now_ms: i64) -> Self {
        let last_epoch = if is_expected { self.producer.epoch } else { NO_EPOCH };
        self.given_to(ProducerEpoch { producer_id, epoch: 0 }, last_epoch, timeout_ms, now_ms)
    }

    fn given_to(&self, producer: ProducerEpoch, last_epoch: i16, timeout_ms: i32, now_ms: i64) -> Self {
        Self {
            producer,
            last_epoch,
            timeout_ms,
            partitions: BTreeSet::new(),
            start_ms: NO_TIMESTAMP,
            ..self.step(TransactionState::Empty, now_ms)
        }
    }

    pub(super) fn with_partitions(
        &self,
        partitions: impl IntoIterator<Item = TopicPartition>,
        client: ClientVersion,
        now_ms: i64,
    ) -> Self {
        let mut next = self.step(TransactionState::Ongoing, now_ms);
        if self.state.is_at_rest() {
            next.start_ms = now_ms;
        }
        next.partitions.extend(partitions);
        next.client_version = client.level();
        next
    }

    /// Decides to commit or to abort. With version 2 every end takes the epoch from the writer, so that none of its
    /// writes can come late.
    pub(super) fn prepared(
        &self,
        committed: bool,
        client: ClientVersion,
        next_producer_id: Option<i64>,
        now_ms: i64,
    ) -> Self {
        let state = if committed {
            TransactionState::PrepareCommit
        } else {
            TransactionState::PrepareAbort
        };
        let mut next = self.step(state, now_ms);
        if client == ClientVersion::V2 {
            next.producer.epoch = self.producer.epoch.saturating_add(1);
            next.last_epoch = self.producer.epoch;
        }
        if self.state.is_at_rest() {
            next.start_ms = now_ms;
        }
        next.next_producer_id = next_producer_id.unwrap_or(NO_PRODUCER_ID);
        next.client_version = client.level();
        next
    }

    /// Completes the transaction, after its markers are written.
    pub(super) fn completed(&self, committed: bool, now_ms: i64) -> Self {
        let state = if committed {
            TransactionState::CompleteCommit
        } else {
            TransactionState::CompleteAbort
        };
        let mut next = Self {
            partitions: BTreeSet::new(),
            next_producer_id: NO_PRODUCER_ID,
            ..self.step(state, now_ms)
        };
        if self.client_version >= ClientVersion::V2.level() && self.next_producer_id != NO_PRODUCER_ID {
            next.producer = ProducerEpoch {
                producer_id: self.next_producer_id,
                epoch: 0,
            };
        }
        next
    }

    fn step(&self, state: TransactionState, now_ms: i64) -> Self {
        Self {
            state,
            previous_producer_id: self.producer.producer_id,
            updated_ms: now_ms,
            ..self.clone()
        }
    }

    pub(super) fn to_value(&self) -> TransactionLogValue {
        TransactionLogValue {
            producer_id: self.producer.producer_id,
            previous_producer_id: self.previous_producer_id,
            next_producer_id: self.next_producer_id,
            producer_epoch: self.producer.epoch,
            transaction_timeout_ms: self.timeout_ms,
            transaction_status: self.state.id(),
            transaction_partitions: (self.state != TransactionState::Empty).then(|| self.partitions_by_topic()),
            transaction_last_update_timestamp_ms: self.updated_ms,
            transaction_start_timestamp_ms: self.start_ms,
            client_transaction_version: self.client_version,
            ..TransactionLogValue::default()
        }
    }

    pub(super) fn partitions_by_topic(&self) -> Vec<PartitionsSchema> {
        let mut topics: Vec<PartitionsSchema> = Vec::new();
        for TopicPartition { topic, partition } in &self.partitions {
            match topics.last_mut() {
                Some(last) if last.topic == *topic => last.partition_ids.push(*partition),
                _ => topics.push(PartitionsSchema {
                    topic: topic.clone(),
                    partition_ids: vec![*partition],
                    ..PartitionsSchema::default()
                }),
            }
        }
        topics
    }

    /// An unknown state is read as `Dead`, in which every request fails.
    pub(super) fn from_value(value: TransactionLogValue) -> Self {
        let topics = value.transaction_partitions.unwrap_or_default();
        let partitions = topics.into_iter().flat_map(|topic| {
            let name = topic.topic;
            let ids = topic.partition_ids.into_iter();
            ids.map(move |partition| TopicPartition {
                topic: name.clone(),
                partition,
            })
        });
        Self {
            producer: ProducerEpoch {
                producer_id: value.producer_id,
                epoch: value.producer_epoch,
            },
            last_epoch: NO_EPOCH,
            previous_producer_id: value.previous_producer_id,
            next_producer_id: value.next_producer_id,
            timeout_ms: value.transaction_timeout_ms,
            state: TransactionState::from_id(value.transaction_status).unwrap_or(TransactionState::Dead),
            partitions: partitions.collect(),
            start_ms: value.transaction_start_timestamp_ms,
            updated_ms: value.transaction_last_update_timestamp_ms,
            client_version: value.client_transaction_version,
        }
    }
}

fn is_exhausted(epoch: i16) -> bool {
    epoch >= LAST_EPOCH
}
