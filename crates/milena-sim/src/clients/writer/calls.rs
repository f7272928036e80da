//! Requests of the sender over the network, and their responses.

use std::collections::BTreeMap;

use milena_machines::{
    TopicPartition,
    group::{GroupReply, GroupRequest},
    member::{CallFailure, CallId as MachineCall},
    produce::{ControlCall, ControlRequest, ControlResponse, ProduceCall, ProducePartitionResponse, SentBatch},
    transaction::{ProducerEpoch, TransactionReply, TransactionRequest},
};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
        add_partitions_to_txn_response::{AddPartitionsToTxnPartitionResult, AddPartitionsToTxnTopicResult},
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
    },
};

use super::{Parts, Process, WriterSettings, copier::COPIERS};
use crate::{
    broker::offsets_partition,
    checks::input_partition,
    clients::{Call, CallId, Io, PRODUCERS_GROUP, Produce, Reply, Request},
};

const INIT_VERSION: i16 = 5;
const ADD_VERSION: i16 = 3;
const FETCH_VERSION: i16 = 9;

#[derive(Debug, Default)]
pub(super) struct Calls {
    in_flight: BTreeMap<CallId, InFlight>,
    produces: BTreeMap<MachineCall, Producing>,
}

#[derive(Debug, Clone)]
pub(super) struct InFlight {
    call: Call,
    kind: RequestKind,
}

#[derive(Debug, Clone)]
enum RequestKind {
    /// A partition of a `Produce` request.
    Produce(MachineCall, SentBatch),
    Control(ControlCall),
    /// The offset of the input.
    Fetch,
}

/// A `Produce` request. The broker of the simulation has one request for each partition of it.
#[derive(Debug)]
struct Producing {
    parts: Parts,
    answers: Vec<ProducePartitionResponse>,
}

impl Process {
    /// Sends all requests. Returns whether there were any.
    pub(super) fn send_calls(&mut self, settings: &WriterSettings, io: &mut Io<'_>) -> bool {
        let mut has_sent = false;
        while let Some(call) = self.sender.poll_produce_request(io.now()) {
            has_sent = true;
            self.send_produce(settings, io, &call);
        }
        while let Some(call) = self.sender.poll_control_request(io.now()) {
            has_sent = true;
            if let Some(response) = self.mistakes.known_id(settings, io, &call) {
                self.sender.handle_control_response(io.now(), call.id, Ok(response));
                continue;
            }
            let request = control_request(&call);
            let sent = io.send(request, call.timeout_ms);
            self.calls.insert(sent, RequestKind::Control(call));
        }
        has_sent
    }

    fn send_produce(&mut self, settings: &WriterSettings, io: &mut Io<'_>, call: &ProduceCall) {
        let mut parts = Parts::new();
        for sent in &call.batches {
            self.mistakes.overtake(sent, &mut self.batches);
            let Some(batch) = self.batches.get(&sent.id) else {
                continue;
            };
            let stamp = self.mistakes.stamp(sent, batch.values.len());
            let produce = Produce {
                transactional_id: settings.copying.as_ref().map(super::Copying::transactional_id),
                producer: ProducerEpoch {
                    producer_id: stamp.producer_id,
                    epoch: stamp.producer_epoch,
                },
                partition: sent.slot.index() as i32,
                sequence: stamp.base_sequence,
                values: batch.values.clone(),
            };
            let is_v2 = call.version_min >= 12;
            let part = io.send(Request::Produce { is_v2, produce }, call.timeout_ms);
            parts.insert(part.id);
            self.calls.insert(part, RequestKind::Produce(call.id, *sent));
        }
        let answers = vec![];
        self.calls.produces.insert(call.id, Producing { parts, answers });
    }

    /// Fetches the committed offset of the input, and waits for transactions that are about to change it.
    pub(super) fn fetch_offset(&mut self, settings: &WriterSettings, io: &mut Io<'_>, input: i32) {
        let topic_partition = input_partition(input);
        let group = OffsetFetchRequestGroup {
            group_id: PRODUCERS_GROUP.into(),
            member_epoch: -1,
            topics: Some(vec![OffsetFetchRequestTopics {
                name: topic_partition.topic,
                partition_indexes: vec![topic_partition.partition],
                ..Default::default()
            }]),
            ..Default::default()
        };
        let request = GroupRequest::OffsetFetch {
            group,
            require_stable: true,
        };
        let version = FETCH_VERSION;
        let sent = io.send(Request::Group { version, request }, settings.request_timeout_ms);
        self.calls.insert(sent, RequestKind::Fetch);
    }

