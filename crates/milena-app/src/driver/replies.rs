//! Replies of handlers: where they go, and when they are given up.
//!
//! The address of a reply is untrusted input. A reply to a topic or partition that does not exist is dropped and counted
//! soon, so that a requester that is gone, or a hostile one, cannot stop the service. A topic is looked up before its
//! first reply, because a producer that asks for metadata would create it on some clusters.

use std::{
    borrow::Cow,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use milena_client::{
    admin::ErrorCode,
    producer::{BatchCause, Delivery, Producer, SendError},
};
use milena_machines::{app::Publish, request_reply::give_up_ms};
use tokio::sync::OnceCell;

use super::{
    Engine, Payload, PendingOutput,
    notices::{Cause, Notice},
    publisher::{PublishOrder, enqueue},
};
use crate::{
    error::StartError,
    handler::{Fault, TraceContext},
    metrics::HandlerMetrics,
    request_reply::{OutReply, ReplyAddress, ReplyRules, SeenTopic},
    route::{Expiry, Route},
    worker::{AddressedReply, Emission, HandlerOutcome},
};

/// A topic that was just created may be unknown to a broker for a moment.
const LOOKS: u32 = 10;
const LOOK_PAUSE: Duration = Duration::from_millis(50);

/// The rules of each handler.
pub(super) fn reply_rules(routes: &[Route]) -> Result<Vec<ReplyRules>, StartError> {
    let rules = routes
        .iter()
        .map(|route| ReplyRules::new(route.policy.replies.as_ref()));
    Ok(rules.collect::<Result<_, _>>()?)
}

/// The check for expired requests, if the handler answers requests and skips them.
pub(super) fn expiry(engine: &Engine, route: &Route) -> Option<Expiry> {
    let replies = route.policy.replies.as_ref().filter(|replies| replies.skip_expired)?;
    let metrics = engine
        .metrics
        .iter()
        .find(|metrics| metrics.topics == route.topics.text())?;
    Some(Expiry {
        answer: replies.answer(),
        metrics: Arc::clone(metrics),
    })
}

impl Engine {
    /// Finds out where a reply goes. The outcome is an output, or nothing if there is nothing to write. Other outcomes
    /// stay as they are.
    pub(super) fn address_reply(&self, payload: &Payload, outcome: HandlerOutcome) -> HandlerOutcome {
        let HandlerOutcome::Reply(reply) = outcome else {
            return outcome;
        };
        let handler = payload.scope.handler;
        let addressed = self.addressed(handler, payload, &reply);
        if reply.emit.is_empty() && addressed.is_none() {
            return HandlerOutcome::Ok;
        }
        HandlerOutcome::Emit(Arc::new(Emission {
            records: reply.emit.clone(),
            reply: addressed,
            is_shared: false,
            written: OnceCell::new(),
        }))
    }

    fn addressed(&self, handler: usize, payload: &Payload, reply: &OutReply) -> Option<AddressedReply> {
        let rules = self.reply_rules.get(handler)?;
        let source = payload.first();
        let refused = |problem: String| {
            self.count_replies(handler, |metrics| &metrics.replies_refused);
            self.report_reply("reply_refused", handler, &source, problem);
        };
        let address = match ReplyAddress::read(source.headers()) {
            Ok(Some(address)) => address,
            Ok(None) => {
                self.count_replies(handler, |metrics| &metrics.replies_unaddressed);
                return None;
            }
            Err(error) => {
                refused(error.to_string());
                return None;
            }
        };
        if !rules.allows(&address.topic) {
            refused(format!(
                "topic {} of the request is not allowed for replies; allow it with Replies::topics",
                address.topic
            ));
            return None;
        }
        let now_ms = self.clock.now_ms();
        if rules.is_expired(&address, now_ms) {
            self.count_replies(handler, |metrics| &metrics.requests_expired);
            return None;
        }
        Some(AddressedReply {
            record: reply.record(&address),
            give_up_ms: give_up_ms(rules.answer, address.deadline_ms, now_ms),
            is_dropped: AtomicBool::new(false),
        })
    }

    /// Whether the output of an order has a reply that the producer cannot be given at once.
    pub(super) fn is_slow_reply(&self, order: &PublishOrder, emission: &Emission) -> bool {
        let Some(reply) = &emission.reply else { return false };
        // The results of a reply and of other records are treated differently.
        if !emission.records.is_empty() {
            return true;
        }
        let now_ms = self.clock.now_ms();
        let rules = self.reply_rules.get(order.scope.handler);
        let seen = rules.map(|rules| rules.look_up(&reply.record.topic, now_ms));
        seen != Some(SeenTopic::Known) || now_ms >= reply.give_up_ms
    }

    /// Hands a reply to the producer. Returns `None` if it was dropped.
    pub(super) async fn enqueue_reply(
        &self,
        producer: &Producer,
        order: &PublishOrder,
        reply: &AddressedReply,
    ) -> Result<Option<Delivery>, SendError> {
        let (topic, now_ms) = (&reply.record.topic, self.clock.now_ms());
        let Some(rules) = self.reply_rules.get(order.scope.handler) else {
            return Ok(None);
        };
        let left_ms = reply.give_up_ms.saturating_sub(now_ms);
        if left_ms <= 0 {
            self.count_replies(order.scope.handler, |metrics| &metrics.requests_expired);
            reply.is_dropped.store(true, Ordering::Relaxed);
            return Ok(None);
        }
        let missing = || format!("topic {topic} does not exist");
        let write = async {
            match rules.look_up(topic, now_ms) {
                SeenTopic::Known => {}
                SeenTopic::New if self.exists(topic).await => rules.note_known(topic),
                SeenTopic::New | SeenTopic::Missing => return Err(None),
            }
            let trace = TraceContext::read(order.source.headers());
            enqueue(producer, &reply.record, trace.as_ref()).await.map_err(Some)
        };
        let limit = Duration::from_millis(left_ms.unsigned_abs());
        let problem = match tokio::time::timeout(limit, write).await {
            Ok(Ok(delivery)) => return Ok(Some(delivery)),
            Ok(Err(Some(error))) if !is_address_error(&error) => return Err(error),
            Ok(Err(Some(error))) => error.to_string(),
            Ok(Err(None)) => {
                rules.note_missing(topic, now_ms);
                missing()
            }
            Err(_) => {
                rules.note_missing(topic, self.clock.now_ms());
                format!("the producer did not take it within {left_ms} ms")
            }
        };
        self.undeliverable(order, reply, problem);
        Ok(None)
    }

    async fn exists(&self, topic: &str) -> bool {
        for look in 1..=LOOKS {
            let described = self.setup.admin().describe_topics([topic]).await.into_values().next();
            match described {
                Some(Err(error)) if error.code() == Some(ErrorCode::UnknownTopicOrPartition) => {}
                // Another error says nothing about the topic; the producer finds out.
                _ => return true,
            }
            if look < LOOKS {
                tokio::time::sleep(LOOK_PAUSE).await;
            }
        }
        false
    }

    /// Waits for the acknowledgement of a reply.
    pub(super) async fn reply_written(&self, order: &PublishOrder, reply: Option<Delivery>) -> Result<(), SendError> {
        let Some(delivery) = reply else { return Ok(()) };
        match delivery.await {
            Ok(_) => Ok(()),
            // A transaction with a failed write can only be aborted.
            Err(error) if is_address_error(&error) && !self.is_transactional() => {
                if let Some(reply) = reply_of(order) {
                    self.undeliverable(order, reply, error.to_string());
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Drops a reply that failed because of its address. Returns whether nothing else is left to write.
    pub(super) fn drop_reply(&self, order: &PublishOrder, error: &SendError) -> bool {
        let Some(PendingOutput::Emission(emission)) = &order.pending else {
            return false;
        };
        let is_alone = emission.records.is_empty();
        let may_drop = !self.is_transactional() || !matches!(error, SendError::Failed { .. });
        let Some(reply) = emission.reply.as_ref().filter(|_| is_alone && may_drop) else {
            return false;
        };
        if !is_address_error(error) {
            return false;
        }
        self.undeliverable(order, reply, error.to_string());
        true
    }

    /// Counts the reply of an order whose output is acknowledged.
    pub(super) fn count_reply(&self, order: &PublishOrder) {
        if let Some(reply) = reply_of(order).filter(|_| order.what == Publish::Output)
            && !reply.is_dropped.load(Ordering::Relaxed)
        {
            self.count_replies(order.scope.handler, |metrics| &metrics.replies);
        }
    }

    /// Tells the requester of a dead letter that its request failed. The dead letter counts, not this reply.
    pub(super) async fn reply_with_error(&self, producer: &Producer, order: &PublishOrder, fault: Option<&Fault>) {
        let handler = order.scope.handler;
        let Some(rules) = self.reply_rules.get(handler).filter(|rules| rules.errors) else {
            return;
        };
        if !matches!(order.what, Publish::DeadLetter { .. }) {
            return;
        }
        // A reply was refused, so this one would be too, and would abort the transaction again.
        let is_refused = fault.is_some_and(|fault| fault.error().is::<SendError>());
        let Ok(Some(address)) = ReplyAddress::read(order.source.headers()) else {
            return;
        };
        let now_ms = self.clock.now_ms();
        let is_wanted = rules.allows(&address.topic) && !rules.is_expired(&address, now_ms);
        if !is_wanted || (is_refused && self.is_transactional()) {
            return;
        }
        let reply = match fault {
            Some(fault) => OutReply::error(fault.class(), &fault.to_string()),
            None => OutReply::error("dead_letter", "the request was not handled and is a dead letter"),
        };
        let reply = AddressedReply {
            record: reply.record(&address),
            give_up_ms: give_up_ms(rules.answer, address.deadline_ms, now_ms),
            is_dropped: AtomicBool::new(false),
        };
        let Ok(writing) = self.begin_writing(order.record).await else {
            return;
        };
        let taken = self.enqueue_reply(producer, order, &reply).await;
        drop(writing);
        let written = match taken {
            Ok(Some(delivery)) => delivery.await.map(drop),
            Ok(None) => return,
            Err(error) => Err(error),
        };
        match written {
            Ok(()) => self.count_replies(handler, |metrics| &metrics.replies),
            Err(error) => self.undeliverable(order, &reply, error.to_string()),
        }
    }

    fn undeliverable(&self, order: &PublishOrder, reply: &AddressedReply, problem: String) {
        let handler = order.scope.handler;
        reply.is_dropped.store(true, Ordering::Relaxed);
        self.count_replies(handler, |metrics| &metrics.replies_undeliverable);
        self.report_reply("reply_undeliverable", handler, &order.source, problem);
    }

    fn count_replies(&self, handler: usize, counter: fn(&HandlerMetrics) -> &std::sync::atomic::AtomicU64) {
        if let Some(metrics) = self.metrics.get(handler) {
            counter(metrics).fetch_add(1, Ordering::Relaxed);
        }
    }

    fn report_reply(
        &self,
        event: &'static str,
        handler: usize,
        source: &milena_client::consumer::ConsumerRecord,
        problem: String,
    ) {
        let class = Cow::Borrowed("");
        self.notices.report(Cause { event, handler, class }, || Notice {
            event,
            handler: self.handler_name(handler).to_owned(),
            partition: source.topic_partition().clone(),
            offset: source.offset(),
            to: None,
            attempts: None,
            error: problem,
        });
    }
}

fn reply_of(order: &PublishOrder) -> Option<&AddressedReply> {
    match &order.pending {
        Some(PendingOutput::Emission(emission)) => emission.reply.as_ref(),
        _ => None,
    }
}

/// Whether a write failed because of the topic or partition that the request names.
fn is_address_error(error: &SendError) -> bool {
    match error {
        SendError::NoSuchPartition { .. } | SendError::UnknownTopic { .. } | SendError::Topic { .. } => true,
        SendError::Failed { error, .. } => matches!(
            error.cause,
            BatchCause::Refused(
                ErrorCode::UnknownTopicOrPartition
                    | ErrorCode::UnknownTopicId
                    | ErrorCode::InvalidTopicException
                    | ErrorCode::TopicAuthorizationFailed
            )
        ),
        _ => false,
    }
}
