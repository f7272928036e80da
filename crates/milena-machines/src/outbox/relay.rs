//! The decisions of one relay.

use std::collections::{BTreeSet, VecDeque};

use super::{
    Aggregate, GrantedLeases, LeaseCall, RelayConfig, Row, Scope, Stop,
    leases::{Leases, SlotChange},
    rows::Rows,
    sleep::Sleep,
    stops::Stops,
};
use crate::{Random, backoff::Backoff};

/// Bound of stopped aggregates and topics, which every read leaves out. Above it the relay waits for retries.
const STOPS_MAX: usize = 1_000;
/// The most rows that one statement marks.
const MARK_MAX: usize = 1_000;
/// First and longest wait after a failed statement or an unavailable broker.
const OUTAGE_MS: (i64, i64) = (50, 2_000);
/// Time after the start at which the first clean-up is due.
const FIRST_CLEAN_MS: i64 = 60_000;
/// Time between two looks at the failures that operators may have reset.
const RECHECK_MS: i64 = 1_000;

/// A relay. See the [module](super) for its conditions and the order of calls.
#[derive(Debug)]
pub struct Relay<P> {
    config: RelayConfig,
    random: Random,
    leases: Leases,
    rows: Rows<P>,
    stops: Stops,
    sleep: Sleep,
    /// Whether commits can wake the relay.
    can_sleep: bool,
    /// Whether the last read was empty, and no attempt to sleep followed it.
    may_sleep: bool,
    read: Option<OutstandingRead>,
    read_at_ms: i64,
    /// Empty reads in a row.
    empty_reads: u32,
    mark: Option<Vec<i64>>,
    notes: VecDeque<FailureNote>,
    is_noting: bool,
    is_rechecking: bool,
    recheck_at_ms: i64,
    database: Outage,
    broker: Outage,
    is_cleaning: bool,
    clean_at_ms: Option<i64>,
    is_stopping: bool,
    is_ended: bool,
    published: u64,
    failures: u64,
}

#[derive(Debug, Clone, Copy)]
struct OutstandingRead {
    rows_max: usize,
    is_discarded: bool,
}

/// Waits after failures of a peer.
#[derive(Debug)]
struct Outage {
    backoff: Backoff,
    until_ms: i64,
}

impl Outage {
    fn new() -> Self {
        Self {
            backoff: Backoff::new(OUTAGE_MS.0, OUTAGE_MS.1),
            until_ms: i64::MIN,
        }
    }

    /// Failures of the same outage count once.
    fn failed(&mut self, now_ms: i64, random: &mut Random) {
        if now_ms >= self.until_ms {
            self.until_ms = now_ms.saturating_add(self.backoff.next_ms(random));
        }
    }

    fn succeeded(&mut self) {
        self.backoff.reset();
        self.until_ms = i64::MIN;
    }
}

/// A read of unpublished rows in the order of their sequence, from one snapshot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadCall {
    pub slots: Vec<u16>,
    /// Rows in memory, which are left out.
    pub held: Vec<i64>,
    /// Aggregates and topics that are left out.
    pub stopped_aggregates: Vec<Aggregate>,
    pub stopped_topics: Vec<String>,
    pub rows_max: usize,
    /// The read ends with the row that exceeds this number of payload bytes.
    pub bytes_max: u64,
}

/// Events that a refusal concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RefusedScope {
    /// The event itself, and so the later ones of its aggregate.
    Event,
    /// All events of the topic.
    Topic,
}

/// A failure to be written to the table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailureNote {
    pub sequence: i64,
    pub reason: String,
}

impl<P> Relay<P> {
    pub fn new(config: RelayConfig, now_ms: i64, seed: u64) -> Self {
        let clean_at_ms = config.clean_ms.map(|clean_ms| now_ms + clean_ms.min(FIRST_CLEAN_MS));
        Self {
            leases: Leases::new(&config, now_ms),
            stops: Stops::new(&config),
            random: Random::new(seed),
            rows: Rows::default(),
            sleep: Sleep::Awake,
            can_sleep: false,
            may_sleep: false,
            read: None,
            read_at_ms: now_ms,
            empty_reads: 0,
            mark: None,
            notes: VecDeque::new(),
            is_noting: false,
            is_rechecking: false,
            recheck_at_ms: now_ms,
            database: Outage::new(),
            broker: Outage::new(),
            is_cleaning: false,
            clean_at_ms,
            is_stopping: false,
            is_ended: false,
            published: 0,
            failures: 0,
            config,
        }
    }

    /// Number of slots whose lease this relay has.
    pub fn slots(&self) -> usize {
        self.leases.count()
    }

    pub fn in_flight(&self) -> usize {
        self.rows.in_flight()
    }

    /// Rows in memory, from the read to the mark.
    pub fn held(&self) -> usize {
        self.rows.len()
    }

