//! The driver of the transaction coordinator, and the partitions that transactions write to.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_log::{ProducerError, Producers};
use milena_machines::{
    Ticket, TopicPartition,
    group::{GroupReply, GroupRequest},
    transaction::{
        Markers, ProducerEpoch, TransactionConfig, TransactionContext, TransactionCoordinator, TransactionEffects,
        TransactionRecord, TransactionReply, TransactionRequest,
    },
};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        TxnOffsetCommitRequest, TxnOffsetCommitResponse,
        txn_offset_commit_response::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic},
    },
    records::{Attributes, BatchHeader, ControlRecord},
};

use super::{Broker, Deferred, LogId};
use crate::{
    Mutation,
    checks::PartitionRead,
    clients::{Produce, Reply},
    journal::{Entry, Journal},
    simulation::World,
};

/// The partition of `__consumer_offsets` of all groups.
pub(crate) const OFFSETS_TOPIC: &str = "__consumer_offsets";
pub(crate) const DATA_TOPIC: &str = "data";

/// The request to the coordinator before a client's records are appended.
const ADD_VERSION: i16 = 5;

#[derive(Debug)]
pub(super) struct Transactions {
    machine: TransactionCoordinator,
    /// The producer state of the partitions.
    producers: BTreeMap<LogId, Producers>,
    next_offsets: BTreeMap<LogId, i64>,
    last_producer_id: i64,
    /// Markers that are written and not yet durable: the number for each transaction.
    undurable: BTreeMap<(ByteString, ProducerEpoch), usize>,
    picture: Option<Vec<TransactionRecord>>,
}

/// Writes that wait until the coordinator's log is durable.
#[derive(Debug, Clone)]
pub(super) enum Write {
    Produce(Produce),
    Offsets(TxnOffsetCommitRequest),
}

impl Transactions {
    pub(super) fn new(coordinator_epoch: u64) -> Self {
        Self {
            machine: new_machine(coordinator_epoch),
            producers: BTreeMap::new(),
            next_offsets: BTreeMap::new(),
            last_producer_id: 0,
            undurable: BTreeMap::new(),
            picture: None,
        }
    }

    pub(super) fn poll_timeout(&self) -> Option<i64> {
        self.machine.poll_timeout()
    }

    pub(super) fn take_picture(&mut self, power_cut: bool) {
        self.picture = (!power_cut).then(|| self.machine.snapshot());
    }

    /// The header of a batch as the partition would see it.
    fn header(&self, log: &LogId, producer: ProducerEpoch, sequence: i32, count: usize) -> BatchHeader {
        self.header_of(log, true, producer, (sequence, count))
    }

    fn header_of(
        &self,
        log: &LogId,
        is_transactional: bool,
        producer: ProducerEpoch,
        (sequence, count): (i32, usize),
    ) -> BatchHeader {
        BatchHeader {
            base_offset: self.next_offsets.get(log).copied().unwrap_or(0),
            length: 0,
            partition_leader_epoch: 0,
            crc: 0,
            attributes: Attributes(0).with_transactional(is_transactional),
            last_offset_delta: count as i32 - 1,
            base_timestamp: 0,
            max_timestamp: 0,
            producer_id: producer.producer_id,
            producer_epoch: producer.epoch,
            base_sequence: sequence,
            record_count: count as i32,
        }
    }

    /// Replays the content of a partition; also after a start.
    fn note(&mut self, log: &LogId, entry: &Entry) {
        match entry {
            Entry::Data {
                is_transactional,
                producer,
                base_sequence,
                values,
            } => {
                let header = self.header_of(log, *is_transactional, *producer, (*base_sequence, values.len()));
                self.producers.entry(log.clone()).or_default().apply(&header);
                *self.next_offsets.entry(log.clone()).or_default() += values.len() as i64;
            }
            Entry::Marker {
                producer,
                coordinator_epoch,
                committed,
            } => {
                let header = self.header(log, *producer, -1, 1);
                let marker = control_record(*committed, *coordinator_epoch);
                let producers = self.producers.entry(log.clone()).or_default();
                producers.apply_marker(&header, marker);
                *self.next_offsets.entry(log.clone()).or_default() += 1;
                producers.advance(header.base_offset + 1);
            }
            // Offsets in a transaction: only their epoch counts.
            Entry::Records { producer, .. } => {
                if let Some(producer) = producer {
                    let header = self.header(log, *producer, 0, 1);
                    self.producers.entry(log.clone()).or_default().apply(&header);
                }
                *self.next_offsets.entry(log.clone()).or_default() += 1;
            }
        }
    }
}

