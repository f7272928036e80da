//! A process with a real sender: it writes plain records, or copies an input in transactions.

mod calls;
mod copier;
mod mistakes;

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    produce::{BatchId, NewBatch, Sender, SenderConfig, SenderEvent, Slot, TransactionConfig, WriteStatus},
};

use super::{CallId, Client, Io, Reply};
use crate::{Mutation, broker::DATA_TOPIC, checks::ReportedResult};

use calls::Calls;
use copier::Copier;
use mistakes::Mistakes;

/// The settings of a process.
#[derive(Debug, Clone)]
pub(crate) struct WriterSettings {
    /// Copies in transactions; otherwise it writes plain records.
    pub(crate) copying: Option<Copying>,
    pub(crate) partitions: i32,
    pub(crate) max_in_flight: usize,
    pub(crate) request_timeout_ms: i64,
    pub(crate) delivery_timeout_ms: i64,
    /// Begins nothing after this.
    pub(crate) stops_at: i64,
    pub(crate) mutation: Option<Mutation>,
}

#[derive(Debug, Clone)]
pub(crate) struct Copying {
    /// The input, which also makes the transactional id: copiers of the same one fence each other.
    pub(crate) input: i32,
    pub(crate) timeout_ms: i32,
    /// From this transaction on the brokers speak version 2.
    pub(crate) v2_from: u64,
}

impl Copying {
    fn transactional_id(&self) -> ByteString {
        format!("copier-{}", self.input).into()
    }
}

/// The nodes that can lead partitions. All are the one broker.
const NODES: u64 = 2;
/// The limit of waiting batches.
const BATCHES_MAX: usize = 8;

#[derive(Debug)]
pub(crate) struct Writer {
    settings: WriterSettings,
    process: Option<Process>,
    /// Another has taken its topic_partition for good.
    gone: bool,
    was_fenced: bool,
    starts_at: i64,
}

#[derive(Debug)]
struct Process {
    /// Its number among all processes.
    number: u64,
    sender: Sender,
    slots: Vec<Slot>,
    batches: BTreeMap<BatchId, Batch>,
    calls: Calls,
    mistakes: Mistakes,
    copier: Option<Copier>,
    last_batch: u64,
    /// The time of the application's next action.
    due: i64,
    /// The time of the next metadata refresh for partitions without a leader.
    metadata_due: Option<i64>,
    /// The time of its next wake-up.
    alarm: i64,
}

/// Stands in for the bytes of a batch.
#[derive(Debug, Clone)]
struct Batch {
    slot: Slot,
    values: Vec<u64>,
}

/// The next state of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Health {
    Fine,
    /// The sender is ended.
    Failed,
}

impl Writer {
    pub(crate) fn new(settings: WriterSettings) -> Self {
        Self {
            settings,
            process: None,
            gone: false,
            was_fenced: false,
            starts_at: i64::MIN,
        }
    }

    fn start(&mut self, io: &mut Io<'_>) {
        io.note(|| "starts".to_owned());
        if let Some(copying) = &self.settings.copying {
            io.checks
                .fencing
                .started(io.id, &copier::COPIERS, &copying.transactional_id());
        }
        self.process = Some(Process::new(&self.settings, self.was_fenced, io));
    }

    fn stop(&mut self, io: &mut Io<'_>) {
        self.process = None;
        io.checks.writes.set_waiting(io.id, None);
        if let Some(copying) = &self.settings.copying {
            io.checks
                .fencing
                .ended(io.id, &copier::COPIERS, &copying.transactional_id());
        }
    }

    /// Lets the process do all that it can now, and returns its next wake-up.
    fn go_on(&mut self, io: &mut Io<'_>) {
        let Some(process) = &mut self.process else { return };
        match process.pump(&self.settings, io) {
            Health::Fine => process.plan(&self.settings, io),
            Health::Failed => self.failed(io),
        }
    }

    /// The application starts the producer anew, unless another has its topic_partition.
    fn failed(&mut self, io: &mut Io<'_>) {
        self.stop(io);
        if let Some(copying) = &self.settings.copying {
            let id = copying.transactional_id();
            self.was_fenced = io.checks.fencing.runs_elsewhere(io.id, &copier::COPIERS, &id);
            self.gone = self.was_fenced && self.settings.mutation != Some(Mutation::ReuseEpochAfterFencing);
        }
        self.starts_at = io.soon(2_000);
        io.wake_at(self.starts_at);
    }
}

