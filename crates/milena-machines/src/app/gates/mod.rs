//! Gates: the conditions that keep a record or a partition waiting.
//!
//! Two kinds of gates stand between the queues and a handler. *Limits* bound how many records a handler gets:
//! concurrency, bulkhead, circuit breakers and rate, in that order (`Gates::capacity`). *Diverting* gates look at a single
//! record that was taken from its queue and may send it elsewhere: `Gate` lists them in the order in which a record
//! passes them. Only gates that the configuration needs are in the list, so a plain handler pays for none.
//!
//! Before the queues, a partition is not fetched while it has a [pause reason](pauses::PauseReason). The gauges here say
//! when the buffered records of a handler, or of all of them, are such a reason.

pub mod breaker;
pub mod bulkhead;
pub(crate) mod gauge;
pub mod pauses;
pub mod rate;
mod shared;

use std::collections::BTreeSet;

use super::{
    BreakerId, BreakerState, BulkheadId, Failure, HandlerConfig, HandlerId, Limits, Outcome, RetryOrdering,
    SchedulerConfig, WhenFull, WhenOpen,
};
use crate::TopicPartition;
use breaker::{Breaker, CallResult};
use bulkhead::Bulkhead;
use gauge::{Gauge, Size};
use rate::Rate;
pub use shared::SharedBreakers;

/// A gate that can divert a record on its way from the queue to the handler. The order of the variants is the order of
/// the gates.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Gate {
    /// Earlier records of its key are in the held-keys topic; or it is there itself and not due. The first, because order
    /// must be kept for diverted records too.
    KeyHold,
    /// It waited in a retry topic and goes back to its own topic.
    Return,
    /// A circuit breaker of its handler is open and makes dead letters.
    Breaker,
    /// The bulkhead of its handler is full, and the policy does not let records wait.
    Bulkhead,
    /// It crashed several processes.
    Quarantine,
}

/// One call of a handler.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) number: u64,
    /// The number of records in it.
    pub(crate) records: u32,
}

/// The number of records that the limits of a handler let through now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Capacity {
    pub(crate) records: u32,
    /// The time when a limit lets more through, if it is known.
    pub(crate) opens_at_ms: Option<i64>,
}

/// Limits that were crossed, up (`true`) or down.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct LimitChanges {
    pub(crate) global: Option<bool>,
    pub(crate) handler: Option<bool>,
    pub(crate) partition: Option<bool>,
}

#[derive(Debug)]
pub(crate) struct Gates {
    diverting: Vec<Gate>,
    handlers: Vec<HandlerGates>,
    breakers: Vec<Breaker>,
    bulkheads: Vec<Bulkhead>,
    /// Breakers tell calls from before a change by their numbers.
    last_call: u64,
    /// The records of all handlers.
    buffered: Gauge,
    /// Partitions that the user has paused, also those that are not assigned now.
    user_paused: BTreeSet<TopicPartition>,
}

#[derive(Debug)]
struct HandlerGates {
    concurrency: Bulkhead,
    bulkhead: Option<BulkheadId>,
    when_full: WhenFull,
    breakers: Vec<BreakerId>,
    rate: Option<Rate>,
    buffered: Gauge,
    limits: Limits,
    partitions: u64,
    /// The share of its limits that each partition may fill.
    partition_limits: Limits,
}

impl HandlerGates {
    fn new(config: &HandlerConfig) -> Self {
        Self {
            concurrency: Bulkhead::new(config.concurrency.unwrap_or(u32::MAX)),
            bulkhead: config.bulkhead,
            when_full: config.when_full,
            breakers: config.breakers.clone(),
            rate: config.rate.map(Rate::new),
            buffered: Gauge::default(),
            limits: config.limits,
            partitions: 0,
            partition_limits: config.limits,
        }
    }

    /// Lets each partition fill `percent` of the limits, or an equal share if that is more.
    fn share_limits(&mut self, percent: u8) {
        let share = u64::from(percent).max(100 / self.partitions.max(1)).min(100);
        self.partition_limits = self.limits.percent(share);
    }
}

