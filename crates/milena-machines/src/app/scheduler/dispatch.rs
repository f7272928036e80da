//! Records go to their handlers.

use super::{
    super::{
        Action, BreakerState, DeadLetterReason, Dispatch, HandlerId, Keyed, PartitionId, RecordId, RetryOrdering,
        WhenFull,
    },
    Scheduler, Timer,
};
use crate::app::ids::RecordIndex;

impl<T: Keyed> Scheduler<T> {
    /// Fills `out` with records for one handler: up to `max`, or as many as a batch of it has. Those of one key or
    /// partition that must follow each other come one at a time, or as a run if the handler takes batches; a run may be
    /// one of `out`, as a whole.
    pub fn poll_dispatch(&mut self, now_ms: i64, max: usize, out: &mut Vec<Dispatch>) -> Option<HandlerId> {
        out.clear();
        self.commit_ahead(now_ms);
        if !self.barrier.lets_through() || max == 0 {
            return None;
        }
        let mut is_diverted = false;
        for _ in 0..self.handlers.len() {
            let id = HandlerId(self.turn as u16);
            self.turn = (self.turn + 1) % self.handlers.len();
            // What is diverted makes room for what is behind it.
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
        let (most, run_max) = self.how_many(now_ms, id, max);
        if most == 0 {
            return false;
        }
        let mut taken = std::mem::take(&mut self.taken);
        taken.clear();
        self.queues.take(id, most, run_max, &mut taken);
        for index in &taken {
            if !self.divert(now_ms, *index) {
                self.hand_out(now_ms, *index, out);
            }
        }
        let is_some = !taken.is_empty();
        self.taken = taken;
        self.handed_out(now_ms, id, out);
        is_some
    }

    /// How many records a handler may get now, and how long runs may be.
    fn how_many(&mut self, now_ms: i64, id: HandlerId, max: usize) -> (usize, usize) {
        let Some(handler) = self.handlers.get_mut(usize::from(id.0)) else {
            return (0, 0);
        };
        let mut most = handler.concurrency.available();
        if let Some(bulkhead) = handler.config.bulkhead {
            let available = self
                .bulkheads
                .get(usize::from(bulkhead.0))
                .map_or(0, |it| it.available());
            if available > 0 || handler.config.when_full == WhenFull::Wait {
                most = most.min(available);
            }
        }
        for breaker in &handler.config.breakers {
            let Some(breaker) = self.breakers.get_mut(usize::from(breaker.0)) else {
                continue;
            };
            if breaker.turns_away() {
                continue;
            }
            if breaker.available() == 0 && breaker.state() == BreakerState::Open {
                breaker.note_not_permitted();
            }
            most = most.min(breaker.available());
        }
        if most > 0
            && let Some(rate) = &handler.rate
        {
            let available = rate.available(now_ms);
            if available == 0 {
                self.timers.set(Timer::Handler(id), rate.next_ms());
            }
            most = most.min(available);
        }
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        let Some(batch) = handler.config.batch else {
            return (most.min(max), 1);
        };
        let waiting = handler
            .gauge
            .records
            .saturating_sub(u64::from(handler.concurrency.taken()));
        let since_ms = *handler.ready_since_ms.get_or_insert(now_ms);
        let full_ms = since_ms.saturating_add(batch.linger_ms);
        if most > 0 && waiting < batch.size as u64 && now_ms < full_ms {
            self.timers.set(Timer::Handler(id), full_ms);
            return (0, 0);
        }
        // What fails moves to the held topic alone: what follows it must not be in the same call.
        let in_order = handler.config.retry.ordering == RetryOrdering::HoldKey;
        (most.min(batch.size), if in_order { 1 } else { batch.size })
    }

    /// Whether a record that was taken is not for its handler now.
    fn divert(&mut self, now_ms: i64, index: RecordIndex) -> bool {
        // What must stay in order does so too when it is turned away.
        self.is_fencing && self.fence_off(now_ms, index)
            || self.is_returning && self.send_back(now_ms, index)
            || self.turns_away && (self.turn_away(now_ms, index) || self.turn_away_full(now_ms, index))
            || self.condemns && self.condemn(now_ms, index)
    }

    /// While a breaker is open that makes dead letters, they are made of what its handlers would get.
    fn turn_away(&mut self, now_ms: i64, index: RecordIndex) -> bool {
        let Some(place) = self.queues.entry(index).map(|entry| entry.partition) else {
            return false;
        };
        let Some(partition) = self.partitions.get_mut(place).and_then(Option::as_mut) else {
            return false;
        };
        let Some(handler) = self.handlers.get(usize::from(partition.handler.0)) else {
            return false;
        };
        for id in &handler.config.breakers {
            let breaker = self.breakers.get_mut(usize::from(id.0));
            if let Some(breaker) = breaker.filter(|breaker| breaker.turns_away()) {
                breaker.note_not_permitted();
                partition.commit.touched = true;
                self.dead_letter(now_ms, index, DeadLetterReason::Breaker);
                return true;
            }
        }
        false
    }

    /// While a bulkhead is full, records that could be handled now become dead letters or are skipped, if the policy of their
    /// handler does not let them wait.
    fn turn_away_full(&mut self, now_ms: i64, index: RecordIndex) -> bool {
        let Some(entry) = self.queues.entry(index) else {
            return false;
        };
        let (place, offset) = (entry.partition, entry.offset);
        let Some(partition) = self.partitions.get_mut(place).and_then(Option::as_mut) else {
            return false;
        };
        let handler = self.handlers.get(usize::from(partition.handler.0));
        let config = handler.map(|handler| &handler.config);
        let when_full = config.map_or(WhenFull::Wait, |config| config.when_full);
        let bulkhead = config.and_then(|config| self.bulkheads.get(usize::from(config.bulkhead?.0)));
        if when_full == WhenFull::Wait || bulkhead.is_none_or(|bulkhead| bulkhead.available() > 0) {
            return false;
        }
        partition.commit.touched = true;
        if when_full == WhenFull::DeadLetter {
            self.dead_letter(now_ms, index, DeadLetterReason::Bulkhead);
        } else {
            let partition = partition.id;
            self.totals.skipped += 1;
            self.actions.push_back(Action::Skipped { partition, offset });
            self.complete(now_ms, index);
        }
        true
    }

    fn hand_out(&mut self, now_ms: i64, index: RecordIndex, out: &mut Vec<Dispatch>) {
        self.last_call += 1;
        let Some(entry) = self.queues.entry_mut(index) else {
            return;
        };
        entry.history.call = self.last_call;
        entry.history.since_ms = now_ms;
        entry.history.attempts = entry.history.attempts.saturating_add(1);
        let record = RecordId {
            index,
            serial: entry.serial,
        };
        let (offset, attempt, index) = (entry.offset, entry.history.attempts, entry.partition);
        let (count, whole) = (entry.count, entry.whole);
        if whole {
            self.watch_runs(now_ms, index);
        }
        let Some(partition) = self.at_mut(index) else {
            return;
        };
        partition.commit.touched = true;
        let partition: PartitionId = partition.id;
        out.push(Dispatch {
            record,
            partition,
            offset,
            count,
            attempt,
        });
    }

    fn handed_out(&mut self, now_ms: i64, id: HandlerId, out: &[Dispatch]) {
        let (calls, count) = (out.len() as u64, out.iter().map(|dispatched| dispatched.count).sum());
        let Some(handler) = self.handlers.get_mut(usize::from(id.0)) else {
            return;
        };
        handler.ready_since_ms = None;
        handler.concurrency.take(count);
        if let Some(rate) = &mut handler.rate {
            rate.take(now_ms, count);
        }
        if let Some(bulkhead) = handler.config.bulkhead
            && let Some(bulkhead) = self.bulkheads.get_mut(usize::from(bulkhead.0))
        {
            bulkhead.take(count);
        }
        let first_call = self.last_call + 1 - calls;
        for breaker in &handler.config.breakers {
            if let Some(breaker) = self.breakers.get_mut(usize::from(breaker.0)) {
                for call in first_call..=self.last_call {
                    breaker.permit(call);
                }
            }
        }
    }
}
