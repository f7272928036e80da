//! Writes what handlers emit, for little more than the producer takes itself.
//!
//! A record that the producer takes at once needs no future: what became of it is what became of its batch. One delivery of
//! each batch is waited for, and the others are asked when it is there.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use milena_client::producer::{Delivery, Producer, RecordMetadata, SendError};
use milena_machines::app::{Publish, RecordId};

use super::{
    Engine, Held,
    publisher::{PublishOrder, try_enqueue},
    refused::Beside,
};
use crate::handler::TraceContext;

/// In so many batches, the latest first, it is looked for the one that a record is in.
const OPEN_BATCHES: usize = 16;

/// An order that was not taken at once, with what was written of it.
pub(super) struct Slow {
    pub(super) order: PublishOrder,
    pub(super) begun: Vec<Delivery>,
}

#[derive(Default)]
pub(super) struct Emitter {
    places: Vec<Option<Pending>>,
    free: Vec<usize>,
    batches: Vec<Batch>,
    /// Rooms of batches that are over.
    spare: Vec<Vec<(usize, Delivery)>>,
    /// Records all of whose output the producer has taken since this was looked at.
    pub(super) taken: Vec<RecordId>,
}

/// An order some of whose records are on their way.
struct Pending {
    order: PublishOrder,
    left: usize,
    failed: Option<SendError>,
}

/// Records of one batch, each with the place of its order. The first one is waited for.
struct Batch {
    records: Vec<(usize, Delivery)>,
}

impl Emitter {
    pub(super) fn is_empty(&self) -> bool {
        self.batches.is_empty()
    }

    /// Hands all that a handler emitted to the producer, if that can be done at once.
    pub(super) fn begin(&mut self, engine: &Engine, producer: &Producer, order: PublishOrder) -> Option<Slow> {
        let slow = |order, begun| Some(Slow { order, begun });
        let Some(Held::Emission(emission)) = &order.held else {
            return slow(order, vec![]);
        };
        let is_plain = order.what == Publish::Output && order.beside == Beside::All;
        if !is_plain || emission.is_shared || emission.written.initialized() {
            return slow(order, vec![]);
        }
        let Some(writing) = engine.try_begin_writing(order.record) else {
            return slow(order, vec![]);
        };
        let trace = TraceContext::read(order.source.headers());
        let mut begun = Vec::with_capacity(emission.records.len());
        for record in &emission.records {
            match try_enqueue(producer, record, trace.as_ref()) {
                Ok(delivery) => begun.push(delivery),
                // It must wait, or was refused: the slow way finds that out again, and knows what to do.
                Err(_) => return slow(order, begun),
            }
        }
        drop(writing);
        self.taken.push(order.record);
        let pending = Pending {
            order,
            left: begun.len(),
            failed: None,
        };
        let place = self.free.pop().unwrap_or_else(|| {
            self.places.push(None);
            self.places.len() - 1
        });
        if let Some(free) = self.places.get_mut(place) {
            *free = Some(pending);
        }
        for delivery in begun {
            self.wait_for(place, delivery);
        }
        None
    }

    fn wait_for(&mut self, place: usize, delivery: Delivery) {
        let mut open = self.batches.iter_mut().rev().take(OPEN_BATCHES);
        let is_its = |batch: &&mut Batch| {
            let first = batch.records.first();
            first.is_some_and(|(_, first)| first.is_with(&delivery))
        };
        match open.find(is_its) {
            Some(batch) => batch.records.push((place, delivery)),
            None => {
                let mut records = self.spare.pop().unwrap_or_default();
                records.push((place, delivery));
                self.batches.push(Batch { records });
            }
        }
    }

    /// Looks which batches are decided. Gives the orders that are over, with the first error of each.
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
            // Order among batches does not matter: only those that are open are looked for.
            let Batch { mut records } = self.batches.swap_remove(at);
            let mut first = Some(result);
            for (place, delivery) in records.drain(..) {
                match first.take().or_else(|| delivery.try_get()) {
                    Some(result) => self.settle(place, result, &mut over),
                    // Its batch was split, and its part is not decided.
                    None => self.batches.push(Batch {
                        records: vec![(place, delivery)],
                    }),
                }
            }
            self.spare.push(records);
        }
    }

    fn settle(
        &mut self,
        place: usize,
        result: Result<RecordMetadata, SendError>,
        over: &mut impl FnMut(PublishOrder, Option<SendError>),
    ) {
        let Some(found) = self.places.get_mut(place) else {
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
            self.free.push(place);
            over(pending.order, pending.failed);
        }
    }
}
