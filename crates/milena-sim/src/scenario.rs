//! Scenarios: their participants, and their faults.

use std::collections::BTreeSet;

use bytestring::ByteString;
use milena_machines::{
    Random,
    group::{GroupConfig, MigrationPolicy},
};

use crate::{
    Mutation,
    broker::{Broker, BrokerSettings, LogId},
    clients::{
        Copying, GroupMember, MemberSettings, Producer, ProducerSettings, ProtocolSettings, Writer, WriterSettings,
    },
    network::Network,
    simulation::{Event, Fault, START_MS, Simulation, World},
};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scenario {
    /// Groups of the classic protocol.
    Classic,
    /// Groups of the consumer protocol.
    Consumer,
    /// Groups with members of both protocols.
    Migration,
    /// Transactional producers.
    Transactions,
    /// Real senders: plain ones, and ones that copy in transactions.
    Producers,
    /// Applications that handle records.
    App,
    /// Clients that log in and renew their sessions.
    Logins,
    /// Requesters and services that exchange requests and replies.
    Requests,
    /// Relays of an outbox table.
    Outbox,
    /// Services that take part in sagas.
    Saga,
}

impl Scenario {
    pub const ALL: [Self; 9] = [
        Self::Classic,
        Self::Consumer,
        Self::Migration,
        Self::Transactions,
        Self::Producers,
        Self::App,
        Self::Logins,
        Self::Requests,
        Self::Outbox,
        Self::Saga,
    ];

    /// The name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Classic => "classic",
            Self::Consumer => "consumer",
            Self::Migration => "migration",
            Self::Transactions => "transactions",
            Self::Producers => "producers",
            Self::App => "app",
            Self::Logins => "logins",
            Self::Requests => "requests",
            Self::Outbox => "outbox",
            Self::Saga => "saga",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scenario| scenario.name() == name)
    }
}

/// The session timeout and heartbeat interval of members of the consumer protocol.
const SESSION_MS: i32 = 8_000;
const HEARTBEAT_MS: i32 = 1_000;
/// The time by which all members are back.
const ENFORCED_AFTER_MS: i64 = 30_000;
/// The largest jump of the clock. A jump back makes every session longer by that.
const JUMP_MS_MAX: u64 = 15_000;

/// A run that is set up, and when its parts end.
#[derive(Debug)]
pub(crate) struct Plan {
    pub(crate) simulation: Simulation,
    pub(crate) end: i64,
}

pub(crate) fn plan(scenario: Scenario, seed: u64, mutation: Option<Mutation>, with_history: bool) -> Plan {
    let mut world = World::new(seed, with_history);
    let random = &mut world.random;
    let reorders = matches!(scenario, Scenario::Classic | Scenario::Producers) && random.below(3) == 0;
    // A member of the consumer protocol never does that: it rejoins.
    let doubles = scenario == Scenario::Classic;
    world.network = Network::bad(random, doubles, reorders);
    if scenario == Scenario::Producers {
        world.network.answers_doubled = random.below(80);
    }
    world.checks.owners.only_generations = reorders;
    world.checks.owners.generations_repeat = scenario == Scenario::Migration;
    let settings = BrokerSettings {
        fsync: random.below(3) > 0,
        slow_log: slow_log(random),
        append_failures: random.below(15),
        batch_records_max: batch_records_max(scenario, random),
        group_config: group_config(random),
        mutation,
    };
    for topic in 0..1 + world.random.below(2) {
        let partitions = 1 + world.random.below(5) as i32;
        world.set_topic(topic_name(topic), partitions);
    }
    let broker = Broker::new(settings, &mut world);
    let mut simulation = Simulation::new(world, broker);
    let faults_end = START_MS + 20_000 + simulation.world.random.below(30_000) as i64;
    match scenario {
        Scenario::Transactions => add_producers(&mut simulation, faults_end),
        Scenario::Producers => add_writers(&mut simulation, faults_end, mutation),
        _ => add_members(&mut simulation, scenario, faults_end, mutation),
    }
    let faults_max = match scenario {
        Scenario::Transactions | Scenario::Producers => 20,
        _ => 10,
    };
    let back_ms = add_faults(&mut simulation, faults_end, faults_max);
    simulation.world.queue.at(faults_end, Event::FaultsStop);
    // The longest case: a client is down, joins, an old one must expire, then two rebalances.
    let end = faults_end + 60_000 + 2 * back_ms;
    Plan { simulation, end }
}

