//! Sending what is due, and telling what became of it. All of it runs on the io thread, or in a moment of a call.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    member::{CallFailure, CallId},
    produce::{BatchError, BatchId, NewBatch, ProduceCall, ProducePartitionResponse, SenderEvent, Slot},
};
use milena_wire::{
    Uuid,
    api::versions,
    errors::ErrorCode,
    messages::{
        ProduceRequest, ProduceResponse,
        produce_request::{PartitionProduceData, TopicProduceData},
    },
    records::BatchProducer,
};

use super::{
    buffer::{Buffer, Due, Partition},
    error::SendError,
    fate::Outcome,
    shared::{Core, Sent, Shared},
};
use crate::{
    io,
    metadata::{Broker, LeaderHint, Refresh},
    metrics::SentBatch,
    net::{Answer, CallError, SendOptions},
};

/// One partition of a request, to find it again in the answer.
#[derive(Debug)]
struct Asked {
    topic: ByteString,
    topic_id: Uuid,
    partition: i32,
    slot: Slot,
}

impl Shared {
    /// Does what can be done now. Gives when to look again.
    pub(super) fn drive(self: &Arc<Self>) -> i64 {
        self.drive_locked(&mut self.core(), io::now_ms())
    }

    pub(super) fn drive_locked(self: &Arc<Self>, core: &mut Core, now_ms: i64) -> i64 {
        if core.sender.poll_timeout().is_some_and(|at_ms| at_ms <= now_ms) {
            core.sender.handle_timeout(now_ms);
        }
        // What is refused makes room for others, so the events come first and last.
        self.take_events(core, now_ms);
        let lingers_ms = self.take_batches(core, now_ms);
        while let Some(call) = core.sender.poll_produce_request(now_ms) {
            self.send_produce(core, call);
        }
        self.drive_control(core, now_ms);
        self.take_events(core, now_ms);
        let sender_ms = core.sender.poll_timeout().map(|at_ms| at_ms.max(now_ms + 1));
        [lingers_ms, sender_ms].into_iter().flatten().min().unwrap_or(i64::MAX)
    }

    /// Hands batches to the sender: full ones, and open ones that are due and would leave. Gives when the next is due.
    fn take_batches(&self, core: &mut Core, now_ms: i64) -> Option<i64> {
        self.take_unlisted(core);
        let is_pressed = self.is_pressed.swap(false, Ordering::Relaxed);
        let mut next_ms = None;
        let mut listed = std::mem::take(&mut core.listed);
        listed.retain(|&slot| {
            let Some(partition) = core.partitions.get(slot.index()).cloned() else {
                return false;
            };
            let mut buffer = partition.buffer();
            self.push_closed(core, &partition, &mut buffer, now_ms);
            let (is_due, at_ms) = match partition.due(&buffer, &self.limits, self.config.linger_ms) {
                Due::Nothing => (false, None),
                Due::Urgent { at_ms } => {
                    let is_due = is_pressed
                        || at_ms <= now_ms
                        || core.under_way.get(slot.index()).is_none_or(|count| *count == 0);
                    (is_due, Some(at_ms))
                }
                Due::At { at_ms } => (is_pressed || at_ms <= now_ms, Some(at_ms)),
            };
            // One that cannot leave is left to the sender when its time is over, to be told so.
            let expires_ms = buffer
                .opened_ms()
                .map(|opened_ms| opened_ms.saturating_add(i64::from(self.config.delivery_timeout_ms)));
            let is_over = expires_ms.is_some_and(|expires_ms| expires_ms <= now_ms);
            if is_over || is_due && core.sender.wants_batch(slot) {
                partition.close_open(&mut buffer, &self.limits);
                self.push_closed(core, &partition, &mut buffer, now_ms);
            } else if let Some(at_ms) = at_ms.filter(|at_ms| *at_ms > now_ms).or(expires_ms) {
                next_ms = Some(next_ms.map_or(at_ms, |next_ms: i64| next_ms.min(at_ms)));
            }
            buffer.is_listed = !buffer.is_empty();
            buffer.is_listed
        });
        core.listed.append(&mut listed);
        next_ms
    }