fn new_machine(coordinator_epoch: u64) -> TransactionCoordinator {
    let config = TransactionConfig {
        abort_timed_out_interval_ms: 2_000,
        ..TransactionConfig::default()
    };
    TransactionCoordinator::new(config, coordinator_epoch as i32)
}

fn control_record(committed: bool, coordinator_epoch: i32) -> ControlRecord {
    if committed {
        ControlRecord::Commit { coordinator_epoch }
    } else {
        ControlRecord::Abort { coordinator_epoch }
    }
}

impl Broker {
    pub(super) fn load_transactions(&mut self, world: &mut World) {
        let transactions = &mut self.transactions;
        transactions.machine = new_machine(self.incarnation);
        transactions.producers.clear();
        transactions.next_offsets.clear();
        transactions.undurable.clear();
        for (log, journal) in &self.logs {
            for entry in journal.entries() {
                match entry {
                    Entry::Records { records, .. } if *log == LogId::Transactions => {
                        for record in records {
                            let outcome = transactions.machine.replay_stored(&record.key, record.value.as_ref());
                            if let Err(error) = outcome {
                                let what = format!("a transaction record cannot be read back: {error}");
                                return world.checks.fail(what);
                            }
                        }
                    }
                    entry => transactions.note(log, entry),
                }
            }
        }
        let after = transactions.machine.snapshot();
        let before = transactions.picture.take().unwrap_or_default();
        if let Some(lost) = before.iter().find(|record| !after.contains(record)) {
            let same_id = |record: &&TransactionRecord| record.transactional_id == lost.transactional_id;
            let found = after.iter().find(same_id);
            world.checks.fail(format!(
                "before the end the coordinator knew {lost:?}, its log says {found:?}"
            ));
        }
        let mut effects = self.transactions.machine.start(self.skew_ms + world.queue.now());
        if self.settings.mutation == Some(Mutation::ForgetMarkers) {
            effects.markers.clear();
        }
        self.apply_transaction_effects(world, effects);
    }

    pub(super) fn transaction_timeout(&mut self, world: &mut World) {
        let now = self.now(world);
        if self.transactions.poll_timeout().is_some_and(|deadline| deadline <= now) {
            let Transactions {
                machine,
                last_producer_id,
                ..
            } = &mut self.transactions;
            let effects = machine.handle_timeout(now, &mut || next_id(last_producer_id));
            self.apply_transaction_effects(world, effects);
        }
    }

    fn request_coordinator(
        &mut self,
        world: &World,
        (ticket, version): (Ticket, i16),
        request: TransactionRequest,
    ) -> TransactionEffects {
        let context = TransactionContext {
            now_ms: self.now(world),
            ticket,
            version,
        };
        let Transactions {
            machine,
            last_producer_id,
            ..
        } = &mut self.transactions;
        machine.handle_request(&context, request, &mut || next_id(last_producer_id))
    }

    pub(super) fn transaction_request(
        &mut self,
        world: &mut World,
        (ticket, version): (Ticket, i16),
        request: TransactionRequest,
    ) {
        let effects = self.request_coordinator(world, (ticket, version), request);
        self.apply_transaction_effects(world, effects);
    }

    fn apply_transaction_effects(&mut self, world: &mut World, effects: TransactionEffects) {
        let TransactionEffects {
            records,
            markers,
            replies,
        } = effects;
        if !records.is_empty() {
            let stored: Result<Vec<_>, _> = records.iter().map(TransactionRecord::encode).collect();
            let records = match stored {
                Ok(records) => records,
                Err(error) => {
                    return world
                        .checks
                        .fail(format!("a transaction record cannot be written: {error}"));
                }
            };
            let entry = Entry::Records {
                producer: None,
                records,
            };
            if !self.append(world, &LogId::Transactions, entry) {
                // The machine is ahead of its log. The whole broker starts anew.
                self.crash(world, false);
                self.transactions.picture = None;
                return;
            }
        }
        for markers in markers {
            self.defer(&LogId::Transactions, Deferred::Markers(markers));
        }
        for (ticket, reply) in replies {
            self.defer(&LogId::Transactions, Deferred::Reply(ticket, Reply::Transaction(reply)));
        }
    }

