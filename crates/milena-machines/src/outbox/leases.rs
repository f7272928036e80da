//! Leases on the slots of the table, shared among the relays that live.

use std::collections::{BTreeMap, BTreeSet};

use super::RelayConfig;

/// A call to renew, claim and release leases, in one transaction.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeaseCall {
    /// Slots that are given back.
    pub release: Vec<u16>,
    /// Whether free slots are claimed, up to [`claim_max`].
    pub may_claim: bool,
    /// The relay ends and is no longer counted.
    pub is_last: bool,
}

/// A leased slot. The epoch changes when another relay had it in between.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotLease {
    pub slot: u16,
    pub epoch: i64,
}

/// Result of a [`LeaseCall`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GrantedLeases {
    /// All slots that this relay has now.
    pub held: Vec<SlotLease>,
    /// Number of relays that live, including this one.
    pub relays: u32,
}

/// Number of free slots that a relay may claim.
pub fn claim_max(slots: u16, relays: u32, held: usize) -> usize {
    share(slots, relays).saturating_sub(held)
}

fn share(slots: u16, relays: u32) -> usize {
    usize::from(slots).div_ceil(usize::try_from(relays.max(1)).unwrap_or(usize::MAX))
}

/// The slots of this relay.
#[derive(Debug)]
pub(super) struct Leases {
    slots: u16,
    lease_ms: i64,
    send_ms: i64,
    /// Epochs of the held slots.
    held: BTreeMap<u16, i64>,
    /// Held slots whose rows are finished but not continued.
    leaving: BTreeSet<u16>,
    /// Beginning of the last successful call, from which all leases count.
    renewed_ms: Option<i64>,
    call: Option<OutstandingCall>,
    pub(super) due_ms: i64,
}

#[derive(Debug, Clone, Copy)]
struct OutstandingCall {
    began_ms: i64,
    is_last: bool,
}

/// Difference between two sets of slots.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct SlotChange {
    /// Slots whose rows must be given up.
    pub(super) lost: BTreeSet<u16>,
    pub(super) has_gained: bool,
    pub(super) is_last: bool,
}

impl Leases {
    pub(super) fn new(config: &RelayConfig, now_ms: i64) -> Self {
        Self {
            slots: config.slots,
            lease_ms: config.lease_ms,
            send_ms: config.send_ms(),
            held: BTreeMap::new(),
            leaving: BTreeSet::new(),
            renewed_ms: None,
            call: None,
            due_ms: now_ms,
        }
    }

    /// Number of held slots.
    pub(super) fn count(&self) -> usize {
        self.held.len()
    }

    /// Whether rows of the slot may be read and sent.
    pub(super) fn is_active(&self, slot: u16) -> bool {
        self.held.contains_key(&slot) && !self.leaving.contains(&slot)
    }

    pub(super) fn active(&self) -> impl Iterator<Item = u16> {
        let slots = self.held.keys().copied();
        slots.filter(|slot| !self.leaving.contains(slot))
    }

    /// Whether an event that is sent now has its result before the leases end.
    pub(super) fn may_send(&self, now_ms: i64) -> bool {
        self.renewed_ms
            .is_some_and(|renewed_ms| now_ms >= renewed_ms && now_ms - renewed_ms < self.send_ms)
    }

    /// Whether the leases may be another relay's by now.
    pub(super) fn is_expired(&self, now_ms: i64) -> bool {
        self.renewed_ms
            .is_none_or(|renewed_ms| now_ms - renewed_ms >= self.lease_ms)
    }

    /// Leaves all slots. Returns them.
    pub(super) fn leave_all(&mut self) -> BTreeSet<u16> {
        self.leaving.extend(self.held.keys());
        self.leaving.clone()
    }

    /// The next call, if one is due. Slots that are leaving and not busy are released.
    pub(super) fn poll_call(
        &mut self,
        now_ms: i64,
        is_busy: impl Fn(u16) -> bool,
        is_stopping: bool,
    ) -> Option<LeaseCall> {
        if self.call.is_some() {
            return None;
        }
        let release: Vec<u16> = self.leaving.iter().copied().filter(|slot| !is_busy(*slot)).collect();
        let is_last = is_stopping && release.len() == self.held.len();
        if now_ms < self.due_ms && release.is_empty() && !is_last {
            return None;
        }
        for slot in &release {
            self.held.remove(slot);
            self.leaving.remove(slot);
        }
        self.call = Some(OutstandingCall {
            began_ms: now_ms,
            is_last,
        });
        Some(LeaseCall {
            release,
            may_claim: !is_stopping,
            is_last,
        })
    }

    pub(super) fn handle_granted(&mut self, granted: &GrantedLeases, is_stopping: bool) -> SlotChange {
        let Some(call) = self.call.take() else {
            return SlotChange::default();
        };
        self.renewed_ms = Some(call.began_ms);
        let now: BTreeMap<u16, i64> = granted.held.iter().map(|lease| (lease.slot, lease.epoch)).collect();
        let is_lost = |(slot, epoch): &(&u16, &i64)| now.get(slot) != Some(epoch);
        let lost: BTreeSet<u16> = self.held.iter().filter(is_lost).map(|(slot, _)| *slot).collect();
        let has_gained = now.iter().any(|(slot, epoch)| self.held.get(slot) != Some(epoch));
        self.held = now;
        let held = &self.held;
        self.leaving
            .retain(|slot| held.contains_key(slot) && !lost.contains(slot));
        let mut change = SlotChange {
            lost,
            has_gained,
            is_last: call.is_last,
        };
        if is_stopping {
            change.lost.extend(self.leave_all());
        } else {
            self.rebalance(granted.relays, &mut change);
        }
        change
    }

    /// Leaves slots above the share, the highest first; takes back those below it.
    fn rebalance(&mut self, relays: u32, change: &mut SlotChange) {
        let share = share(self.slots, relays);
        let excess = self.held.len().saturating_sub(share);
        while self.leaving.len() > excess {
            self.leaving.pop_first();
            change.has_gained = true;
        }
        let missing = excess - self.leaving.len();
        let more: Vec<u16> = self.active().collect();
        for slot in more.into_iter().rev().take(missing) {
            self.leaving.insert(slot);
            change.lost.insert(slot);
        }
    }

    /// Time of the next renewal, unless a call is outstanding.
    pub(super) fn next_ms(&self) -> Option<i64> {
        self.call.is_none().then_some(self.due_ms)
    }

    /// Returns whether the failed call was the last one.
    pub(super) fn handle_failed(&mut self) -> bool {
        self.call.take().is_some_and(|call| call.is_last)
    }
}
