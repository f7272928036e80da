//! The publisher: writes outputs of handlers, retries and dead letters. A record is done only when they are acknowledged.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{Arc, atomic::Ordering},
    task::Poll,
    time::Duration,
};

use milena_client::{
    consumer::ConsumerRecord,
    producer::{Delivery, Header, Producer, ProducerRecord, SendError, TrySendError},
};
use milena_machines::app::{DeadLetterReason, Publish, PublishResult, RecordId};
use tokio::sync::{RwLock, mpsc};

use super::{
    Engine, PendingOutput,
    emitter::{Emitter, Slow},
    notices::{Cause, Notice},
    refusals::{Isolation, is_final, may_be_written},
    returns,
};
use crate::{
    clock::millis,
    error::StartError,
    failure::{self, Failure, FailureRecord, Origin, REASON_BYTES_MAX, cut},
    handler::{Fault, OutRecord, Scope, TRACEPARENT, TRACESTATE, TraceContext},
    metrics::HandlerMetrics,
    policy::Policy,
    pool::{FirstPoll, Pool},
    topics::{dead_letter_topic, held_topic, retry_topic},
    worker::Emission,
};

/// A producer that does not take a record for so long is reported; usually it takes one at once.
const TAKEN_SLOW: Duration = Duration::from_secs(2);

/// The most orders that are taken at once.
const ORDERS_MAX: usize = 256;

/// The error type in the failure record of a quarantined record.
const CRASH: &str = "crash";

/// The link to the publisher.
pub(super) struct PublisherLink {
    pub(super) orders: mpsc::UnboundedSender<PublishOrder>,
    /// Taken while an output is written, exclusively if a batch was refused that may be its fault.
    pub(super) slots: RwLock<()>,
}

impl PublisherLink {
    pub(super) fn new(orders: mpsc::UnboundedSender<PublishOrder>) -> Self {
        Self {
            orders,
            slots: RwLock::new(()),
        }
    }
}

/// An order to publish something for a record.
pub(super) struct PublishOrder {
    pub(super) record: RecordId,
    pub(super) what: Publish,
    pub(super) source: ConsumerRecord,
    pub(super) scope: Scope,
    pub(super) pending: Option<PendingOutput>,
    pub(super) isolation: Isolation,
}

impl PublishOrder {
    /// Its kind, for a log line.
    fn what_text(&self) -> &'static str {
        match self.what {
            Publish::Output => "its output",
            Publish::DeadLetter { .. } => "its dead letter",
            Publish::RetryTopic { .. } | Publish::HeldKeys { .. } | Publish::Return { .. } => "its retry",
        }
    }
}