    pub(super) fn push_closed(&self, core: &mut Core, partition: &Partition, buffer: &mut Buffer, now_ms: i64) {
        while let Some(ready) = buffer.pop_closed() {
            partition.queued.fetch_sub(1, Ordering::Relaxed);
            let sent = Sent {
                slot: partition.slot,
                batch: ready.batch,
                fate: ready.fate,
                room: ready.room,
                created_ms: ready.created_ms,
                uncompressed: ready.uncompressed,
                largest_record: ready.largest_record,
                tries: 0,
            };
            let new = register(core, sent);
            core.sender.push(now_ms, partition.slot, new);
        }
    }

    fn send_produce(self: &Arc<Self>, core: &mut Core, call: ProduceCall) {
        let cluster = self.metadata.cache();
        let Some(endpoint) = cluster.broker(call.node).map(Broker::endpoint) else {
            let failure = Err(CallFailure::Disconnected);
            core.sender.handle_produce_response(io::now_ms(), call.id, failure);
            return;
        };
        let mut topics: Vec<TopicProduceData> = vec![];
        let mut asked = Vec::with_capacity(call.batches.len());
        self.measure(core, &call);
        let mut have_ids = true;
        for batch in &call.batches {
            let Some(sent) = core.batches.get_mut(&batch.id) else {
                continue;
            };
            let place = &sent.fate.place;
            let topic_id = cluster.topic_id(&place.topic).unwrap_or_default();
            have_ids &= !topic_id.is_zero();
            let records = sent.batch.seal(BatchProducer {
                producer_id: batch.stamp.producer_id,
                producer_epoch: batch.stamp.producer_epoch,
                base_sequence: batch.stamp.base_sequence,
                transactional: batch.stamp.transactional,
            });
            let (topic, partition) = (place.topic.clone(), place.partition);
            add_batch(&mut topics, &topic, topic_id, partition, records);
            asked.push(Asked {
                topic,
                topic_id,
                partition,
                slot: batch.slot,
            });
        }
        let acks = i16::from(self.config.acks);
        let request = ProduceRequest {
            transactional_id: self.config.transactional_id.as_deref().map(ByteString::from),
            acks,
            timeout_ms: self.config.request_timeout_ms,
            topic_data: topics,
            ..Default::default()
        };
        let version_max = call.version_max.unwrap_or(i16::MAX);
        let version_max = if have_ids {
            version_max
        } else {
            version_max.min(versions::produce::TOPIC_IDS - 1)
        };
        let options = SendOptions::timeout_ms(call.timeout_ms)
            .version_min(call.version_min)
            .version_max(version_max);
        let connection = self.connections.records(call.node, &endpoint);
        let (shared, id) = (Arc::clone(self), call.id);
        if acks == 0 {
            connection.send_unanswered(request, options, move |result| shared.handle_sent(id, &result));
        } else {
            connection.send(request, options, move |result| {
                shared.handle_produced(id, &asked, result);
            });
        }
    }

    fn measure(&self, core: &mut Core, call: &ProduceCall) {
        let now_ms = io::now_ms();
        for batch in &call.batches {
            let Some(sent) = core.batches.get_mut(&batch.id) else {
                continue;
            };
            sent.tries += 1;
            if sent.tries > 1 {
                core.metrics.retried(now_ms, &sent.fate.place.topic, sent.records());
            }
        }
        let batches = call.batches.iter().filter_map(|batch| core.batches.get(&batch.id));
        core.metrics.sent(
            now_ms,
            batches.map(|sent| SentBatch {
                topic: &sent.fate.place.topic,
                records: sent.records(),
                bytes: sent.batch.size(),
                uncompressed_bytes: sent.uncompressed,
                largest_record_bytes: sent.largest_record,
                queued_ms: now_ms - sent.created_ms,
            }),
        );
    }

