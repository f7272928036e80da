//! A handler, as far as the scheduler knows it.

use super::super::{HandlerConfig, Limits, RetryOrdering};
use super::ahead::CallTime;

/// How long a run may wait for earlier records of its partition, before a handler of single records.
const RUN_WAITS_MS: i64 = 5;

#[derive(Debug)]
pub(super) struct Handler {
    pub(super) config: HandlerConfig,
    /// Whether it gets runs: no gate has to look at single records before they are handed out.
    pub(super) takes_runs: bool,
    /// How long a run waits for earlier records of its partition before its keys are queued one by one.
    pub(super) run_waits_ms: i64,
    partitions: u64,
    /// The share of its limits that each partition may fill.
    pub(super) partition_limits: Limits,
    /// The time since when a batch waits to be full.
    pub(super) ready_since_ms: Option<i64>,
    /// How long its calls take, which decides how far ahead of them is committed at most once.
    pub(super) call_time: CallTime,
}

impl Handler {
    pub(super) fn new(config: &HandlerConfig) -> Self {
        Self {
            config: config.clone(),
            takes_runs: config.concurrency.is_none()
                && config.bulkhead.is_none()
                && config.rate.is_none()
                && config.breakers.is_empty()
                && config.dlq_limit.is_none()
                && config.retry.ordering == RetryOrdering::Overtake,
            run_waits_ms: config.batch.map_or(RUN_WAITS_MS, |batch| batch.linger_ms),
            partitions: 0,
            partition_limits: config.limits,
            ready_since_ms: None,
            call_time: CallTime::default(),
        }
    }

    pub(super) fn partitions(&self) -> u64 {
        self.partitions
    }

    pub(super) fn add_partition(&mut self, percent: u8) {
        self.partitions += 1;
        self.share_limits(percent);
    }

    pub(super) fn remove_partition(&mut self, percent: u8) {
        self.partitions = self.partitions.saturating_sub(1);
        self.share_limits(percent);
    }

    /// Each partition may fill `percent` of the limits, or an equal share if that is more.
    fn share_limits(&mut self, percent: u8) {
        let share = u64::from(percent).max(100 / self.partitions.max(1)).min(100);
        self.partition_limits = self.config.limits.percent(share);
    }
}