    pub(super) fn handle_reply(&mut self, settings: &WriterSettings, io: &mut Io<'_>, call: CallId, reply: Reply) {
        let Some(InFlight { call: in_flight, kind }) = self.calls.in_flight.remove(&call) else {
            return;
        };
        let now = io.now();
        match (kind, reply) {
            (RequestKind::Produce(machine, sent), Reply::Produced(error)) => {
                let Some(producing) = self.calls.produces.get_mut(&machine) else {
                    return;
                };
                producing.parts.remove(&call);
                producing.answers.push(ProducePartitionResponse {
                    slot: sent.slot,
                    error,
                    base_offset: -1,
                    log_append_time_ms: -1,
                    log_start_offset: 0,
                });
                if producing.parts.is_empty()
                    && let Some(done) = self.calls.produces.remove(&machine)
                {
                    self.sender.handle_produce_response(now, machine, Ok(&done.answers));
                }
            }
            (RequestKind::Control(control), reply) => match control_response(&control, reply) {
                Some(response) => {
                    learn(settings, io, &in_flight, &response);
                    self.sender.handle_control_response(now, control.id, Ok(response));
                }
                None => io
                    .checks
                    .fail(format!("client {} got the reply to another request", io.id)),
            },
            (RequestKind::Fetch, Reply::Group(GroupReply::OffsetFetch(group))) => {
                let topic = group.topics.first().and_then(|topic| topic.partitions.first());
                let offset = topic.filter(|found| group.error_code == 0 && found.error_code == 0);
                let offset = offset.map(|found| found.committed_offset);
                if let Some(copier) = &mut self.copier {
                    copier.fetched(io, offset);
                    self.due = io.soon(300);
                }
            }
            (kind, reply) => io.checks.fail(format!("{kind:?} got the reply {reply:?}")),
        }
    }

    pub(super) fn handle_no_reply(&mut self, io: &mut Io<'_>, call: CallId) {
        let Some(InFlight { call, kind }) = self.calls.in_flight.remove(&call) else {
            return;
        };
        let failure = match io.random.below(3) {
            0 if call.last_arrival.is_none() => CallFailure::NotSent,
            1 => CallFailure::Disconnected,
            _ => CallFailure::TimedOut,
        };
        let now = io.now();
        match kind {
            // The other partitions are unknown too: the response would have been one.
            RequestKind::Produce(machine, sent) => {
                if call.last_arrival.is_none() {
                    self.mistakes.note_lost(sent.id);
                }
                if let Some(producing) = self.calls.produces.remove(&machine) {
                    let was_answered = !producing.answers.is_empty() || producing.parts.len() > 1;
                    let failure = if was_answered {
                        CallFailure::Disconnected
                    } else {
                        failure
                    };
                    for part in producing.parts {
                        self.calls.in_flight.remove(&part);
                    }
                    self.sender.handle_produce_response(now, machine, Err(failure));
                }
            }
            RequestKind::Control(call) => match self.mistakes.lost_end(&call) {
                Some(response) => self.sender.handle_control_response(now, call.id, Ok(response)),
                None => self.sender.handle_control_response(now, call.id, Err(failure)),
            },
            RequestKind::Fetch => {
                if let Some(copier) = &mut self.copier {
                    copier.fetched(io, None);
                    self.due = io.soon(300);
                }
            }
        }
    }

    /// For a mistake: takes all requests with records for successful.
    pub(super) fn believe_all(&mut self, now: i64) {
        let in_flight = std::mem::take(&mut self.calls.in_flight);
        for (machine, _) in std::mem::take(&mut self.calls.produces) {
            let ours = in_flight.values().filter_map(|sent| match &sent.kind {
                RequestKind::Produce(call, sent) if *call == machine => Some(ProducePartitionResponse {
                    slot: sent.slot,
                    error: ErrorCode::None,
                    base_offset: -1,
                    log_append_time_ms: -1,
                    log_start_offset: 0,
                }),
                _ => None,
            });
            let answers: Vec<ProducePartitionResponse> = ours.collect();
            self.sender.handle_produce_response(now, machine, Ok(&answers));
        }
        let others = in_flight
            .into_iter()
            .filter(|(_, sent)| !matches!(sent.kind, RequestKind::Produce(..)));
        self.calls.in_flight = others.collect();
    }
}

impl Calls {
    fn insert(&mut self, call: Call, kind: RequestKind) {
        self.in_flight.insert(call.id, InFlight { call, kind });
    }
}

