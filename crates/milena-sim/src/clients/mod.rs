//! Clients as the broker meets them: members of groups, transactional producers, and writers, which have a real sender.

mod member;
mod producer;
mod writer;

use std::sync::Arc;

use bytestring::ByteString;
use milena_machines::{
    Random, TopicsImage,
    group::{GroupReply, GroupRequest},
    transaction::{ProducerEpoch, TransactionReply, TransactionRequest},
};
use milena_wire::{errors::ErrorCode, messages::TxnOffsetCommitRequest};

pub(crate) use member::{GroupMember, MemberSettings, ProtocolSettings};
pub(crate) use producer::{PRODUCERS_GROUP, Producer, ProducerSettings};
pub(crate) use writer::{Copying, Writer, WriterSettings};

use crate::{checks::Checks, history::History, network::Network, queue::Queue, simulation::Event};

pub(crate) type ClientId = usize;
pub(crate) type CallId = u64;

#[derive(Debug, Clone)]
pub(crate) enum Request {
    Group {
        version: i16,
        request: GroupRequest,
    },
    Transaction {
        version: i16,
        request: TransactionRequest,
    },
    Produce {
        is_v2: bool,
        produce: Produce,
    },
    TxnOffsets {
        is_v2: bool,
        request: TxnOffsetCommitRequest,
    },
}

#[derive(Debug, Clone)]
pub(crate) enum Reply {
    Group(GroupReply),
    Transaction(TransactionReply),
    Produced(ErrorCode),
}

/// Records for one partition, in a transaction if there is an id.
#[derive(Debug, Clone)]
pub(crate) struct Produce {
    pub(crate) transactional_id: Option<ByteString>,
    pub(crate) producer: ProducerEpoch,
    pub(crate) partition: i32,
    pub(crate) sequence: i32,
    pub(crate) values: Vec<u64>,
}

/// The reactions of a simulated process.
pub(crate) trait Client: std::fmt::Debug {
    /// A wake-up that it requested.
    fn wake(&mut self, io: &mut Io<'_>);

    fn handle_reply(&mut self, io: &mut Io<'_>, call: CallId, reply: Reply);

    /// There will be no response: the connection broke, or the timeout is over.
    fn handle_no_reply(&mut self, io: &mut Io<'_>, call: CallId);

    /// The process dies, and starts again after a while.
    fn crash(&mut self, io: &mut Io<'_>);
}

/// A request in flight.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Call {
    pub(crate) id: CallId,
    pub(crate) sent_at: i64,
    /// When the last copy reaches the broker; `None` if all are lost.
    pub(crate) last_arrival: Option<i64>,
    /// Whether the broker sees it more than once.
    pub(crate) doubled: bool,
}

/// The actions of a client on the world.
pub(crate) struct Io<'a> {
    pub(crate) id: ClientId,
    pub(crate) random: &'a mut Random,
    pub(crate) checks: &'a mut Checks,
    pub(crate) history: &'a mut History,
    pub(crate) topics: &'a Arc<TopicsImage>,
    pub(crate) queue: &'a mut Queue<Event>,
    pub(crate) network: Network,
    pub(crate) last_call: &'a mut CallId,
    /// When the last message of this client reaches the broker.
    pub(crate) last_arrival: &'a mut i64,
}

impl Io<'_> {
    pub(crate) fn now(&self) -> i64 {
        self.queue.now()
    }

    pub(crate) fn send(&mut self, request: Request, timeout_ms: i64) -> Call {
        *self.last_call += 1;
        let call = *self.last_call;
        let now = self.now();
        let arrivals: Vec<i64> = self
            .network
            .delays(self.random)
            .iter()
            .map(|delay| now + delay)
            .collect();
        let (id, note) = (self.id, request.clone());
        self.history.note(now, || match arrivals.as_slice() {
            [] => format!("client {id} sends {call}, lost: {note:?}"),
            arrivals => format!("client {id} sends {call}, there at {arrivals:?}: {note:?}"),
        });
        let mut last_arrival = None;
        for arrival in &arrivals {
            let arrival = if self.network.reorders {
                *arrival
            } else {
                (*arrival).max(*self.last_arrival)
            };
            *self.last_arrival = arrival.max(*self.last_arrival);
            last_arrival = last_arrival.max(Some(arrival));
            let (from, request) = (self.id, request.clone());
            self.queue.at(arrival, Event::Arrive { from, call, request });
        }
        self.queue.after(timeout_ms, Event::NoReply { client: self.id, call });
        Call {
            id: call,
            sent_at: now,
            last_arrival,
            doubled: arrivals.len() > 1,
        }
    }

    pub(crate) fn wake_at(&mut self, time: i64) {
        self.queue.at(time, Event::Wake { client: self.id });
    }

    /// A random time between now and `max_ms` from now.
    pub(crate) fn soon(&mut self, max_ms: u64) -> i64 {
        self.now() + 1 + self.random.below(max_ms) as i64
    }

    pub(crate) fn note(&mut self, line: impl FnOnce() -> String) {
        let (now, id) = (self.now(), self.id);
        self.history.note(now, || format!("client {id} {}", line()));
    }
}
