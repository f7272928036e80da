//! Sending of batches, and their expiry.

use milena_invariant::violated;

use super::{
    BatchCause, ProduceCall, Sender, SentBatch, Slot, Stamp,
    batch::{Batch, BatchId, BatchState},
};
use crate::member::CallId;

/// A `Produce` request in flight.
#[derive(Debug)]
pub(super) struct InFlightRequest {
    pub(super) node: i32,
    pub(super) bytes: usize,
    pub(super) batches: Vec<BatchAttempt>,
}

/// The load in flight to one node.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct NodeLoad {
    pub(super) requests: usize,
    pub(super) bytes: usize,
}

/// One attempt to send a batch. The batch may be done when the response comes.
#[derive(Debug, Clone, Copy)]
pub(super) struct BatchAttempt {
    pub(super) slot: Slot,
    pub(super) id: BatchId,
    pub(super) stamp: Option<Stamp>,
    pub(super) records: u32,
    /// Nothing was before it, so that its sequence number was the next one.
    pub(super) was_first: bool,
}

impl Sender {
    /// Whether an open batch of this partition could be sent now. The driver closes an open batch only then, or when it
    /// is full, so that records accumulate while they cannot be sent.
    pub fn wants_batch(&self, slot: Slot) -> bool {
        let Some(partition) = self.partitions.get(slot.index()) else {
            violated!("a_slot_is_of_this_sender");
            return false;
        };
        let has_room = partition.open_leader().is_some_and(|leader| self.has_room(leader));
        let can_number = !self.is_idempotent() || partition.can_number(self.identity.current());
        has_room && can_number && partition.first_waiting().is_none() && self.check_send().is_ok()
    }

    /// The next `Produce` request. Partitions are served round-robin.
    pub fn poll_produce_request(&mut self, now_ms: i64) -> Option<ProduceCall> {
        self.note_time(now_ms);
        if self.fatal.is_some() || !self.transaction.as_ref().is_none_or(super::Transaction::can_produce) {
            return None;
        }
        let order = self.serving_order();
        let (node, first) = order.iter().find_map(|slot| {
            Some((
                self.ready_for(now_ms, *slot).filter(|node| self.has_room(*node))?,
                *slot,
            ))
        })?;
        let mut bytes: usize = 0;
        let mut sent = vec![];
        let start = order.iter().position(|slot| *slot == first).unwrap_or(0);
        for slot in order.iter().skip(start) {
            if self.ready_for(now_ms, *slot) != Some(node) {
                continue;
            }
            let size = self.next_batch(*slot).map_or(0, |batch| batch.bytes);
            if !sent.is_empty() && bytes.saturating_add(size) > self.config.max_request_bytes {
                break;
            }
            bytes = bytes.saturating_add(size);
            sent.extend(self.send_next(*slot, node));
            self.last_served = Some(*slot);
        }
        Some(self.produce_call(node, bytes, sent))
    }

    /// The partitions with batches, beginning after the one that was served last.
    fn serving_order(&self) -> Vec<Slot> {
        let after = self.last_served.map_or(0, |slot| slot.0.saturating_add(1));
        let (before, after) = (self.busy.range(..Slot(after)), self.busy.range(Slot(after)..));
        after.chain(before).copied().collect()
    }

    /// Whether another request may go to this node.
    ///
    /// A broker handles the requests of a connection one after the other: a second one keeps it busy, and any more only
    /// keep small ones from waiting for each other. Large ones stay here instead, where batches grow, until less than
    /// the bytes of one full request are in flight.
    fn has_room(&self, node: i32) -> bool {
        let load = self.loads.get(&node).copied().unwrap_or_default();
        let is_light = load.requests < 2 || load.bytes < self.config.max_request_bytes;
        load.requests < self.config.max_in_flight.max(1) && is_light
    }

    fn next_batch(&self, slot: Slot) -> Option<&Batch> {
        let partition = self.partitions.get(slot.index())?;
        partition.queue.get(partition.first_waiting()?)
    }

    /// The node that the next batch of this partition can be sent to now, apart from the limits of the node.
    fn ready_for(&self, now_ms: i64, slot: Slot) -> Option<i32> {
        let partition = self.partitions.get(slot.index())?;
        let leader = partition.open_leader()?;
        let index = partition.first_waiting()?;
        let batch = partition.queue.get(index)?;
        let is_due = matches!(batch.state, BatchState::Waiting { not_before_ms } if not_before_ms <= now_ms);
        if !is_due || self.deadline(batch) <= now_ms {
            return None;
        }
        let in_line = if batch.is_retry() {
            index == 0 && (batch.stamp.is_some() || self.can_number(slot))
        } else {
            self.can_number(slot)
        };
        let is_part = self
            .transaction
            .as_ref()
            .is_none_or(|transaction| transaction.has(slot));
        (in_line && is_part).then_some(leader)
    }

    fn can_number(&self, slot: Slot) -> bool {
        let partition = self.partitions.get(slot.index());
        !self.is_idempotent() || partition.is_some_and(|partition| partition.can_number(self.identity.current()))
    }

    fn send_next(&mut self, slot: Slot, node: i32) -> Option<BatchAttempt> {
        let producer = self.identity.current().filter(|_| self.is_idempotent());
        let partition = self.partitions.get_mut(slot.index())?;
        let index = partition.first_waiting()?;
        if let Some(producer) = producer
            && partition.queue.get(index).is_some_and(|batch| batch.stamp.is_none())
        {
            partition.number(index, producer, self.transaction.is_some());
        }
        let was_first = index == 0 && partition.in_flight == 0;
        partition.in_flight += 1;
        partition.in_flight_node = node;
        let batch = partition.queue.get_mut(index)?;
        batch.state = BatchState::InFlight;
        Some(BatchAttempt {
            slot,
            id: batch.id,
            stamp: batch.stamp,
            records: batch.records,
            was_first,
        })
    }

    fn produce_call(&mut self, node: i32, bytes: usize, batches: Vec<BatchAttempt>) -> ProduceCall {
        let id = CallId(self.next_id());
        let load = self.loads.entry(node).or_default();
        load.requests += 1;
        load.bytes += bytes;
        let sent = batches.iter().map(|sent| SentBatch {
            slot: sent.slot,
            id: sent.id,
            stamp: sent.stamp.unwrap_or(Stamp::NONE),
        });
        let (version_min, version_max) = match &mut self.transaction {
            Some(transaction) => transaction.note_produce(),
            None => (3, None),
        };
        let call = ProduceCall {
            id,
            node,
            version_min,
            version_max,
            timeout_ms: self.config.request_timeout_ms,
            batches: sent.collect(),
        };
        self.calls.insert(id, InFlightRequest { node, bytes, batches });
        call
    }

    /// Fails the batches of a partition that are over their delivery timeout.
    pub(super) fn expire(&mut self, now_ms: i64, slot: Slot) {
        while let Some(first) = self.partitions.get(slot.index()).and_then(|known| known.queue.front()) {
            if self.deadline(first) > now_ms || first.state == BatchState::Splitting {
                break;
            }
            let cause = BatchCause::TimedOut {
                last_cause: first.last_cause,
            };
            self.fail(slot, first.id, cause);
        }
        self.settle(slot);
    }
}