impl Gates {
    pub(crate) fn new(config: &SchedulerConfig) -> Self {
        let (handlers, breakers) = (&config.handlers, &config.breakers);
        let any_ordering = |ordering| handlers.iter().any(|handler| handler.retry.ordering == ordering);
        let needed = [
            (Gate::KeyHold, any_ordering(RetryOrdering::HoldKey)),
            (Gate::Return, any_ordering(RetryOrdering::Return)),
            (
                Gate::Breaker,
                breakers.iter().any(|breaker| breaker.when_open == WhenOpen::DeadLetter),
            ),
            (
                Gate::Bulkhead,
                handlers.iter().any(|handler| handler.when_full != WhenFull::Wait),
            ),
        ];
        let needed = needed.into_iter().filter(|(_, is_needed)| *is_needed);
        Self {
            diverting: needed.map(|(gate, _)| gate).collect(),
            handlers: handlers.iter().map(HandlerGates::new).collect(),
            breakers: breakers.iter().copied().map(Breaker::new).collect(),
            bulkheads: config.bulkheads.iter().copied().map(Bulkhead::new).collect(),
            last_call: 0,
            buffered: Gauge::default(),
            user_paused: BTreeSet::new(),
        }
    }

    /// The diverting gate at a position of the list.
    #[inline]
    pub(crate) fn diverting(&self, position: usize) -> Option<Gate> {
        self.diverting.get(position).copied()
    }

    /// Adds a diverting gate in its place of the order.
    pub(crate) fn require(&mut self, gate: Gate) {
        if let Err(position) = self.diverting.binary_search(&gate) {
            self.diverting.insert(position, gate);
        }
    }

    /// How many records a handler may get now.
    pub(crate) fn capacity(&mut self, now_ms: i64, handler: HandlerId) -> Capacity {
        let Some(gates) = self.handlers.get(usize::from(handler.0)) else {
            return Capacity {
                records: 0,
                opens_at_ms: None,
            };
        };
        let mut records = gates.concurrency.available();
        if let Some(available) = waiting_permits(gates, &self.bulkheads) {
            records = records.min(available);
        }
        for breaker in &gates.breakers {
            let Some(breaker) = self.breakers.get_mut(usize::from(breaker.0)) else {
                continue;
            };
            if breaker.rejects() {
                continue;
            }
            if breaker.available() == 0 && breaker.state() == BreakerState::Open {
                breaker.note_not_permitted();
            }
            records = records.min(breaker.available());
        }
        let mut opens_at_ms = None;
        if records > 0
            && let Some(rate) = &gates.rate
        {
            let available = rate.available(now_ms);
            opens_at_ms = (available == 0).then(|| rate.next_ms());
            records = records.min(available);
        }
        Capacity { records, opens_at_ms }
    }

    /// How many records may be committed ahead of their handler, as far as gates other than its concurrency say.
    pub(crate) fn capacity_ahead(&self, now_ms: i64, handler: HandlerId) -> Capacity {
        let mut capacity = Capacity {
            records: u32::MAX,
            opens_at_ms: None,
        };
        let Some(gates) = self.handlers.get(usize::from(handler.0)) else {
            return capacity;
        };
        if let Some(available) = waiting_permits(gates, &self.bulkheads) {
            capacity.records = available;
        }
        for breaker in &gates.breakers {
            let breaker = self.breakers.get(usize::from(breaker.0));
            let waits = breaker.filter(|it| !it.rejects() && it.state() != BreakerState::Closed);
            if let Some(breaker) = waits {
                capacity.records = capacity.records.min(breaker.available());
            }
        }
        if let Some(rate) = &gates.rate {
            let available = rate.available(now_ms);
            capacity.records = capacity.records.min(available);
            capacity.opens_at_ms = (available == 0).then(|| rate.next_ms());
        }
        capacity
    }

    /// Begins a call. Its number is higher than those of all calls before.
    #[inline]
    pub(crate) fn begin_call(&mut self) -> u64 {
        self.last_call += 1;
        self.last_call
    }