impl Client for Writer {
    fn wake(&mut self, io: &mut Io<'_>) {
        if self.gone || io.now() < self.starts_at {
            return;
        }
        if self.process.is_none() {
            self.start(io);
        }
        self.go_on(io);
    }

    fn handle_reply(&mut self, io: &mut Io<'_>, call: CallId, reply: Reply) {
        let Some(process) = &mut self.process else { return };
        process.handle_reply(&self.settings, io, call, reply);
        self.go_on(io);
    }

    fn handle_no_reply(&mut self, io: &mut Io<'_>, call: CallId) {
        let Some(process) = &mut self.process else { return };
        process.handle_no_reply(io, call);
        self.go_on(io);
    }

    fn crash(&mut self, io: &mut Io<'_>) {
        if self.process.is_some() {
            self.stop(io);
            self.starts_at = io.soon(8_000);
            io.wake_at(self.starts_at);
        }
    }
}

impl Process {
    fn new(settings: &WriterSettings, was_fenced: bool, io: &mut Io<'_>) -> Self {
        let transaction = settings.copying.as_ref().map(|copying| TransactionConfig {
            transactional_id: copying.transactional_id(),
            timeout_ms: copying.timeout_ms,
        });
        let config = SenderConfig {
            acks: -1,
            idempotent: true,
            max_in_flight: settings.max_in_flight,
            retries: u32::MAX,
            delivery_timeout_ms: settings.delivery_timeout_ms,
            request_timeout_ms: settings.request_timeout_ms,
            retry_backoff_ms: 50,
            retry_backoff_max_ms: 500,
            max_request_bytes: 3,
            transaction,
        };
        let number = io.random.next_u64();
        let mut sender = Sender::new(config, number);
        let slots = (0..settings.partitions).map(|partition| sender.slot(&TopicPartition::new(DATA_TOPIC, partition)));
        let mut process = Self {
            number,
            slots: slots.collect(),
            sender,
            batches: BTreeMap::new(),
            calls: Calls::default(),
            mistakes: Mistakes::new(settings.mutation, was_fenced),
            copier: settings.copying.clone().map(Copier::new),
            last_batch: 0,
            due: io.now(),
            metadata_due: None,
            alarm: i64::MIN,
        };
        process.find_leaders(io);
        process
    }

    /// Refreshes the metadata: partitions are led by any node, or by none.
    fn find_leaders(&mut self, io: &mut Io<'_>) {
        self.metadata_due = None;
        for slot in self.slots.clone() {
            // With a good network, all have a leader.
            let none = u64::from(io.network.lost > 0);
            let leader = io.random.below(NODES + none) as i32;
            let leader = (leader < NODES as i32).then_some(leader);
            self.sender.handle_leader(io.now(), slot, leader);
            if leader.is_none() {
                self.metadata_due = Some(io.now() + 300);
            }
        }
    }

    fn pump(&mut self, settings: &WriterSettings, io: &mut Io<'_>) -> Health {
        let now = io.now();
        self.sender.handle_timeout(now);
        if self.metadata_due.is_some_and(|due| due <= now) {
            self.find_leaders(io);
        }
        loop {
            self.take_events(io);
            if self.sender.failure().is_some() {
                return Health::Failed;
            }
            let has_acted = if now >= self.due { self.act(settings, io) } else { false };
            let has_sent = self.send_calls(settings, io);
            if !has_acted && !has_sent {
                return Health::Fine;
            }
        }
    }

