//! The emitter: the fast way of the publisher for outputs that the producer takes at once.
//!
//! Such an output needs no future of its own: its result is the result of its batch. One delivery of each batch is awaited,
//! and the others are read when it is there.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use milena_client::producer::{Delivery, Producer, RecordMetadata, SendError};
use milena_machines::app::{Publish, RecordId};

use super::{
    Engine, PendingOutput,
    publisher::{PublishOrder, try_enqueue},
    refusals::Isolation,
};
use crate::handler::TraceContext;

/// The number of batches, the latest first, among which the batch of a record is searched.
const OPEN_BATCHES: usize = 16;

/// An order that was not taken at once, with the deliveries that were begun.
pub(super) struct Slow {
    pub(super) order: PublishOrder,
    pub(super) begun: Vec<Delivery>,
}

impl Slow {
    pub(super) fn new(order: PublishOrder) -> Self {
        Self { order, begun: vec![] }
    }
}

#[derive(Default)]
pub(super) struct Emitter {
    orders: Vec<Option<PendingOrder>>,
    free: Vec<usize>,
    batches: Vec<Batch>,
    /// Vectors of settled batches, for reuse.
    spare: Vec<Vec<(usize, Delivery)>>,
    /// Records all of whose output the producer has taken since this was last read.
    pub(super) taken: Vec<RecordId>,
}

/// An order with outputs in flight.
struct PendingOrder {
    order: PublishOrder,
    left: usize,
    failed: Option<SendError>,
}

/// Records of one batch, each with the index of its order. The first one is awaited.
struct Batch {
    records: Vec<(usize, Delivery)>,
}

impl Emitter {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Hands the outputs of an order to the producer, if it takes them at once. The caller keeps the transaction open.
    pub(super) fn begin(&mut self, engine: &Engine, producer: &Producer, order: PublishOrder) -> Option<Slow> {
        let Some(PendingOutput::Emission(emission)) = &order.pending else {
            return Some(Slow::new(order));
        };
        let is_plain = order.what == Publish::Output && order.isolation == Isolation::None;
        let is_slow = engine.is_slow_reply(&order, emission);
        if !is_plain || emission.is_shared || emission.written.initialized() || is_slow {
            return Some(Slow::new(order));
        }
        let trace = TraceContext::read(order.source.headers());
        let mut begun = Vec::with_capacity(emission.records.len());
        let reply = emission.reply.iter().map(|reply| &reply.record);
        for record in emission.records.iter().chain(reply) {
            match try_enqueue(producer, record, trace.as_ref()) {
                Ok(delivery) => begun.push(delivery),
                // It must wait, or was refused: the slow way tries again and handles that.
                Err(_) => return Some(Slow { order, begun }),
            }
        }
        self.taken.push(order.record);
        let pending = PendingOrder {
            order,
            left: begun.len(),
            failed: None,
        };
        let index = self.free.pop().unwrap_or_else(|| {
            self.orders.push(None);
            self.orders.len() - 1
        });
        if let Some(slot) = self.orders.get_mut(index) {
            *slot = Some(pending);
        }
        for delivery in begun {
            self.wait_for(index, delivery);
        }
        None
    }

    fn wait_for(&mut self, index: usize, delivery: Delivery) {
        let mut open = self.batches.iter_mut().rev().take(OPEN_BATCHES);
        let is_same = |batch: &&mut Batch| {
            let first = batch.records.first();
            first.is_some_and(|(_, first)| first.is_with(&delivery))
        };
        match open.find(is_same) {
            Some(batch) => batch.records.push((index, delivery)),
            None => {
                let mut records = self.spare.pop().unwrap_or_default();
                records.push((index, delivery));
                self.batches.push(Batch { records });
            }
        }
    }

    /// Polls the batches. Calls `over` for each order that has ended, with its first error.
    pub(super) fn poll(&mut self, cx: &mut Context<'_>, mut over: impl FnMut(PublishOrder, Option<SendError>)) {
        let mut at = 0;
        while let Some(batch) = self.batches.get_mut(at) {
            let Some((_, first)) = batch.records.first_mut() else {
                self.batches.swap_remove(at);
                continue;
            };
            let Poll::Ready(result) = Pin::new(first).poll(cx) else {
                at += 1;
                continue;
            };
            // The order of batches does not matter: only open ones are searched.
            let Batch { mut records } = self.batches.swap_remove(at);
            let mut first = Some(result);
            for (index, delivery) in records.drain(..) {
                match first.take().or_else(|| delivery.try_get()) {
                    Some(result) => self.settle(index, result, &mut over),
                    // Its batch was split, and its part has no result yet.
                    None => self.batches.push(Batch {
                        records: vec![(index, delivery)],
                    }),
                }
            }
            self.spare.push(records);
        }
    }

    fn settle(
        &mut self,
        index: usize,
        result: Result<RecordMetadata, SendError>,
        over: &mut impl FnMut(PublishOrder, Option<SendError>),
    ) {
        let Some(found) = self.orders.get_mut(index) else {
            return;
        };
        let Some(pending) = found else { return };
        pending.left -= 1;
        if let Err(error) = result {
            pending.failed.get_or_insert(error);
        }
        if pending.left == 0
            && let Some(pending) = found.take()
        {
            self.free.push(index);
            over(pending.order, pending.failed);
        }
    }
}