/// Facts for the checks in a response: producer ids, and successes of replaced producers.
fn learn(settings: &WriterSettings, io: &mut Io<'_>, call: &Call, response: &ControlResponse) {
    let Some(copying) = &settings.copying else { return };
    let id = copying.transactional_id();
    let times = (call.sent_at, io.now());
    match response {
        ControlResponse::InitProducerId(response) if response.error_code == 0 => {
            io.checks.fencing.joined(times, io.id, &COPIERS, &id);
            let producer = (response.producer_id, response.producer_epoch);
            io.checks.writes.set_producer(copying.input, producer);
        }
        ControlResponse::EndTxn(response) if response.error_code == 0 => {
            let result = io.checks.fencing.check(io.id, &COPIERS, Some(&id), call.sent_at);
            io.checks.demand(result);
            if response.producer_id >= 0 {
                let producer = (response.producer_id, response.producer_epoch);
                io.checks.writes.set_producer(copying.input, producer);
            }
        }
        _ => {}
    }
}

fn control_request(call: &ControlCall) -> Request {
    let (version, request) = match call.request.clone() {
        ControlRequest::InitProducerId(request) => (INIT_VERSION, TransactionRequest::InitProducerId(request)),
        ControlRequest::AddPartitionsToTxn(request) => (ADD_VERSION, add_partitions(request)),
        ControlRequest::AddOffsetsToTxn(request) => {
            let request = TransactionRequest::AddOffsets {
                transactional_id: request.transactional_id,
                producer: ProducerEpoch {
                    producer_id: request.producer_id,
                    epoch: request.producer_epoch,
                },
                partition: offsets_partition(),
            };
            (ADD_VERSION, request)
        }
        ControlRequest::EndTxn(request) => (call.version_max.unwrap_or(5), TransactionRequest::End(request)),
        ControlRequest::TxnOffsetCommit(request) => {
            let is_v2 = call.version_min >= 5;
            return Request::TxnOffsets { is_v2, request };
        }
    };
    Request::Transaction { version, request }
}

fn add_partitions(request: AddPartitionsToTxnRequest) -> TransactionRequest {
    let topics = request.v3_and_below_topics.into_iter();
    let partitions = topics.flat_map(|topic| {
        let name = topic.name;
        let partitions = topic.partitions.into_iter();
        partitions.map(move |partition| TopicPartition {
            topic: name.clone(),
            partition,
        })
    });
    TransactionRequest::AddPartitions {
        transactional_id: request.v3_and_below_transactional_id,
        producer: ProducerEpoch {
            producer_id: request.v3_and_below_producer_id,
            epoch: request.v3_and_below_producer_epoch,
        },
        partitions: partitions.collect(),
        verify_only: false,
    }
}

fn control_response(call: &ControlCall, reply: Reply) -> Option<ControlResponse> {
    Some(match (&call.request, reply) {
        (_, Reply::Transaction(TransactionReply::InitProducerId(response))) => {
            ControlResponse::InitProducerId(response)
        }
        (_, Reply::Transaction(TransactionReply::End(response))) => ControlResponse::EndTxn(response),
        (_, Reply::Transaction(TransactionReply::AddOffsets(error))) => {
            ControlResponse::AddOffsetsToTxn(AddOffsetsToTxnResponse {
                error_code: error.code(),
                ..Default::default()
            })
        }
        (ControlRequest::AddPartitionsToTxn(request), Reply::Transaction(TransactionReply::AddPartitions(error))) => {
            ControlResponse::AddPartitionsToTxn(partitions_response(request, error))
        }
        (_, Reply::Group(GroupReply::TxnOffsetCommit(response))) => ControlResponse::TxnOffsetCommit(response),
        _ => return None,
    })
}

fn partitions_response(request: &AddPartitionsToTxnRequest, error: ErrorCode) -> AddPartitionsToTxnResponse {
    let topics = request.v3_and_below_topics.iter().map(|topic| {
        let partitions = topic
            .partitions
            .iter()
            .map(|partition| AddPartitionsToTxnPartitionResult {
                partition_index: *partition,
                partition_error_code: error.code(),
                ..Default::default()
            });
        AddPartitionsToTxnTopicResult {
            name: topic.name.clone(),
            results_by_partition: partitions.collect(),
            ..Default::default()
        }
    });
    AddPartitionsToTxnResponse {
        results_by_topic_v3_and_below: topics.collect(),
        ..Default::default()
    }
}
