//! The configuration of the scheduler, with all defaults.

use super::{BreakerId, BulkheadId};

#[derive(Debug, Clone, PartialEq)]
pub struct SchedulerConfig {
    pub delivery: Delivery,
    pub handlers: Vec<HandlerConfig>,
    pub breakers: Vec<BreakerConfig>,
    /// The permits of each bulkhead.
    pub bulkheads: Vec<u32>,
    /// For all handlers together.
    pub limits: Limits,
    /// The share of a handler's limits that one partition may fill; more if fewer partitions share them.
    pub partition_percent: u8,
    pub commit: CommitConfig,
    /// The time for records in flight when their partition is revoked, or the application shuts down.
    pub drain_ms: i64,
    /// The time for the last commit of a partition.
    pub final_commit_ms: i64,
    /// A partition with records that has not moved for this long is reported.
    pub stall_ms: i64,
    pub when_stalled: WhenStalled,
    /// At least once: a record that crashed this number of processes is quarantined. `None` does not count crashes, which
    /// saves a commit for each assigned partition.
    pub crash_limit: Option<u32>,
}

/// The reaction to a call that takes so long that its partition stalls. Stalls with other causes are only reported: those
/// have policies of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenStalled {
    #[default]
    Report,
    /// The call is cancelled and counts as a failure.
    Retry,
    /// The call is cancelled, and the partition stops until an operator restarts it.
    Stop,
    /// The application ends.
    End,
}

