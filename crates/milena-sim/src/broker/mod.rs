//! The broker around the machines: it appends their records, waits until these are durable, and then sends the replies.

mod groups;
mod transactions;

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::{
    Ticket,
    group::GroupConfig,
    transaction::{Markers, ProducerEpoch},
};

use crate::{
    Mutation,
    clients::{CallId, ClientId, Reply, Request},
    journal::{Entry, Journal},
    simulation::{Event, World},
};

use groups::Groups;
pub(crate) use transactions::{DATA_TOPIC, data_partition, offsets_partition};
use transactions::{Transactions, Write};

#[derive(Debug, Clone)]
pub(crate) struct BrokerSettings {
    /// Appended records are durable only after a sync.
    pub(crate) fsync: bool,
    /// The log whose syncs take long.
    pub(crate) slow_log: Option<LogId>,
    /// The probability of a failed append while there are faults, per mille.
    pub(crate) append_failures: u64,
    /// Batches with more records are refused.
    pub(crate) batch_records_max: usize,
    pub(crate) group_config: GroupConfig,
    pub(crate) mutation: Option<Mutation>,
}

#[derive(Debug)]
pub(crate) struct Broker {
    settings: BrokerSettings,
    logs: BTreeMap<LogId, Journal>,
    groups: Groups,
    transactions: Transactions,
    /// Effects that wait until a log is durable up to an offset.
    deferred: Vec<(LogId, usize, Deferred)>,
    /// The clients of open requests, and whether a group's machine may keep them waiting.
    tickets: BTreeMap<Ticket, (ClientId, CallId, bool)>,
    last_ticket: u64,
    /// Incremented with every start: events of an earlier one are dropped.
    incarnation: u64,
    is_up: bool,
    /// The difference of its clock to the true time.
    skew_ms: i64,
    /// The time of the next check of the machines' deadlines.
    alarm: Option<i64>,
}

/// The logs that a broker writes.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum LogId {
    /// `__consumer_offsets`
    Groups,
    /// `__transaction_state`
    Transactions,
    /// A partition that producers write to.
    Data(i32),
}

#[derive(Debug, Clone)]
enum Deferred {
    Reply(Ticket, Reply),
    /// Markers to write.
    Markers(Markers),
    /// A marker that is written.
    MarkerDurable((ByteString, ProducerEpoch)),
    /// Records of a transaction that the coordinator has agreed to.
    Write(Ticket, Write),
}

impl Broker {
    pub(crate) fn new(settings: BrokerSettings, world: &mut World) -> Self {
        let mut broker = Self {
            groups: Groups::new(&settings, world, 0),
            transactions: Transactions::new(0),
            settings,
            logs: BTreeMap::new(),
            deferred: vec![],
            tickets: BTreeMap::new(),
            last_ticket: 0,
            incarnation: 0,
            is_up: false,
            skew_ms: 0,
            alarm: None,
        };
        broker.start(world);
        broker
    }

    fn now(&self, world: &World) -> i64 {
        world.queue.now() + self.skew_ms
    }

    fn log(&mut self, log: &LogId) -> &mut Journal {
        self.logs.entry(log.clone()).or_default()
    }

    /// Appends, unless the disk refuses.
    fn append(&mut self, world: &mut World, log: &LogId, entry: Entry) -> bool {
        if world.faults && world.random.below(1_000) < self.settings.append_failures {
            world.note(|| format!("broker cannot append to {log:?}"));
            return false;
        }
        self.append_surely(world, log, entry);
        true
    }

    fn append_surely(&mut self, world: &mut World, log: &LogId, entry: Entry) {
        world.note(|| format!("broker appends to {log:?}: {entry:?}"));
        self.log(log).append(entry);
        let end = self.log(log).end();
        if self.settings.fsync {
            let slow = world.faults && (self.settings.slow_log.as_ref() == Some(log) || world.random.below(10) == 0);
            let delay = 1 + world.random.below(if slow { 1_000 } else { 20 }) as i64;
            let (log, incarnation) = (log.clone(), self.incarnation);
            world.queue.after(delay, Event::Synced { log, end, incarnation });
        } else {
            self.log(log).sync_to(end);
        }
    }

    /// Defers an effect until all that is now in `log` is durable. A reply without records of its own waits as well: it
    /// may depend on records that are not durable yet.
    fn defer(&mut self, log: &LogId, effect: Deferred) {
        let is_early =
            self.settings.mutation == Some(Mutation::ReplyBeforeDurable) && matches!(effect, Deferred::Reply(..));
        let end = if is_early { 0 } else { self.log(log).end() };
        self.deferred.push((log.clone(), end, effect));
    }

    /// Carries out the deferred effects whose log is durable.
    fn release(&mut self, world: &mut World) {
        loop {
            let is_free =
                |(log, end, _): &(LogId, usize, Deferred)| self.logs.get(log).map_or(0, Journal::durable) >= *end;
            let Some(topic_partition) = self.deferred.iter().position(is_free) else {
                break;
            };
            match self.deferred.remove(topic_partition).2 {
                Deferred::Reply(ticket, reply) => self.reply(world, ticket, reply),
                Deferred::Markers(markers) => self.write_markers(world, &markers),
                Deferred::MarkerDurable(key) => self.marker_durable(world, &key),
                Deferred::Write(ticket, write) => self.write(world, ticket, write),
            }
        }
        if self.is_up {
            self.set_alarm(world);
        }
    }

