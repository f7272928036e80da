//! A model of the database: transactions, the outbox table, and the leases.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::outbox::{GrantedLeases, LeaseCall, ReadCall, SlotLease, claim_max};

use super::{Owner, plan::Plan};
use crate::Mutation;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum RowState {
    Open,
    Committed,
    RolledBack,
}

#[derive(Debug, Clone)]
pub(super) struct StoredRow {
    pub(super) sequence: i64,
    pub(super) aggregate: u64,
    pub(super) created_ms: i64,
    pub(super) state: RowState,
    pub(super) is_marked: bool,
    pub(super) attempts: u32,
    /// How often the broker has it.
    pub(super) published: u32,
    /// The broker refuses it until this time.
    pub(super) poison_until_ms: i64,
}

#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) began_ms: i64,
    /// Aggregates to write to, in the order of their locks.
    pub(super) writes: Vec<u64>,
    pub(super) rows: Vec<i64>,
    pub(super) is_slow: bool,
    pub(super) notifies: BTreeSet<usize>,
    /// Slots whose relay was awake, and stays so.
    pub(super) shares: Vec<u16>,
}

#[derive(Debug, Clone, Copy, Default)]
struct Slot {
    owner: Option<Owner>,
    epoch: i64,
    expires_ms: i64,
}

#[derive(Debug, Default)]
pub(super) struct Database {
    pub(super) rows: BTreeMap<i64, StoredRow>,
    pub(super) transactions: Vec<Transaction>,
    sequence: i64,
    locks: BTreeMap<u64, Lock>,
    slots: Vec<Slot>,
    relays: BTreeMap<Owner, i64>,
    /// Relays that sleep, with their slots.
    sleepers: BTreeMap<Owner, Vec<u16>>,
    /// Open transactions that found the relay of a slot awake.
    shared: BTreeMap<u16, usize>,
    /// For the mutation: the highest sequence number that was read by a relay.
    watermarks: BTreeMap<Owner, i64>,
}

#[derive(Debug, Default)]
struct Lock {
    owner: Option<usize>,
    waiters: Vec<usize>,
}

/// Consequences of the end of a transaction.
#[derive(Debug, Default)]
pub(super) struct Ended {
    /// Transactions that can go on.
    pub(super) freed: Vec<usize>,
    /// Relays that are woken.
    pub(super) notified: Vec<usize>,
}

impl Database {
    pub(super) fn new(plan: &Plan) -> Self {
        Self {
            slots: vec![Slot::default(); usize::from(plan.config.slots)],
            ..Self::default()
        }
    }

    /// Whether all transactions have ended.
    pub(super) fn is_quiet(&self) -> bool {
        self.transactions
            .iter()
            .all(|open| open.writes.is_empty() && open.rows.is_empty())
    }

    pub(super) fn slot_of(&self, aggregate: u64) -> u16 {
        (aggregate % self.slots.len() as u64) as u16
    }

    /// Whether the lease of the aggregate's slot is valid for the relay.
    pub(super) fn has_lease(&self, now_ms: i64, owner: Owner, aggregate: u64) -> bool {
        let slot = self.slots[usize::from(self.slot_of(aggregate))];
        slot.owner == Some(owner) && now_ms <= slot.expires_ms
    }

    /// Inserts the next row of a transaction. Returns `None` if it must wait for a lock.
    pub(super) fn insert(&mut self, transaction: usize, poison_until_ms: i64) -> Option<i64> {
        let aggregate = *self.transactions[transaction].writes.first()?;
        let lock = self.locks.entry(aggregate).or_default();
        if lock.owner.is_some_and(|owner| owner != transaction) {
            if !lock.waiters.contains(&transaction) {
                lock.waiters.push(transaction);
            }
            return None;
        }
        lock.owner = Some(transaction);
        self.sequence += 1;
        let sequence = self.sequence;
        self.note_sleepers(transaction, self.slot_of(aggregate));
        let open = &mut self.transactions[transaction];
        open.writes.remove(0);
        open.rows.push(sequence);
        let row = StoredRow {
            sequence,
            aggregate,
            created_ms: open.began_ms,
            state: RowState::Open,
            is_marked: false,
            attempts: 0,
            published: 0,
            poison_until_ms,
        };
        self.rows.insert(sequence, row);
        Some(sequence)
    }

    fn note_sleepers(&mut self, transaction: usize, slot: u16) {
        let asleep = self.sleepers.iter().find(|(_, slots)| slots.contains(&slot));
        let open = &mut self.transactions[transaction];
        match asleep {
            Some((owner, _)) => drop(open.notifies.insert(owner.relay)),
            None => {
                open.shares.push(slot);
                *self.shared.entry(slot).or_default() += 1;
            }
        }
    }

