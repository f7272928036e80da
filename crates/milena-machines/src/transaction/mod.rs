//! The transaction coordinator: owners of transactional ids, and the state of their transactions.
//!
//! One coordinator serves the transactional ids of one partition of `__transaction_state`. A transaction ends in two
//! steps: the decision is stored (`Prepare…`), its markers are written into the partitions, and then the completion is
//! stored (`Complete…`). After a crash the markers of every stored decision are requested again; writing one twice is
//! harmless. The broker speaks version 2 of transactions, in which every end bumps the epoch (KIP-890); clients may
//! speak version 1.
//!
//! The driver appends the records, waits until they are durable, writes the markers, and calls
//! [`TransactionCoordinator::handle_markers_written`]. A reply is sent when all records that were made before it are
//! durable.

mod add;
mod config;
mod describe;
mod end;
mod init;
mod limits;
mod metadata;
mod records;
mod requests;
mod state;
mod sweep;

use std::collections::BTreeMap;

use bytes::Bytes;
use bytestring::ByteString;
use milena_invariant::{invariant, violated};
use milena_wire::{decode::DecodeError, errors::ErrorCode};

pub use config::TransactionConfig;
pub use records::TransactionRecord;
pub use requests::{IdPattern, TransactionReply, TransactionRequest, produce_error};
pub use state::TransactionState;

use crate::{Ticket, TopicPartition, timers::Timers};

use metadata::Transaction;

pub const NO_PRODUCER_ID: i64 = -1;
pub const NO_EPOCH: i16 = -1;

/// A producer id with its epoch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProducerEpoch {
    pub producer_id: i64,
    pub epoch: i16,
}

/// Allocates a producer id that was never used; `None` if none is available now.
pub type NextProducerId<'a> = &'a mut dyn FnMut() -> Option<i64>;

/// The markers that end a transaction, one for each partition.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Markers {
    pub transactional_id: ByteString,
    /// The producer id and epoch in the markers.
    pub producer: ProducerEpoch,
    pub coordinator_epoch: i32,
    /// From 2 on, the epoch of the markers is above that of all data, so that a log can refuse late writes.
    pub transaction_version: i16,
    pub committed: bool,
    pub partitions: Vec<TopicPartition>,
}

/// Effects of an input: first the records are appended, all or none; when they are durable, the markers are written and
/// the replies are sent.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct TransactionEffects {
    pub records: Vec<TransactionRecord>,
    pub markers: Vec<Markers>,
    pub replies: Vec<(Ticket, TransactionReply)>,
}

/// The circumstances of a request.
#[derive(Debug, Clone, Copy)]
pub struct TransactionContext {
    pub now_ms: i64,
    pub ticket: Ticket,
    /// The version of the request; some replies depend on it.
    pub version: i16,
}

/// The transaction version of a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum ClientVersion {
    /// The epoch stays. Kafka stores this as 0, whatever version the broker speaks.
    V1,
    /// Every end bumps the epoch.
    V2,
}

impl ClientVersion {
    fn level(self) -> i16 {
        match self {
            Self::V1 => 0,
            Self::V2 => 2,
        }
    }
}

#[derive(Debug)]
pub struct TransactionCoordinator {
    config: TransactionConfig,
    coordinator_epoch: i32,
    transactions: BTreeMap<ByteString, Transaction>,
    /// `EndTxn` requests that wait for the markers.
    pending_ends: BTreeMap<ByteString, PendingEnd>,
    timers: Timers<Timer>,
}

#[derive(Debug, Clone, Copy)]
struct PendingEnd {
    ticket: Ticket,
    client: ClientVersion,
}

/// Periodic sweeps. There is no deadline while there is nothing to find.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Timer {
    AbortTimedOut,
    RemoveExpired,
}

impl TransactionCoordinator {
    /// `coordinator_epoch` is the leader epoch of the partition: partitions refuse markers of an older coordinator.
    pub fn new(config: TransactionConfig, coordinator_epoch: i32) -> Self {
        Self {
            config,
            coordinator_epoch,
            transactions: BTreeMap::new(),
            pending_ends: BTreeMap::new(),
            timers: Timers::default(),
        }
    }

    /// Resumes stored decisions, after the last record of the log was replayed.
    pub fn start(&mut self, now_ms: i64) -> TransactionEffects {
        let mut effects = TransactionEffects::default();
        self.resume_ends(now_ms, &mut effects);
        self.schedule_sweeps(now_ms);
        effects
    }