    fn handle_sent(self: &Arc<Self>, call: CallId, result: &Result<(), CallError>) {
        let now_ms = io::now_ms();
        let mut core = self.core();
        match result {
            Ok(()) => core.sender.handle_sent(now_ms, call),
            Err(error) => core.sender.handle_produce_response(now_ms, call, Err(failure(error))),
        }
        let next_ms = self.drive_locked(&mut core, now_ms);
        drop(core);
        self.wake_at(next_ms);
    }

    fn handle_produced(
        self: &Arc<Self>,
        call: CallId,
        asked: &[Asked],
        result: Result<Answer<ProduceResponse>, CallError>,
    ) {
        let now_ms = io::now_ms();
        let mut core = self.core();
        match result {
            Ok(answer) => {
                let throttle_ms = answer.response.throttle_time_ms;
                core.metrics.answered(now_ms, answer.latency_us, throttle_ms);
                let produced = read_answer(&answer.response, asked);
                self.learn_leaders(&mut core, now_ms, &answer.response, asked);
                core.sender.handle_produce_response(now_ms, call, Ok(&produced));
            }
            Err(error) => {
                tracing::debug!(%error, "a request with batches was not answered");
                core.sender.handle_produce_response(now_ms, call, Err(failure(&error)));
            }
        }
        let next_ms = self.drive_locked(&mut core, now_ms);
        drop(core);
        self.wake_at(next_ms);
    }

    /// What a broker that does not lead says of who does (KIP-951).
    fn learn_leaders(&self, core: &mut Core, now_ms: i64, response: &ProduceResponse, asked: &[Asked]) {
        if response.node_endpoints.is_empty() {
            return;
        }
        let mut hints = vec![];
        for topic in &response.responses {
            for data in &topic.partition_responses {
                let found = find(asked, &topic.name, topic.topic_id, data.index);
                if let Some(asked) = found.filter(|_| data.current_leader.leader_id >= 0) {
                    hints.push(LeaderHint {
                        partition: TopicPartition::new(asked.topic.clone(), asked.partition),
                        leader_id: data.current_leader.leader_id,
                        leader_epoch: data.current_leader.leader_epoch,
                    });
                }
            }
        }
        let brokers = response
            .node_endpoints
            .iter()
            .filter_map(|node| Broker::new(node.node_id, &node.host, node.port, node.rack.as_deref()));
        let brokers: Vec<Broker> = brokers.collect();
        for moved in self.metadata.handle_leaders(&hints, &brokers) {
            self.learn_topic(core, now_ms, &moved.topic);
        }
    }

    pub(super) fn take_events(&self, core: &mut Core, now_ms: i64) {
        while let Some(event) = core.sender.poll_event() {
            match event {
                SenderEvent::Acked {
                    batch,
                    base_offset,
                    log_append_time_ms,
                    ..
                } => self.decide(core, batch, |_| Outcome::Acked {
                    base_offset,
                    log_append_time_ms,
                }),
                SenderEvent::Failed { batch, error, .. } => self.fail(core, batch, error),
                SenderEvent::Split { batch, slot } => self.split(core, now_ms, batch, slot),
                SenderEvent::MetadataStale => {
                    self.metadata.request_update(Refresh::Stale);
                }
                SenderEvent::CoordinatorMoved(target) => self.forget_coordinator(core, &target),
                SenderEvent::Done { operation, result } => {
                    for done in core.operations.remove(&operation).unwrap_or_default() {
                        // Whoever asked may have gone.
                        let _ = done.send(result.clone().map_err(Into::into));
                    }
                }
            }
        }
    }

    fn fail(&self, core: &mut Core, batch: BatchId, error: BatchError) {
        if let Some(sent) = core.batches.get(&batch) {
            core.metrics
                .failed(io::now_ms(), &sent.fate.place.topic, sent.records());
        }
        self.decide(core, batch, |sent| {
            let place = &sent.fate.place;
            let partition = TopicPartition::new(place.topic.clone(), place.partition);
            tracing::debug!(%partition, %error, "a batch failed");
            Outcome::Failed(SendError::Failed {
                partition,
                error: Arc::new(error),
            })
        });
    }

