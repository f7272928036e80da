//! Periodic sweeps: transactions over their timeout are aborted, expired ids are removed.

use bytestring::ByteString;

use super::{
    NextProducerId, Timer, TransactionCoordinator, TransactionEffects, TransactionRecord, TransactionState,
    metadata::Transaction,
};

impl TransactionCoordinator {
    /// Schedules the sweeps that may find something.
    pub(super) fn schedule_sweeps(&mut self, now_ms: i64) {
        if !self.transactions.is_empty() {
            self.schedule(Timer::RemoveExpired, now_ms);
        }
        let mut transactions = self.transactions.values();
        if transactions.any(|transaction| transaction.state == TransactionState::Ongoing) {
            self.schedule(Timer::AbortTimedOut, now_ms);
        }
    }

    pub(super) fn schedule(&mut self, timer: Timer, now_ms: i64) {
        let interval_ms = match timer {
            Timer::AbortTimedOut => self.config.abort_timed_out_interval_ms,
            Timer::RemoveExpired => self.config.remove_expired_interval_ms,
        };
        self.timers.set_no_later(timer, now_ms.saturating_add(interval_ms));
    }

    /// Fences the producers of transactions over their timeout: one that is alive cannot continue as if nothing had
    /// happened.
    pub(super) fn abort_timed_out(&mut self, now_ms: i64, ids: NextProducerId<'_>, effects: &mut TransactionEffects) {
        for (id, transaction) in self.find(|transaction| is_timed_out(transaction, now_ms)) {
            // Without an available producer id the next sweep tries again.
            let _ = self.fence(&id, &transaction, now_ms, &mut *ids, effects);
        }
        self.schedule_sweeps(now_ms);
    }

    pub(super) fn remove_expired(&mut self, now_ms: i64, effects: &mut TransactionEffects) {
        let horizon_ms = now_ms.saturating_sub(self.config.id_expiration_ms);
        let expired = self.find(|transaction| transaction.state.is_at_rest() && transaction.updated_ms <= horizon_ms);
        for (transactional_id, _) in expired {
            let record = TransactionRecord {
                transactional_id,
                value: None,
            };
            self.replay(record.clone());
            effects.records.push(record);
        }
        self.schedule_sweeps(now_ms);
    }

    fn find(&self, is_meant: impl Fn(&Transaction) -> bool) -> Vec<(ByteString, Transaction)> {
        let found = self
            .transactions
            .iter()
            .filter(|(_, transaction)| is_meant(transaction));
        found
            .map(|(id, transaction)| (id.clone(), transaction.clone()))
            .collect()
    }
}

/// An unlimited timeout comes from a two-phase commit in a log that Kafka wrote: only its owner ends it.
fn is_timed_out(transaction: &Transaction, now_ms: i64) -> bool {
    transaction.state == TransactionState::Ongoing
        && transaction.timeout_ms != i32::MAX
        && transaction.start_ms.saturating_add(transaction.timeout_ms.into()) < now_ms
}