    pub fn handle_request(
        &mut self,
        context: &TransactionContext,
        request: TransactionRequest,
        ids: NextProducerId<'_>,
    ) -> TransactionEffects {
        let mut effects = TransactionEffects::default();
        let reply = match request {
            TransactionRequest::InitProducerId(request) => {
                let response = self.init_producer_id(context, request, ids, &mut effects);
                Some(TransactionReply::InitProducerId(response))
            }
            TransactionRequest::AddPartitions {
                transactional_id,
                producer,
                partitions,
                verify_only: true,
            } => {
                let error = self.verify_partitions(&transactional_id, producer, &partitions);
                Some(TransactionReply::AddPartitions(error))
            }
            TransactionRequest::AddPartitions {
                transactional_id,
                producer,
                partitions,
                verify_only: false,
            } => {
                let error = self.add_partitions(context, &transactional_id, producer, partitions, &mut effects);
                Some(TransactionReply::AddPartitions(error))
            }
            TransactionRequest::AddOffsets {
                transactional_id,
                producer,
                partition,
            } => {
                let error = self.add_offsets(context, &transactional_id, producer, partition, &mut effects);
                Some(TransactionReply::AddOffsets(error))
            }
            TransactionRequest::End(request) => {
                let response = self.end(context, request, ids, &mut effects);
                response.map(TransactionReply::End)
            }
            TransactionRequest::Describe { transactional_id } => {
                Some(TransactionReply::Describe(self.describe(transactional_id)))
            }
            TransactionRequest::List {
                states,
                producer_ids,
                duration_ms,
                pattern,
            } => {
                let filter = describe::Filter {
                    states: &states,
                    producer_ids: &producer_ids,
                    duration_ms,
                    pattern: pattern.as_ref(),
                };
                Some(TransactionReply::List(self.list(context.now_ms, &filter)))
            }
        };
        effects.replies.extend(reply.map(|reply| (context.ticket, reply)));
        effects
    }

    /// The time of the next [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<i64> {
        self.timers.next_deadline()
    }

    pub fn handle_timeout(&mut self, now_ms: i64, ids: NextProducerId<'_>) -> TransactionEffects {
        let mut effects = TransactionEffects::default();
        while let Some(timer) = self.timers.pop_due(now_ms) {
            match timer {
                Timer::AbortTimedOut => self.abort_timed_out(now_ms, ids, &mut effects),
                Timer::RemoveExpired => self.remove_expired(now_ms, &mut effects),
            }
        }
        effects
    }

    pub fn set_config(&mut self, config: TransactionConfig) {
        self.config = config;
    }

    /// Applies a stored record.
    pub fn replay(&mut self, record: TransactionRecord) {
        match record.value {
            Some(value) => {
                let transaction = Transaction::from_value(value);
                self.transactions.insert(record.transactional_id, transaction);
            }
            None => {
                self.transactions.remove(&record.transactional_id);
            }
        }
    }

    /// Applies a record in its stored form. Records of unknown types are ignored.
    pub fn replay_stored(&mut self, key: &Bytes, value: Option<&Bytes>) -> Result<(), DecodeError> {
        if let Some(record) = TransactionRecord::decode(key, value)? {
            self.replay(record);
        }
        Ok(())
    }

    /// The records from which a new coordinator gets the state of this one.
    pub fn snapshot(&self) -> Vec<TransactionRecord> {
        let records = self.transactions.iter().map(|(id, transaction)| TransactionRecord {
            transactional_id: id.clone(),
            value: Some(transaction.to_value()),
        });
        records.collect()
    }

    /// Changes durable state: applies the record as if it came from the log, and has it appended.
    fn write(&mut self, id: &ByteString, transaction: &Transaction, effects: &mut TransactionEffects) {
        let record = TransactionRecord {
            transactional_id: id.clone(),
            value: Some(transaction.to_value()),
        };
        let previous = self.transactions.get(id).map(|transaction| transaction.state);
        invariant!(
            previous.is_none_or(|previous| transaction.state.may_follow(previous)),
            "transactions_pass_through_states_in_order"
        );
        self.replay(record.clone());
        match self.transactions.get_mut(id) {
            Some(replayed) => replayed.last_epoch = transaction.last_epoch,
            None => violated!("a_written_transaction_is_known"),
        }
        effects.records.push(record);
        self.schedule(Timer::RemoveExpired, transaction.updated_ms);
        if transaction.state == TransactionState::Ongoing {
            self.schedule(Timer::AbortTimedOut, transaction.updated_ms);
        }
    }

    /// The transaction of an id; an error if there is none.
    fn known(&self, id: &str) -> Result<&Transaction, ErrorCode> {
        if id.is_empty() {
            return Err(ErrorCode::InvalidRequest);
        }
        self.transactions.get(id).ok_or(ErrorCode::InvalidProducerIdMapping)
    }
}

/// Maps the error for clients before version `since`, which know one error for all stale epochs.
fn fenced_in(version: i16, since: i16, error: ErrorCode) -> ErrorCode {
    if error == ErrorCode::ProducerFenced && version < since {
        ErrorCode::InvalidProducerEpoch
    } else {
        error
    }
}

/// Takes a producer id. The error makes clients retry.
fn take_id(ids: NextProducerId<'_>) -> Result<i64, ErrorCode> {
    ids().ok_or(ErrorCode::CoordinatorLoadInProgress)
}
