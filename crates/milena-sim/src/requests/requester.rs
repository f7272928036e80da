//! Requesters: the real machine, and a model of its driver and of the tasks that wait.

use std::collections::BTreeMap;

use milena_machines::request_reply::{CorrelationId, ReplyVerdict, Requests, RequestsConfig};

use super::{Event, World, service::Request};
use crate::{Mutation, simulation::START_MS};

#[derive(Debug)]
pub(super) struct Requester {
    partition: usize,
    life: u32,
    /// `None` while the process is down.
    process: Option<Process>,
    left: u32,
}

#[derive(Debug)]
struct Process {
    requests: Requests<u64>,
    /// The next offset that is read, once the end of the partition is known.
    position: Option<usize>,
    nonces: u64,
    /// Requests that tasks wait for, with their deadlines.
    waiting: BTreeMap<u64, (CorrelationId, i64)>,
}

impl Requester {
    pub(super) fn new(partition: usize, left: u32) -> Self {
        Self {
            partition,
            life: 0,
            process: None,
            left,
        }
    }

    /// Starts a process: it asks for the end of its partition first.
    pub(super) fn start(&mut self, me: usize, world: &mut World) {
        self.life += 1;
        let is_same = world.plan.mutation == Some(Mutation::KeepRequestEpoch);
        let (epoch, nonces) = match is_same {
            true => (7, 7),
            false => (world.random.next_u64() as u32, world.random.next_u64()),
        };
        let mut requests = Requests::new(RequestsConfig {
            epoch,
            pending_max: world.plan.pending_max,
        });
        if world.plan.mutation == Some(Mutation::PositionAfterSend) {
            requests.handle_position(0);
        }
        self.process = Some(Process {
            requests,
            position: None,
            nonces,
            waiting: BTreeMap::new(),
        });
        world.create_topic(self.partition);
        let delay = world.delay(world.plan.latency_ms);
        world.queue.after(delay, Event::EndAsked(me, self.life));
        world.queue.after(1, Event::Ask(me, self.life));
    }

    /// The broker looks up the end of the partition; the response is on the way.
    pub(super) fn end_asked(&self, me: usize, life: u32, world: &mut World) {
        let end = world
            .logs
            .get(self.partition)
            .and_then(Option::as_ref)
            .map_or(0, Vec::len);
        let delay = world.delay(world.plan.latency_ms);
        world.queue.after(delay, Event::EndKnown(me, life, end));
    }

    pub(super) fn end_known(&mut self, me: usize, (life, end): (u32, usize), world: &mut World) {
        let Some(process) = self.process.as_mut().filter(|_| life == self.life) else {
            return;
        };
        process.position = Some(end);
        process.requests.handle_position(end as i64);
        world.note(|| format!("requester {me} reads from {end}"));
        world.queue.after(0, Event::Poll(me, life));
    }

    /// A task makes a request.
    pub(super) fn ask(&mut self, me: usize, life: u32, world: &mut World) {
        let Some(process) = self.process.as_mut().filter(|_| life == self.life) else {
            return;
        };
        // Requests that services are too slow for are not made, so that the rest can end.
        if world.now() - START_MS > world.plan.faults_ms as i64 + 20_000 {
            self.left = 0;
        }
        if self.left == 0 {
            return;
        }
        // A requester that is full asks again later, never in the same instant.
        let delay = 1 + world.delay(world.plan.pace_ms);
        world.queue.after(delay, Event::Ask(me, life));
        let number = world.next_number();
        let deadline_ms = world.now() + world.plan.timeout_ms as i64;
        process.nonces = process.nonces.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let Ok(id) = process.requests.begin(process.nonces, deadline_ms, number) else {
            return;
        };
        self.left -= 1;
        process.waiting.insert(number, (id, deadline_ms));
        world.note(|| format!("requester {me} sends request {number} as {id}"));
        if world.plan.mutation != Some(Mutation::ForgetRequestDeadlines) {
            world.queue.at(deadline_ms, Event::Deadline(me, life));
        }
        let request = Request {
            number,
            partition: self.partition,
            correlation: id.to_bytes(),
            deadline_ms,
        };
        let delay = world.delay(world.plan.latency_ms);
        world.queue.after(delay, Event::ToService(request));
        if world.random.below(100) < world.plan.cancelled_percent {
            let delay = world.delay(world.plan.timeout_ms);
            world.queue.after(delay, Event::Cancel(me, life, number));
        }
    }

