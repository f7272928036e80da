//! A transactional producer, of version 1 or 2 of transactions, that behaves like Kafka's Java client.

use std::collections::{BTreeMap, VecDeque};

use bytestring::ByteString;
use milena_machines::{
    group::GroupReply,
    transaction::{ProducerEpoch, TransactionReply, TransactionRequest},
};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        EndTxnRequest, InitProducerIdRequest, TxnOffsetCommitRequest,
        txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic},
    },
};

use super::{Call, CallId, Client, Io, Produce, Reply, Request};
use crate::{
    broker::{data_partition, offsets_partition},
    checks::{Outcome, offset_partition},
};

const TIMEOUT_MS: i64 = 3_000;
const INIT_VERSION: i16 = 5;
const ADD_VERSION: i16 = 3;
const END_VERSION_1: i16 = 4;
const END_VERSION_2: i16 = 5;

/// The group whose offsets the producers commit. It has no members.
pub(crate) const PRODUCERS_GROUP: &str = "inputs";
/// The key of producers with the same transactional id in the checks.
const TRANSACTIONS: ByteString = ByteString::from_static("transactions");

/// The settings of a process.
#[derive(Debug, Clone)]
pub(crate) struct ProducerSettings {
    pub(crate) transactional_id: ByteString,
    pub(crate) is_v2: bool,
    pub(crate) timeout_ms: i32,
    pub(crate) partitions: i32,
    /// Begins no transaction after this.
    pub(crate) stops_at: i64,
}

#[derive(Debug)]
pub(crate) struct Producer {
    settings: ProducerSettings,
    running: bool,
    gone: bool,
    producer: Option<ProducerEpoch>,
    sequences: BTreeMap<i32, i32>,
    transaction: u64,
    /// The remaining steps of this transaction; the first is in flight.
    steps: VecDeque<Step>,
    call: Option<Call>,
    due: i64,
}

#[derive(Debug, Clone)]
enum Step {
    Init,
    Add(i32),
    Produce { partition: i32, values: Vec<u64> },
    AddOffsets,
    Offsets(i64),
    End { committed: bool },
}

impl Producer {
    pub(crate) fn new(settings: ProducerSettings) -> Self {
        Self {
            settings,
            running: false,
            gone: false,
            producer: None,
            sequences: BTreeMap::new(),
            transaction: 0,
            steps: VecDeque::new(),
            call: None,
            due: i64::MIN,
        }
    }

    fn start(&mut self, io: &mut Io<'_>) {
        self.running = true;
        io.checks
            .fencing
            .started(io.id, &TRANSACTIONS, &self.settings.transactional_id);
        self.producer = None;
        self.steps = VecDeque::from([Step::Init]);
    }

    fn stop(&mut self, io: &mut Io<'_>) {
        self.running = false;
        self.call = None;
        self.steps.clear();
        io.checks
            .fencing
            .ended(io.id, &TRANSACTIONS, &self.settings.transactional_id);
    }

    /// Decides the steps of the next transaction.
    fn begin(&mut self, io: &mut Io<'_>) {
        self.transaction = io.checks.transactions.begin(io.id);
        for _ in 0..1 + io.random.below(3) {
            let partition = io.random.below(self.settings.partitions as u64) as i32;
            let count = 1 + io.random.below(3);
            let values = (0..count)
                .map(|_| io.checks.transactions.next_value(self.transaction))
                .collect();
            if !self.settings.is_v2 {
                self.steps.push_back(Step::Add(partition));
            }
            self.steps.push_back(Step::Produce { partition, values });
        }
        let committed = io.random.below(3) > 0;
        if io.random.below(2) == 0 {
            let offset = io.checks.offsets.next_value();
            io.checks.transactions.set_offset(self.transaction, offset);
            if !self.settings.is_v2 {
                self.steps.push_back(Step::AddOffsets);
            }
            self.steps.push_back(Step::Offsets(offset));
        }
        self.steps.push_back(Step::End { committed });
    }

