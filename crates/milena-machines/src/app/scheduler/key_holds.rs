//! The order of keys through retries: see [`key_holds`](super::super::key_holds).

use super::{
    super::{
        Action, CommittedOffset, HandlerId, Keyed, NullKey, PartitionId, Publish, RetryInfo, Role,
        ids::RecordIndex,
        key_holds::{HeldKeys, HeldRecord},
        queues::State,
        retry_topic,
    },
    Scheduler, Timer,
};

impl<T: Keyed> Scheduler<T> {
    /// The unfinished records of the held-keys topic for a main partition that was just assigned, before its first record.
    pub fn handle_held_records(
        &mut self,
        now_ms: i64,
        partition: PartitionId,
        held: impl IntoIterator<Item = HeldRecord>,
    ) {
        // The partition may have been lost while its records were read.
        let Some(found) = self.partitions.find(partition) else {
            return;
        };
        let handler = self.handler(found.handler);
        let null_is_key = handler.is_some_and(|handler| handler.config.null_key == NullKey::Serial);
        let held = HeldKeys::new(held, null_is_key);
        self.key_holds.replace(found.name.clone(), held);
        self.check_key_holds_later(now_ms);
    }

    /// The commit of the held-keys partition with the number of this one; the response to [`Action::CheckKeyHolds`].
    pub fn handle_held_commit(&mut self, partition: PartitionId, committed: &CommittedOffset) {
        // The partition may have been lost meanwhile.
        if let Some(found) = self.partitions.find(partition) {
            self.key_holds.free(&found.name, committed);
        }
    }

    /// The number of held keys of a main partition.
    pub fn held_keys(&self, partition: PartitionId) -> usize {
        let found = self.partitions.find(partition);
        found.map_or(0, |found| self.key_holds.count(&found.name))
    }

    /// Sends a record whose key is held to the held-keys topic; or parks one that is there and not due.
    pub(super) fn divert_held(&mut self, now_ms: i64, record: RecordIndex) -> bool {
        let Some(entry) = self.queues.entry(record) else {
            return false;
        };
        let history = entry.history;
        let Some(found) = self.partitions.of_record(entry.partition) else {
            return false;
        };
        match found.role {
            Role::HeldKeys if history.due_ms > now_ms => {
                self.park(now_ms, record, history.due_ms);
                true
            }
            Role::Main => {
                let key = entry.payload.as_ref().and_then(Keyed::key);
                if !self.key_holds.is_held(&found.name, key) {
                    return false;
                }
                found.in_transaction = true;
                self.totals.held += 1;
                let what = Publish::HeldKeys {
                    due_ms: None,
                    attempts: history.attempts,
                    first_failed_ms: history.first_failed_ms,
                };
                self.publish(now_ms, record, what);
                true
            }
            Role::HeldKeys | Role::RetryTopic { .. } => false,
        }
    }

    /// Moves a record that has used up its attempts in place to the held-keys topic, if its partition may hold one more key.
    pub(super) fn hold_key(&mut self, now_ms: i64, record: RecordIndex, due_ms: i64) {
        let Some(entry) = self.queues.entry(record) else { return };
        let history = entry.history;
        let Some(found) = self.partitions.at(entry.partition) else {
            return;
        };
        let handler = self.handler(found.handler);
        let keys_max = handler.map_or(usize::MAX, |handler| handler.config.retry.held_keys_max);
        if self.key_holds.count(&found.name) >= keys_max {
            return self.park(now_ms, record, due_ms);
        }
        self.totals.held += 1;
        let what = Publish::HeldKeys {
            due_ms: Some(due_ms),
            attempts: history.attempts,
            first_failed_ms: history.first_failed_ms,
        };
        self.publish(now_ms, record, what);
    }

    /// Holds the key of a record that is in the held-keys topic now.
    pub(super) fn held_at(&mut self, now_ms: i64, record: RecordIndex, offset: i64) {
        let Some(entry) = self.queues.entry(record) else { return };
        let Some(found) = self.partitions.at(entry.partition) else {
            return;
        };
        let handler = self.handler(found.handler);
        let null_is_key = handler.is_some_and(|handler| handler.config.null_key == NullKey::Serial);
        let key = entry.payload.as_ref().and_then(Keyed::key);
        if key.is_some() || null_is_key {
            self.key_holds.hold(&found.name, key, offset);
            self.check_key_holds_later(now_ms);
        }
    }

    /// Asks for the commits of the held-keys topics, as long as keys are held.
    pub(super) fn check_key_holds(&mut self, now_ms: i64) {
        let holding = self.partitions.all().filter(|found| {
            let is_main = found.is_active() && found.role == Role::Main;
            is_main && self.key_holds.count(&found.name) > 0
        });
        let holding: Vec<PartitionId> = holding.map(|found| found.id).collect();
        if !holding.is_empty() {
            self.actions.push_back(Action::CheckKeyHolds(holding));
            self.check_key_holds_later(now_ms);
        }
    }

    fn check_key_holds_later(&mut self, now_ms: i64) {
        let next_ms = self.key_holds.next_check_ms(now_ms);
        self.timers.set_no_later(Timer::KeyHolds, next_ms);
    }

    /// Restores the history of a record of the held-keys topic.
    pub(super) fn accept_held(
        &mut self,
        now_ms: i64,
        record: RecordIndex,
        handler: HandlerId,
        retry: Option<RetryInfo>,
    ) {
        let handler = self.handler(handler);
        let first_ms = handler.and_then(|handler| handler.config.retry.delays_ms.first().copied());
        let written_due_ms = retry.and_then(|retry| retry.due_ms);
        let due_ms = written_due_ms.map(|_| retry_topic::due_ms(now_ms, first_ms.unwrap_or(0), retry));
        if let Some(entry) = self.queues.entry_mut(record)
            && entry.state == State::Staged
        {
            (entry.history.attempts, entry.history.first_failed_ms) = retry_topic::history(now_ms, retry);
            entry.history.due_ms = due_ms.unwrap_or(i64::MIN);
            // A record with a due time has failed before, and waits for the first of the delays.
            entry.history.rounds = u8::from(due_ms.is_some());
        }
    }
}