fn slow_log(random: &mut Random) -> Option<LogId> {
    match random.below(4) {
        0 => Some(LogId::Groups),
        1 => Some(LogId::Transactions),
        2 => Some(LogId::Data(0)),
        _ => None,
    }
}

/// Only senders can split batches that are too large.
fn batch_records_max(scenario: Scenario, random: &mut Random) -> usize {
    match scenario {
        Scenario::Producers if random.below(4) == 0 => 1 + random.below(2) as usize,
        _ => usize::MAX,
    }
}

fn topic_name(number: u64) -> ByteString {
    format!("topic-{number}").into()
}

fn group_config(random: &mut Random) -> GroupConfig {
    GroupConfig {
        initial_rebalance_delay_ms: if random.below(2) == 0 { 0 } else { 1_000 },
        consumer_session_timeout_ms: SESSION_MS,
        consumer_heartbeat_interval_ms: HEARTBEAT_MS,
        migration_policy: MigrationPolicy::Bidirectional,
        regex_refresh_interval_ms: 10_000,
        ..GroupConfig::default()
    }
}

fn add_members(simulation: &mut Simulation, scenario: Scenario, faults_end: i64, mutation: Option<Mutation>) {
    let assignors = assignors(&mut simulation.world.random);
    let count = 1 + simulation.world.random.below(4);
    let mut members = vec![];
    for number in 0..count {
        let random = &mut simulation.world.random;
        let is_classic = match scenario {
            Scenario::Classic => true,
            Scenario::Consumer => false,
            _ => random.below(2) == 0,
        };
        let instance = (random.below(3) == 0).then(|| ByteString::from(format!("instance-{number}")));
        // One more process with the instance id of another, as after a failed stop.
        let processes = if instance.is_some() && random.below(3) == 0 {
            2
        } else {
            1
        };
        // Only the first process leaves; with two, it is not known which of them is the member.
        let leaves = processes == 1 && number > 0 && random.below(5) == 0;
        let protocol = if is_classic {
            ProtocolSettings::Classic {
                session_ms: 6_000 + random.below(3_000) as i32,
                assignors: assignors.clone(),
            }
        } else {
            ProtocolSettings::Consumer {
                assignor: (random.below(4) == 0).then(|| ByteString::from_static("range")),
                session_ms: SESSION_MS,
            }
        };
        let settings = member_settings(random, instance, protocol);
        for _ in 0..processes {
            let start = START_MS + random.below(15_000) as i64;
            let leaves_at = leaves.then(|| start + random.below(30_000) as i64);
            let forgets_revoked = mutation == Some(Mutation::ForgetRevoked);
            // All with the same settings: Kafka ignores the topics of a static member that rejoins.
            let settings = settings.clone();
            members.push((
                start,
                MemberSettings {
                    leaves_at,
                    forgets_revoked,
                    ..settings
                },
            ));
        }
    }
    // A process that takes the topic_partition of an older one gets that one's assignment without a rebalance. A partition that
    // should have moved meanwhile is read by no member until the next, as in Kafka: a member must request one.
    let is_static = |(_, member): &(i64, MemberSettings)| member.instance.is_some();
    let enforces_at = members.iter().any(is_static).then_some(faults_end + ENFORCED_AFTER_MS);
    for (start, settings) in members {
        let settings = MemberSettings {
            enforces_at,
            ..settings
        };
        simulation.add(Box::new(GroupMember::new(settings)), start);
    }
}

/// Those of one group must have one in common. The default of Kafka's client is eager.
fn assignors(random: &mut Random) -> Vec<&'static str> {
    match random.below(5) {
        0 => vec!["range"],
        1 => vec!["range", "cooperative-sticky"],
        2 => vec!["sticky"],
        3 => vec!["roundrobin"],
        _ => vec!["cooperative-sticky"],
    }
}

