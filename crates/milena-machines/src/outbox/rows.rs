//! The rows in memory.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

/// Type and id of an aggregate, whose events are in order.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Aggregate {
    pub kind: Arc<str>,
    pub id: Arc<str>,
}

/// An unpublished row.
#[derive(Debug, Clone)]
pub struct Row<P> {
    pub sequence: i64,
    pub slot: u16,
    pub aggregate: Aggregate,
    pub topic: Arc<str>,
    pub bytes: u64,
    pub payload: P,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Stage {
    Queued,
    InFlight,
    /// Acknowledged, and not known to be marked.
    Published,
    Marking,
}

#[derive(Debug)]
struct HeldRow<P> {
    slot: u16,
    aggregate: Aggregate,
    topic: Arc<str>,
    bytes: u64,
    /// `None` once it is published.
    payload: Option<P>,
    stage: Stage,
    /// Its slot was lost while it was in flight.
    is_orphan: bool,
}

/// Rows from the read to the mark.
#[derive(Debug)]
pub(super) struct Rows<P> {
    rows: BTreeMap<i64, HeldRow<P>>,
    /// Rows of each aggregate that are not published, in order. Only the first may be in flight.
    aggregates: BTreeMap<Aggregate, BTreeSet<i64>>,
    /// First rows of aggregates that are not in flight.
    ready: BTreeSet<i64>,
    unmarked: BTreeSet<i64>,
    bytes: u64,
    in_flight: usize,
    /// Number of rows of each slot that are in flight or not marked.
    busy: BTreeMap<u16, usize>,
}

impl<P> Default for Rows<P> {
    fn default() -> Self {
        Self {
            rows: BTreeMap::new(),
            aggregates: BTreeMap::new(),
            ready: BTreeSet::new(),
            unmarked: BTreeSet::new(),
            bytes: 0,
            in_flight: 0,
            busy: BTreeMap::new(),
        }
    }
}

impl<P> Rows<P> {
    pub(super) fn len(&self) -> usize {
        self.rows.len()
    }

    pub(super) fn bytes(&self) -> u64 {
        self.bytes
    }

    pub(super) fn in_flight(&self) -> usize {
        self.in_flight
    }

    pub(super) fn sequences(&self) -> impl Iterator<Item = i64> {
        self.rows.keys().copied()
    }

    pub(super) fn has_ready(&self) -> bool {
        !self.ready.is_empty()
    }

    /// Whether a slot has rows that are in flight or not marked.
    pub(super) fn is_busy(&self, slot: u16) -> bool {
        self.busy.contains_key(&slot)
    }

    pub(super) fn payload(&self, sequence: i64) -> Option<&P> {
        self.rows.get(&sequence)?.payload.as_ref()
    }

    pub(super) fn scopes(&self, sequence: i64) -> Option<(Aggregate, Arc<str>)> {
        let row = self.rows.get(&sequence)?;
        Some((row.aggregate.clone(), Arc::clone(&row.topic)))
    }

    /// Adds a row. One that is in memory already stays as it is.
    pub(super) fn add(&mut self, row: Row<P>) {
        if self.rows.contains_key(&row.sequence) {
            return;
        }
        self.bytes += row.bytes;
        let queue = self.aggregates.entry(row.aggregate.clone()).or_default();
        let is_first = queue.is_empty();
        queue.insert(row.sequence);
        if is_first {
            self.ready.insert(row.sequence);
        }
        self.rows.insert(
            row.sequence,
            HeldRow {
                slot: row.slot,
                aggregate: row.aggregate,
                topic: row.topic,
                bytes: row.bytes,
                payload: Some(row.payload),
                stage: Stage::Queued,
                is_orphan: false,
            },
        );
    }

    /// Puts the first ready row in flight.
    pub(super) fn send_next(&mut self) -> Option<i64> {
        let sequence = self.ready.pop_first()?;
        let row = self.rows.get_mut(&sequence)?;
        row.stage = Stage::InFlight;
        self.in_flight += 1;
        *self.busy.entry(row.slot).or_default() += 1;
        Some(sequence)
    }

    pub(super) fn is_in_flight(&self, sequence: i64) -> bool {
        self.rows.get(&sequence).is_some_and(|row| row.stage == Stage::InFlight)
    }

