//! What is counted.

mod clients;

use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{
    lane::Passed,
    status::{BreakerState, Status},
    times::ConsumerTimes,
};

pub(crate) use clients::write_clients;

/// What the handler of some topics has done.
#[derive(Debug, Default)]
pub(crate) struct HandlerMetrics {
    /// The name or pattern of its topics.
    pub(crate) topics: String,
    pub(crate) slow_after_ns: Option<u64>,
    pub(crate) success: AtomicU64,
    pub(crate) skipped: AtomicU64,
    pub(crate) duplicates: AtomicU64,
    pub(crate) deferred: AtomicU64,
    pub(crate) failed: AtomicU64,
    pub(crate) undecoded: AtomicU64,
    pub(crate) slow: AtomicU64,
    pub(crate) calls: AtomicU64,
    pub(crate) handler_ns: AtomicU64,
    pub(crate) published: AtomicU64,
    pub(crate) publish_failed: AtomicU64,
    pub(crate) retry_topics: AtomicU64,
    pub(crate) returned: AtomicU64,
    pub(crate) dead_poison: AtomicU64,
    pub(crate) dead_retries: AtomicU64,
    pub(crate) dead_crashes: AtomicU64,
    pub(crate) dead_failed: AtomicU64,
}

impl HandlerMetrics {
    pub(crate) fn new(topics: &str, slow_after: Option<Duration>) -> Self {
        Self {
            topics: topics.to_owned(),
            slow_after_ns: slow_after.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)),
            ..Self::default()
        }
    }

    /// Counts a record, and the call it came with if it is the first of it; whether that was a slow one.
    pub(crate) fn called(&self, took_ns: u64, call_ns: u64) -> bool {
        self.handler_ns.fetch_add(took_ns, Ordering::Relaxed);
        if call_ns == 0 {
            return false;
        }
        self.calls.fetch_add(1, Ordering::Relaxed);
        let is_slow = self.slow_after_ns.is_some_and(|limit| call_ns > limit);
        if is_slow {
            self.slow.fetch_add(1, Ordering::Relaxed);
        }
        is_slow
    }

    /// Counts records of a run that were done at once, each in a call of its own.
    pub(crate) fn passed(&self, passed: &Passed) {
        let (done, skipped) = (u64::from(passed.done), u64::from(passed.skipped));
        let duplicates = u64::from(passed.duplicates);
        self.handler_ns.fetch_add(passed.took_ns, Ordering::Relaxed);
        self.calls.fetch_add(done, Ordering::Relaxed);
        self.success.fetch_add(done - skipped - duplicates, Ordering::Relaxed);
        self.skipped.fetch_add(skipped, Ordering::Relaxed);
        self.duplicates.fetch_add(duplicates, Ordering::Relaxed);
    }

    pub(crate) fn snapshot(&self) -> HandlerCounts {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        HandlerCounts {
            topics: self.topics.clone(),
            success: read(&self.success),
            skipped: read(&self.skipped),
            duplicates: read(&self.duplicates),
            deferred: read(&self.deferred),
            failed: read(&self.failed),
            undecoded: read(&self.undecoded),
            slow: read(&self.slow),
            calls: read(&self.calls),
            handler_time: Duration::from_nanos(read(&self.handler_ns)),
            published: read(&self.published),
            publish_failed: read(&self.publish_failed),
            retry_topics: read(&self.retry_topics),
            returned: read(&self.returned),
            dead_non_retriable: read(&self.dead_poison),
            dead_max_retries: read(&self.dead_retries),
            dead_crashes: read(&self.dead_crashes),
            dead_send_failed: read(&self.dead_failed),
        }
    }
}

/// What a handler has done since the application started, in records but for `calls` and `slow`. Those that were tried
/// several times are in `calls` and `failed` as often.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerCounts {
    /// The name or pattern of its topics.
    pub topics: String,
    /// Records that were done: `consumer.success`, `events.processed.success`.
    pub success: u64,
    pub skipped: u64,
    /// `events.duplicates.skipped`
    pub duplicates: u64,
    /// Calls that ended with `Done::RetryAfter`.
    pub deferred: u64,
    /// Calls that failed, in whatever way: `consumer.retry` counts those that were tried again.
    pub failed: u64,
    /// Of those, records that could not be decoded: `consumer.decode.errors`, `events.validation.failed`.
    pub undecoded: u64,
    /// Calls that took longer than the policy's `slow_after`.
    pub slow: u64,
    pub calls: u64,
    /// How long all calls took together, with what they read first: [`ConsumerTimes`] tells the two apart.
    pub handler_time: Duration,
    /// Records whose output was acknowledged: `events.publish.success`.
    pub published: u64,
    /// `events.publish.failed`
    pub publish_failed: u64,
    /// Records that went to a retry topic.
    pub retry_topics: u64,
    /// Records that went back from there to their own topic.
    pub returned: u64,
    /// `consumer.dlq.non_retriable`
    pub dead_non_retriable: u64,
    /// `consumer.dlq.max_retries`
    pub dead_max_retries: u64,
    /// Those that ended the process each time they were handled: `consumer.dlq.crashes`.
    pub dead_crashes: u64,
    /// Retries and dead letters that could not be written, each time: `consumer.dlq.send_failed`.
    pub dead_send_failed: u64,
}

