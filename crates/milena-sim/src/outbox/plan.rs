//! The participants of a run, and its faults.

use milena_machines::{Random, outbox::RelayConfig};

use crate::Mutation;

#[derive(Debug)]
pub(super) struct Plan {
    pub(super) config: RelayConfig,
    pub(super) relays: usize,
    pub(super) aggregates: u64,
    pub(super) transactions: u64,
    /// A transaction is open for less than this; a slow one for less than ten times that.
    pub(super) open_ms: u64,
    /// A statement or a record is on the way for less than this.
    pub(super) latency_ms: u64,
    /// Of 1,000 statements and records, those that are lost, before or after their effect.
    pub(super) lost: u64,
    pub(super) has_faults: bool,
    /// Whether a refused event, a missing topic, and reset failures occur.
    pub(super) has_refusals: bool,
    /// Whether commits can wake relays.
    pub(super) has_wakeups: bool,
    pub(super) faults_end_ms: i64,
    pub(super) end_ms: i64,
    pub(super) mutation: Option<Mutation>,
}

impl Plan {
    pub(super) fn new(random: &mut Random, mutation: Option<Mutation>) -> Self {
        let has_faults = random.below(3) > 0;
        let lease_ms = 3_000 + random.below(6_000) as i64;
        let config = RelayConfig {
            slots: 4,
            batch_rows: 1 + random.below(6) as usize,
            window_rows: 2 + random.below(20) as usize,
            window_bytes: 1 + random.below(1_000),
            poll_ms: 20 + random.below(300) as i64,
            pace_ms: 1 + random.below(20) as i64,
            lease_ms,
            retry_ms: 200,
            retry_ms_max: 2_000,
            clean_ms: None,
        };
        let slowest_ms = if random.below(3) == 0 { 400 } else { 20 };
        let faults_end_ms = 10_000 + random.below(20_000) as i64;
        Self {
            relays: 1 + random.below(3) as usize,
            aggregates: 1 + random.below(8),
            transactions: 20 + random.below(100),
            open_ms: 1 + random.below(300),
            // Requests that are still on their way when a delivery ends must arrive within the lease.
            latency_ms: 1 + random.below(slowest_ms),
            lost: if has_faults { random.below(100) } else { 0 },
            has_faults,
            has_refusals: random.below(3) == 0,
            has_wakeups: random.below(2) == 0,
            faults_end_ms,
            end_ms: faults_end_ms + 6 * lease_ms + 300_000,
            config,
            mutation,
        }
    }
}