    /// Events that were acknowledged.
    pub fn published(&self) -> u64 {
        self.published
    }

    /// Events that were refused.
    pub fn failures(&self) -> u64 {
        self.failures
    }

    pub fn stops(&self) -> impl Iterator<Item = (&Scope, &Stop)> {
        self.stops.iter()
    }

    /// Whether commits have to wake the relay.
    pub fn is_asleep(&self) -> bool {
        matches!(self.sleep, Sleep::Asleep { .. })
    }

    /// Whether all is done after [`handle_stop`](Self::handle_stop).
    pub fn is_ended(&self) -> bool {
        self.is_ended
    }

    /// Payload of a row that is not published.
    pub fn payload(&self, sequence: i64) -> Option<&P> {
        self.rows.payload(sequence)
    }

    /// Begins the end: rows in flight are finished and marked, then all slots are released.
    pub fn handle_stop(&mut self) {
        self.is_stopping = true;
        let slots = self.leases.leave_all();
        self.give_up_slots(&slots);
    }

    /// Sets whether commits can wake the relay from now on.
    pub fn handle_listening(&mut self, now_ms: i64, can_sleep: bool) {
        self.can_sleep = can_sleep;
        if !can_sleep {
            self.wake(now_ms);
        }
    }

    /// A commit has woken the relay.
    pub fn handle_wake(&mut self, now_ms: i64) {
        self.wake(now_ms);
        self.read_at_ms = self.read_at_ms.min(now_ms);
        self.empty_reads = 0;
    }

    fn wake(&mut self, now_ms: i64) {
        if matches!(self.sleep, Sleep::Asleep { .. } | Sleep::FallingAsleep) {
            self.sleep = Sleep::Waking;
            self.read_at_ms = self.read_at_ms.min(now_ms);
        }
        self.may_sleep = false;
    }

    /// Whether the announcement of sleep must be withdrawn.
    pub fn poll_wake(&mut self) -> bool {
        let is_waking = self.sleep == Sleep::Waking;
        if is_waking {
            self.sleep = Sleep::Awake;
        }
        is_waking
    }

    /// Slots whose commits have to wake the relay from now on.
    pub fn poll_sleep(&mut self) -> Option<Vec<u16>> {
        let is_idle = self.may_sleep && self.read.is_none() && !self.is_stopping;
        if !is_idle || !self.can_sleep || self.sleep != Sleep::Awake {
            return None;
        }
        self.may_sleep = false;
        self.sleep = Sleep::FallingAsleep;
        Some(self.leases.active().collect())
    }

    /// Result of the announcement: it fails while a writer is in a transaction that will not wake the relay.
    pub fn handle_sleep(&mut self, now_ms: i64, is_asleep: bool) {
        if self.sleep != Sleep::FallingAsleep {
            return;
        }
        self.sleep = if is_asleep {
            self.read_at_ms = now_ms;
            Sleep::Asleep { has_read: false }
        } else {
            Sleep::Awake
        };
    }

    /// The next renewal of leases, if it is due. One call is outstanding at a time.
    pub fn poll_lease(&mut self, now_ms: i64) -> Option<LeaseCall> {
        if self.is_ended {
            return None;
        }
        let rows = &self.rows;
        self.leases
            .poll_call(now_ms, |slot| rows.is_busy(slot), self.is_stopping)
    }

    pub fn handle_leases(&mut self, now_ms: i64, granted: &GrantedLeases) {
        self.database.succeeded();
        let change = self.leases.handle_granted(granted, self.is_stopping);
        self.leases.due_ms = now_ms.saturating_add(self.config.renew_ms());
        if change.is_last {
            self.is_ended = true;
            return;
        }
        let SlotChange { lost, has_gained, .. } = change;
        if has_gained || !lost.is_empty() {
            self.wake(now_ms);
            self.discard_read();
            self.read_at_ms = now_ms;
        }
        self.give_up_slots(&lost);
    }

    pub fn handle_lease_failed(&mut self, now_ms: i64) {
        self.database.failed(now_ms, &mut self.random);
        self.is_ended = self.leases.handle_failed();
        self.leases.due_ms = now_ms.saturating_add(self.config.renew_ms() / 2);
    }

    fn give_up_slots(&mut self, slots: &BTreeSet<u16>) {
        if slots.is_empty() {
            return;
        }
        self.rows.orphan(slots);
        self.give_up(|slot, _, _| slots.contains(&slot));
    }

    fn give_up(&mut self, fits: impl Fn(u16, &Aggregate, &str) -> bool) {
        if self.rows.give_up(fits) {
            self.discard_read();
        }
    }

    fn discard_read(&mut self) {
        if let Some(read) = &mut self.read {
            read.is_discarded = true;
        }
    }