    pub(super) fn cancel(&mut self, me: usize, (life, number): (u32, u64), world: &mut World) {
        let Some(process) = self.process.as_mut().filter(|_| life == self.life) else {
            return;
        };
        if let Some((id, _)) = process.waiting.remove(&number) {
            world.note(|| format!("requester {me} cancels request {number}"));
            if world.plan.mutation != Some(Mutation::ForgetCancelled) {
                process.requests.cancel(id);
            }
        }
        self.check(me, world);
    }

    /// Reads replies from the partition.
    pub(super) fn poll(&mut self, me: usize, life: u32, world: &mut World) {
        let Some(process) = self.process.as_mut().filter(|_| life == self.life) else {
            return;
        };
        let is_over = self.left == 0 && process.waiting.is_empty();
        let delay = match is_over {
            true => 1_000,
            false => 1 + world.delay(world.plan.poll_ms),
        };
        world.queue.after(delay, Event::Poll(me, life));
        let log = world.logs.get(self.partition).and_then(Option::as_ref);
        let from = process.position.unwrap_or(0);
        let replies = log.and_then(|log| log.get(from..)).unwrap_or_default().to_vec();
        process.position = Some(from + replies.len());
        for reply in replies {
            let oldest = process.waiting.values().next().map(|(id, _)| id.to_bytes());
            let correlation = match world.plan.mutation {
                Some(Mutation::MatchRepliesInOrder) => oldest.unwrap_or(reply.correlation),
                _ => reply.correlation,
            };
            let verdict = process.requests.handle_reply(Some(&correlation));
            world.note(|| format!("requester {me} reads the reply to {}: {verdict:?}", reply.answers));
            let ReplyVerdict::Completes(number) = verdict else {
                continue;
            };
            world.demand(number == reply.answers, || {
                format!(
                    "request {number} got the reply of another: of request {}",
                    reply.answers
                )
            });
            let is_awaited = process.waiting.remove(&number).is_some();
            let may_be_dropped = world.plan.mutation == Some(Mutation::ForgetCancelled);
            world.demand(is_awaited || may_be_dropped, || format!("request {number} ended twice"));
        }
        self.check(me, world);
    }

    /// A deadline has come.
    pub(super) fn deadline(&mut self, me: usize, life: u32, world: &mut World) {
        let Some(process) = self.process.as_mut().filter(|_| life == self.life) else {
            return;
        };
        while let Some(number) = process.requests.poll_expired(world.now()) {
            world.note(|| format!("requester {me}: request {number} times out"));
            // A reply that was there in time, with time to read it, must have been read.
            let read_ms = 2 * world.plan.poll_ms as i64 + 2;
            let written_ms = world.replied.get(&number).copied();
            let is_lost = written_ms.is_some_and(|written_ms| written_ms + read_ms < world.now());
            world.demand(!is_lost, || {
                format!("the reply to request {number}, written at {written_ms:?}, was lost")
            });
            process.waiting.remove(&number);
        }
        self.check(me, world);
    }

    /// Nothing is kept that no task waits for, and no task waits for longer than it wants to.
    fn check(&self, me: usize, world: &mut World) {
        let Some(process) = &self.process else { return };
        let (kept, awaited) = (process.requests.pending(), process.waiting.len());
        world.demand(kept <= awaited, || {
            format!("requester {me} keeps {kept} requests, and tasks wait for {awaited}")
        });
        let now = world.now();
        let overdue = process.waiting.iter().find(|(_, (_, deadline_ms))| *deadline_ms < now);
        if let Some((number, _)) = overdue {
            world.demand(false, || format!("request {number} was not ended at its deadline"));
        }
    }

    pub(super) fn crash(&mut self, me: usize, world: &mut World) {
        if self.process.take().is_none() {
            return;
        }
        world.note(|| format!("requester {me} crashes"));
        if world.plan.has_own_topics {
            world.delete_topic(self.partition);
        }
        // Some never come back.
        if world.random.below(3) > 0 {
            let delay = world.delay(2_000);
            world.queue.after(delay, Event::Start(me));
        }
    }

    pub(super) fn check_settled(&self, me: usize, world: &mut World) {
        if let Some(process) = &self.process {
            let (pending, next) = (process.requests.pending(), process.requests.next_deadline());
            world.demand(pending == 0 && next.is_none(), || {
                format!("requester {me} has {pending} requests at the end, next deadline {next:?}")
            });
        }
    }
}