    /// Notes that the slots are lost: their rows in flight are not sent again.
    pub(super) fn orphan(&mut self, slots: &BTreeSet<u16>) {
        for row in self.rows.values_mut().filter(|row| slots.contains(&row.slot)) {
            row.is_orphan = true;
        }
    }

    pub(super) fn is_orphan(&self, sequence: i64) -> bool {
        self.rows.get(&sequence).is_some_and(|row| row.is_orphan)
    }

    /// The row waits for its mark, and the next one of its aggregate is ready.
    pub(super) fn published(&mut self, sequence: i64) {
        let Some(row) = self.rows.get_mut(&sequence) else {
            return;
        };
        row.stage = Stage::Published;
        row.payload = None;
        self.bytes -= std::mem::take(&mut row.bytes);
        self.in_flight -= 1;
        self.unmarked.insert(sequence);
        let aggregate = row.aggregate.clone();
        self.leave_aggregate(&aggregate, sequence);
    }

    fn leave_aggregate(&mut self, aggregate: &Aggregate, sequence: i64) {
        let Some(queue) = self.aggregates.get_mut(aggregate) else {
            return;
        };
        queue.remove(&sequence);
        match queue.first().copied() {
            Some(next) => {
                let is_queued = |row: &HeldRow<P>| row.stage == Stage::Queued;
                if self.rows.get(&next).is_some_and(is_queued) {
                    self.ready.insert(next);
                }
            }
            None => {
                self.aggregates.remove(aggregate);
            }
        }
    }

    /// A row in flight waits to be sent again.
    pub(super) fn requeue(&mut self, sequence: i64) {
        let Some(row) = self.rows.get_mut(&sequence) else {
            return;
        };
        row.stage = Stage::Queued;
        self.in_flight -= 1;
        let slot = row.slot;
        self.ready.insert(sequence);
        self.leave_busy(slot);
    }

    fn leave_busy(&mut self, slot: u16) {
        if let Some(count) = self.busy.get_mut(&slot) {
            *count -= 1;
            if *count == 0 {
                self.busy.remove(&slot);
            }
        }
    }

    /// Rows to be marked, at most `max`.
    pub(super) fn begin_mark(&mut self, max: usize) -> Vec<i64> {
        let mut sequences = vec![];
        while sequences.len() < max
            && let Some(sequence) = self.unmarked.pop_first()
        {
            if let Some(row) = self.rows.get_mut(&sequence) {
                row.stage = Stage::Marking;
            }
            sequences.push(sequence);
        }
        sequences
    }

    pub(super) fn marked(&mut self, sequences: &[i64]) {
        for sequence in sequences {
            if let Some(row) = self.rows.remove(sequence) {
                self.leave_busy(row.slot);
            }
        }
    }

    pub(super) fn mark_failed(&mut self, sequences: &[i64]) {
        for sequence in sequences {
            if let Some(row) = self.rows.get_mut(sequence) {
                row.stage = Stage::Published;
                self.unmarked.insert(*sequence);
            }
        }
    }

    pub(super) fn has_unmarked(&self) -> bool {
        !self.unmarked.is_empty()
    }

    /// Gives up queued rows of aggregates with a row that fits. Rows in flight stay. Returns whether there were any.
    pub(super) fn give_up(&mut self, fits: impl Fn(u16, &Aggregate, &str) -> bool) -> bool {
        let queued = self.rows.values().filter(|row| row.payload.is_some());
        let hit = queued.filter(|row| fits(row.slot, &row.aggregate, &row.topic));
        let hit: BTreeSet<Aggregate> = hit.map(|row| row.aggregate.clone()).collect();
        let mut has_any = false;
        for aggregate in hit {
            let queue = self.aggregates.get(&aggregate).cloned().unwrap_or_default();
            for sequence in queue {
                has_any |= self.give_up_queued(&aggregate, sequence);
            }
        }
        has_any
    }

    fn give_up_queued(&mut self, aggregate: &Aggregate, sequence: i64) -> bool {
        if self.is_in_flight(sequence) {
            return false;
        }
        self.ready.remove(&sequence);
        if let Some(row) = self.rows.remove(&sequence) {
            self.bytes -= row.bytes;
        }
        if let Some(queue) = self.aggregates.get_mut(aggregate) {
            queue.remove(&sequence);
            if queue.is_empty() {
                self.aggregates.remove(aggregate);
            }
        }
        true
    }
}