    /// Whether only the time is missing for a read.
    fn can_read(&self, now_ms: i64) -> bool {
        self.read.is_none()
            && !self.is_stopping
            && self.rows.len() < self.config.window_rows
            && self.rows.bytes() < self.config.window_bytes
            && self.stops.active() < STOPS_MAX
            && self.leases.may_send(now_ms)
            && self.leases.active().next().is_some()
    }

    /// The next read, if it is due. One is outstanding at a time.
    pub fn poll_read(&mut self, now_ms: i64) -> Option<ReadCall> {
        if now_ms < self.read_at_ms.max(self.database.until_ms) || !self.can_read(now_ms) {
            return None;
        }
        let mut call = ReadCall {
            slots: self.leases.active().collect(),
            held: self.rows.sequences().collect(),
            stopped_aggregates: vec![],
            stopped_topics: vec![],
            rows_max: self.config.batch_rows.min(self.config.window_rows - self.rows.len()),
            bytes_max: self.config.window_bytes - self.rows.bytes(),
        };
        for (scope, _) in self.stops.iter() {
            match scope {
                Scope::Aggregate(aggregate) => call.stopped_aggregates.push(aggregate.clone()),
                Scope::Topic(topic) => call.stopped_topics.push(topic.to_string()),
            }
        }
        self.read = Some(OutstandingRead {
            rows_max: call.rows_max,
            is_discarded: false,
        });
        Some(call)
    }

    /// The rows of a read. `is_full` says that it ended at one of its bounds.
    pub fn handle_rows(&mut self, now_ms: i64, rows: Vec<Row<P>>, is_full: bool) {
        self.database.succeeded();
        let Some(read) = self.read.take() else { return };
        if read.is_discarded {
            self.read_at_ms = now_ms;
            return;
        }
        let (count, is_full) = (rows.len(), is_full || rows.len() >= read.rows_max);
        for row in rows {
            if self.leases.is_active(row.slot) && !self.stops.is_stopped(&row.aggregate, &row.topic) {
                self.rows.add(row);
            }
        }
        self.plan_read(now_ms, count, is_full);
    }

    fn plan_read(&mut self, now_ms: i64, count: usize, is_full: bool) {
        if count > 0 {
            self.empty_reads = 0;
            self.wake(now_ms);
            let pace_ms = if is_full { 0 } else { self.config.pace_ms };
            self.read_at_ms = now_ms.saturating_add(pace_ms);
            return;
        }
        let doublings = self.empty_reads.min(16);
        self.empty_reads = self.empty_reads.saturating_add(1);
        let mut wait_ms = (self.config.pace_ms.max(1) << doublings).min(self.config.poll_ms);
        if let Sleep::Asleep { has_read } = &mut self.sleep {
            *has_read = true;
            wait_ms = self.config.poll_ms;
        } else {
            self.may_sleep = true;
        }
        self.read_at_ms = now_ms.saturating_add(wait_ms);
    }

    pub fn handle_read_failed(&mut self, now_ms: i64) {
        self.read = None;
        self.database.failed(now_ms, &mut self.random);
    }

    /// The next event to send. Its result must come within [`RelayConfig::delivery_ms`].
    pub fn poll_publish(&mut self, now_ms: i64) -> Option<i64> {
        if now_ms < self.broker.until_ms || self.is_stopping || !self.leases.may_send(now_ms) {
            return None;
        }
        self.rows.send_next()
    }

    /// The event is acknowledged by all replicas.
    pub fn handle_published(&mut self, sequence: i64) {
        if !self.rows.is_in_flight(sequence) {
            return;
        }
        self.published += 1;
        self.broker.succeeded();
        if let Some((aggregate, topic)) = self.rows.scopes(sequence) {
            self.stops.succeeded(&aggregate, &topic);
        }
        self.rows.published(sequence);
    }

    /// The event can never be written as it is: its aggregate or topic stops until the next attempt.
    pub fn handle_refused(&mut self, now_ms: i64, sequence: i64, scope: RefusedScope, reason: String) {
        let Some((aggregate, topic)) = self.rows.scopes(sequence).filter(|_| self.rows.is_in_flight(sequence)) else {
            return;
        };
        self.failures += 1;
        let note = FailureNote {
            sequence,
            reason: reason.clone(),
        };
        self.notes.push_back(note);
        self.rows.requeue(sequence);
        let stopped = match scope {
            RefusedScope::Event => Scope::Aggregate(aggregate.clone()),
            RefusedScope::Topic => Scope::Topic(topic.clone()),
        };
        self.stops.stop(now_ms, stopped, sequence, reason, &mut self.random);
        self.give_up(|_, other, of| match scope {
            RefusedScope::Event => *other == aggregate,
            RefusedScope::Topic => of == &*topic,
        });
    }