    /// Takes the permits of the last `calls` calls, which go to one handler.
    pub(crate) fn handed_out(&mut self, now_ms: i64, handler: HandlerId, calls: u64, records: u32) {
        let Some(gates) = self.handlers.get_mut(usize::from(handler.0)) else {
            return;
        };
        gates.concurrency.take(records);
        if let Some(rate) = &mut gates.rate {
            rate.take(now_ms, records);
        }
        if let Some(bulkhead) = gates.bulkhead
            && let Some(bulkhead) = self.bulkheads.get_mut(usize::from(bulkhead.0))
        {
            bulkhead.take(records);
        }
        let first_call = self.last_call + 1 - calls;
        for breaker in &gates.breakers {
            if let Some(breaker) = self.breakers.get_mut(usize::from(breaker.0)) {
                for call in first_call..=self.last_call {
                    breaker.permit(call);
                }
            }
        }
    }

    /// Gives the permits of a call back. Returns whether a breaker counts the call.
    #[inline]
    pub(crate) fn give_back(&mut self, handler: HandlerId, records: u32) -> bool {
        let Some(gates) = self.handlers.get_mut(usize::from(handler.0)) else {
            return false;
        };
        gates.concurrency.give_back(records);
        if let Some(bulkhead) = gates.bulkhead
            && let Some(bulkhead) = self.bulkheads.get_mut(usize::from(bulkhead.0))
        {
            bulkhead.give_back(records);
        }
        !gates.breakers.is_empty()
    }

    /// Counts the outcome of a call for a breaker; `None` is a cancelled call. Returns the state before, if that changed.
    pub(crate) fn record_call(
        &mut self,
        now_ms: i64,
        id: BreakerId,
        call: u64,
        outcome: Option<Outcome>,
    ) -> Option<BreakerState> {
        let result = match outcome {
            Some(Outcome::Done | Outcome::Skipped | Outcome::Duplicate | Outcome::Emit) => CallResult::Success,
            Some(Outcome::Failed(Failure::Dependency(failed))) if failed == id => CallResult::Failure,
            _ => CallResult::Unknown,
        };
        let breaker = self.breakers.get_mut(usize::from(id.0))?;
        let before = breaker.state();
        breaker.record(now_ms, call, result);
        (breaker.state() != before).then_some(before)
    }

    /// Lets a breaker whose wait is over probe its dependency. Returns the state before.
    pub(crate) fn probe(&mut self, now_ms: i64, id: BreakerId) -> Option<BreakerState> {
        let breaker = self.breakers.get_mut(usize::from(id.0))?;
        let before = breaker.state();
        breaker.handle_timeout(now_ms);
        Some(before)
    }

    /// Whether an open breaker turns the next record of a handler away. The breaker counts it.
    pub(crate) fn breaker_rejects(&mut self, handler: HandlerId) -> bool {
        let Some(gates) = self.handlers.get(usize::from(handler.0)) else {
            return false;
        };
        for id in &gates.breakers {
            let breaker = self.breakers.get_mut(usize::from(id.0));
            if let Some(breaker) = breaker.filter(|breaker| breaker.rejects()) {
                breaker.note_not_permitted();
                return true;
            }
        }
        false
    }

    /// The fate of the next record of a handler whose bulkhead is full; [`WhenFull::Wait`] if there is a permit for it.
    pub(crate) fn bulkhead_rejects(&self, handler: HandlerId) -> WhenFull {
        let Some(gates) = self.handlers.get(usize::from(handler.0)) else {
            return WhenFull::Wait;
        };
        let bulkhead = gates.bulkhead.and_then(|id| self.bulkheads.get(usize::from(id.0)));
        match bulkhead {
            Some(bulkhead) if bulkhead.available() == 0 => gates.when_full,
            _ => WhenFull::Wait,
        }
    }

    /// Whether a record that failed because of a dependency waits for its breaker without losing an attempt.
    pub(crate) fn spares_attempt(&self, handler: HandlerId, breaker: BreakerId) -> bool {
        let needs_it = self.breakers_of(handler).contains(&breaker);
        let waits = |breaker: &Breaker| breaker.state() != BreakerState::Closed || breaker.spares_attempts();
        needs_it && self.breaker(breaker).is_some_and(waits)
    }

    /// A breaker of the handler that is open, so that records wait.
    pub(crate) fn open_breaker(&self, handler: HandlerId) -> Option<BreakerId> {
        self.find_breaker(handler, |it| it.state() == BreakerState::Open && !it.rejects())
    }

    /// A breaker of the handler that is not closed.
    pub(crate) fn unclosed_breaker(&self, handler: HandlerId) -> Option<BreakerId> {
        self.find_breaker(handler, |it| it.state() != BreakerState::Closed)
    }