    fn send(&mut self, io: &mut Io<'_>, step: &Step) {
        let id = self.settings.transactional_id.clone();
        let producer = self.producer.unwrap_or(ProducerEpoch {
            producer_id: -1,
            epoch: -1,
        });
        let is_v2 = self.settings.is_v2;
        let request = match step {
            Step::Init => self.init_request(),
            Step::Add(partition) => Request::Transaction {
                version: ADD_VERSION,
                request: TransactionRequest::AddPartitions {
                    transactional_id: id,
                    producer,
                    partitions: vec![data_partition(*partition)],
                    verify_only: false,
                },
            },
            Step::AddOffsets => Request::Transaction {
                version: ADD_VERSION,
                request: TransactionRequest::AddOffsets {
                    transactional_id: id,
                    producer,
                    partition: offsets_partition(),
                },
            },
            Step::Produce { partition, values } => Request::Produce {
                is_v2,
                produce: Produce {
                    transactional_id: Some(id),
                    producer,
                    partition: *partition,
                    sequence: self.sequences.get(partition).copied().unwrap_or(0),
                    values: values.clone(),
                },
            },
            Step::Offsets(offset) => Request::TxnOffsets {
                is_v2,
                request: offsets_request(io.id, id, producer, *offset),
            },
            Step::End { committed } => {
                if *committed {
                    io.checks.transactions.set_outcome(self.transaction, Outcome::Unknown);
                }
                end_request(is_v2, id, producer, *committed)
            }
        };
        self.call = Some(io.send(request, TIMEOUT_MS));
    }

    fn init_request(&self) -> Request {
        let request = InitProducerIdRequest {
            transactional_id: Some(self.settings.transactional_id.clone()),
            transaction_timeout_ms: self.settings.timeout_ms,
            producer_id: -1,
            producer_epoch: -1,
            ..Default::default()
        };
        Request::Transaction {
            version: INIT_VERSION,
            request: TransactionRequest::InitProducerId(request),
        }
    }

    /// The first step is done.
    fn done(&mut self, io: &mut Io<'_>, call: &Call, reply: Reply) {
        let id = &self.settings.transactional_id;
        match (self.steps.pop_front(), reply) {
            (Some(Step::Init), Reply::Transaction(TransactionReply::InitProducerId(response))) => {
                self.producer = Some(ProducerEpoch {
                    producer_id: response.producer_id,
                    epoch: response.producer_epoch,
                });
                self.sequences.clear();
                let times = (call.sent_at, io.now());
                io.checks.fencing.joined(times, io.id, &TRANSACTIONS, id);
            }
            (Some(Step::Produce { partition, values }), _) => {
                *self.sequences.entry(partition).or_default() += values.len() as i32;
            }
            (Some(Step::End { committed }), Reply::Transaction(TransactionReply::End(response))) => {
                if committed {
                    io.checks.transactions.set_outcome(self.transaction, Outcome::Committed);
                }
                if self.settings.is_v2 {
                    self.producer = Some(ProducerEpoch {
                        producer_id: response.producer_id,
                        epoch: response.producer_epoch,
                    });
                    self.sequences.clear();
                }
            }
            _ => {}
        }
        let result = io.checks.fencing.check(io.id, &TRANSACTIONS, Some(id), call.sent_at);
        io.checks.demand(result);
    }

    fn failed(&mut self, io: &mut Io<'_>, error: ErrorCode) {
        match error {
            ErrorCode::ConcurrentTransactions
            | ErrorCode::CoordinatorLoadInProgress
            | ErrorCode::CoordinatorNotAvailable
            | ErrorCode::NotCoordinator
            | ErrorCode::NotEnoughReplicas => {
                let due = io.soon(200);
                self.wake_at(io, due);
            }
            // Fenced, or over the timeout. The application starts the producer anew.
            ErrorCode::ProducerFenced
            | ErrorCode::InvalidProducerEpoch
            | ErrorCode::InvalidProducerIdMapping
            | ErrorCode::InvalidTxnState
            | ErrorCode::TransactionAbortable => {
                let id = self.settings.transactional_id.clone();
                self.gone = io.checks.fencing.runs_elsewhere(io.id, &TRANSACTIONS, &id);
                self.stop(io);
                let due = io.soon(2_000);
                self.wake_at(io, due);
            }
            error => io.checks.fail(format!("client {} got {}", io.id, error.name())),
        }
    }

