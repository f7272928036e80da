//! Records pass the gates to their handlers.

use super::{
    super::{
        Action, DeadLetterReason, Dispatch, HandlerId, Keyed, RecordId, RetryOrdering, WhenFull, gates::Gate,
        ids::RecordIndex,
    },
    Scheduler, Timer,
};

/// How much a handler may take from its queues.
struct Take {
    records: usize,
    /// The number of records of one key or partition that may follow each other in one call.
    run_records: usize,
}

impl<T: Keyed> Scheduler<T> {
    /// Fills `out` with records for one handler: up to `max`, or as many as its batches have. Records that must follow
    /// each other come one at a time, or as a run if the handler takes batches; a whole run may be one of `out`.
    pub fn poll_dispatch(&mut self, now_ms: i64, max: usize, out: &mut Vec<Dispatch>) -> Option<HandlerId> {
        out.clear();
        self.commit_ahead(now_ms);
        if !self.transaction.hands_out() || max == 0 {
            return None;
        }
        let mut is_diverted = false;
        for _ in 0..self.handlers.len() {
            let id = HandlerId(self.next_handler as u16);
            self.next_handler = (self.next_handler + 1) % self.handlers.len();
            // A diverted record makes room for those behind it.
            while self.queues.has_ready(id) && self.take_ready(now_ms, id, max, out) {
                if !out.is_empty() {
                    return Some(id);
                }
                is_diverted = true;
            }
        }
        if is_diverted {
            self.commit_ahead(now_ms);
        }
        None
    }

    /// Takes records for a handler; `false` if there are none that it may get.
    fn take_ready(&mut self, now_ms: i64, id: HandlerId, max: usize, out: &mut Vec<Dispatch>) -> bool {
        let Some(take) = self.limit_take(now_ms, id, max) else {
            return false;
        };
        let mut taken = std::mem::take(&mut self.taken);
        taken.clear();
        self.queues.take(id, take.records, take.run_records, &mut taken);
        for record in &taken {
            if !self.divert(now_ms, *record) {
                self.hand_out(now_ms, *record, out);
            }
        }
        let is_some = !taken.is_empty();
        self.taken = taken;
        if let Some(handler) = self.handler_mut(id) {
            handler.ready_since_ms = None;
        }
        let (calls, records) = (out.len() as u64, out.iter().map(|dispatch| dispatch.count).sum());
        self.gates.handed_out(now_ms, id, calls, records);
        is_some
    }

    /// How many records a handler may get now; `None` if it gets none.
    fn limit_take(&mut self, now_ms: i64, id: HandlerId, max: usize) -> Option<Take> {
        let capacity = self.gates.capacity(now_ms, id);
        if let Some(opens_at_ms) = capacity.opens_at_ms {
            self.timers.set(Timer::Handler(id), opens_at_ms);
        }
        let handler = self.handlers.get_mut(usize::from(id.0))?;
        let records = usize::try_from(capacity.records).unwrap_or(usize::MAX);
        let Some(batch) = handler.config.batch else {
            let records = records.min(max);
            return (records > 0).then_some(Take {
                records,
                run_records: 1,
            });
        };
        let buffered = self.gates.buffered_of(id).records;
        let waiting = buffered.saturating_sub(u64::from(self.gates.in_handler(id)));
        let since_ms = *handler.ready_since_ms.get_or_insert(now_ms);
        let full_ms = since_ms.saturating_add(batch.linger_ms);
        if records > 0 && waiting < batch.size as u64 && now_ms < full_ms {
            self.timers.set(Timer::Handler(id), full_ms);
            return None;
        }
        // A record that fails moves to the held-keys topic alone: those that follow it must not be in the same call.
        let in_order = handler.config.retry.ordering == RetryOrdering::HoldKey;
        let records = records.min(batch.size);
        (records > 0).then_some(Take {
            records,
            run_records: if in_order { 1 } else { batch.size },
        })
    }

    /// Leads a record that was taken through the diverting gates; `true` if one of them has sent it elsewhere.
    fn divert(&mut self, now_ms: i64, record: RecordIndex) -> bool {
        let mut position = 0;
        while let Some(gate) = self.gates.diverting(position) {
            let is_diverted = match gate {
                Gate::KeyHold => self.divert_held(now_ms, record),
                Gate::Return => self.divert_returning(now_ms, record),
                Gate::Breaker => self.divert_by_breaker(now_ms, record),
                Gate::Bulkhead => self.divert_by_bulkhead(now_ms, record),
                Gate::Quarantine => self.divert_quarantined(now_ms, record),
            };
            if is_diverted {
                return true;
            }
            position += 1;
        }
        false
    }

    /// Makes a dead letter of a record whose handler needs a breaker that rejects.
    fn divert_by_breaker(&mut self, now_ms: i64, record: RecordIndex) -> bool {
        let partition = self.queues.entry(record).map(|entry| entry.partition);
        let Some(found) = partition.and_then(|partition| self.partitions.of_record(partition)) else {
            return false;
        };
        if !self.gates.breaker_rejects(found.handler) {
            return false;
        }
        found.in_transaction = true;
        self.dead_letter(now_ms, record, DeadLetterReason::Breaker);
        true
    }

    /// Makes a dead letter of a record whose handler's bulkhead is full, or skips it, if the policy does not let it wait.
    fn divert_by_bulkhead(&mut self, now_ms: i64, record: RecordIndex) -> bool {
        let Some(entry) = self.queues.entry(record) else {
            return false;
        };
        let offset = entry.offset;
        let Some(found) = self.partitions.of_record(entry.partition) else {
            return false;
        };
        let when_full = self.gates.bulkhead_rejects(found.handler);
        if when_full == WhenFull::Wait {
            return false;
        }
        found.in_transaction = true;
        let partition = found.id;
        if when_full == WhenFull::DeadLetter {
            self.dead_letter(now_ms, record, DeadLetterReason::Bulkhead);
        } else {
            self.totals.skipped += 1;
            self.actions.push_back(Action::Skipped { partition, offset });
            self.complete(now_ms, record);
        }
        true
    }

    fn hand_out(&mut self, now_ms: i64, record: RecordIndex, out: &mut Vec<Dispatch>) {
        let call = self.gates.begin_call();
        let Some(entry) = self.queues.entry_mut(record) else {
            return;
        };
        entry.history.call = call;
        entry.history.since_ms = now_ms;
        entry.history.attempts = entry.history.attempts.saturating_add(1);
        let id = RecordId {
            index: record,
            serial: entry.serial,
        };
        let (offset, attempt, partition) = (entry.offset, entry.history.attempts, entry.partition);
        let (count, is_run) = (entry.count, entry.is_run);
        if is_run {
            self.limit_run_wait(now_ms, partition);
        }
        let Some(found) = self.partitions.of_record(partition) else {
            return;
        };
        found.in_transaction = true;
        out.push(Dispatch {
            record: id,
            partition: found.id,
            offset,
            count,
            attempt,
        });
    }
}
