//! The client's side of writing: which batches leave and with which numbers, what follows from the answers, and
//! transactions. [`Sender`] knows batches by id, never their bytes.
//!
//! The driver has four things to do:
//!
//! 1. tell what happened: batches that are full or waited for ([`Sender::push`]), leaders ([`Sender::handle_leader`]),
//!    answers ([`Sender::handle_produce_response`], [`Sender::handle_control_response`]), the application's calls, time;
//! 2. after that, always: take [`Sender::poll_event`] until there is none, and do what it says;
//! 3. then send what [`Sender::poll_produce_request`] and [`Sender::poll_control_request`] give until they give nothing, and report for each
//!    what became of it;
//! 4. come back with [`Sender::handle_timeout`] when [`Sender::poll_timeout`] says.
//!
//! The order of a partition is that of its pushes, whatever is repeated: a batch that has left keeps its numbers, and goes
//! again only when nothing is before it. Numbers are begun anew only for batches that were surely refused. What may be
//! in the log already fails instead, and its [`Fate`] says so: Kafka's client numbers it anew too, and could write it twice.
//!
//! Without idempotence there are no numbers. Then order is kept only with one request in flight, and a batch whose answer
//! was lost is written twice, as with Kafka's client.

mod answer;
mod batch;
mod call;
mod config;
mod control;
mod error;
mod event;
mod identity;
mod partition;
mod send;
mod transaction;

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use milena_wire::errors::ErrorCode;

pub use batch::{BatchId, Fate, NewBatch, Slot, Stamp};
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
use send::{NodeLoad, UnderWay};
use transaction::Transaction;

#[derive(Debug)]
pub struct Sender {
    config: SenderConfig,
    random: Random,
    slots: BTreeMap<TopicPartition, Slot>,
    partitions: Vec<Partition>,
    /// Those with batches.
    busy: BTreeSet<Slot>,
    /// The partition that a batch has left last.
    last_served: Option<Slot>,
    calls: BTreeMap<CallId, UnderWay>,
    /// Requests in flight to each node.
    loads: BTreeMap<i32, NodeLoad>,
    identity: Identity,
    control: Control,
    transaction: Option<Transaction>,
    /// Nothing is sent any more.
    fatal: Option<TransactionError>,
    events: VecDeque<SenderEvent>,
    /// The latest time that was heard of.
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

    /// The slot of a partition, from the first time that it is named.
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

    /// Who leads, from the metadata. What was to wait before it is repeated goes to a new leader at once.
    pub fn handle_leader(&mut self, now_ms: i64, slot: Slot, leader: Option<i32>) {
        let Some(partition) = self.partitions.get_mut(slot.index()) else {
            return;
        };
        let is_new = leader.is_some() && leader != partition.leader;
        partition.leader = leader;
        if let Some(batch) = partition.queue.front_mut().filter(|batch| is_new && batch.is_waiting()) {
            batch.state = BatchState::Waiting { not_before_ms: now_ms };
        }
    }

    /// A batch is full, or [`Self::wants_batch`]. In a transaction its partition becomes part of it. Where nothing may be
    /// sent it fails at once: look at [`Self::check_send`] before records are taken.
    pub fn push(&mut self, now_ms: i64, slot: Slot, batch: NewBatch) {
        let backoff = self.backoff();
        let batch = Batch::new(batch, backoff);
        if let Err(error) = self.check_send() {
            let cause = match error {
                TransactionError::Misuse(_) => BatchCause::NoTransaction,
                TransactionError::Abortable(_) => BatchCause::Aborted,
                error => BatchCause::Stopped(Box::new(error)),
            };
            return self.tell_failed(slot, &batch, cause);
        }
        let Some(partition) = self.partitions.get_mut(slot.index()) else {
            return;
        };
        partition.queue.push_back(batch);
        self.busy.insert(slot);
        if let Some(transaction) = &mut self.transaction {
            transaction.note_pushed(slot);
        }
        self.expire(now_ms, slot);
    }

    /// The parts of a batch that was to be split, in order: they take its place and its numbers. Their records must be as
    /// many as it had.
    pub fn push_split(&mut self, now_ms: i64, slot: Slot, split: BatchId, parts: &[NewBatch]) {
        let backoff = self.backoff();
        let Some(partition) = self.partitions.get_mut(slot.index()) else {
            return;
        };
        let Some(index) = partition.position(split) else { return };
        let Some(mut whole) = partition.queue.remove(index) else {
            return;
        };
        whole.state = BatchState::Waiting { not_before_ms: now_ms };
        if parts.len() < 2 {
            partition.queue.insert(index, whole);
            let cause = BatchCause::Refused(ErrorCode::MessageTooLarge);
            self.fail(slot, split, cause);
        } else {
            let mut stamp = whole.stamp;
            for (place, part) in parts.iter().enumerate() {
                let mut batch = Batch::new(*part, backoff.clone());
                batch.created_ms = whole.created_ms;
                batch.may_be_written = whole.may_be_written;
                batch.retries = whole.retries;
                batch.stamp = stamp;
                if let Some(stamp) = &mut stamp {
                    stamp.base_sequence = batch::sequence_after(stamp.base_sequence, part.records);
                }
                partition.queue.insert(index + place, batch);
            }
        }
        self.drop_if_aborting();
        self.expire(now_ms, slot);
    }

    /// What became of anything that was asked for or sent.
    pub fn poll_event(&mut self) -> Option<SenderEvent> {
        self.advance();
        self.events.pop_front()
    }

    /// When to call [`Self::handle_timeout`].
    pub fn poll_timeout(&self) -> Option<i64> {
        // What could go by now waits for something other than time.
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

    /// Time has passed: batches expire.
    pub fn handle_timeout(&mut self, now_ms: i64) {
        self.note_time(now_ms);
        let busy: Vec<Slot> = self.busy.iter().copied().collect();
        for slot in busy {
            self.expire(now_ms, slot);
        }
    }

    /// Whether there is a batch that has not ended.
    pub fn has_batches(&self) -> bool {
        !self.busy.is_empty()
    }

    /// Who writes: the producer id and its epoch, once they are known.
    pub fn producer(&self) -> Option<ProducerEpoch> {
        self.identity.producer
    }

    /// What ended this sender, if anything did.
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

    fn tell(&mut self, event: SenderEvent) {
        self.events.push_back(event);
    }

    /// Once is enough, however often it is found out before the driver looks.
    fn tell_once(&mut self, event: SenderEvent) {
        if !self.events.contains(&event) {
            self.events.push_back(event);
        }
    }

    fn tell_failed(&mut self, slot: Slot, batch: &Batch, cause: BatchCause) {
        let (batch, fate) = (batch.id, batch.fate());
        self.tell(SenderEvent::Failed {
            batch,
            slot,
            error: BatchError { cause, fate },
        });
    }
}
