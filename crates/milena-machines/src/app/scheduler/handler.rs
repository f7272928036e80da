//! A handler, as far as the scheduler knows it.

use super::super::{HandlerConfig, RetryOrdering};
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
            ready_since_ms: None,
            call_time: CallTime::default(),
        }
    }
}
