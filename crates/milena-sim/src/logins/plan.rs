//! The participants of a run.

use milena_machines::{
    Random,
    sasl::{Mechanism, ScramMechanism},
};

use crate::Mutation;

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) clients: Vec<ClientPlan>,
    /// The longest session; `None` for no limit.
    pub(super) session_ms: Option<u64>,
    pub(super) token_ms: u64,
    /// Bytes are on the way for less than this.
    pub(super) latency_ms: u64,
    /// A request is served for less than this.
    pub(super) service_ms: u64,
    /// A credential is looked up or verified for less than this.
    pub(super) verify_ms: u64,
    pub(super) faults_ms: u64,
    pub(super) end_ms: i64,
    pub(super) mutation: Option<Mutation>,
}

#[derive(Debug, Clone)]
pub(super) struct ClientPlan {
    pub(super) mechanism: Mechanism,
    pub(super) user: u8,
    pub(super) requests: u32,
    pub(super) in_flight_max: usize,
    pub(super) pace_ms: u64,
    pub(super) style: Style,
    /// The version of SaslAuthenticate; clients of version 0 know no sessions.
    pub(super) version: i16,
    /// The number of connections on which it sends a request before it has logged in.
    pub(super) intrusions: u64,
    pub(super) mutation: Option<Mutation>,
}

/// The behaviour of a client that renews its session while requests are in flight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// It waits for their responses first.
    Drains,
    /// It begins at once, and takes their responses meanwhile, as Java's client does.
    Pipelines,
}

impl Plan {
    pub(super) fn new(random: &mut Random, mutation: Option<Mutation>) -> Self {
        let faults_ms = 10_000 + random.below(20_000);
        let slowest_ms = if random.below(3) == 0 { 400 } else { 20 };
        let clients = (0..1 + random.below(4)).map(|_| ClientPlan::new(random, faults_ms, mutation));
        Self {
            clients: clients.collect(),
            session_ms: (random.below(4) > 0).then(|| 1_500 + random.below(6_000)),
            token_ms: 1_500 + random.below(8_000),
            latency_ms: 1 + random.below(slowest_ms),
            service_ms: 1 + random.below(200),
            verify_ms: 1 + random.below(100),
            faults_ms,
            end_ms: faults_ms as i64 + 240_000,
            mutation,
        }
    }
}

impl ClientPlan {
    fn new(random: &mut Random, faults_ms: u64, mutation: Option<Mutation>) -> Self {
        let mechanism = match random.below(4) {
            0 => Mechanism::Plain,
            1 => Mechanism::Scram(ScramMechanism::Sha256),
            2 => Mechanism::Scram(ScramMechanism::Sha512),
            _ => Mechanism::OAuthBearer,
        };
        let pace_ms = 1 + random.below(300);
        Self {
            mechanism,
            user: random.below(2) as u8,
            requests: u32::try_from(faults_ms / pace_ms).unwrap_or(0).min(300),
            in_flight_max: 1 + random.below(8) as usize,
            pace_ms,
            style: if random.below(2) == 0 {
                Style::Drains
            } else {
                Style::Pipelines
            },
            intrusions: random.below(3),
            version: if random.below(5) == 0 { 0 } else { 2 },
            mutation,
        }
    }
}
