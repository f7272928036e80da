//! The client's side of producing: order and sequence numbers of batches, handling of responses, and transactions.
//! [`Sender`] knows batches by id, never their bytes.
//!
//! The driver has four duties:
//!
//! 1. pass on events: batches that are full or due ([`Sender::push`]), leaders ([`Sender::handle_leader`]), responses
//!    ([`Sender::handle_produce_response`], [`Sender::handle_control_response`]), calls of the application, time;
//! 2. after each of them: take [`Sender::poll_event`] until there is none, and carry it out;
//! 3. then send the requests of [`Sender::poll_produce_request`] and [`Sender::poll_control_request`] until there are
//!    none, and report the response or the failure of each;
//! 4. call [`Sender::handle_timeout`] at the time that [`Sender::poll_timeout`] returns.
//!
//! The order of a partition is that of its pushes, whatever is retried: a batch that was sent keeps its sequence
//! numbers, and is sent again only when nothing is before it. Sequence numbers begin anew only for batches that were
//! certainly refused. A batch that may be in the log already fails instead, and its [`WriteStatus`] says so: Kafka's
//! client renumbers it too, and could write it twice.
//!
//! Without idempotence there are no sequence numbers. Then order is kept only with one request in flight, and a batch
//! whose response was lost is written twice, as with Kafka's client.

mod batch;
mod call;
mod config;
mod control;
mod error;
mod event;
mod identity;
mod partition;
mod response;
mod send;
mod transaction;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use milena_invariant::{invariant, violated};
use milena_wire::errors::ErrorCode;

pub use batch::{BatchId, NewBatch, Slot, Stamp, WriteStatus};
pub use call::{
    ControlCall, ControlRequest, ControlResponse, ProduceCall, ProducePartitionResponse, SentBatch, Target,
};
pub use config::{SenderConfig, TransactionConfig};
pub use error::{BatchCause, BatchError, Misuse, Operation, Remedy, TransactionCause, TransactionError};
pub use event::SenderEvent;
pub use transaction::OperationId;

use crate::{Random, TopicPartition, backoff::Backoff, member::CallId, transaction::ProducerEpoch};

use batch::{Batch, BatchState};
use control::Control;
use identity::Identity;
use partition::Partition;
use send::{InFlightRequest, NodeLoad};
use transaction::Transaction;

#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    random: Random,
    slots: BTreeMap<TopicPartition, Slot>,
    partitions: Vec<Partition>,
    /// Partitions with batches.
    busy: BTreeSet<Slot>,
    /// The partition that was served last.
    last_served: Option<Slot>,
    calls: BTreeMap<CallId, InFlightRequest>,
    /// Requests in flight to each node.
    loads: BTreeMap<i32, NodeLoad>,
    identity: Identity,
    control: Control,
    transaction: Option<Transaction>,
    /// Set when nothing is sent any more.
    fatal: Option<TransactionError>,
    events: VecDeque<SenderEvent>,
    /// The latest time of any input.
    now_ms: i64,
    last_id: u64,
}

impl Sender {
    pub fn new(config: SenderConfig, seed: u64) -> Self {
        let backoff = Backoff::new(config.retry_backoff_ms, config.retry_backoff_max_ms);
        let transaction = config.transaction.clone().map(Transaction::new);
        let needs_id = config.idempotent && transaction.is_none();
        Self {
            random: Random::new(seed),
            slots: BTreeMap::new(),
            partitions: vec![],
            busy: BTreeSet::new(),
            last_served: None,
            calls: BTreeMap::new(),
            loads: BTreeMap::new(),
            identity: Identity::new(needs_id),
            control: Control::new(backoff),
            transaction,
            fatal: None,
            events: VecDeque::new(),
            now_ms: i64::MIN,
            last_id: 0,
            config,
        }
    }

    /// The slot of a partition, assigned when it is first named.
    pub fn slot(&mut self, partition: &TopicPartition) -> Slot {
        if let Some(slot) = self.slots.get(partition) {
            return *slot;
        }
        let slot = Slot(u32::try_from(self.partitions.len()).unwrap_or(u32::MAX));
        self.slots.insert(partition.clone(), slot);
        self.partitions.push(Partition::new(partition.clone()));
        slot
    }

    /// `None` for a slot of another sender.
    pub fn partition(&self, slot: Slot) -> Option<&TopicPartition> {
        self.partitions.get(slot.index()).map(|partition| &partition.name)
    }

    /// Handles the leader from the metadata. A retry that waits for its backoff goes to a new leader at once.
    pub fn handle_leader(&mut self, now_ms: i64, slot: Slot, leader: Option<i32>) {
        let Some(partition) = self.partitions.get_mut(slot.index()) else {
            violated!("a_slot_is_of_this_sender");
            return;
        };
        let is_new = leader.is_some() && leader != partition.leader;
        partition.leader = leader;
        if let Some(batch) = partition.queue.front_mut().filter(|batch| is_new && batch.is_waiting()) {
            batch.state = BatchState::Waiting { not_before_ms: now_ms };
        }
    }

