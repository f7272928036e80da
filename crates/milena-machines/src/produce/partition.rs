//! Queue and sequence numbers of a partition.

use std::collections::VecDeque;

use super::batch::{Batch, BatchId, BatchState, Stamp, is_at_or_after, sequence_after};
use crate::{TopicPartition, transaction::ProducerEpoch};
use milena_invariant::violated;

#[derive(Debug)]
pub(super) struct Partition {
    pub(super) name: TopicPartition,
    pub(super) leader: Option<i32>,
    /// All batches that are not done, in the order of the pushes.
    pub(super) queue: VecDeque<Batch>,
    /// Attempts in flight, also of batches that are done meanwhile, and the node that all of them went to.
    pub(super) in_flight: usize,
    pub(super) in_flight_node: i32,
    pub(super) numbers: Option<Numbers>,
    /// The producer id under which the broker has a batch. A producer that is unknown there may begin with any sequence
    /// number, so its second batch must not overtake the first.
    known_as: Option<i64>,
    pub(super) last_acked_offset: i64,
}

#[derive(Debug)]
pub(super) struct Numbers {
    pub(super) producer: ProducerEpoch,
    pub(super) next: i32,
    /// The sequence number after a batch that failed and may be written. No other batch is numbered until it is known
    /// whether it was.
    pub(super) gap_until: Option<i32>,
    /// Sequence numbers are certainly missing in the log: once nothing is in flight, numbering begins anew.
    pub(super) is_lost: bool,
}

impl Partition {
    pub(super) fn new(name: TopicPartition) -> Self {
        Self {
            name,
            leader: None,
            queue: VecDeque::new(),
            in_flight: 0,
            in_flight_node: -1,
            numbers: None,
            known_as: None,
            last_acked_offset: -1,
        }
    }

    pub(super) fn position(&self, id: BatchId) -> Option<usize> {
        self.queue.iter().position(|batch| batch.id == id)
    }

    pub(super) fn first_waiting(&self) -> Option<usize> {
        self.queue.iter().position(Batch::is_waiting)
    }

    pub(super) fn is_splitting(&self) -> bool {
        let mut left = self.queue.iter().take_while(|batch| batch.was_sent());
        left.any(|batch| batch.state == BatchState::Splitting)
    }

    /// Numbers are given in the order of the queue: if the first batch has none, none has.
    pub(super) fn has_numbered(&self) -> bool {
        self.queue.front().is_some_and(|batch| batch.stamp.is_some())
    }

    pub(super) fn lose_numbers(&mut self) {
        if let Some(numbers) = &mut self.numbers {
            numbers.is_lost = true;
        }
    }

    fn is_lost(&self) -> bool {
        self.numbers.as_ref().is_some_and(|numbers| numbers.is_lost)
    }

    /// The leader, if this partition can be sent to it now. Attempts in flight to another node must come back first:
    /// otherwise a later batch could be written before an earlier one.
    pub(super) fn open_leader(&self) -> Option<i32> {
        let leader = self.leader?;
        let is_free = self.in_flight == 0 || self.in_flight_node == leader;
        (is_free && !self.is_lost() && !self.is_splitting()).then_some(leader)
    }

    /// Whether a batch that was never sent can be numbered now, behind those that were.
    pub(super) fn can_number(&self, producer: Option<ProducerEpoch>) -> bool {
        let Some(producer) = producer else {
            return false; // Until there is a producer id.
        };
        let is_alone = self.in_flight == 0 && !self.has_numbered();
        match &self.numbers {
            Some(numbers) if numbers.gap_until.is_some() => false,
            Some(numbers) if numbers.producer == producer => is_alone || self.known_as == Some(producer.producer_id),
            _ => is_alone,
        }
    }

    /// Gives the next sequence numbers to the batch at `index`.
    pub(super) fn number(&mut self, index: usize, producer: ProducerEpoch, transactional: bool) {
        let fresh = Numbers {
            producer,
            next: 0,
            gap_until: None,
            is_lost: false,
        };
        let Some(batch) = self.queue.get_mut(index) else {
            violated!("a_batch_to_number_is_queued");
            return;
        };
        let numbers = match &mut self.numbers {
            Some(numbers) if numbers.producer == producer => numbers,
            numbers => numbers.insert(fresh),
        };
        batch.stamp = Some(Stamp {
            producer_id: producer.producer_id,
            producer_epoch: producer.epoch,
            base_sequence: numbers.next,
            transactional,
        });
        numbers.next = sequence_after(numbers.next, batch.records);
    }

    /// Handles that a batch with these numbers is in the log, and so are those before it.
    pub(super) fn note_written(&mut self, stamp: Option<Stamp>, records: u32) {
        let Some(stamp) = stamp else {
            return; // Without idempotence.
        };
        let Some(numbers) = self.numbers.as_mut() else {
            return; // Stale: renumbered meanwhile.
        };
        if numbers.producer != stamp.producer() {
            return;
        }
        self.known_as = Some(stamp.producer_id);
        let end = sequence_after(stamp.base_sequence, records);
        numbers.gap_until.take_if(|gap| is_at_or_after(end, *gap));
    }

    /// Handles a batch that has failed. Whether it was written shows by those that follow.
    pub(super) fn note_missing(&mut self, batch: &Batch) {
        let Some(numbers) = self.numbers.as_mut() else {
            return; // No batch has numbers.
        };
        let Some(stamp) = batch.stamp.filter(|stamp| stamp.producer() == numbers.producer) else {
            return; // Never sent, or under an earlier epoch.
        };
        if batch.may_be_written || batch.state == BatchState::InFlight {
            let end = sequence_after(stamp.base_sequence, batch.records);
            let gap = numbers.gap_until.get_or_insert(end);
            if is_at_or_after(end, *gap) {
                *gap = end;
            }
        } else {
            numbers.is_lost = true;
        }
    }

    /// Whether numbering can and must begin anew now.
    pub(super) fn must_renumber(&mut self) -> bool {
        if self.in_flight > 0 || self.is_splitting() {
            return false;
        }
        let has_numbered = self.has_numbered();
        self.numbers
            .as_ref()
            .is_some_and(|numbers| numbers.is_lost || (numbers.gap_until.is_some() && !has_numbered))
    }
}
