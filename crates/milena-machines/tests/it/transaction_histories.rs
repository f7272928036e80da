//! Histories of several clients with one transactional id: requests are lost, repeated and late, the coordinator dies
//! between any two steps, time passes.
//!
//! Every transaction writes into a partition of its own, so that its result can be read off the markers.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use milena_machines::{
    Random, Ticket, TransactionCoordinator,
    transaction::{
        Markers, ProducerEpoch, TransactionConfig, TransactionContext, TransactionEffects, TransactionRecord,
        TransactionReply, TransactionRequest, TransactionState,
    },
};
use milena_wire::{errors::ErrorCode, messages::TransactionLogValue};

use crate::transaction_rig::{
    ADD_V1, ADD_V2, END_V1, END_V2, ID, TIMEOUT_MS, end_request, error, init_request, init_request_as, producer,
    stored_at, topic_partition,
};

const HISTORIES: u64 = 2_000;
const STEPS: usize = 250;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// Requests its producer id.
    Init,
    Ready,
    /// Adds the partition of its next transaction.
    Adding(i32),
    Open(i32),
    Ending {
        partition: Option<i32>,
        committed: bool,
    },
}

#[derive(Debug)]
struct Client {
    speaks_v2: bool,
    producer: Option<ProducerEpoch>,
    phase: Phase,
    /// Counts its requests; a repeated request has the same number.
    asked: u64,
}

#[derive(Debug, Clone)]
struct Message {
    client: usize,
    asked: u64,
    version: i16,
    request: TransactionRequest,
}

struct World {
    random: Random,
    coordinator: TransactionCoordinator,
    coordinator_epoch: i32,
    now_ms: i64,
    next_id: i64,
    log: Vec<TransactionRecord>,
    /// Records that are not yet durable.
    pending: VecDeque<TransactionEffects>,
    markers: Vec<Markers>,
    clients: Vec<Client>,
    network: Vec<Message>,
    /// Requests by ticket, until the reply or the death of the coordinator.
    tickets: BTreeMap<Ticket, Message>,
    next_ticket: u64,
    next_partition: i32,
    /// The decision that reached each partition.
    written: BTreeMap<i32, bool>,
    /// The result of each partition, as clients know it.
    told: BTreeMap<i32, bool>,
    producer_ids: BTreeSet<i64>,
}

