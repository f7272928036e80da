//! The driver of the producer: sends due batches and completes deliveries. Runs on the io thread or inside a call.

use std::sync::{Arc, atomic::Ordering};

use bytes::Bytes;
use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    member::{CallFailure, CallId},
    produce::{BatchCause, BatchError, BatchId, NewBatch, ProduceCall, ProducePartitionResponse, SenderEvent, Slot},
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
    batch_delivery::BatchOutcome,
    buffer::{Buffer, Due, Partition},
    error::SendError,
    shared::{PendingBatch, ProducerCore, ProducerShared},
};
use crate::{
    io,
    metadata::{Broker, LeaderHint, Refresh},
    metrics::SentBatch,
    net::{ApiResponse, CallError, SendOptions},
};

/// One partition of a Produce request, to match the response.
#[derive(Debug)]
struct RequestPartition {
    topic: ByteString,
    topic_id: Uuid,
    partition: i32,
    slot: Slot,
}

impl ProducerShared {
    /// Sends everything that can be sent now. Returns the time of the next drive.
    pub(super) fn drive(self: &Arc<Self>) -> i64 {
        self.drive_locked(&mut self.core(), io::now_ms())
    }

    pub(super) fn drive_locked(self: &Arc<Self>, core: &mut ProducerCore, now_ms: i64) -> i64 {
        if core.sender.poll_timeout().is_some_and(|at_ms| at_ms <= now_ms) {
            core.sender.handle_timeout(now_ms);
        }
        // Failed batches free memory, so events are handled first and last.
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

    /// Hands batches to the sender: closed ones, and open ones that are due and can be sent. Returns when the next is
    /// due.
    fn take_batches(&self, core: &mut ProducerCore, now_ms: i64) -> Option<i64> {
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
            // A batch that cannot be sent is handed over when its delivery timeout ends, so that the sender fails it.
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

    pub(super) fn push_closed(&self, core: &mut ProducerCore, partition: &Partition, buffer: &mut Buffer, now_ms: i64) {
        while let Some(ready) = buffer.pop_closed() {
            partition.queued.fetch_sub(1, Ordering::Relaxed);
            let pending = PendingBatch {
                slot: partition.slot,
                batch: ready.batch,
                delivery: ready.delivery,
                reservation: ready.reservation,
                created_ms: ready.created_ms,
                uncompressed: ready.uncompressed,
                largest_record: ready.largest_record,
                tries: 0,
            };
            let new = register(core, pending);
            core.sender.push(now_ms, partition.slot, new);
        }
    }

    fn send_produce(self: &Arc<Self>, core: &mut ProducerCore, call: ProduceCall) {
        let cluster = self.metadata.cache();
        let Some(endpoint) = cluster.broker(call.node).map(Broker::endpoint) else {
            let failure = Err(CallFailure::Disconnected);
            core.sender.handle_produce_response(io::now_ms(), call.id, failure);
            return;
        };
        let mut topics: Vec<TopicProduceData> = vec![];
        let mut requested = Vec::with_capacity(call.batches.len());
        self.measure(core, &call);
        let mut have_ids = true;
        for batch in &call.batches {
            let Some(pending) = core.batches.get_mut(&batch.id) else {
                continue;
            };
            let target = &pending.delivery.topic_partition;
            let topic_id = cluster.topic_id(&target.topic).unwrap_or_default();
            have_ids &= !topic_id.is_zero();
            let records = pending.batch.seal(BatchProducer {
                producer_id: batch.stamp.producer_id,
                producer_epoch: batch.stamp.producer_epoch,
                base_sequence: batch.stamp.base_sequence,
                transactional: batch.stamp.transactional,
            });
            let (topic, partition) = (target.topic.clone(), target.partition);
            add_batch(&mut topics, &topic, topic_id, partition, records);
            requested.push(RequestPartition {
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
            connection.send_one_way(request, options, move |result| shared.handle_sent(id, &result));
        } else {
            connection.send(request, options, move |result| {
                shared.handle_produced(id, &requested, result);
            });
        }
    }

    fn measure(&self, core: &mut ProducerCore, call: &ProduceCall) {
        let now_ms = io::now_ms();
        for batch in &call.batches {
            let Some(pending) = core.batches.get_mut(&batch.id) else {
                continue;
            };
            pending.tries += 1;
            if pending.tries > 1 {
                core.metrics
                    .record_retry(now_ms, &pending.delivery.topic_partition.topic, pending.records());
            }
        }
        let batches = call.batches.iter().filter_map(|batch| core.batches.get(&batch.id));
        core.metrics.record_request(
            now_ms,
            batches.map(|pending| SentBatch {
                topic: &pending.delivery.topic_partition.topic,
                records: pending.records(),
                bytes: pending.batch.size(),
                uncompressed_bytes: pending.uncompressed,
                largest_record_bytes: pending.largest_record,
                queued_ms: now_ms - pending.created_ms,
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
        requested: &[RequestPartition],
        result: Result<ApiResponse<ProduceResponse>, CallError>,
    ) {
        let now_ms = io::now_ms();
        let mut core = self.core();
        match result {
            Ok(response) => {
                let throttle_ms = response.body.throttle_time_ms;
                core.metrics.record_response(now_ms, response.latency_us, throttle_ms);
                let produced = read_response(&response.body, requested);
                self.update_leaders(&mut core, now_ms, &response.body, requested);
                core.sender.handle_produce_response(now_ms, call, Ok(&produced));
            }
            Err(error) => {
                tracing::debug!(event = "produce_failed", %error, "produce request failed");
                core.sender.handle_produce_response(now_ms, call, Err(failure(&error)));
            }
        }
        let next_ms = self.drive_locked(&mut core, now_ms);
        drop(core);
        self.wake_at(next_ms);
    }

    /// Applies the current leaders in a response (KIP-951).
    fn update_leaders(
        &self,
        core: &mut ProducerCore,
        now_ms: i64,
        response: &ProduceResponse,
        requested: &[RequestPartition],
    ) {
        if response.node_endpoints.is_empty() {
            return;
        }
        let mut hints = vec![];
        for topic in &response.responses {
            for data in &topic.partition_responses {
                let found = find(requested, &topic.name, topic.topic_id, data.index);
                if let Some(requested) = found.filter(|_| data.current_leader.leader_id >= 0) {
                    hints.push(LeaderHint {
                        partition: TopicPartition::new(requested.topic.clone(), requested.partition),
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
            self.update_topic(core, now_ms, &moved.topic);
        }
    }

    pub(super) fn take_events(&self, core: &mut ProducerCore, now_ms: i64) {
        while let Some(event) = core.sender.poll_event() {
            match event {
                SenderEvent::Acked {
                    batch,
                    base_offset,
                    log_append_time_ms,
                    ..
                } => self.decide(core, batch, |_| BatchOutcome::Acked {
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
                        // The caller may have dropped the future.
                        let _ = done.send(result.clone().map_err(Into::into));
                    }
                }
            }
        }
    }

    fn fail(&self, core: &mut ProducerCore, batch: BatchId, error: BatchError) {
        if let Some(pending) = core.batches.get(&batch) {
            core.metrics
                .record_failure(io::now_ms(), &pending.delivery.topic_partition.topic, pending.records());
        }
        let refused = match error.cause {
            BatchCause::NoResponse(CallFailure::NotAuthenticated) => self.connections.authentication().after(0),
            _ => None,
        };
        self.decide(core, batch, |pending| {
            if let Some((_, error)) = refused {
                return BatchOutcome::Failed(SendError::Authentication(error));
            }
            let target = &pending.delivery.topic_partition;
            let partition = TopicPartition::new(target.topic.clone(), target.partition);
            tracing::debug!(event = "batch_failed", %partition, %error, "batch failed");
            BatchOutcome::Failed(SendError::Failed {
                partition,
                error: Arc::new(error),
            })
        });
    }

    /// Sets the outcome of a batch and frees its memory.
    fn decide(&self, core: &mut ProducerCore, batch: BatchId, outcome: impl FnOnce(&PendingBatch) -> BatchOutcome) {
        let Some(pending) = take(core, batch) else { return };
        let outcome = outcome(&pending);
        pending.delivery.decide(outcome);
        if let Some(buffer) = pending.batch.into_buffer() {
            self.limits.memory.recycle(buffer);
        }
    }

    /// Handles new metadata: leaders may have changed, topics may have more partitions.
    pub(super) fn handle_metadata(self: &Arc<Self>) {
        let now_ms = io::now_ms();
        let mut core = self.core();
        self.forget_idle_topics(&mut core, now_ms);
        let topics_in_use: Vec<ByteString> = core.topics_in_use.iter().cloned().collect();
        for name in topics_in_use {
            self.update_topic(&mut core, now_ms, &name);
        }
        let next_ms = self.drive_locked(&mut core, now_ms);
        drop(core);
        self.wake_at(next_ms);
    }
}

/// Assigns an id to the batch, under which the sender knows it.
pub(super) fn register(core: &mut ProducerCore, pending: PendingBatch) -> NewBatch {
    let id = core.batch_id();
    let new = NewBatch {
        id,
        records: u32::try_from(pending.batch.record_count()).unwrap_or(1),
        bytes: pending.batch.size(),
        created_ms: pending.created_ms,
    };
    if let Some(count) = core.under_way.get_mut(pending.slot.index()) {
        *count += 1;
    }
    core.batches.insert(id, pending);
    new
}

/// Removes a batch that the sender has completed.
pub(super) fn take(core: &mut ProducerCore, batch: BatchId) -> Option<PendingBatch> {
    let pending = core.batches.remove(&batch)?;
    if let Some(count) = core.under_way.get_mut(pending.slot.index()) {
        *count -= 1;
    }
    Some(pending)
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

fn find<'a>(
    requested: &'a [RequestPartition],
    name: &str,
    topic_id: Uuid,
    partition: i32,
) -> Option<&'a RequestPartition> {
    let is_topic = |requested: &&RequestPartition| match topic_id.is_zero() {
        true => requested.topic == name,
        false => requested.topic_id == topic_id,
    };
    requested
        .iter()
        .filter(|requested| requested.partition == partition)
        .find(is_topic)
}

fn read_response(response: &ProduceResponse, requested: &[RequestPartition]) -> Vec<ProducePartitionResponse> {
    let mut produced = Vec::with_capacity(requested.len());
    for topic in &response.responses {
        for data in &topic.partition_responses {
            if let Some(requested) = find(requested, &topic.name, topic.topic_id, data.index) {
                produced.push(ProducePartitionResponse {
                    slot: requested.slot,
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
        CallError::Authentication(_) => CallFailure::NotAuthenticated,
        CallError::ConnectFailed { .. } | CallError::EncodeFailed { .. } | CallError::TooManyWaiting { .. } => {
            CallFailure::NotSent
        }
        CallError::Disconnected { .. } | CallError::MalformedResponse { .. } | CallError::Closed => {
            CallFailure::Disconnected
        }
    }
}