impl HandlerCounts {
    fn numbers(&self) -> [(&'static str, u64); 18] {
        let tried_again = self
            .failed
            .saturating_sub(self.dead_non_retriable + self.dead_max_retries + self.retry_topics);
        [
            ("consumer_success", self.success),
            ("consumer_skipped", self.skipped),
            ("consumer_retry", tried_again),
            ("consumer_failed", self.failed),
            ("consumer_decode_errors", self.undecoded),
            ("consumer_slow", self.slow),
            ("consumer_calls", self.calls),
            ("consumer_retry_topic", self.retry_topics),
            ("consumer_returned", self.returned),
            ("consumer_dlq_non_retriable", self.dead_non_retriable),
            ("consumer_dlq_max_retries", self.dead_max_retries),
            ("consumer_dlq_crashes", self.dead_crashes),
            ("consumer_dlq_send_failed", self.dead_send_failed),
            ("events_validation_failed", self.undecoded),
            ("events_publish_success", self.published),
            ("events_publish_failed", self.publish_failed),
            ("events_duplicates_skipped", self.duplicates),
            ("events_processed_success", self.success),
        ]
    }
}

/// All that is known in the text format of Prometheus.
pub(crate) fn to_prometheus(handlers: &[HandlerCounts], times: &[ConsumerTimes], status: &Status) -> String {
    let mut text = String::new();
    let all: Vec<_> = handlers.iter().map(HandlerCounts::numbers).collect();
    let names = HandlerCounts::default().numbers().map(|(name, _)| name);
    for (place, name) in names.into_iter().enumerate() {
        let _ = writeln!(text, "# TYPE {name} counter");
        for (handler, numbers) in handlers.iter().zip(&all) {
            let value = numbers.get(place).map_or(0, |(_, value)| *value);
            let _ = writeln!(text, "{name}{{handler=\"{}\"}} {value}", label(&handler.topics));
        }
    }
    let _ = writeln!(text, "# TYPE consumer_handler_seconds counter");
    for handler in handlers {
        let (handler, seconds) = (label(&handler.topics), handler.handler_time.as_secs_f64());
        let _ = writeln!(text, "consumer_handler_seconds{{handler=\"{handler}\"}} {seconds}");
    }
    write_times(&mut text, times);
    write_status(&mut text, status);
    text + &milena_invariant::to_prometheus()
}

/// Consumers have numbers, because several may read for one group.
fn write_times(text: &mut String, times: &[ConsumerTimes]) {
    let _ = writeln!(text, "# TYPE consumer_time_seconds counter");
    for (number, consumer) in times.iter().enumerate() {
        let (group, topics) = (label(&consumer.group), label(&consumer.topics));
        for (part, time) in consumer.parts() {
            let seconds = time.as_secs_f64();
            let _ = writeln!(
                text,
                "consumer_time_seconds{{consumer=\"{number}\",group=\"{group}\",topics=\"{topics}\",part=\"{part}\"}} {seconds}"
            );
        }
    }
}

fn write_status(text: &mut String, status: &Status) {
    let gauges = [
        ("milena_app_records", status.records),
        ("milena_app_bytes", status.bytes),
        ("milena_app_in_handlers", status.in_handlers),
        ("milena_app_publishing", status.publishing),
        ("milena_app_parked", status.parked),
        ("milena_app_replay_if_crashed_now", status.replay_if_crashed_now),
        ("milena_app_healthy", u64::from(status.is_healthy())),
    ];
    for (name, value) in gauges {
        let _ = writeln!(text, "# TYPE {name} gauge\n{name} {value}");
    }
    let _ = writeln!(text, "# TYPE milena_app_paused gauge");
    for partition in &status.partitions {
        let (topic, number) = (label(&partition.partition.topic), partition.partition.partition);
        for (reason, _) in &partition.paused {
            let _ = writeln!(
                text,
                "milena_app_paused{{topic=\"{topic}\",partition=\"{number}\",reason=\"{reason:?}\"}} 1"
            );
        }
    }
    for (name, kind) in [
        ("state", "gauge"),
        ("failure_percent", "gauge"),
        ("not_permitted", "counter"),
    ] {
        let _ = writeln!(text, "# TYPE milena_breaker_{name} {kind}");
        for breaker in &status.breakers {
            let value = match name {
                "state" => match breaker.state {
                    BreakerState::Closed => 0,
                    BreakerState::HalfOpen => 1,
                    BreakerState::Open => 2,
                },
                "failure_percent" => u64::from(breaker.failure_percent.unwrap_or(0)),
                _ => breaker.not_permitted,
            };
            let _ = writeln!(
                text,
                "milena_breaker_{name}{{breaker=\"{}\"}} {value}",
                label(&breaker.name)
            );
        }
    }
}

pub(crate) fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