impl World {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let clients = (0..2 + random.below(2)).map(|_| Client {
            speaks_v2: random.below(3) > 0,
            producer: None,
            phase: Phase::Init,
            asked: 0,
        });
        let mut world = Self {
            clients: clients.collect(),
            random,
            coordinator: TransactionCoordinator::new(TransactionConfig::default(), 0),
            coordinator_epoch: 0,
            now_ms: 1_000_000,
            next_id: 1_000,
            log: Vec::new(),
            pending: VecDeque::new(),
            markers: Vec::new(),
            network: Vec::new(),
            tickets: BTreeMap::new(),
            next_ticket: 0,
            next_partition: 0,
            written: BTreeMap::new(),
            told: BTreeMap::new(),
            producer_ids: BTreeSet::new(),
        };
        if world.random.below(2) == 0 {
            // Near the last epoch.
            let epoch = i16::MAX - 8 + i16::try_from(world.random.below(8)).unwrap();
            let mut value = stored_at(producer(500, epoch.min(i16::MAX - 1)));
            value.transaction_last_update_timestamp_ms = world.now_ms;
            let record = TransactionRecord {
                transactional_id: ID.into(),
                value: Some(value),
            };
            world.coordinator.replay(record.clone());
            world.log.push(record);
        }
        world
    }

    fn step(&mut self) {
        match self.random.below(100) {
            0..25 => self.client_acts(),
            25..55 => self.deliver(true),
            55..80 => self.become_durable(true),
            80..95 => self.write_markers(),
            95..97 => self.crash(),
            _ => self.pass_time(),
        }
        self.check_rebuilt();
    }

    fn client_acts(&mut self) {
        let index = usize::try_from(self.random.below(self.clients.len() as u64)).unwrap();
        let choice = self.random.below(10);
        let client = &mut self.clients[index];
        if client.phase == Phase::Init && self.random.below(12) > 0 {
            // It was fenced, or is about to fence another: that may take a while.
            return;
        }
        let phase = match client.phase {
            Phase::Ready if client.speaks_v2 && choice == 0 => Phase::Ending {
                partition: None,
                committed: false,
            },
            Phase::Ready if choice == 1 && self.random.below(3) == 0 => Phase::Init,
            Phase::Ready => {
                self.next_partition += 1;
                Phase::Adding(self.next_partition)
            }
            Phase::Open(partition) => Phase::Ending {
                partition: Some(partition),
                committed: choice < 6,
            },
            // The response is late: it repeats the request.
            waiting => waiting,
        };
        if phase != client.phase || client.asked == 0 {
            client.phase = phase;
            client.asked += 1;
        } else if self.is_on_its_way(index) && self.random.below(6) > 0 {
            return;
        }
        let message = self.message_of(index);
        self.network.push(message);
    }

    fn is_on_its_way(&self, index: usize) -> bool {
        let asked = self.clients[index].asked;
        let mut known = self.network.iter().chain(self.tickets.values());
        known.any(|message| message.client == index && message.asked == asked)
    }

    fn message_of(&self, index: usize) -> Message {
        let client = &self.clients[index];
        let as_who = client.producer.unwrap_or_else(|| producer(-1, -1));
        let (version, request) = match client.phase {
            Phase::Init | Phase::Ready | Phase::Open(_) => {
                let init = match client.producer {
                    Some(producer) if client.asked.is_multiple_of(3) => init_request_as(producer),
                    _ => init_request(),
                };
                (5, TransactionRequest::InitProducerId(init))
            }
            Phase::Adding(partition) => {
                let request = TransactionRequest::AddPartitions {
                    transactional_id: ID.into(),
                    producer: as_who,
                    partitions: vec![topic_partition(partition)],
                    verify_only: false,
                };
                (if client.speaks_v2 { ADD_V2 } else { ADD_V1 }, request)
            }
            Phase::Ending { committed, .. } => {
                let version = if client.speaks_v2 { END_V2 } else { END_V1 };
                (version, end_request(ID, as_who, committed))
            }
        };
        Message {
            client: index,
            asked: client.asked,
            version,
            request,
        }
    }

    fn deliver(&mut self, is_faulty: bool) {
        if self.network.is_empty() {
            return;
        }
        let index = usize::try_from(self.random.below(self.network.len() as u64)).unwrap();
        let fate = if is_faulty { self.random.below(10) } else { 9 };
        let message = if fate == 0 {
            self.network[index].clone()
        } else {
            self.network.swap_remove(index)
        };
        let client = &self.clients[message.client];
        let is_init = matches!(message.request, TransactionRequest::InitProducerId(_));
        if fate == 1 || (!client.speaks_v2 && !is_init && message.asked != client.asked) {
            // Lost. With version 1, late requests may do harm in Kafka too: KIP-890 is about that.
            return;
        }
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        let context = TransactionContext {
            now_ms: self.now_ms,
            ticket,
            version: message.version,
        };
        let before = self.value();
        let next_id = &mut self.next_id;
        let mut ids = || {
            *next_id += 1;
            Some(*next_id)
        };
        let effects = self
            .coordinator
            .handle_request(&context, message.request.clone(), &mut ids);
        self.check_owner(before.as_ref(), &message.request, &effects);
        self.tickets.insert(ticket, message);
        self.queue(effects);
    }

    /// Only the owner of the id has success.
    fn check_owner(
        &self,
        before: Option<&TransactionLogValue>,
        request: &TransactionRequest,
        effects: &TransactionEffects,
    ) {
        let owner = before.map(|value| producer(value.producer_id, value.producer_epoch));
        match request {
            TransactionRequest::AddPartitions { producer, .. } => {
                let added = TransactionReply::AddPartitions(ErrorCode::None);
                let is_done = effects.replies.iter().any(|(_, reply)| *reply == added);
                assert!(!is_done || owner == Some(*producer), "{producer:?} is not {owner:?}");
            }
            TransactionRequest::End(end) => {
                let who = producer(end.producer_id, end.producer_epoch);
                assert!(
                    effects.records.is_empty() || owner == Some(who),
                    "{who:?} is not {owner:?}"
                );
            }
            _ => {}
        }
    }

    fn queue(&mut self, effects: TransactionEffects) {
        for markers in &effects.markers {
            let value = self.value().expect("markers are of a known id");
            let state = TransactionState::from_id(value.transaction_status).unwrap();
            assert_eq!(state.prepared(), Some(markers.committed));
            assert_eq!(markers.producer, producer(value.producer_id, value.producer_epoch));
            assert_eq!(markers.coordinator_epoch, self.coordinator_epoch);
        }
        self.pending.push_back(effects);
    }

    fn become_durable(&mut self, is_faulty: bool) {
        let Some(effects) = self.pending.pop_front() else {
            return;
        };
        for record in effects.records {
            self.append(record);
        }
        self.markers.extend(effects.markers);
        for (ticket, reply) in effects.replies {
            let message = self.tickets.remove(&ticket).expect("each request gets a reply once");
            if !is_faulty || self.random.below(10) > 0 {
                self.respond(&message, reply);
            }
        }
    }

    fn append(&mut self, record: TransactionRecord) {
        let last = self.log.last().and_then(|record| record.value.as_ref());
        if let Some(value) = &record.value {
            let state = TransactionState::from_id(value.transaction_status).unwrap();
            let (before, last_epoch) = match last {
                Some(last) => {
                    let is_same = last.producer_id == value.producer_id;
                    let before = TransactionState::from_id(last.transaction_status).unwrap();
                    (before, is_same.then_some(last.producer_epoch))
                }
                None => (TransactionState::Empty, None),
            };
            assert!(state.may_follow(before), "{state:?} after {before:?}");
            match last_epoch {
                Some(last_epoch) => assert!(value.producer_epoch >= last_epoch, "epochs never go back"),
                None => assert!(
                    self.producer_ids.insert(value.producer_id),
                    "producer ids are never used again"
                ),
            }
        }
        self.log.push(record);
    }

    fn write_markers(&mut self) {
        if self.markers.is_empty() {
            return;
        }
        let markers = self.markers.remove(0);
        for partition in &markers.partitions {
            let before = self.written.insert(partition.partition, markers.committed);
            assert!(
                before.is_none_or(|before| before == markers.committed),
                "committed and aborted"
            );
        }
        if self.random.below(8) == 0 {
            // The coordinator does not learn of it, and requests them again only if it dies.
            self.markers.push(markers);
            return;
        }
        let effects = self
            .coordinator
            .handle_markers_written(self.now_ms, ID, markers.producer);
        self.queue(effects);
    }

    fn crash(&mut self) {
        for _ in 0..self.random.below(self.pending.len() as u64 + 1) {
            // Durable, but without a reply.
            for record in self.pending.pop_front().into_iter().flat_map(|effects| effects.records) {
                self.append(record);
            }
        }
        self.pending.clear();
        self.markers.clear();
        self.tickets.clear();
        self.coordinator_epoch += 1;
        self.coordinator = TransactionCoordinator::new(TransactionConfig::default(), self.coordinator_epoch);
        for record in &self.log {
            let stored = record.encode().unwrap();
            self.coordinator
                .replay_stored(&stored.key, stored.value.as_ref())
                .unwrap();
        }
        let effects = self.coordinator.start(self.now_ms);
        self.queue(effects);
    }

    fn pass_time(&mut self) {
        let is_long = self.random.below(20) == 0;
        self.now_ms += if is_long { i64::from(TIMEOUT_MS) + 1 } else { 50 };
        if self
            .coordinator
            .poll_timeout()
            .is_some_and(|deadline_ms| deadline_ms <= self.now_ms)
        {
            let next_id = &mut self.next_id;
            let mut ids = || {
                *next_id += 1;
                Some(*next_id)
            };
            let effects = self.coordinator.handle_timeout(self.now_ms, &mut ids);
            self.queue(effects);
        }
    }

    fn respond(&mut self, message: &Message, reply: TransactionReply) {
        let client = &mut self.clients[message.client];
        if client.asked != message.asked {
            return;
        }
        let (outcome, given) = match reply {
            TransactionReply::InitProducerId(response) => {
                let given = producer(response.producer_id, response.producer_epoch);
                (error(response.error_code), Some(given))
            }
            TransactionReply::AddPartitions(error) => (error, client.producer),
            TransactionReply::End(response) if client.speaks_v2 => {
                let given = producer(response.producer_id, response.producer_epoch);
                (error(response.error_code), Some(given))
            }
            TransactionReply::End(response) => (error(response.error_code), client.producer),
            other => panic!("nobody asked for {other:?}"),
        };
        match outcome {
            ErrorCode::None => {
                client.phase = match client.phase {
                    Phase::Adding(partition) => Phase::Open(partition),
                    Phase::Ending { partition, committed } => {
                        self.told.extend(partition.map(|partition| (partition, committed)));
                        Phase::Ready
                    }
                    _ => Phase::Ready,
                };
                client.producer = given;
            }
            ErrorCode::ConcurrentTransactions => {}
            _ => {
                client.phase = Phase::Init;
                client.asked += 1;
            }
        }
    }

    /// Once there are no faults any more, everything comes to an end.
    fn calm_down(&mut self) {
        while !(self.network.is_empty() && self.pending.is_empty() && self.markers.is_empty()) {
            self.deliver(false);
            self.become_durable(false);
            self.write_markers();
            self.check_rebuilt();
        }
        assert!(self.tickets.is_empty(), "each request gets a reply");
        let state = self
            .value()
            .and_then(|value| TransactionState::from_id(value.transaction_status));
        assert!(state.is_none_or(|state| state.prepared().is_none()), "{state:?}");
        for (partition, committed) in &self.told {
            assert_eq!(self.written.get(partition), Some(committed), "as the client was told");
        }
    }

    fn value(&self) -> Option<TransactionLogValue> {
        self.coordinator.snapshot().pop().and_then(|record| record.value)
    }

    /// The coordinator equals one loaded from its log and the records in flight.
    fn check_rebuilt(&self) {
        let mut rebuilt = TransactionCoordinator::new(TransactionConfig::default(), 0);
        let pending = self.pending.iter().flat_map(|effects| &effects.records);
        // Records are complete: the last one of an id has the whole state.
        if let Some(record) = self.log.iter().chain(pending).next_back() {
            rebuilt.replay(record.clone());
        }
        assert_eq!(rebuilt.snapshot(), self.coordinator.snapshot());
    }
}

#[test]
fn no_history_loses_a_verdict_or_obeys_a_fenced_producer() {
    let (mut committed, mut aborted) = (0, 0);
    for seed in 0..HISTORIES {
        let run = std::panic::catch_unwind(|| {
            let mut world = World::new(seed);
            for _ in 0..STEPS {
                world.step();
            }
            world.calm_down();
            world.told.values().copied().collect::<Vec<_>>()
        });
        let told = run.unwrap_or_else(|_| panic!("seed {seed}"));
        committed += told.iter().filter(|committed| **committed).count();
        aborted += told.iter().filter(|committed| !**committed).count();
    }
    // The histories are worth something: transactions end in them, and their clients learn of it.
    assert!(
        committed > 1_000 && aborted > 1_000,
        "{committed} committed, {aborted} aborted"
    );
}