    /// The decision is durable: its markers are written.
    pub(super) fn write_markers(&mut self, world: &mut World, markers: &Markers) {
        let key = (markers.transactional_id.clone(), markers.producer);
        self.transactions
            .undurable
            .insert(key.clone(), markers.partitions.len());
        for partition in &markers.partitions {
            let log = log_of(partition);
            let entry = Entry::Marker {
                producer: markers.producer,
                coordinator_epoch: markers.coordinator_epoch,
                committed: markers.committed,
            };
            let header = self.transactions.header(&log, markers.producer, -1, 1);
            let marker = control_record(markers.committed, markers.coordinator_epoch);
            let has_new_epoch = markers.transaction_version >= 2;
            let known = self.transactions.producers.get(&log);
            if let Some(Err(error)) = known.map(|producers| producers.check_marker(&header, marker, has_new_epoch)) {
                world.note(|| format!("a marker in {log:?} is refused: {error}"));
            } else {
                self.append_surely(world, &log, entry.clone());
                self.transactions.note(&log, &entry);
                if log == LogId::Groups {
                    self.groups.replay_marker(markers.producer, markers.committed);
                }
            }
            self.defer(&log, Deferred::MarkerDurable(key.clone()));
        }
    }

    pub(super) fn marker_durable(&mut self, world: &mut World, key: &(ByteString, ProducerEpoch)) {
        let Some(left) = self.transactions.undurable.get_mut(key) else {
            return;
        };
        *left -= 1;
        if *left == 0 {
            self.transactions.undurable.remove(key);
            let now = self.now(world);
            let effects = self.transactions.machine.handle_markers_written(now, &key.0, key.1);
            self.apply_transaction_effects(world, effects);
        }
    }

    /// Appends records of a producer, or offsets: first the coordinator must know that the partition is part of the
    /// transaction, durably.
    pub(super) fn write_request(&mut self, world: &mut World, ticket: Ticket, is_v2: bool, write: Write) {
        let (transactional_id, producer, partition) = match &write {
            Write::Produce(produce) => {
                let Some(id) = &produce.transactional_id else {
                    return self.write(world, ticket, write);
                };
                (id, produce.producer, data_partition(produce.partition))
            }
            Write::Offsets(request) => {
                let producer = ProducerEpoch {
                    producer_id: request.producer_id,
                    epoch: request.producer_epoch,
                };
                (&request.transactional_id, producer, offsets_partition())
            }
        };
        let request = TransactionRequest::AddPartitions {
            transactional_id: transactional_id.clone(),
            producer,
            partitions: vec![partition],
            verify_only: !is_v2,
        };
        let mut effects = self.request_coordinator(world, (ticket, ADD_VERSION), request);
        let answer = effects.replies.pop();
        let incarnation = self.incarnation;
        self.apply_transaction_effects(world, effects);
        if self.incarnation != incarnation {
            return;
        }
        match answer {
            Some((_, TransactionReply::AddPartitions(ErrorCode::None))) => {
                self.defer(&LogId::Transactions, Deferred::Write(ticket, write));
            }
            Some((_, TransactionReply::AddPartitions(error))) => {
                if self.settings.mutation == Some(Mutation::OldProducersSucceed) {
                    return self.defer(&LogId::Transactions, Deferred::Write(ticket, write));
                }
                let reply = refusal(&write, error);
                self.defer(&LogId::Transactions, Deferred::Reply(ticket, reply));
            }
            other => world
                .checks
                .fail(format!("the coordinator replied {other:?} to AddPartitionsToTxn")),
        }
    }

    /// The coordinator agreed, durably.
    pub(super) fn write(&mut self, world: &mut World, ticket: Ticket, write: Write) {
        match write {
            Write::Produce(produce) => self.produce(world, ticket, produce),
            Write::Offsets(request) => {
                let producer = ProducerEpoch {
                    producer_id: request.producer_id,
                    epoch: request.producer_epoch,
                };
                let known = self.transactions.producers.get(&LogId::Groups);
                let known = known.and_then(|producers| producers.get(producer.producer_id));
                if known.is_some_and(|known| known.epoch > producer.epoch) {
                    let reply = refusal(&Write::Offsets(request), ErrorCode::InvalidProducerEpoch);
                    return self.defer(&LogId::Groups, Deferred::Reply(ticket, reply));
                }
                let request = GroupRequest::TxnOffsetCommit(request);
                self.group_request(world, 0, (ticket, ADD_VERSION), request);
            }
        }
    }

    fn produce(&mut self, world: &mut World, ticket: Ticket, produce: Produce) {
        let log = LogId::Data(produce.partition);
        let is_transactional = produce.transactional_id.is_some();
        let numbers = (produce.sequence, produce.values.len());
        let header = self
            .transactions
            .header_of(&log, is_transactional, produce.producer, numbers);
        let producers = self.transactions.producers.entry(log.clone()).or_default();
        let check = match producers.check(&header) {
            Err(_) if self.settings.mutation == Some(Mutation::OldProducersSucceed) => Ok(None),
            check => check,
        };
        let error = match check {
            _ if produce.values.len() > self.settings.batch_records_max => ErrorCode::MessageTooLarge,
            Ok(Some(_)) => ErrorCode::None,
            Ok(None) => {
                let entry = Entry::Data {
                    is_transactional,
                    producer: produce.producer,
                    base_sequence: produce.sequence,
                    values: produce.values,
                };
                if self.append(world, &log, entry.clone()) {
                    self.transactions.note(&log, &entry);
                    ErrorCode::None
                } else {
                    ErrorCode::NotEnoughReplicas
                }
            }
            Err(error) => {
                world.note(|| format!("{log:?} refuses: {error}"));
                refused(error)
            }
        };
        self.defer(&log, Deferred::Reply(ticket, Reply::Produced(error)));
    }

