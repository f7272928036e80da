//! The participants of a run.

use milena_machines::{Random, request_reply::AnswerConfig};

use crate::Mutation;

#[derive(Debug)]
pub(super) struct Plan {
    /// The reply partition of each requester. Requesters may share one.
    pub(super) requesters: Vec<usize>,
    /// Whether the reply topic belongs to one requester, and is deleted when that crashes.
    pub(super) has_own_topics: bool,
    pub(super) services: Vec<ServicePlan>,
    pub(super) answer: AnswerConfig,
    /// Messages are on the way for less than this.
    pub(super) latency_ms: u64,
    /// A requester asks for the next replies after less than this.
    pub(super) poll_ms: u64,
    pub(super) pace_ms: u64,
    pub(super) timeout_ms: u64,
    pub(super) requests: u32,
    pub(super) pending_max: u32,
    /// Of 100 requests, those whose task stops waiting.
    pub(super) cancelled_percent: u64,
    pub(super) faults_ms: u64,
    pub(super) end_ms: i64,
    pub(super) mutation: Option<Mutation>,
}

#[derive(Debug)]
pub(super) struct ServicePlan {
    /// Difference of its clock.
    pub(super) skew_ms: i64,
    pub(super) work_ms: u64,
}

impl Plan {
    pub(super) fn new(random: &mut Random, mutation: Option<Mutation>) -> Self {
        let answer = AnswerConfig::default();
        let has_own_topics = random.below(3) == 0;
        let count = 1 + random.below(3) as usize;
        let requesters = (0..count).map(|number| match has_own_topics {
            true => number,
            false => random.below(2) as usize,
        });
        let requesters = requesters.collect();
        let skews = 2 * answer.clock_skew_ms.unsigned_abs() + 1;
        let services = (0..1 + random.below(3)).map(|_| ServicePlan {
            skew_ms: random.below(skews) as i64 - answer.clock_skew_ms,
            work_ms: 1 + random.below(400),
        });
        let services = services.collect();
        let faults_ms = 5_000 + random.below(20_000);
        let pace_ms = 1 + random.below(200);
        Self {
            requesters,
            has_own_topics,
            services,
            answer,
            latency_ms: 1 + random.below(60),
            poll_ms: 1 + random.below(50),
            pace_ms,
            timeout_ms: 300 + random.below(3_000),
            requests: u32::try_from(faults_ms / pace_ms).unwrap_or(0).min(400),
            pending_max: 1 + random.below(64) as u32,
            cancelled_percent: random.below(30),
            faults_ms,
            end_ms: faults_ms as i64 + 60_000,
            mutation,
        }
    }
}
