//! The order of keys through retries: see [`key_holds`](super::super::key_holds).

use super::{
    super::{
        Action, CommittedOffset, Keyed, NullKey, PartitionId, Publish, RetryOrdering, Role,
        key_holds::{HeldKeys, HeldRecord},
        queues::State,
    },
    Scheduler, Timer,
};
use crate::app::ids::RecordIndex;

/// How often it is asked which keys are free; never more often than a key can be, and never less than a second late.
const ASK_MIN_MS: i64 = 100;
const ASK_MAX_MS: i64 = 1_000;

impl<T: Keyed> Scheduler<T> {
    /// What the held topic has for a main partition that was just assigned, before its first record. Without a word the
    /// keys are fenced that were so when the partition was here before.
    pub fn handle_held_records(
        &mut self,
        now_ms: i64,
        partition: PartitionId,
        held: impl IntoIterator<Item = HeldRecord>,
    ) {
        let Some(found) = self.find(partition) else { return };
        let (handler, name) = (found.handler, found.name.clone());
        let null_is_key = self
            .handler(handler)
            .is_some_and(|handler| handler.config.null_key == NullKey::Serial);
        self.fences.insert(name, HeldKeys::new(held, null_is_key));
        self.ask_later(now_ms);
    }

    /// What the group that reads the held topic has committed for the partition of this number; the answer to
    /// [`Action::CheckKeyHolds`].
    pub fn handle_held_commit(&mut self, partition: PartitionId, committed: &CommittedOffset) {
        let Some(found) = self.partitions.get(partition.index).and_then(Option::as_ref) else {
            return;
        };
        if found.id == partition
            && let Some(fence) = self.fences.get_mut(&found.name)
        {
            fence.open(committed);
        }
    }

    /// How many keys of a main partition are fenced.
    pub fn held_keys(&self, partition: PartitionId) -> usize {
        let fence = self.find(partition).and_then(|found| self.fences.get(&found.name));
        fence.map_or(0, HeldKeys::len)
    }

    /// Whether a record that was taken is not for its handler now: it goes to the held topic, or is there and not due.
    pub(super) fn fence_off(&mut self, now_ms: i64, index: RecordIndex) -> bool {
        let Some(entry) = self.queues.entry(index) else {
            return false;
        };
        let Some(partition) = self.at(entry.partition) else {
            return false;
        };
        let (place, history) = (entry.partition, entry.history);
        match partition.role {
            Role::HeldKeys if history.due_ms > now_ms => {
                self.park(now_ms, index, history.due_ms);
                true
            }
            Role::Main => {
                let fence = self.fences.get(&partition.name);
                let key = entry.payload.as_ref().and_then(Keyed::key);
                if !fence.is_some_and(|fence| fence.is_closed(key)) {
                    return false;
                }
                if let Some(partition) = self.at_mut(place) {
                    partition.commit.touched = true;
                }
                self.totals.held += 1;
                let what = Publish::HeldKeys {
                    due_ms: None,
                    attempts: history.attempts,
                    first_failed_ms: history.first_failed_ms,
                };
                self.publish(now_ms, index, what);
                true
            }
            Role::HeldKeys | Role::RetryTopic { .. } => false,
        }
    }

    /// Nothing is left to try in its place: the record moves to the held topic, if there is room for its key.
    pub(super) fn hold(&mut self, now_ms: i64, index: RecordIndex, due_ms: i64) {
        let Some(entry) = self.queues.entry(index) else { return };
        let history = entry.history;
        if self.is_fence_full(index) {
            return self.park(now_ms, index, due_ms);
        }
        self.totals.held += 1;
        let what = Publish::HeldKeys {
            due_ms: Some(due_ms),
            attempts: history.attempts,
            first_failed_ms: history.first_failed_ms,
        };
        self.publish(now_ms, index, what);
    }

    fn is_fence_full(&self, index: RecordIndex) -> bool {
        let Some(entry) = self.queues.entry(index) else {
            return false;
        };
        let Some(partition) = self.at(entry.partition) else {
            return false;
        };
        let most = self
            .handler(partition.handler)
            .map_or(0, |handler| handler.config.retry.held_keys_max);
        let fence = self.fences.get(&partition.name);
        fence.is_some_and(|fence| fence.len() >= most)
    }

    /// A record is in the held topic: whatever of its key follows goes there too.
    pub(super) fn held_at(&mut self, now_ms: i64, index: RecordIndex, offset: i64) {
        let Some(entry) = self.queues.entry(index) else { return };
        let Some(partition) = self.partitions.get(entry.partition).and_then(Option::as_ref) else {
            return;
        };
        let null_key = self
            .handlers
            .get(usize::from(partition.handler.0))
            .map(|handler| handler.config.null_key);
        let key = entry.payload.as_ref().and_then(Keyed::key);
        if key.is_some() || null_key == Some(NullKey::Serial) {
            let fence = self.fences.entry(partition.name.clone()).or_default();
            fence.close(key, offset);
            self.ask_later(now_ms);
        }
    }

    /// Asks which keys are free, as long as some are not.
    pub(super) fn ask_held(&mut self, now_ms: i64) {
        let is_fenced = |name| self.fences.get(name).is_some_and(|fence| !fence.is_empty());
        let fenced = self
            .all()
            .filter(|partition| partition.is_active() && partition.role == Role::Main && is_fenced(&partition.name));
        let fenced: Vec<PartitionId> = fenced.map(|partition| partition.id).collect();
        if !fenced.is_empty() {
            self.actions.push_back(Action::CheckKeyHolds(fenced));
            self.ask_later(now_ms);
        }
    }

    fn ask_later(&mut self, now_ms: i64) {
        let retries = self.handlers.iter().map(|handler| &handler.config.retry);
        let fencing = retries.filter(|retry| retry.ordering == RetryOrdering::HoldKey);
        let shortest = fencing.flat_map(|retry| retry.delays_ms.iter().copied()).min();
        let wait_ms = (shortest.unwrap_or(0) / 4).clamp(ASK_MIN_MS, ASK_MAX_MS);
        self.timers
            .set_no_later(Timer::CheckKeyHolds, now_ms.saturating_add(wait_ms));
    }

    /// A record of the held topic gets in line with those of its key.
    pub(super) fn accept_held(&mut self, index: RecordIndex, history: (u32, Option<i64>), due_ms: Option<i64>) {
        if let Some(entry) = self.queues.entry_mut(index)
            && entry.state == State::Staged
        {
            (entry.history.attempts, entry.history.first_failed_ms) = history;
            entry.history.due_ms = due_ms.unwrap_or(i64::MIN);
            // What has a time has failed before, and waits for the first of the delays.
            entry.history.rounds = u8::from(due_ms.is_some());
        }
    }
}