    pub(crate) fn breaker(&self, id: BreakerId) -> Option<&Breaker> {
        self.breakers.get(usize::from(id.0))
    }

    /// The breakers that a handler needs.
    #[inline]
    pub(crate) fn breakers_of(&self, handler: HandlerId) -> &[BreakerId] {
        let gates = self.handlers.get(usize::from(handler.0));
        gates.map_or(&[], |gates| &gates.breakers)
    }

    fn find_breaker(&self, handler: HandlerId, is_it: impl Fn(&Breaker) -> bool) -> Option<BreakerId> {
        let breakers = self.breakers_of(handler).iter().copied();
        let mut found = breakers.filter(|id| self.breaker(*id).is_some_and(&is_it));
        found.next()
    }

    /// The number of records that a handler has.
    #[inline]
    pub(crate) fn in_handler(&self, handler: HandlerId) -> u32 {
        let gates = self.handlers.get(usize::from(handler.0));
        gates.map_or(0, |gates| gates.concurrency.taken())
    }

    /// The records of all handlers that count for their limits.
    pub(crate) fn buffered(&self) -> Gauge {
        self.buffered
    }

    /// The records of a handler that count for its limits.
    #[inline]
    pub(crate) fn buffered_of(&self, handler: HandlerId) -> Gauge {
        let gates = self.handlers.get(usize::from(handler.0));
        gates.map_or_else(Gauge::default, |gates| gates.buffered)
    }

    #[inline]
    pub(crate) fn count_in(&mut self, handler: HandlerId, size: Size) {
        self.buffered.add(size);
        if let Some(gates) = self.handlers.get_mut(usize::from(handler.0)) {
            gates.buffered.add(size);
        }
    }

    #[inline]
    pub(crate) fn count_out(&mut self, handler: HandlerId, size: Size) {
        self.buffered.remove(size);
        if let Some(gates) = self.handlers.get_mut(usize::from(handler.0)) {
            gates.buffered.remove(size);
        }
    }

    /// The limits that the last change of a partition has crossed; `None` if there are none.
    #[inline]
    pub(crate) fn check_limits(
        &mut self,
        global: &Limits,
        handler: HandlerId,
        partition: &mut Gauge,
    ) -> Option<LimitChanges> {
        let gates = self.handlers.get_mut(usize::from(handler.0))?;
        let changes = LimitChanges {
            global: self.buffered.check(global),
            handler: gates.buffered.check(&gates.limits),
            partition: partition.check(&gates.partition_limits),
        };
        let is_any = changes.global.is_some() || changes.handler.is_some() || changes.partition.is_some();
        is_any.then_some(changes)
    }

    /// The number of partitions that a handler has.
    pub(crate) fn partitions_of(&self, handler: HandlerId) -> u64 {
        let gates = self.handlers.get(usize::from(handler.0));
        gates.map_or(0, |gates| gates.partitions)
    }

    pub(crate) fn add_partition(&mut self, handler: HandlerId, percent: u8) {
        if let Some(gates) = self.handlers.get_mut(usize::from(handler.0)) {
            gates.partitions += 1;
            gates.share_limits(percent);
        }
    }

    pub(crate) fn remove_partition(&mut self, handler: HandlerId, percent: u8) {
        if let Some(gates) = self.handlers.get_mut(usize::from(handler.0)) {
            gates.partitions = gates.partitions.saturating_sub(1);
            gates.share_limits(percent);
        }
    }

    pub(crate) fn set_user_pause(&mut self, partition: &TopicPartition, is_paused: bool) {
        if is_paused {
            self.user_paused.insert(partition.clone());
        } else {
            self.user_paused.remove(partition);
        }
    }

    pub(crate) fn is_user_paused(&self, partition: &TopicPartition) -> bool {
        self.user_paused.contains(partition)
    }
}

/// The free permits of a handler's bulkhead, if records wait for them.
fn waiting_permits(gates: &HandlerGates, bulkheads: &[Bulkhead]) -> Option<u32> {
    let bulkhead = gates.bulkhead?;
    let available = bulkheads.get(usize::from(bulkhead.0)).map_or(0, Bulkhead::available);
    (available > 0 || gates.when_full == WhenFull::Wait).then_some(available)
}
