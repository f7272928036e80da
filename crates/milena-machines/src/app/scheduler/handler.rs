//! A handler, as far as it holds records back.

use super::super::{HandlerConfig, Limits, RetryOrdering, bulkhead::Bulkhead, queues::Gauge, rate::Rate};
use super::ahead::CallTime;

/// So long a run waits for others of its partition before a handler of single records.
const RUN_WAITS_MS: i64 = 5;

#[derive(Debug)]
pub(super) struct Handler {
    pub(super) config: HandlerConfig,
    pub(super) gauge: Gauge,
    /// What may be in it at once.
    pub(super) concurrency: Bulkhead,
    pub(super) rate: Option<Rate>,
    /// Nothing has to be known of single records before they are handed out.
    pub(super) takes_runs: bool,
    /// How long a run waits for others of its partition before its keys count one by one.
    pub(super) run_waits_ms: i64,
    /// How many partitions it has.
    partitions: u64,
    /// What each of them may keep.
    pub(super) partition_limits: Limits,
    /// Since when a batch waits to be full.
    pub(super) ready_since_ms: Option<i64>,
    /// How long its calls take, if that is of interest.
    pub(super) call_time: CallTime,
}

impl Handler {
    pub(super) fn new(config: &HandlerConfig) -> Self {
        Self {
            config: config.clone(),
            gauge: Gauge::default(),
            concurrency: Bulkhead::new(config.concurrency.unwrap_or(u32::MAX)),
            rate: config.rate.map(Rate::new),
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

    /// A partition comes or goes. Each may keep its share, and one that is alone all there is.
    pub(super) fn change_partitions(&mut self, comes: bool, percent: u8) {
        self.partitions = if comes {
            self.partitions + 1
        } else {
            self.partitions.saturating_sub(1)
        };
        let share = u64::from(percent).max(100 / self.partitions.max(1)).min(100);
        self.partition_limits = self.config.limits.percent(share);
    }
}