    /// The event was not acknowledged, because the cluster is unavailable: it is sent again later.
    pub fn handle_unavailable(&mut self, now_ms: i64, sequence: i64) {
        if !self.rows.is_in_flight(sequence) {
            return;
        }
        self.broker.failed(now_ms, &mut self.random);
        let is_orphan = self.rows.is_orphan(sequence);
        self.rows.requeue(sequence);
        if is_orphan && let Some((aggregate, _)) = self.rows.scopes(sequence) {
            self.give_up(|_, other, _| *other == aggregate);
        }
    }

    /// The rows to mark as published. One call is outstanding at a time.
    pub fn poll_mark(&mut self, now_ms: i64) -> Option<Vec<i64>> {
        if self.mark.is_some() || now_ms < self.database.until_ms || !self.rows.has_unmarked() {
            return None;
        }
        let sequences = self.rows.begin_mark(MARK_MAX);
        self.mark = Some(sequences.clone());
        Some(sequences)
    }

    pub fn handle_marked(&mut self) {
        self.database.succeeded();
        if let Some(sequences) = self.mark.take() {
            self.rows.marked(&sequences);
        }
    }

    pub fn handle_mark_failed(&mut self, now_ms: i64) {
        self.database.failed(now_ms, &mut self.random);
        if let Some(sequences) = self.mark.take() {
            self.rows.mark_failed(&sequences);
        }
    }

    /// The next failure to write to the table. One is outstanding at a time.
    pub fn poll_note(&mut self) -> Option<FailureNote> {
        if self.is_noting {
            return None;
        }
        let note = self.notes.pop_front()?;
        self.is_noting = true;
        Some(note)
    }

    /// A failure that could not be written is only missing in the table.
    pub fn handle_noted(&mut self, sequence: i64, is_written: bool) {
        self.is_noting = false;
        if is_written {
            self.stops.noted(sequence);
        }
    }

    /// Failures in the table to look at: operators may have reset them.
    pub fn poll_recheck(&mut self, now_ms: i64) -> Option<Vec<i64>> {
        if self.is_rechecking || now_ms < self.recheck_at_ms || self.is_stopping {
            return None;
        }
        let sequences = self.stops.noted_sequences();
        if sequences.is_empty() {
            return None;
        }
        self.is_rechecking = true;
        Some(sequences)
    }

    /// Failures that are no longer in the table.
    pub fn handle_rechecked(&mut self, now_ms: i64, reset: &[i64]) {
        self.is_rechecking = false;
        self.recheck_at_ms = now_ms.saturating_add(RECHECK_MS);
        if self.stops.end(reset) {
            self.read_at_ms = now_ms;
        }
    }

    /// Whether published rows are to be deleted now. The relay with the first slot does it.
    pub fn poll_clean(&mut self, now_ms: i64) -> bool {
        let is_due = self.clean_at_ms.is_some_and(|clean_at_ms| clean_at_ms <= now_ms);
        if !is_due || self.is_cleaning || self.is_stopping {
            return false;
        }
        if !self.leases.is_active(0) {
            self.plan_clean(now_ms);
            return false;
        }
        self.is_cleaning = true;
        true
    }

    pub fn handle_cleaned(&mut self, now_ms: i64) {
        self.is_cleaning = false;
        self.plan_clean(now_ms);
    }

    fn plan_clean(&mut self, now_ms: i64) {
        self.clean_at_ms = self.config.clean_ms.map(|clean_ms| now_ms.saturating_add(clean_ms));
    }

    /// Ends the stops that are due.
    pub fn handle_timeout(&mut self, now_ms: i64) {
        if self.stops.expire(now_ms) {
            self.read_at_ms = now_ms;
        }
    }

    /// Time of the next decision, if nothing else happens.
    pub fn poll_timeout(&self, now_ms: i64) -> Option<i64> {
        let lease = self.leases.next_ms().filter(|_| !self.is_ended);
        let read = self
            .can_read(now_ms)
            .then(|| self.read_at_ms.max(self.database.until_ms));
        let may_send = self.rows.has_ready() && self.leases.may_send(now_ms) && !self.is_stopping;
        let publish = may_send.then_some(self.broker.until_ms);
        let mark = (self.mark.is_none() && self.rows.has_unmarked()).then_some(self.database.until_ms);
        let clean = self.clean_at_ms.filter(|_| !self.is_cleaning && !self.is_stopping);
        let is_rechecking = self.is_rechecking || self.is_stopping;
        let recheck = (!is_rechecking && !self.stops.noted_sequences().is_empty()).then_some(self.recheck_at_ms);
        let times = [lease, read, publish, mark, clean, recheck, self.stops.next_ms()];
        times.into_iter().flatten().min()
    }

    /// Whether another relay may have the slots by now.
    pub fn is_lease_expired(&self, now_ms: i64) -> bool {
        self.leases.is_expired(now_ms)
    }
}
