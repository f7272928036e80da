//! Services: they read requests in order, work, and write replies. A crash repeats requests that were not committed.

use std::collections::VecDeque;

use milena_machines::request_reply::{give_up_ms, is_expired};

use super::{Event, Reply, World};
use crate::Mutation;

/// A request in the log.
#[derive(Debug, Clone)]
pub(super) struct Request {
    pub(super) number: u64,
    pub(super) partition: usize,
    pub(super) correlation: [u8; 16],
    pub(super) deadline_ms: i64,
}

#[derive(Debug, Default)]
pub(super) struct Service {
    pub(super) queue: VecDeque<Request>,
    /// The request that is handled, and the time at which its reply is given up once it is known.
    current: Option<(Request, Option<i64>)>,
    /// Requests that a crash repeats.
    uncommitted: Vec<Request>,
    /// Events of an earlier life are ignored.
    life: u32,
}

/// Interval between attempts to write a reply.
const WRITE_RETRY_MS: i64 = 100;

impl Service {
    pub(super) fn is_at_rest(&self) -> bool {
        self.queue.is_empty() && self.current.is_none()
    }

    pub(super) fn take(&mut self, me: usize, request: Request, world: &mut World) {
        self.queue.push_back(request);
        self.begin(me, world);
    }

    fn begin(&mut self, me: usize, world: &mut World) {
        if self.current.is_some() {
            return;
        }
        let Some(plan) = world.plan.services.get(me) else {
            return;
        };
        let (skew_ms, work_ms) = (plan.skew_ms, plan.work_ms);
        while let Some(request) = self.queue.pop_front() {
            let number = request.number;
            if is_expired(world.plan.answer, Some(request.deadline_ms), world.now() + skew_ms) {
                let is_over = world.now() > request.deadline_ms;
                world.note(|| format!("service {me} skips request {number}"));
                world.demand(is_over, || {
                    format!("service {me} skipped request {number} while it was awaited")
                });
                self.uncommitted.push(request);
                continue;
            }
            self.current = Some((request, None));
            let delay = world.delay(work_ms);
            world.queue.after(delay, Event::Worked(me, self.life));
            return;
        }
    }

    /// The handler has returned, or the write of its reply is tried again.
    pub(super) fn worked(&mut self, me: usize, life: u32, world: &mut World) {
        if life != self.life {
            return;
        }
        let Some((request, give_up)) = self.current.take() else {
            return;
        };
        let now_ms = world.now() + world.plan.services.get(me).map_or(0, |plan| plan.skew_ms);
        let deadline_ms = Some(request.deadline_ms);
        let give_up = give_up.unwrap_or_else(|| give_up_ms(world.plan.answer, deadline_ms, now_ms));
        let is_final = world.plan.mutation != Some(Mutation::ReplyForEver);
        match world.logs.get_mut(request.partition) {
            Some(Some(log)) => {
                let written_ms = world.queue.now();
                log.push(Reply {
                    correlation: request.correlation,
                    answers: request.number,
                });
                world.replied.entry(request.number).or_insert(written_ms);
                world.note(|| format!("service {me} replies to request {}", request.number));
            }
            // The topic is deleted.
            _ if now_ms < give_up || !is_final => {
                self.current = Some((request, Some(give_up)));
                world.queue.after(WRITE_RETRY_MS, Event::Worked(me, self.life));
                return;
            }
            _ => world.note(|| format!("service {me} gives up the reply to request {}", request.number)),
        }
        self.uncommitted.push(request);
        // A commit covers all before it.
        if world.random.below(4) == 0 {
            self.uncommitted.clear();
        }
        self.begin(me, world);
    }

    /// A crash: everything that is not committed is handled again.
    pub(super) fn crash(&mut self, me: usize, world: &mut World) {
        world.note(|| format!("service {me} crashes"));
        self.life += 1;
        let current = self.current.take().map(|(request, _)| request);
        let again = std::mem::take(&mut self.uncommitted).into_iter().chain(current);
        let again: Vec<Request> = again.collect();
        for request in again.into_iter().rev() {
            self.queue.push_front(request);
        }
        self.begin(me, world);
    }
}