/// Some share a transactional id: only the last that started may go on.
fn add_producers(simulation: &mut Simulation, faults_end: i64) {
    for _ in 0..1 + simulation.world.random.below(4) {
        let random = &mut simulation.world.random;
        let settings = ProducerSettings {
            transactional_id: format!("id-{}", random.below(3)).into(),
            is_v2: random.below(2) == 0,
            timeout_ms: 4_000 + random.below(8_000) as i32,
            partitions: 1 + random.below(3) as i32,
            stops_at: faults_end + 10_000,
        };
        let start = START_MS + random.below(20_000) as i64;
        simulation.add(Box::new(Producer::new(settings)), start);
    }
}

/// Senders of all kinds. Some copy the same input: only the last that started may go on.
fn add_writers(simulation: &mut Simulation, faults_end: i64, mutation: Option<Mutation>) {
    let partitions = 1 + simulation.world.random.below(3) as i32;
    for _ in 0..1 + simulation.world.random.below(4) {
        let random = &mut simulation.world.random;
        // Version 1, version 2, or the change from one to the other.
        let v2_from = match random.below(3) {
            0 => u64::MAX,
            1 => 0,
            _ => 1 + random.below(6),
        };
        let is_copying = random.below(3) > 0;
        let copying = is_copying.then(|| Copying {
            input: random.below(2) as i32,
            timeout_ms: 6_000 + random.below(12_000) as i32,
            v2_from,
        });
        // Late requests of a sender that has given up are a danger to version 1 only: there they can end, or become
        // part of, the next transaction. KIP-890 describes how, and version 2 is its remedy.
        let request_timeout_ms = if is_copying && v2_from > 0 {
            8_000
        } else {
            700 + random.below(2_500) as i64
        };
        let settings = WriterSettings {
            copying,
            partitions,
            max_in_flight: 1 + random.below(5) as usize,
            request_timeout_ms,
            delivery_timeout_ms: 3_000 + random.below(15_000) as i64,
            stops_at: faults_end + 25_000,
            mutation,
        };
        let start = START_MS + random.below(15_000) as i64;
        simulation.add(Box::new(Writer::new(settings)), start);
    }
}

fn member_settings(random: &mut Random, instance: Option<ByteString>, protocol: ProtocolSettings) -> MemberSettings {
    let pattern = (random.below(4) == 0).then(|| ByteString::from_static("topic-.*"));
    let topics = match (&pattern, random.below(4)) {
        (Some(_), _) => BTreeSet::new(),
        (None, 0) => [topic_name(0)].into(),
        (None, _) => [topic_name(0), topic_name(1)].into(),
    };
    // Applications may be busy for longer than a session, or not.
    let rebalance_ms = match random.below(3) {
        0 => 12_000 + random.below(8_000) as i32,
        _ => 5_000 + random.below(5_000) as i32,
    };
    MemberSettings {
        group: "group".into(),
        instance,
        topics,
        pattern,
        rebalance_ms,
        protocol,
        callback_ms_max: 1 + random.below(3_000),
        leaves_at: None,
        enforces_at: None,
        forgets_revoked: false,
    }
}

/// Plans the faults before `end`. Returns how far the clock goes back.
fn add_faults(simulation: &mut Simulation, end: i64, faults_max: u64) -> i64 {
    let clients = simulation.client_count() as u64;
    let World { queue, random, .. } = &mut simulation.world;
    let mut back_ms = 0;
    for _ in 0..random.below(faults_max) {
        let fault = match random.below(12) {
            0..3 => Fault::CrashClient(random.below(clients) as usize),
            3..6 => Fault::PauseClient {
                client: random.below(clients) as usize,
                for_ms: 1_000 + random.below(15_000) as i64,
            },
            6..8 => Fault::CrashBroker { power_cut: false },
            8..10 => Fault::CrashBroker { power_cut: true },
            10 => {
                let by_ms = random.below(2 * JUMP_MS_MAX) as i64 - JUMP_MS_MAX as i64;
                back_ms += (-by_ms).max(0);
                Fault::JumpClock { by_ms }
            }
            _ => Fault::SetTopic {
                name: topic_name(random.below(3)),
                partitions: 1 + random.below(6) as i32,
            },
        };
        queue.at(
            START_MS + random.below((end - START_MS) as u64) as i64,
            Event::Fault(fault),
        );
    }
    back_ms
}