impl Default for SchedulerConfig {
    fn default() -> Self {
        Self {
            delivery: Delivery::AtLeastOnce,
            handlers: vec![],
            breakers: vec![],
            bulkheads: vec![],
            limits: Limits::default(),
            partition_percent: 25,
            commit: CommitConfig::default(),
            drain_ms: 15_000,
            final_commit_ms: 5_000,
            stall_ms: 60_000,
            when_stalled: WhenStalled::Report,
            crash_limit: None,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Delivery {
    /// A record is handed out when its offset is committed. A crash loses records in flight.
    AtMostOnce,
    /// An offset is committed when all records before it are done. A crash repeats records that are done and not committed.
    #[default]
    AtLeastOnce,
    /// Offsets are committed in a transaction, at a barrier: see [`Scheduler::begin_barrier`](super::Scheduler::begin_barrier).
    ExactlyOnce,
}

/// Limits of buffered records and bytes. Fetching pauses at `high` and resumes at `low`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    pub records_high: u64,
    pub records_low: u64,
    pub bytes_high: u64,
    pub bytes_low: u64,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            records_high: 10_000,
            records_low: 7_000,
            bytes_high: 64 << 20,
            bytes_low: 48 << 20,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CommitConfig {
    /// The longest time that a finished record stays uncommitted.
    pub interval_ms: i64,
    /// Commit as soon as this number of records is done; 1 is after each record.
    pub every_records: Option<u64>,
    /// Commit sooner after this time without activity.
    pub idle_ms: i64,
    /// The broker's `offset.metadata.max.bytes`, which Kafka counts in UTF-16 units.
    pub metadata_chars: usize,
    /// At most once: the most records of a handler that are committed and not done, if it has no concurrency limit.
    pub ahead_records: u32,
    pub replay_bound: ReplayBound,
}

impl Default for CommitConfig {
    fn default() -> Self {
        Self {
            interval_ms: 1_000,
            every_records: None,
            idle_ms: 100,
            metadata_chars: 4_096,
            ahead_records: 256,
            replay_bound: ReplayBound::BestEffort,
        }
    }
}

/// The behaviour when more records are done out of order than a commit map can tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum ReplayBound {
    /// The map has as many as fit. After a crash the rest is repeated. No record waits.
    #[default]
    BestEffort,
    /// Records that lie too far above the lowest unfinished one wait for it.
    Strict,
}

#[derive(Debug, Clone, PartialEq, Default)]
pub struct HandlerConfig {
    pub order: Order,
    pub null_key: NullKey,
    pub limits: Limits,
    /// The most records in the handler at once; `None` is no limit.
    pub concurrency: Option<u32>,
    /// Permits that are shared with other handlers.
    pub bulkhead: Option<BulkheadId>,
    pub when_full: WhenFull,
    pub rate: Option<RateConfig>,
    /// The breakers of its dependencies. While one is open, no records are handed out.
    pub breakers: Vec<BreakerId>,
    /// Set for a handler that takes many records in one call.
    pub batch: Option<BatchConfig>,
    pub retry: RetryPolicy,
    /// The partition stops when too many of its records become dead letters.
    pub dlq_limit: Option<DlqLimitConfig>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Order {
    /// One record of a partition at a time.
    Partition,
    /// One record of a key at a time.
    #[default]
    Key,
    Unordered,
}

/// The order of records without a key under [`Order::Key`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum NullKey {
    #[default]
    Unordered,
    /// As if they had the same key.
    Serial,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BatchConfig {
    pub size: usize,
    /// The time that an incomplete batch waits for more records.
    pub linger_ms: i64,
}

impl Default for BatchConfig {
    fn default() -> Self {
        Self {
            size: 500,
            linger_ms: 20,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RateConfig {
    pub per_second: u32,
    /// The most records at once after a quiet time.
    pub burst: u32,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RetryPolicy {
    /// Attempts in place, including the first.
    pub attempts: u32,
    pub first_ms: i64,
    /// The backoff doubles up to this.
    pub max_ms: i64,
    /// The backoff varies by up to this.
    pub jitter_percent: u8,
    /// The time since the first failure after which there are no more attempts in place.
    pub elapsed_ms_max: Option<i64>,
    /// The delays of the retry topics, in order.
    pub delays_ms: Vec<i64>,
    /// Attempts in each retry topic.
    pub delayed_attempts: u32,
    /// Whether later records of a key overtake one that is in a retry topic.
    pub ordering: RetryOrdering,
    /// The most held keys of a partition, with [`RetryOrdering::HoldKey`].
    pub held_keys_max: usize,
    /// The fate of a record after its last attempt.
    pub exhausted: Exhausted,
}

/// The order of a key while one of its records waits for a later attempt.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RetryOrdering {
    /// Later records of the key overtake it. There is a retry topic for each delay.
    #[default]
    Overtake,
    /// Later records of the key wait behind it, in one topic for all delays: see [`key_holds`](super::key_holds).
    HoldKey,
    /// Later records of the key overtake it. After its delay in a retry topic it goes back to its own topic.
    Return,
}

impl RetryPolicy {
    /// One, five and fifteen minutes.
    pub fn default_delays() -> Vec<i64> {
        vec![60_000, 300_000, 900_000]
    }
}

impl Default for RetryPolicy {
    fn default() -> Self {
        Self {
            attempts: 4,
            first_ms: 100,
            max_ms: 10_000,
            jitter_percent: 25,
            elapsed_ms_max: None,
            delays_ms: vec![],
            delayed_attempts: 1,
            ordering: RetryOrdering::Overtake,
            held_keys_max: 10_000,
            exhausted: Exhausted::Stop,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Exhausted {
    DeadLetter,
    /// The record counts as done.
    Skip,
    /// The partition stops until an operator restarts it. The safest choice, and the default.
    #[default]
    Stop,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct BreakerConfig {
    pub failure_percent: u8,
    /// The number of calls over which failures are counted.
    pub window: u32,
    /// With fewer calls the breaker stays closed.
    pub calls_min: u32,
    pub open_ms: i64,
    /// The open time doubles each time that a probe fails, up to this.
    pub open_ms_max: i64,
    /// The number of calls that must succeed before it closes.
    pub probes: u32,
    pub when_open: WhenOpen,
    pub attempts: BreakerAttempts,
}

/// Whether a call that fails because of a breaker's dependency is an attempt of its record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BreakerAttempts {
    /// It is one while the breaker is closed. While the breaker is open, the record waits and loses none.
    #[default]
    WhileClosed,
    /// It never is: the dependency is the handler itself, and without it there was no attempt.
    Never,
}

/// The fate of records while a breaker of their handler is open.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenOpen {
    /// They wait, and their partitions are not fetched.
    #[default]
    Pause,
    /// They become dead letters without being handled.
    DeadLetter,
}

/// The fate of a record that could be handled now if the bulkhead of its handler had a permit left.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum WhenFull {
    /// It waits for a permit.
    #[default]
    Wait,
    /// It becomes a dead letter without being handled.
    DeadLetter,
    /// It is done without being handled.
    Skip,
}

impl Default for BreakerConfig {
    fn default() -> Self {
        Self {
            failure_percent: 50,
            window: 100,
            calls_min: 20,
            open_ms: 30_000,
            open_ms_max: 300_000,
            probes: 3,
            when_open: WhenOpen::Pause,
            attempts: BreakerAttempts::WhileClosed,
        }
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DlqLimitConfig {
    /// More than this share of the last `window` records failed for good.
    pub percent: u8,
    pub window: u32,
    /// This number of consecutive records failed for good.
    pub consecutive: u32,
}

impl Default for DlqLimitConfig {
    fn default() -> Self {
        Self {
            percent: 50,
            window: 1_000,
            consecutive: 100,
        }
    }
}

/// The suffix of a retry topic's name: `retry-5m`, `retry-90s`, `retry-250ms`.
pub fn retry_topic_suffix(delay_ms: i64) -> String {
    const UNITS: [(i64, &str); 4] = [(86_400_000, "d"), (3_600_000, "h"), (60_000, "m"), (1_000, "s")];
    let fitting = UNITS.iter().find(|(ms, _)| delay_ms >= *ms && delay_ms % ms == 0);
    match fitting {
        Some((ms, unit)) => format!("retry-{}{unit}", delay_ms / ms),
        None => format!("retry-{delay_ms}ms"),
    }
}

/// A contradiction in a configuration.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    #[error("handler {handler}: {what} is {index}, but there are only {count}")]
    NoSuch {
        handler: usize,
        what: &'static str,
        index: u16,
        count: usize,
    },
    #[error("{place}: {what} is {value}; it must be {must}")]
    Value {
        place: String,
        what: &'static str,
        value: i64,
        must: &'static str,
    },
    #[error(
        "handler {handler}: at-most-once delivery tries a record once, but {what}; set 1 attempt and no retry topics"
    )]
    AtMostOnceRetries { handler: usize, what: &'static str },
    #[error("handler {handler}: {what}, but the policy has no dead letters")]
    NoDeadLetters { handler: usize, what: &'static str },
    #[error("handler {handler}: when_full is set, but it has no bulkhead")]
    NoBulkhead { handler: usize },
    #[error("handler {handler}: records go back to their topic after a delay, but no delay is set")]
    NothingReturns { handler: usize },
    #[error("handler {handler}: the order of keys cannot be kept through retries, because {why}")]
    NoKeyOrder { handler: usize, why: &'static str },
}

impl SchedulerConfig {
    /// Finds contradictions.
    pub fn check(&self) -> Result<(), ConfigError> {
        self.check_limits("all handlers", &self.limits)?;
        at_least(
            "all handlers",
            "partition_percent",
            i64::from(self.partition_percent),
            1,
        )?;
        at_least("commit", "interval_ms", self.commit.interval_ms, 1)?;
        at_least("all handlers", "stall_ms", self.stall_ms, 1)?;
        if let Some(limit) = self.crash_limit.filter(|limit| !(2..=100).contains(limit)) {
            return Err(value_error(
                "all handlers",
                "crash_limit",
                i64::from(limit),
                "from 2 to 100",
            ));
        }
        for (index, breaker) in self.breakers.iter().enumerate() {
            let place = format!("breaker {index}");
            at_least(&place, "failure_percent", i64::from(breaker.failure_percent), 1)?;
            at_least(&place, "window", i64::from(breaker.window), 1)?;
            at_least(&place, "probes", i64::from(breaker.probes), 1)?;
            at_least(&place, "open_ms", breaker.open_ms, 1)?;
            if breaker.calls_min > breaker.window {
                let value = i64::from(breaker.calls_min);
                return Err(value_error(&place, "calls_min", value, "at most window"));
            }
        }
        for (index, permits) in self.bulkheads.iter().enumerate() {
            at_least(&format!("bulkhead {index}"), "permits", i64::from(*permits), 1)?;
        }
        for (index, handler) in self.handlers.iter().enumerate() {
            self.check_handler(index, handler)?;
        }
        Ok(())
    }

    fn check_handler(&self, index: usize, handler: &HandlerConfig) -> Result<(), ConfigError> {
        let place = format!("handler {index}");
        self.check_limits(&place, &handler.limits)?;
        let bulkhead = handler.bulkhead.map(|id| (id.0, "its bulkhead", self.bulkheads.len()));
        let breakers = handler
            .breakers
            .iter()
            .map(|id| (id.0, "a breaker", self.breakers.len()));
        for (id, what, count) in bulkhead.into_iter().chain(breakers) {
            if usize::from(id) >= count {
                return Err(ConfigError::NoSuch {
                    handler: index,
                    what,
                    index: id,
                    count,
                });
            }
        }
        let retry = &handler.retry;
        at_least(&place, "concurrency", i64::from(handler.concurrency.unwrap_or(1)), 1)?;
        at_least(&place, "attempts", i64::from(retry.attempts), 1)?;
        at_least(&place, "delayed_attempts", i64::from(retry.delayed_attempts), 1)?;
        for delay_ms in &retry.delays_ms {
            at_least(&place, "the delay of a retry topic", *delay_ms, 1)?;
        }
        if let Some(rate) = handler.rate {
            at_least(&place, "per_second", i64::from(rate.per_second), 1)?;
            at_least(&place, "burst", i64::from(rate.burst), 1)?;
        }
        if let Some(batch) = handler.batch {
            at_least(
                &place,
                "the size of batches",
                i64::try_from(batch.size).unwrap_or(i64::MAX),
                1,
            )?;
        }
        if let Some(dlq_limit) = handler.dlq_limit {
            at_least(&place, "the window of the DLQ limit", i64::from(dlq_limit.window), 1)?;
            at_least(&place, "consecutive", i64::from(dlq_limit.consecutive), 1)?;
        }
        self.check_failure_topics(index, handler)?;
        if self.delivery == Delivery::AtMostOnce {
            let error = |what| Err(ConfigError::AtMostOnceRetries { handler: index, what });
            if retry.attempts > 1 {
                return error("attempts is more than 1");
            }
            if !retry.delays_ms.is_empty() {
                return error("it has retry topics");
            }
        }
        Ok(())
    }

    /// Checks the parts that publish failure records.
    fn check_failure_topics(&self, index: usize, handler: &HandlerConfig) -> Result<(), ConfigError> {
        let retry = &handler.retry;
        let makes_dead_letters = |id: &BreakerId| {
            let breaker = self.breakers.get(usize::from(id.0));
            breaker.is_some_and(|breaker| breaker.when_open == WhenOpen::DeadLetter)
        };
        let what = if handler.breakers.iter().any(makes_dead_letters) {
            Some("its breaker makes dead letters while it is open")
        } else if handler.when_full == WhenFull::DeadLetter {
            Some("it makes dead letters while its bulkhead is full")
        } else {
            None
        };
        if let Some(what) = what.filter(|_| retry.exhausted != Exhausted::DeadLetter) {
            return Err(ConfigError::NoDeadLetters { handler: index, what });
        }
        if handler.when_full != WhenFull::Wait && handler.bulkhead.is_none() {
            return Err(ConfigError::NoBulkhead { handler: index });
        }
        if retry.ordering == RetryOrdering::Return && retry.delays_ms.is_empty() {
            return Err(ConfigError::NothingReturns { handler: index });
        }
        if retry.ordering != RetryOrdering::HoldKey {
            return Ok(());
        }
        let keys_max = i64::try_from(retry.held_keys_max).unwrap_or(i64::MAX);
        at_least(&format!("handler {index}"), "held_keys_max", keys_max, 1)?;
        if handler.order != Order::Key {
            let why = "its order is not that of keys";
            return Err(ConfigError::NoKeyOrder { handler: index, why });
        }
        if retry.delays_ms.is_empty() {
            let why = "no delays are set";
            return Err(ConfigError::NoKeyOrder { handler: index, why });
        }
        Ok(())
    }

    fn check_limits(&self, place: &str, limits: &Limits) -> Result<(), ConfigError> {
        let signed = |value: u64| i64::try_from(value).unwrap_or(i64::MAX);
        at_least(place, "records_high", signed(limits.records_high), 1)?;
        at_least(place, "bytes_high", signed(limits.bytes_high), 1)?;
        if limits.records_low >= limits.records_high {
            return Err(value_error(
                place,
                "records_low",
                signed(limits.records_low),
                "below records_high",
            ));
        }
        if limits.bytes_low >= limits.bytes_high {
            return Err(value_error(
                place,
                "bytes_low",
                signed(limits.bytes_low),
                "below bytes_high",
            ));
        }
        Ok(())
    }
}

fn at_least(place: &str, what: &'static str, value: i64, least: i64) -> Result<(), ConfigError> {
    if value < least {
        return Err(value_error(place, what, value, "at least 1"));
    }
    Ok(())
}

fn value_error(place: &str, what: &'static str, value: i64, must: &'static str) -> ConfigError {
    ConfigError::Value {
        place: place.to_owned(),
        what,
        value,
        must,
    }
}
