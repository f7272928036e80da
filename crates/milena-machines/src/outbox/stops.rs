//! Aggregates and topics whose events are refused, and wait for a retry.

use std::{collections::BTreeMap, sync::Arc};

use super::{Aggregate, RelayConfig};
use crate::{Random, backoff::Backoff};

/// The events that a refusal stops.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub enum Scope {
    Aggregate(Aggregate),
    Topic(Arc<str>),
}

/// A stopped aggregate or topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stop {
    /// The refused event.
    pub sequence: i64,
    pub attempts: u32,
    pub reason: String,
    pub until_ms: i64,
    /// Whether events of the scope are left out of reads.
    pub is_active: bool,
    /// Whether the failure is in the table, where an operator can reset it.
    pub is_noted: bool,
}

#[derive(Debug)]
pub(super) struct Stops {
    stops: BTreeMap<Scope, Stop>,
    backoff: Backoff,
    forget_ms: i64,
}

impl Stops {
    pub(super) fn new(config: &RelayConfig) -> Self {
        Self {
            stops: BTreeMap::new(),
            backoff: Backoff::new(config.retry_ms, config.retry_ms_max),
            forget_ms: config.retry_ms_max,
        }
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (&Scope, &Stop)> {
        self.stops.iter().filter(|(_, stop)| stop.is_active)
    }

    pub(super) fn active(&self) -> usize {
        self.iter().count()
    }

    pub(super) fn is_stopped(&self, aggregate: &Aggregate, topic: &Arc<str>) -> bool {
        if self.stops.is_empty() {
            return false;
        }
        let is_active = |scope: &Scope| self.stops.get(scope).is_some_and(|stop| stop.is_active);
        is_active(&Scope::Aggregate(aggregate.clone())) || is_active(&Scope::Topic(Arc::clone(topic)))
    }

    /// Stops a scope. Events of a scope that is stopped already were sent before, and count as the same attempt.
    pub(super) fn stop(&mut self, now_ms: i64, scope: Scope, sequence: i64, reason: String, random: &mut Random) {
        let attempts = match self.stops.get(&scope) {
            Some(stop) if stop.is_active => return,
            Some(stop) => stop.attempts.saturating_add(1),
            None => 1,
        };
        let stop = Stop {
            sequence,
            attempts,
            reason,
            until_ms: now_ms.saturating_add(self.backoff.after_ms(attempts, random)),
            is_active: true,
            is_noted: false,
        };
        self.stops.insert(scope, stop);
    }

    /// An event of the scopes was published.
    pub(super) fn succeeded(&mut self, aggregate: &Aggregate, topic: &Arc<str>) {
        if self.stops.is_empty() {
            return;
        }
        self.stops.remove(&Scope::Aggregate(aggregate.clone()));
        self.stops.remove(&Scope::Topic(Arc::clone(topic)));
    }

    /// Ends the stops that are due. Returns whether there was one.
    pub(super) fn expire(&mut self, now_ms: i64) -> bool {
        let mut has_any = false;
        for stop in self.stops.values_mut() {
            if stop.is_active && stop.until_ms <= now_ms {
                stop.is_active = false;
                has_any = true;
            }
        }
        let forget_ms = self.forget_ms;
        self.stops
            .retain(|_, stop| stop.is_active || now_ms < stop.until_ms.saturating_add(forget_ms));
        has_any
    }

    pub(super) fn next_ms(&self) -> Option<i64> {
        self.iter().map(|(_, stop)| stop.until_ms).min()
    }

    pub(super) fn noted(&mut self, sequence: i64) {
        for stop in self.stops.values_mut().filter(|stop| stop.sequence == sequence) {
            stop.is_noted = true;
        }
    }

    /// Refused events whose failure is in the table.
    pub(super) fn noted_sequences(&self) -> Vec<i64> {
        let noted = self.iter().filter(|(_, stop)| stop.is_noted);
        noted.map(|(_, stop)| stop.sequence).collect()
    }

    /// Ends the stops of events that an operator has reset or deleted. Returns whether there was one.
    pub(super) fn end(&mut self, sequences: &[i64]) -> bool {
        let before = self.stops.len();
        self.stops
            .retain(|_, stop| !(stop.is_active && stop.is_noted && sequences.contains(&stop.sequence)));
        self.stops.len() < before
    }
}