    /// Notes records of a transaction in the groups' log.
    pub(super) fn note_offsets(&mut self, entry: &Entry) {
        self.transactions.note(&LogId::Groups, entry);
    }

    /// The records that readers with `read_committed` see at the end.
    pub(crate) fn read_committed(&self) -> Vec<PartitionRead> {
        let data = self.logs.iter().filter(|(log, _)| matches!(log, LogId::Data(_)));
        let reads = data.map(|(log, journal)| {
            let producers = self.transactions.producers.get(log);
            PartitionRead {
                log: format!("{log:?}"),
                committed: committed_values(journal),
                written: written_values(journal),
                unstable_since: producers.and_then(Producers::first_unstable_offset),
            }
        });
        reads.collect()
    }
}

/// In the order of the log, without aborted and open transactions.
fn committed_values(journal: &Journal) -> Vec<u64> {
    let mut open: BTreeMap<i64, Vec<(usize, u64)>> = BTreeMap::new();
    let mut committed = BTreeMap::new();
    for (topic_partition, entry) in journal.entries().iter().enumerate() {
        match entry {
            Entry::Data {
                is_transactional: false,
                values,
                ..
            } => {
                committed.insert(topic_partition, values.clone());
            }
            Entry::Data { producer, values, .. } => {
                let open = open.entry(producer.producer_id).or_default();
                open.extend(values.iter().map(|value| (topic_partition, *value)));
            }
            Entry::Marker {
                producer,
                committed: is_committed,
                ..
            } => {
                let ended = open.remove(&producer.producer_id).unwrap_or_default();
                for (topic_partition, value) in ended.into_iter().filter(|_| *is_committed) {
                    committed.entry(topic_partition).or_insert_with(Vec::new).push(value);
                }
            }
            Entry::Records { .. } => {}
        }
    }
    committed.into_values().flatten().collect()
}

/// In the order of the log, whatever became of it.
fn written_values(journal: &Journal) -> Vec<u64> {
    let values = journal.entries().iter().filter_map(|entry| match entry {
        Entry::Data { values, .. } => Some(values),
        _ => None,
    });
    values.flatten().copied().collect()
}

fn next_id(last: &mut i64) -> Option<i64> {
    *last += 1;
    Some(*last)
}

pub(crate) fn data_partition(partition: i32) -> TopicPartition {
    TopicPartition {
        topic: DATA_TOPIC.into(),
        partition,
    }
}

pub(crate) fn offsets_partition() -> TopicPartition {
    TopicPartition {
        topic: OFFSETS_TOPIC.into(),
        partition: 0,
    }
}

fn log_of(partition: &TopicPartition) -> LogId {
    if partition.topic == OFFSETS_TOPIC {
        LogId::Groups
    } else {
        LogId::Data(partition.partition)
    }
}

/// The response of a partition to a client.
fn refused(error: ProducerError) -> ErrorCode {
    match error {
        ProducerError::OldEpoch { .. } => ErrorCode::InvalidProducerEpoch,
        ProducerError::OutOfOrder { .. } => ErrorCode::OutOfOrderSequenceNumber,
        ProducerError::OutsideTransaction { .. } => ErrorCode::InvalidTxnState,
        ProducerError::OldCoordinator { .. } => ErrorCode::TransactionCoordinatorFenced,
        ProducerError::TooMany { .. } => ErrorCode::PolicyViolation,
    }
}

fn refusal(write: &Write, error: ErrorCode) -> Reply {
    let request = match write {
        Write::Produce(_) => return Reply::Produced(error),
        Write::Offsets(request) => request,
    };
    let topics = request.topics.iter().map(|topic| TxnOffsetCommitResponseTopic {
        name: topic.name.clone(),
        partitions: topic
            .partitions
            .iter()
            .map(|partition| TxnOffsetCommitResponsePartition {
                partition_index: partition.partition_index,
                error_code: error.code(),
                ..Default::default()
            })
            .collect(),
        ..Default::default()
    });
    let topics = topics.collect();
    Reply::Group(GroupReply::TxnOffsetCommit(TxnOffsetCommitResponse {
        topics,
        ..Default::default()
    }))
}