    fn wake_at(&mut self, io: &mut Io<'_>, due: i64) {
        self.due = due;
        io.wake_at(due);
    }
}

impl Client for Producer {
    fn wake(&mut self, io: &mut Io<'_>) {
        if self.gone || io.now() < self.due || self.call.is_some() {
            return;
        }
        if !self.running {
            self.start(io);
        }
        if self.steps.is_empty() {
            if io.now() >= self.settings.stops_at {
                return;
            }
            self.begin(io);
        }
        if let Some(step) = self.steps.front().cloned() {
            self.send(io, &step);
        }
    }

    fn handle_reply(&mut self, io: &mut Io<'_>, call: CallId, reply: Reply) {
        let Some(ours) = self.call.take_if(|ours| ours.id == call) else {
            return;
        };
        match error_of(&reply) {
            ErrorCode::None => {
                self.done(io, &ours, reply);
                let due = io.soon(400);
                self.wake_at(io, due);
            }
            error => self.failed(io, error),
        }
    }

    /// Repeats the same request: every step may be done twice.
    fn handle_no_reply(&mut self, io: &mut Io<'_>, call: CallId) {
        if self.call.take_if(|ours| ours.id == call).is_some() {
            let due = io.soon(200);
            self.wake_at(io, due);
        }
    }

    fn crash(&mut self, io: &mut Io<'_>) {
        if self.running && !self.gone {
            self.stop(io);
            let due = io.soon(8_000);
            self.wake_at(io, due);
        }
    }
}

fn end_request(is_v2: bool, transactional_id: ByteString, producer: ProducerEpoch, committed: bool) -> Request {
    let request = EndTxnRequest {
        transactional_id,
        producer_id: producer.producer_id,
        producer_epoch: producer.epoch,
        committed,
        ..Default::default()
    };
    Request::Transaction {
        version: if is_v2 { END_VERSION_2 } else { END_VERSION_1 },
        request: TransactionRequest::End(request),
    }
}

fn offsets_request(
    client: usize,
    transactional_id: ByteString,
    producer: ProducerEpoch,
    offset: i64,
) -> TxnOffsetCommitRequest {
    let topic_partition = offset_partition(client);
    let partition = TxnOffsetCommitRequestPartition {
        partition_index: topic_partition.partition,
        committed_offset: offset,
        ..Default::default()
    };
    TxnOffsetCommitRequest {
        transactional_id,
        group_id: PRODUCERS_GROUP.into(),
        producer_id: producer.producer_id,
        producer_epoch: producer.epoch,
        generation_id: -1,
        topics: vec![TxnOffsetCommitRequestTopic {
            name: topic_partition.topic,
            partitions: vec![partition],
            ..Default::default()
        }],
        ..Default::default()
    }
}

fn error_of(reply: &Reply) -> ErrorCode {
    let code = match reply {
        Reply::Produced(error) => return *error,
        Reply::Transaction(TransactionReply::AddPartitions(error) | TransactionReply::AddOffsets(error)) => {
            return *error;
        }
        Reply::Transaction(TransactionReply::InitProducerId(response)) => response.error_code,
        Reply::Transaction(TransactionReply::End(response)) => response.error_code,
        Reply::Group(GroupReply::TxnOffsetCommit(response)) => {
            let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
            partitions
                .map(|partition| partition.error_code)
                .find(|code| *code != 0)
                .unwrap_or(0)
        }
        _ => ErrorCode::UnknownServerError.code(),
    };
    ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError)
}