/// The reason why an order is not written.
#[derive(Debug, thiserror::Error)]
enum WriteError {
    #[error(transparent)]
    Send(#[from] SendError),
    /// The dead letter topic does not exist and could not be created.
    #[error(transparent)]
    Topic(#[from] StartError),
}

/// The task. It ends with the engine.
pub(super) async fn run(engine: Arc<Engine>, producer: Producer, mut orders: mpsc::UnboundedReceiver<PublishOrder>) {
    let mut pool = Pool::new();
    let mut emitter = Emitter::default();
    let (mut published, mut taken) = (vec![], Vec::with_capacity(ORDERS_MAX));
    let (engine, producer) = (&*engine, &producer);
    // Without idempotence a retried batch may come after the one behind it.
    let keeps_order = producer.config().enable_idempotence;
    loop {
        let open = poll_fn(|cx| {
            let mut open = true;
            loop {
                match orders.poll_recv_many(cx, &mut taken, ORDERS_MAX) {
                    Poll::Ready(0) => {
                        open = false;
                        break;
                    }
                    Poll::Ready(_) => {
                        let writing = engine.try_begin_writing(taken.iter().map(|order| order.record));
                        for (index, order) in taken.drain(..).enumerate() {
                            let slow = match writing.allows(index) {
                                true => emitter.begin(engine, producer, order),
                                false => Some(Slow::new(order)),
                            };
                            let Some(slow) = slow else { continue };
                            let record = slow.order.record;
                            let started = pool.start(record, publish(engine, producer, slow));
                            if let FirstPoll::Ready(record, result) = started {
                                published.push((record, result));
                            }
                        }
                    }
                    Poll::Pending => break,
                }
                if keeps_order {
                    engine.taken(&mut emitter.taken);
                }
                emitter.taken.clear();
            }
            emitter.poll(cx, |order, failed| {
                let written = failed.map_or(Ok(()), |error| Err(error.into()));
                published.push((order.record, settled(engine, &order, written)));
            });
            let _ = pool.poll_ready(cx, |record, result| published.push((record, result)));
            if published.is_empty() && (open || !pool.is_empty() || !emitter.is_empty()) {
                return Poll::Pending;
            }
            Poll::Ready(open)
        })
        .await;
        engine.published(&mut published);
        if !open && pool.is_empty() && emitter.is_empty() {
            return;
        }
    }
}

/// Counts the result of an order and translates it for the scheduler.
fn settled(engine: &Engine, order: &PublishOrder, written: Result<(), WriteError>) -> PublishResult {
    let written = match written {
        Err(WriteError::Send(error)) if engine.drop_reply(order, &error) => Ok(()),
        written => written,
    };
    if let Some(metrics) = engine.metrics.get(order.scope.handler) {
        count(metrics, order.what, written.is_ok());
    }
    match written {
        Ok(()) => {
            engine.count_reply(order);
            PublishResult::Acked
        }
        // Its transaction was aborted meanwhile, or its partition is lost.
        Err(_) if !engine.is_pending(order.record) => PublishResult::Failed,
        Err(error) => {
            let (partition, offset) = (order.source.topic_partition(), order.source.offset());
            tracing::error!(event = "publish_failed", %partition, offset, what = ?order.what, %error,
                "{partition}@{offset}: could not write {}: {error}", order.what_text());
            let may_repeat = order.what != Publish::Output || !engine.is_at_most_once(order.scope.handler);
            match error {
                WriteError::Send(error) if !may_repeat && may_be_written(&error) => engine.write_no_more(order, error),
                WriteError::Send(error) if is_final(&error) => engine.refuse(order, error),
                _ => PublishResult::Failed,
            }
        }
    }
}

async fn publish(engine: &Engine, producer: &Producer, slow: Slow) -> PublishResult {
    let Slow { order, begun } = slow;
    let slot = engine.write_slot(order.isolation).await;
    let written = match (&order.pending, order.what) {
        (Some(PendingOutput::Emission(emission)), Publish::Output) => {
            let emitted = emit(engine, producer, &order, emission, begun).await;
            emitted.map(|()| None).map_err(WriteError::from)
        }
        (_, Publish::Output) => Ok(None),
        (held, _) => write_failure_record(engine, producer, &order, held.as_ref()).await,
    };
    drop(slot);
    let (offset, written) = match written {
        Ok(offset) => (offset, Ok(())),
        Err(error) => (None, Err(error)),
    };
    match settled(engine, &order, written) {
        PublishResult::Acked => acked(engine, &order, offset).await,
        other => other,
    }
}

/// Adds the offset of a record in the held-keys topic. A broker that had a retried batch already does not return it.
async fn acked(engine: &Engine, order: &PublishOrder, offset: Option<i64>) -> PublishResult {
    let (Publish::HeldKeys { .. }, Some(topics)) = (order.what, &engine.key_holds) else {
        return PublishResult::Acked;
    };
    if let Some(offset) = offset {
        return PublishResult::AckedAt(offset);
    }
    let (topic, partition) = (held_topic(order.source.topic()), order.source.partition());
    match topics.last_offset(&topic, partition).await {
        Ok(offset) => PublishResult::AckedAt(offset),
        Err(error) => {
            tracing::warn!(event = "held_offset_unknown", topic, partition, %error,
                "offset of a record in {topic}-{partition} is unknown, writing it again: {error}");
            PublishResult::Failed
        }
    }
}

fn count(metrics: &HandlerMetrics, what: Publish, is_written: bool) {
    let counter = match (what, is_written) {
        (Publish::Output, true) => &metrics.published,
        (Publish::Output, false) => &metrics.publish_failed,
        (Publish::RetryTopic { .. } | Publish::HeldKeys { .. }, true) => &metrics.retry_topics,
        (Publish::Return { .. }, true) => &metrics.returned,
        (
            Publish::DeadLetter {
                reason: DeadLetterReason::Poison,
                ..
            },
            true,
        ) => &metrics.dead_poison,
        (
            Publish::DeadLetter {
                reason: DeadLetterReason::Crash { .. },
                ..
            },
            true,
        ) => &metrics.dead_crashes,
        (Publish::DeadLetter { .. }, true) => &metrics.dead_retries,
        (_, false) => &metrics.dead_failed,
    };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// Writes an emission once, however many records wait for it.
async fn emit(
    engine: &Engine,
    producer: &Producer,
    order: &PublishOrder,
    emission: &Emission,
    begun: Vec<Delivery>,
) -> Result<(), SendError> {
    let written = emission.written.get_or_try_init(|| async {
        let writing = engine.begin_writing(order.record).await?;
        let trace = if emission.is_shared {
            None
        } else {
            TraceContext::read(order.source.headers())
        };
        let mut deliveries = begun;
        for record in emission.records.iter().skip(deliveries.len()) {
            let taken = pin!(enqueue(producer, record, trace.as_ref()));
            deliveries.push(reported_if_slow(engine, order, &record.topic, taken).await?);
        }
        let reply = match &emission.reply {
            Some(reply) => engine.enqueue_reply(producer, order, reply).await?,
            None => None,
        };
        drop(writing);
        for delivery in deliveries {
            delivery.await?;
        }
        engine.reply_written(order, reply).await
    });
    written.await.copied()
}

/// Waits until the producer takes a record, and reports a long wait: most likely the topic does not exist.
async fn reported_if_slow<F>(
    engine: &Engine,
    order: &PublishOrder,
    topic: &str,
    mut taken: Pin<&mut F>,
) -> Result<Delivery, SendError>
where
    F: Future<Output = Result<Delivery, SendError>>,
{
    if let Ok(taken) = tokio::time::timeout(TAKEN_SLOW, &mut taken).await {
        return taken;
    }
    let why = match engine.setup.exists(topic).await {
        Ok(false) => format!("topic {topic} does not exist; create it"),
        Ok(true) => format!("the producer has no room for topic {topic} (buffer.memory)"),
        Err(error) => error.to_string(),
    };
    let handler = order.scope.handler;
    let event = "output_waits";
    let class = "".into();
    engine.notices.report(Cause { event, handler, class }, || Notice {
        event,
        handler: engine.handler_name(handler).to_owned(),
        partition: order.source.topic_partition().clone(),
        offset: order.source.offset(),
        to: Some(topic.to_owned()),
        attempts: None,
        error: why,
    });
    taken.await
}

pub(super) async fn enqueue(
    producer: &Producer,
    record: &OutRecord,
    trace: Option<&TraceContext>,
) -> Result<Delivery, SendError> {
    let headers = traced_headers(record, trace);
    producer.enqueue(record.lend(&headers)).await
}

/// As [`enqueue`], if that is possible without waiting.
pub(super) fn try_enqueue(
    producer: &Producer,
    record: &OutRecord,
    trace: Option<&TraceContext>,
) -> Result<Delivery, TrySendError> {
    let headers = traced_headers(record, trace);
    producer.try_enqueue(record.lend(&headers))
}

/// The headers of an output. It joins the trace of its record, unless the handler has set one.
fn traced_headers<'a>(record: &'a OutRecord, trace: Option<&'a TraceContext>) -> Vec<Header<'a>> {
    let mut headers: Vec<Header<'_>> = headers(&record.headers);
    let is_own = headers
        .iter()
        .any(|header| [TRACEPARENT.as_bytes(), TRACESTATE.as_bytes()].contains(&header.key));
    if let Some(trace) = trace.filter(|_| !is_own) {
        let state = trace.tracestate().map(|state| (TRACESTATE, state));
        let added = [(TRACEPARENT, trace.traceparent())].into_iter().chain(state);
        headers.extend(added.map(|(name, value)| Header {
            key: name.as_bytes(),
            value: Some(value.as_bytes()),
        }));
    }
    headers
}

fn headers(headers: &[(bytes::Bytes, Option<bytes::Bytes>)]) -> Vec<Header<'_>> {
    let headers = headers.iter().map(|(key, value)| Header {
        key,
        value: value.as_deref(),
    });
    headers.collect()
}

/// Writes the record itself with failure headers.
async fn write_failure_record(
    engine: &Engine,
    producer: &Producer,
    order: &PublishOrder,
    pending: Option<&PendingOutput>,
) -> Result<Option<i64>, WriteError> {
    let Some(route) = engine.routes.get(order.scope.handler) else {
        return Ok(None);
    };
    let fault = match pending {
        Some(PendingOutput::Fault(fault)) => Some(&**fault),
        _ => None,
    };
    let mut failure_record = describe_failure(engine, order, fault, &route.policy);
    let topic = match order.what {
        Publish::RetryTopic { index, .. } => {
            let delay = route
                .policy
                .retry
                .topics
                .get(usize::from(index))
                .copied()
                .unwrap_or_default();
            retry_topic(&failure_record.origin.topic, millis(delay))
        }
        Publish::HeldKeys { .. } => held_topic(&failure_record.origin.topic),
        Publish::Return { returns, .. } => returns::own_topic(&order.source, &route.policy, returns),
        _ => {
            let own = route.policy.dead_letters.topic.clone();
            engine.setup.dead_letter_topic(&failure_record.origin.topic).await?;
            own.unwrap_or_else(|| dead_letter_topic(&failure_record.origin.topic))
        }
    };
    let mut sent = send_failure_record(engine, producer, order, &failure_record, &topic).await;
    if matches!(sent, Err(SendError::TooLarge { .. })) && failure_record.failure.stack.is_some() {
        // The failure headers make the record too large; the record itself matters more.
        failure_record.failure.stack = None;
        failure_record.failure.reason = cut(&failure_record.failure.reason, REASON_BYTES_MAX / 8).to_owned();
        sent = send_failure_record(engine, producer, order, &failure_record, &topic).await;
    }
    let offset = sent?;
    engine.reply_with_error(producer, order, fault).await;
    report(engine, order, &failure_record, topic, fault);
    Ok(offset)
}

/// Reports where a failed record went.
fn report(engine: &Engine, order: &PublishOrder, failure_record: &FailureRecord, to: String, fault: Option<&Fault>) {
    let event = match order.what {
        Publish::DeadLetter { .. } => "dead_letter",
        Publish::Return { .. } => "returned_to_topic",
        Publish::RetryTopic { .. } | Publish::HeldKeys { due_ms: Some(_), .. } => "retry_topic",
        // It follows another record of its key, which was reported.
        Publish::HeldKeys { due_ms: None, .. } | Publish::Output => return,
    };
    let handler = order.scope.handler;
    let class = fault.map(Fault::shared_class).unwrap_or_default();
    engine.notices.report(Cause { event, handler, class }, || Notice {
        event,
        handler: engine.handler_name(handler).to_owned(),
        partition: order.source.topic_partition().clone(),
        offset: order.source.offset(),
        to: Some(to),
        attempts: Some(failure_record.attempts),
        error: failure_record.failure.reason.clone(),
    });
}

async fn send_failure_record(
    engine: &Engine,
    producer: &Producer,
    order: &PublishOrder,
    failure_record: &FailureRecord,
    topic: &str,
) -> Result<Option<i64>, SendError> {
    let source = &order.source;
    let schemes = engine.routes.get(order.scope.handler);
    let schemes = schemes.map_or(&[][..], |route| &route.policy.dead_letters.schemes);
    let written = match order.what {
        Publish::Return { .. } => returns::headers(failure_record, schemes, source),
        _ => failure::write(failure_record, schemes, source.headers()),
    };
    let headers = headers(&written);
    let record = ProducerRecord {
        topic,
        partition: Some(failure_record.origin.partition),
        key: source.key(),
        value: source.value(),
        headers: &headers,
        timestamp: timestamp(order.what, failure_record),
    };
    let writing = engine.begin_writing(order.record).await?;
    let taken = match producer.enqueue(record).await {
        // The topic has fewer partitions than the one it belongs to.
        Err(SendError::NoSuchPartition { .. }) if !matches!(order.what, Publish::HeldKeys { .. }) => {
            let anywhere = ProducerRecord {
                partition: None,
                ..record
            };
            producer.enqueue(anywhere).await
        }
        taken => taken,
    };
    drop(writing);
    taken?.await.map(|written| written.offset)
}

/// The timestamp of a failure record; `None` is the time of the write. Retention deletes by timestamp, so an old record
/// with its own timestamp would be deleted before it is due. A record that goes back to its own topic gets its own again.
fn timestamp(what: Publish, failure_record: &FailureRecord) -> Option<i64> {
    let is_return = matches!(what, Publish::Return { .. });
    Some(failure_record.origin.timestamp).filter(|timestamp| is_return && *timestamp >= 0)
}

/// The failure of a record that no handler has failed with.
fn unhandled(what: Publish, policy: &Policy) -> Failure {
    let mut exception = "";
    let reason = match what {
        Publish::HeldKeys { due_ms: None, .. } => "an earlier record of its key is being tried again".to_owned(),
        Publish::DeadLetter {
            reason: DeadLetterReason::Breaker,
            ..
        } => format!(
            "a circuit breaker that its handler needs is open: {}",
            policy.breakers.join(", ")
        ),
        Publish::DeadLetter {
            reason: DeadLetterReason::Bulkhead,
            ..
        } => {
            let name = policy.bulkhead.as_deref().unwrap_or_default();
            format!("no permit was left in the bulkhead of its handler: {name}")
        }
        Publish::DeadLetter {
            reason: DeadLetterReason::Crash { owners },
            ..
        } => {
            exception = CRASH;
            format!("quarantined: crashed {owners} consumer processes")
        }
        _ => String::new(),
    };
    Failure {
        exception: exception.to_owned(),
        reason,
        stack: None,
    }
}

fn describe_failure(engine: &Engine, order: &PublishOrder, fault: Option<&Fault>, policy: &Policy) -> FailureRecord {
    let source = &order.source;
    let before = order.scope.failure_record(source.as_ref());
    if let Publish::Return {
        attempts,
        first_failed_ms,
        returns,
    } = order.what
    {
        return FailureRecord {
            attempts,
            first_failed_at_ms: first_failed_ms,
            group: Some(engine.group.to_string()),
            due_at_ms: None,
            returns,
            ..before.unwrap_or_else(|| returns::without_headers(source))
        };
    }
    let origin = before.map_or_else(
        || Origin {
            topic: source.topic().to_owned(),
            partition: source.partition(),
            offset: source.offset(),
            timestamp: source.timestamp(),
        },
        |before| before.origin,
    );
    let (attempts, first_failed_ms, due_at_ms) = match order.what {
        Publish::RetryTopic {
            due_ms,
            attempts,
            first_failed_ms,
            ..
        } => (attempts, Some(first_failed_ms), Some(due_ms)),
        Publish::HeldKeys {
            due_ms,
            attempts,
            first_failed_ms,
        } => (attempts, first_failed_ms, due_ms),
        Publish::DeadLetter {
            attempts,
            first_failed_ms,
            ..
        } => (attempts, Some(first_failed_ms), None),
        Publish::Return { .. } | Publish::Output => (0, None, None),
    };
    let unhandled = || unhandled(order.what, policy);
    let failure = fault.map_or_else(unhandled, |fault| Failure {
        exception: fault.class().to_owned(),
        reason: fault.to_string(),
        stack: policy.dead_letters.with_stack.then(|| fault.chain()),
    });
    FailureRecord {
        origin,
        failure,
        attempts,
        failed_at_ms: Some(engine.clock.now_ms()),
        first_failed_at_ms: first_failed_ms,
        group: Some(engine.group.to_string()),
        instance: Some(engine.instance.to_string()),
        due_at_ms,
        returns: 0,
    }
}