    /// The batch is over: whoever waits is told, and its memory is free.
    fn decide(&self, core: &mut Core, batch: BatchId, outcome: impl FnOnce(&Sent) -> Outcome) {
        let Some(sent) = take(core, batch) else { return };
        let outcome = outcome(&sent);
        sent.fate.decide(outcome);
        if let Some(buffer) = sent.batch.into_buffer() {
            self.limits.memory.recycle(buffer);
        }
    }

    /// The metadata is new: partitions have other leaders, topics more partitions.
    pub(super) fn handle_metadata(self: &Arc<Self>) {
        let now_ms = io::now_ms();
        let mut core = self.core();
        self.forget_idle_topics(&mut core, now_ms);
        let wanted: Vec<ByteString> = core.wanted.iter().cloned().collect();
        for name in wanted {
            self.learn_topic(&mut core, now_ms, &name);
        }
        let next_ms = self.drive_locked(&mut core, now_ms);
        drop(core);
        self.wake_at(next_ms);
    }
}

/// Gives the batch a number, under which the sender knows it.
pub(super) fn register(core: &mut Core, sent: Sent) -> NewBatch {
    let id = core.batch_id();
    let new = NewBatch {
        id,
        records: u32::try_from(sent.batch.record_count()).unwrap_or(1),
        bytes: sent.batch.size(),
        created_ms: sent.created_ms,
    };
    if let Some(count) = core.under_way.get_mut(sent.slot.index()) {
        *count += 1;
    }
    core.batches.insert(id, sent);
    new
}

/// The sender has it no more.
pub(super) fn take(core: &mut Core, batch: BatchId) -> Option<Sent> {
    let sent = core.batches.remove(&batch)?;
    if let Some(count) = core.under_way.get_mut(sent.slot.index()) {
        *count -= 1;
    }
    Some(sent)
}

fn add_batch(topics: &mut Vec<TopicProduceData>, name: &ByteString, topic_id: Uuid, index: i32, records: Bytes) {
    let data = PartitionProduceData {
        index,
        records: Some(records),
        ..Default::default()
    };
    match topics.iter_mut().find(|topic| topic.name == *name) {
        Some(topic) => topic.partition_data.push(data),
        None => topics.push(TopicProduceData {
            name: name.clone(),
            topic_id,
            partition_data: vec![data],
            ..Default::default()
        }),
    }
}

fn find<'a>(asked: &'a [Asked], name: &str, topic_id: Uuid, partition: i32) -> Option<&'a Asked> {
    let is_topic = |asked: &&Asked| match topic_id.is_zero() {
        true => asked.topic == name,
        false => asked.topic_id == topic_id,
    };
    asked.iter().filter(|asked| asked.partition == partition).find(is_topic)
}

fn read_answer(response: &ProduceResponse, asked: &[Asked]) -> Vec<ProducePartitionResponse> {
    let mut produced = Vec::with_capacity(asked.len());
    for topic in &response.responses {
        for data in &topic.partition_responses {
            if let Some(asked) = find(asked, &topic.name, topic.topic_id, data.index) {
                produced.push(ProducePartitionResponse {
                    slot: asked.slot,
                    error: ErrorCode::from_code(data.error_code).unwrap_or(ErrorCode::UnknownServerError),
                    base_offset: data.base_offset,
                    log_append_time_ms: data.log_append_time_ms,
                    log_start_offset: data.log_start_offset,
                });
            }
        }
    }
    produced
}

pub(super) fn failure(error: &CallError) -> CallFailure {
    match error {
        CallError::UnsupportedVersion { api, .. } => CallFailure::Unsupported { api: *api },
        CallError::TimedOut { .. } => CallFailure::TimedOut,
        CallError::ConnectFailed { .. } | CallError::BadRequest { .. } | CallError::TooManyWaiting { .. } => {
            CallFailure::NotSent
        }
        CallError::Disconnected { .. } | CallError::BadAnswer { .. } | CallError::Closed => CallFailure::Disconnected,
    }
}