    /// Adds a batch that is full or that [`Self::wants_batch`] asked for. In a transaction its partition becomes part
    /// of it. It fails at once where nothing may be sent: check [`Self::check_send`] before taking records.
    pub fn push(&mut self, now_ms: i64, slot: Slot, batch: NewBatch) {
        let backoff = self.backoff();
        let batch = Batch::new(batch, backoff);
        if let Err(error) = self.check_send() {
            let cause = match error {
                TransactionError::Misuse(_) => BatchCause::NoTransaction,
                TransactionError::Abortable(_) => BatchCause::Aborted,
                error => BatchCause::Stopped(Box::new(error)),
            };
            return self.emit_failed(slot, &batch, cause);
        }
        let Some(partition) = self.partitions.get_mut(slot.index()) else {
            violated!("a_slot_is_of_this_sender");
            return;
        };
        partition.queue.push_back(batch);
        self.busy.insert(slot);
        if let Some(transaction) = &mut self.transaction {
            transaction.note_pushed(slot);
        }
        self.expire(now_ms, slot);
    }

    /// Replaces a batch by its parts, in order, with its sequence numbers. The parts must have as many records as the
    /// batch.
    pub fn push_split(&mut self, now_ms: i64, slot: Slot, split: BatchId, parts: &[NewBatch]) {
        let backoff = self.backoff();
        let Some(partition) = self.partitions.get_mut(slot.index()) else {
            violated!("a_slot_is_of_this_sender");
            return;
        };
        let index = partition.position(split);
        let Some((index, mut whole)) = index.and_then(|index| Some((index, partition.queue.remove(index)?))) else {
            violated!("a_batch_being_split_is_queued");
            return;
        };
        whole.state = BatchState::Waiting { not_before_ms: now_ms };
        if parts.len() < 2 {
            partition.queue.insert(index, whole);
            let cause = BatchCause::Refused(ErrorCode::MessageTooLarge);
            self.fail(slot, split, cause);
        } else {
            let records: u64 = parts.iter().map(|part| u64::from(part.records)).sum();
            invariant!(records == u64::from(whole.records), "a_split_keeps_all_records");
            let mut stamp = whole.stamp;
            for (number, part) in parts.iter().enumerate() {
                let mut batch = Batch::new(*part, backoff.clone());
                batch.created_ms = whole.created_ms;
                batch.may_be_written = whole.may_be_written;
                batch.retries = whole.retries;
                batch.stamp = stamp;
                if let Some(stamp) = &mut stamp {
                    stamp.base_sequence = batch::sequence_after(stamp.base_sequence, part.records);
                }
                partition.queue.insert(index + number, batch);
            }
        }
        self.drop_if_aborting();
        self.expire(now_ms, slot);
    }

    /// The next event: results of batches and operations, and outdated metadata.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        self.advance();
        self.events.pop_front()
    }

    /// The time of the next [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<i64> {
        // A time that has passed means waiting for something other than time.
        let is_later = |at: &i64| *at > self.now_ms;
        let busy = self.busy.iter().filter_map(|slot| self.partitions.get(slot.index()));
        let batches = busy.flat_map(|partition| {
            let expires = partition.queue.front().map(|batch| self.deadline(batch));
            let waiting = partition.first_waiting().and_then(|index| partition.queue.get(index));
            let repeats = waiting.and_then(|batch| match batch.state {
                BatchState::Waiting { not_before_ms } if not_before_ms > i64::MIN => Some(not_before_ms),
                _ => None,
            });
            [expires, repeats.filter(is_later)]
        });
        batches.flatten().chain(self.control_deadline().filter(is_later)).min()
    }

    /// Expires batches.
    pub fn handle_timeout(&mut self, now_ms: i64) {
        self.note_time(now_ms);
        let busy: Vec<Slot> = self.busy.iter().copied().collect();
        for slot in busy {
            self.expire(now_ms, slot);
        }
    }

    /// Whether there is a batch that is not done.
    pub fn has_batches(&self) -> bool {
        !self.busy.is_empty()
    }

    /// The producer id and epoch, once they are known.
    pub fn producer(&self) -> Option<ProducerEpoch> {
        self.identity.producer
    }

    /// The error that ended this sender, if any.
    pub fn failure(&self) -> Option<&TransactionError> {
        self.fatal.as_ref()
    }

    fn note_time(&mut self, now_ms: i64) {
        self.now_ms = self.now_ms.max(now_ms);
    }

    fn backoff(&self) -> Backoff {
        Backoff::new(self.config.retry_backoff_ms, self.config.retry_backoff_max_ms)
    }

    fn is_idempotent(&self) -> bool {
        self.config.idempotent || self.transaction.is_some()
    }

    fn deadline(&self, batch: &Batch) -> i64 {
        batch.created_ms.saturating_add(self.config.delivery_timeout_ms)
    }

    fn next_id(&mut self) -> u64 {
        self.last_id += 1;
        self.last_id
    }

    fn emit(&mut self, event: SenderEvent) {
        self.events.push_back(event);
    }

    /// Queues an event once, however often it happens before the driver polls.
    fn emit_once(&mut self, event: SenderEvent) {
        if !self.events.contains(&event) {
            self.events.push_back(event);
        }
    }

    fn emit_failed(&mut self, slot: Slot, batch: &Batch, cause: BatchCause) {
        let (batch, status) = (batch.id, batch.status());
        self.emit(SenderEvent::Failed {
            batch,
            slot,
            error: BatchError { cause, status },
        });
    }
}