    fn reply(&mut self, world: &mut World, ticket: Ticket, reply: Reply) {
        let Some((to, call, _)) = self.tickets.remove(&ticket) else {
            return world
                .checks
                .fail(format!("{ticket:?} got two replies, or was never used: {reply:?}"));
        };
        world.note(|| format!("broker replies to {call} of client {to}: {reply:?}"));
        for delay in world.network.reply_delays(&mut world.random) {
            let reply = reply.clone();
            world.queue.after(delay, Event::Reply { to, call, reply });
        }
    }

    fn set_alarm(&mut self, world: &mut World) {
        let deadlines = [self.groups.poll_timeout(), self.transactions.poll_timeout()];
        let Some(deadline) = deadlines.into_iter().flatten().min() else {
            return;
        };
        let time = (deadline - self.skew_ms).max(world.queue.now());
        if self.alarm.is_none_or(|alarm| alarm > time) {
            self.alarm = Some(time);
            world.queue.at(
                time,
                Event::Alarm {
                    incarnation: self.incarnation,
                },
            );
        }
    }

    pub(crate) fn alarm(&mut self, world: &mut World, incarnation: u64) {
        if incarnation != self.incarnation || self.alarm.is_none_or(|alarm| alarm > world.queue.now()) {
            return;
        }
        self.alarm = None;
        let now = self.now(world);
        if self.groups.poll_timeout().is_some_and(|deadline| deadline <= now) {
            let effects = self.groups.handle_timeout(now);
            self.apply_group_effects(world, effects);
        }
        self.transaction_timeout(world);
        self.release(world);
    }

    pub(crate) fn arrive(&mut self, world: &mut World, from: ClientId, call: CallId, request: Request) {
        if !self.is_up {
            let delay = 1 + world.random.below(100) as i64;
            return world.queue.after(delay, Event::NoReply { client: from, call });
        }
        self.last_ticket += 1;
        let ticket = Ticket(self.last_ticket);
        let is_group = matches!(request, Request::Group { .. });
        self.tickets.insert(ticket, (from, call, is_group));
        match request {
            Request::Group { version, request } => self.group_request(world, from, (ticket, version), request),
            Request::Transaction { version, request } => self.transaction_request(world, (ticket, version), request),
            Request::Produce { is_v2, produce } => self.write_request(world, ticket, is_v2, Write::Produce(produce)),
            Request::TxnOffsets { is_v2, request } => {
                self.write_request(world, ticket, is_v2, Write::Offsets(request));
            }
        }
        self.release(world);
    }

    pub(crate) fn synced(&mut self, world: &mut World, log: &LogId, end: usize, incarnation: u64) {
        if incarnation == self.incarnation {
            self.log(log).sync_to(end);
            self.release(world);
        }
    }

    pub(crate) fn topics_changed(&mut self, world: &mut World) {
        if self.is_up {
            let effects = self.groups.set_topics(self.now(world), world.topics.clone());
            self.apply_group_effects(world, effects);
            self.release(world);
        }
    }

    /// The clock of the machine is set, by hand or by a time server.
    pub(crate) fn jump(&mut self, world: &mut World, by_ms: i64) {
        world.note(|| format!("the broker's clock jumps by {by_ms} ms"));
        self.skew_ms += by_ms;
        world.checks.owners.doubt_all(world.queue.now());
        self.alarm = None;
        if self.is_up {
            self.set_alarm(world);
        }
    }

    /// The process ends, and with a power cut the computer too. It starts again after a while.
    pub(crate) fn crash(&mut self, world: &mut World, power_cut: bool) {
        if !self.is_up {
            return;
        }
        world.note(|| format!("the broker ends{}", if power_cut { ", the power is cut" } else { "" }));
        if power_cut {
            self.logs.values_mut().for_each(Journal::cut);
            self.groups.forget_picture();
        } else {
            self.groups.take_picture(self.now(world));
        }
        self.transactions.take_picture(power_cut);
        self.is_up = false;
        self.incarnation += 1;
        self.alarm = None;
        self.deferred.clear();
        // Their connections break.
        for (client, call, _) in std::mem::take(&mut self.tickets).into_values() {
            let delay = 1 + world.random.below(100) as i64;
            world.queue.after(delay, Event::NoReply { client, call });
        }
        let incarnation = self.incarnation;
        let delay = 1 + world.random.below(3_000) as i64;
        world.queue.after(delay, Event::BrokerUp { incarnation });
    }

    pub(crate) fn up(&mut self, world: &mut World, incarnation: u64) {
        if incarnation == self.incarnation {
            self.start(world);
        }
    }

    /// Starts from the logs. Their content is synced first: otherwise a power cut could still take it away.
    fn start(&mut self, world: &mut World) {
        world.note(|| "the broker starts".to_owned());
        self.is_up = true;
        for journal in self.logs.values_mut() {
            journal.sync_to(journal.end());
            if world.random.below(2) == 0 {
                journal.compact();
            }
        }
        self.load_groups(world);
        self.load_transactions(world);
        self.release(world);
    }

    /// The final check: the state of the machines equals that of their logs.
    pub(crate) fn check_logs(&mut self, world: &mut World) {
        self.groups.take_picture(self.now(world));
        let now = self.now(world);
        let journal = self.logs.entry(LogId::Groups).or_default();
        self.groups.check_picture(world, journal, now);
    }
}