    pub(super) fn end(&mut self, transaction: usize, is_commit: bool) -> Ended {
        let open = std::mem::take(&mut self.transactions[transaction]);
        let mut ended = Ended::default();
        for sequence in &open.rows {
            if let Some(row) = self.rows.get_mut(sequence) {
                row.state = if is_commit {
                    RowState::Committed
                } else {
                    RowState::RolledBack
                };
            }
        }
        if is_commit {
            ended.notified.extend(open.notifies);
        }
        for slot in open.shares {
            let count = self.shared.entry(slot).or_default();
            *count = count.saturating_sub(1);
        }
        for lock in self.locks.values_mut().filter(|lock| lock.owner == Some(transaction)) {
            lock.owner = None;
            ended.freed.append(&mut lock.waiters);
        }
        ended
    }

    /// Tells writers to notify, unless one is in a transaction that will not.
    pub(super) fn sleep(&mut self, owner: Owner, slots: &[u16]) -> bool {
        let is_free = |slot: &u16| self.shared.get(slot).is_none_or(|count| *count == 0);
        let can_sleep = !slots.is_empty() && slots.iter().all(is_free);
        if can_sleep {
            self.sleepers.insert(owner, slots.to_vec());
        }
        can_sleep
    }

    pub(super) fn wake(&mut self, owner: Owner) {
        self.sleepers.remove(&owner);
    }

    pub(super) fn leases(&mut self, now_ms: i64, owner: Owner, call: &LeaseCall, plan: &Plan) -> GrantedLeases {
        for slot in &call.release {
            let slot = &mut self.slots[usize::from(*slot)];
            if slot.owner == Some(owner) {
                slot.owner = None;
            }
        }
        if call.is_last {
            self.relays.remove(&owner);
            self.slots
                .iter_mut()
                .filter(|slot| slot.owner == Some(owner))
                .for_each(|slot| slot.owner = None);
            return GrantedLeases {
                held: vec![],
                relays: 0,
            };
        }
        let expires_ms = now_ms + plan.config.lease_ms;
        self.relays.insert(owner, expires_ms);
        self.relays.retain(|_, expires_ms| *expires_ms >= now_ms);
        let relays = u32::try_from(self.relays.len()).unwrap_or(u32::MAX);
        let held = self.slots.iter().filter(|slot| slot.owner == Some(owner)).count();
        let mut claims = if call.may_claim {
            claim_max(plan.config.slots, relays, held)
        } else {
            0
        };
        let ignores_leases = plan.mutation == Some(Mutation::IgnoreLeases);
        let mut granted = vec![];
        for (number, slot) in self.slots.iter_mut().enumerate() {
            let is_free = slot.owner.is_none() || slot.expires_ms < now_ms;
            if slot.owner == Some(owner) {
                slot.expires_ms = expires_ms;
            } else if claims > 0 && (is_free || ignores_leases) {
                claims -= 1;
                *slot = Slot {
                    owner: Some(owner),
                    epoch: slot.epoch + 1,
                    expires_ms,
                };
            } else {
                continue;
            }
            granted.push(SlotLease {
                slot: number as u16,
                epoch: slot.epoch,
            });
        }
        GrantedLeases { held: granted, relays }
    }

    /// The rows of a read, from what is committed now.
    pub(super) fn read(&mut self, owner: Owner, call: &ReadCall, mutation: Option<Mutation>) -> Vec<StoredRow> {
        let watermark = self.watermarks.entry(owner).or_default();
        let floor = if mutation == Some(Mutation::ReadByWatermark) {
            *watermark
        } else {
            0
        };
        let slots = self.slots.len() as u64;
        let fits = |row: &&StoredRow| {
            let is_stopped = call
                .stopped_aggregates
                .iter()
                .any(|stopped| *stopped.id == *row.aggregate.to_string());
            row.state == RowState::Committed
                && !row.is_marked
                && row.sequence > floor
                && call.slots.contains(&((row.aggregate % slots) as u16))
                && !call.held.contains(&row.sequence)
                && !is_stopped
                && !call.stopped_topics.contains(&topic_of(row.aggregate))
        };
        let mut rows: Vec<StoredRow> = self.rows.values().filter(fits).cloned().collect();
        if mutation == Some(Mutation::ReadByCreation) {
            rows.sort_by_key(|row| (row.created_ms, row.sequence));
        }
        rows.truncate(call.rows_max);
        if let Some(last) = rows.iter().map(|row| row.sequence).max() {
            *watermark = (*watermark).max(last);
        }
        rows
    }
}

pub(super) fn topic_of(aggregate: u64) -> String {
    format!("topic-{}", aggregate % 2)
}