    fn plan(&mut self, settings: &WriterSettings, io: &mut Io<'_>) {
        let now = io.now();
        let is_over = now >= settings.stops_at && self.copier.as_ref().is_none_or(Copier::is_idle);
        if self.due <= now && !is_over {
            self.due = io.soon(400);
        }
        let due = Some(self.due).filter(|due| *due > now);
        let timeout = self.sender.poll_timeout();
        if timeout.is_some_and(|timeout| timeout <= now) {
            let id = io.id;
            io.checks
                .fail(format!("the sender of client {id} waits for a time that has passed"));
        }
        let next = [due, timeout, self.metadata_due].into_iter().flatten().min();
        let is_planned = |next: &i64| self.alarm > now && self.alarm <= *next;
        if let Some(next) = next.filter(|next| !is_planned(next)) {
            self.alarm = next;
            io.wake_at(next);
        }
        let waits = match &self.copier {
            Some(copier) if !copier.is_idle() => Some("the end of its transaction"),
            _ if self.sender.has_batches() => Some("its batches to end"),
            _ => None,
        };
        io.checks.writes.set_waiting(io.id, waits);
    }

    fn take_events(&mut self, io: &mut Io<'_>) {
        while let Some(event) = self.sender.poll_event() {
            io.note(|| format!("gets {event:?}"));
            match event {
                SenderEvent::Acked { batch, .. } => {
                    if let Some(batch) = self.batches.remove(&batch) {
                        io.checks.writes.report(&batch.values, ReportedResult::Acked);
                    }
                }
                SenderEvent::Failed { batch, error, .. } => {
                    let status = self.mistakes.status(error.status);
                    if let Some(batch) = self
                        .batches
                        .remove(&batch)
                        .filter(|_| status == WriteStatus::NotWritten)
                    {
                        io.checks.writes.report(&batch.values, ReportedResult::NotWritten);
                    }
                }
                SenderEvent::Split { batch, slot } => self.split(io, batch, slot),
                SenderEvent::MetadataStale => self.find_leaders(io),
                SenderEvent::CoordinatorMoved(_) => {}
                SenderEvent::Done { operation, result } => {
                    if let Some(copier) = &mut self.copier {
                        copier.done(io, operation, result, self.mistakes.takes_for_aborted());
                        self.due = io.soon(300);
                    }
                }
            }
        }
    }

    fn split(&mut self, io: &mut Io<'_>, id: BatchId, slot: Slot) {
        let Some(batch) = self.batches.remove(&id) else { return };
        let parts: Vec<NewBatch> = batch
            .values
            .chunks(1)
            .map(|values| self.batch(io, slot, values.to_vec()))
            .collect();
        self.sender.push_split(io.now(), slot, id, &parts);
    }

    fn batch(&mut self, io: &Io<'_>, slot: Slot, values: Vec<u64>) -> NewBatch {
        self.last_batch += 1;
        let id = BatchId(self.last_batch);
        let records = values.len() as u32;
        self.batches.insert(id, Batch { slot, values });
        NewBatch {
            id,
            records,
            bytes: 1,
            created_ms: io.now(),
        }
    }

    fn push(&mut self, io: &mut Io<'_>, slot: Slot, values: Vec<u64>) {
        let batch = self.batch(io, slot, values);
        self.sender.push(io.now(), slot, batch);
    }

    /// The next action of the application. Returns whether there is something new to send.
    fn act(&mut self, settings: &WriterSettings, io: &mut Io<'_>) -> bool {
        if io.random.below(20) == 0 {
            self.find_leaders(io);
        }
        if let Some(mut copier) = self.copier.take() {
            let has_acted = copier.act(self, settings, io);
            self.copier = Some(copier);
            return has_acted;
        }
        self.due = io.soon(1_500);
        if io.now() >= settings.stops_at {
            return false;
        }
        for _ in 0..io.random.below(5) {
            let Some(slot) = self.some_slot(io) else { break };
            // An open batch is sent if it is wanted; now and then it is full.
            let is_full = io.random.below(3) == 0 && self.batches.len() < BATCHES_MAX;
            if is_full || self.sender.wants_batch(slot) {
                let values = (0..1 + io.random.below(3)).map(|_| io.checks.writes.next_value(self.number, None));
                let values = values.collect();
                self.push(io, slot, values);
            }
        }
        true
    }

    fn some_slot(&self, io: &mut Io<'_>) -> Option<Slot> {
        let topic_partition = io.random.below(self.slots.len() as u64);
        self.slots.get(topic_partition as usize).copied()
    }
}

/// Requests that still wait for responses.
type Parts = BTreeSet<CallId>;
