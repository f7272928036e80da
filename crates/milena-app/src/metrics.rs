//! Handler metrics.

use std::{
    fmt::Write,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use crate::{
    status::{BreakerState, BreakerStatus, Status},
    times::ConsumerTimes,
    worker::RunTotals,
};

/// Counters of one handler.
#[derive(Debug, Default)]
pub(crate) struct HandlerMetrics {
    /// Name or pattern of the handler's topics.
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
    pub(crate) fenced: AtomicU64,
    pub(crate) requests_expired: AtomicU64,
    pub(crate) replies: AtomicU64,
    pub(crate) replies_unaddressed: AtomicU64,
    pub(crate) replies_refused: AtomicU64,
    pub(crate) replies_undeliverable: AtomicU64,
}

impl HandlerMetrics {
    pub(crate) fn new(topics: &str, slow_after: Option<Duration>) -> Self {
        Self {
            topics: topics.to_owned(),
            slow_after_ns: slow_after.map(|limit| u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX)),
            ..Self::default()
        }
    }

    /// Counts a record, and its call with the first record of the call. Returns whether the call was slow.
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

    /// Counts the records of a run, each of which was a call of its own.
    pub(crate) fn run_finished(&self, totals: &RunTotals) {
        let (done, skipped) = (u64::from(totals.done), u64::from(totals.skipped));
        let duplicates = u64::from(totals.duplicates);
        self.handler_ns.fetch_add(totals.took_ns, Ordering::Relaxed);
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
            fenced: read(&self.fenced),
            requests_expired: read(&self.requests_expired),
            replies: read(&self.replies),
            replies_unaddressed: read(&self.replies_unaddressed),
            replies_refused: read(&self.replies_refused),
            replies_undeliverable: read(&self.replies_undeliverable),
        }
    }
}

/// Counters of a handler since the application started. The unit is records, but calls for `calls` and `slow`. Each
/// attempt counts in `calls` and `failed`.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct HandlerCounts {
    /// Name or pattern of the handler's topics.
    pub topics: String,
    /// Records that are done: `consumer.success`, `events.processed.success`.
    pub success: u64,
    pub skipped: u64,
    /// `events.duplicates.skipped`
    pub duplicates: u64,
    /// Calls that returned `Done::RetryAfter`.
    pub deferred: u64,
    /// Failed calls; `consumer.retry` counts those that were retried.
    pub failed: u64,
    /// Records that could not be decoded: `consumer.decode.errors`, `events.validation.failed`. Also counted in
    /// `failed`.
    pub undecoded: u64,
    /// Calls that took longer than the policy's `slow_after`.
    pub slow: u64,
    pub calls: u64,
    /// Total duration of all calls, including the decoding of arguments: [`ConsumerTimes`] separates the two.
    pub handler_time: Duration,
    /// Records whose output was acknowledged: `events.publish.success`.
    pub published: u64,
    /// `events.publish.failed`
    pub publish_failed: u64,
    /// Records that went to a retry topic.
    pub retry_topics: u64,
    /// Records that were returned from a retry topic to their own topic.
    pub returned: u64,
    /// `consumer.dlq.non_retriable`
    pub dead_non_retriable: u64,
    /// `consumer.dlq.max_retries`
    pub dead_max_retries: u64,
    /// Quarantined records: `consumer.dlq.crashes`.
    pub dead_crashes: u64,
    /// Failed writes of retry records and dead letters: `consumer.dlq.send_failed`.
    pub dead_send_failed: u64,
    /// Partitions that a newer owner has claimed in the offset store while this process had them.
    pub fenced: u64,
    /// Requests that expired: before the call, in which case they count in `skipped` too, or before the reply.
    pub requests_expired: u64,
    /// Replies that were acknowledged.
    pub replies: u64,
    /// Replies to records that ask for none.
    pub replies_unaddressed: u64,
    /// Replies that were not written because the request names a topic that is not allowed, or has invalid headers.
    pub replies_refused: u64,
    /// Replies that were not written because their topic or partition does not exist or cannot be written.
    pub replies_undeliverable: u64,
}

impl HandlerCounts {
    /// Failed calls that were retried in place.
    fn retried(&self) -> u64 {
        self.failed
            .saturating_sub(self.dead_non_retriable + self.dead_max_retries + self.retry_topics)
    }
}

/// Name, help text and value of a counter.
type Counter = (&'static str, &'static str, fn(&HandlerCounts) -> u64);

const COUNTERS: [Counter; 24] = [
    ("consumer_success_total", "Records that are done.", |counts| {
        counts.success
    }),
    ("consumer_skipped_total", "Records that were skipped.", |counts| {
        counts.skipped
    }),
    (
        "consumer_retry_total",
        "Failed calls that were retried in place.",
        HandlerCounts::retried,
    ),
    ("consumer_failed_total", "Failed calls.", |counts| counts.failed),
    (
        "consumer_decode_errors_total",
        "Records that could not be decoded.",
        |counts| counts.undecoded,
    ),
    (
        "consumer_slow_total",
        "Calls that took longer than slow_after.",
        |counts| counts.slow,
    ),
    ("consumer_calls_total", "Handler calls.", |counts| counts.calls),
    (
        "consumer_retry_topic_total",
        "Records written to a retry topic.",
        |counts| counts.retry_topics,
    ),
    (
        "consumer_returned_total",
        "Records returned to their own topic.",
        |counts| counts.returned,
    ),
    (
        "consumer_dlq_non_retriable_total",
        "Dead letters of failures that are not retried.",
        |counts| counts.dead_non_retriable,
    ),
    (
        "consumer_dlq_max_retries_total",
        "Dead letters after the last attempt.",
        |counts| counts.dead_max_retries,
    ),
    ("consumer_dlq_crashes_total", "Quarantined records.", |counts| {
        counts.dead_crashes
    }),
    (
        "consumer_dlq_send_failed_total",
        "Failed writes of retry records and dead letters.",
        |counts| counts.dead_send_failed,
    ),
    (
        "consumer_fenced_total",
        "Partitions that a newer owner has claimed in the offset store.",
        |counts| counts.fenced,
    ),
    (
        "events_validation_failed_total",
        "Records that could not be decoded.",
        |counts| counts.undecoded,
    ),
    (
        "events_publish_success_total",
        "Records whose output was acknowledged.",
        |counts| counts.published,
    ),
    (
        "events_publish_failed_total",
        "Failed writes of handler output.",
        |counts| counts.publish_failed,
    ),
    (
        "events_duplicates_skipped_total",
        "Records that were handled before.",
        |counts| counts.duplicates,
    ),
    ("events_processed_success_total", "Records that are done.", |counts| {
        counts.success
    }),
    (
        "milena_requests_expired_total",
        "Requests whose requester had given up.",
        |counts| counts.requests_expired,
    ),
    ("milena_replies_total", "Replies that were acknowledged.", |counts| {
        counts.replies
    }),
    (
        "milena_replies_unaddressed_total",
        "Replies to records that ask for none.",
        |counts| counts.replies_unaddressed,
    ),
    (
        "milena_replies_refused_total",
        "Replies whose topic is not allowed or whose request has invalid headers.",
        |counts| counts.replies_refused,
    ),
    (
        "milena_replies_undeliverable_total",
        "Replies whose topic or partition does not exist or cannot be written.",
        |counts| counts.replies_undeliverable,
    ),
];

/// Renders all metrics in Prometheus' text format.
pub(crate) fn to_prometheus(handlers: &[HandlerCounts], times: &[ConsumerTimes], status: &Status) -> String {
    let mut text = String::new();
    for (name, help, value) in COUNTERS {
        write_family(&mut text, name, "counter", help);
        for handler in handlers {
            let _ = writeln!(
                text,
                "{name}{{handler=\"{}\"}} {}",
                label(&handler.topics),
                value(handler)
            );
        }
    }
    let name = "consumer_handler_seconds_total";
    write_family(&mut text, name, "counter", "Duration of all handler calls.");
    for handler in handlers {
        let (handler, seconds) = (label(&handler.topics), handler.handler_time.as_secs_f64());
        let _ = writeln!(text, "{name}{{handler=\"{handler}\"}} {seconds}");
    }
    write_times(&mut text, times);
    write_status(&mut text, status);
    text + &milena_invariant::to_prometheus()
}

/// Writes the lines that precede the samples of a name.
pub(crate) fn write_family(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

/// Consumers are numbered, because several may read for one group.
fn write_times(text: &mut String, times: &[ConsumerTimes]) {
    let name = "consumer_time_seconds_total";
    write_family(text, name, "counter", "Time budget of a consumer by part.");
    for (number, consumer) in times.iter().enumerate() {
        let (group, topics) = (label(&consumer.group), label(&consumer.topics));
        for (part, time) in consumer.parts() {
            let seconds = time.as_secs_f64();
            let _ = writeln!(
                text,
                "{name}{{consumer=\"{number}\",group=\"{group}\",topics=\"{topics}\",part=\"{part}\"}} {seconds}"
            );
        }
    }
}

fn write_status(text: &mut String, status: &Status) {
    let gauges = [
        ("milena_app_records", "Records in flight.", status.records),
        ("milena_app_bytes", "Bytes of records in flight.", status.bytes),
        ("milena_app_in_handlers", "Records in handlers.", status.in_handlers),
        (
            "milena_app_publishing",
            "Records that wait for an acknowledgement.",
            status.publishing,
        ),
        ("milena_app_parked", "Records that wait for a retry.", status.parked),
        (
            "milena_app_replay_if_crashed_now",
            "Finished records that a crash would repeat.",
            status.replay_if_crashed_now,
        ),
        (
            "milena_app_healthy",
            "1 if the application is healthy, otherwise 0.",
            u64::from(status.is_healthy()),
        ),
    ];
    for (name, help, value) in gauges {
        write_family(text, name, "gauge", help);
        let _ = writeln!(text, "{name} {value}");
    }
    let name = "milena_app_paused";
    write_family(text, name, "gauge", "1 for each reason why a partition is paused.");
    for partition in &status.partitions {
        let (topic, number) = (label(&partition.partition.topic), partition.partition.partition);
        for (reason, _) in &partition.paused {
            let _ = writeln!(
                text,
                "{name}{{topic=\"{topic}\",partition=\"{number}\",reason=\"{reason:?}\"}} 1"
            );
        }
    }
    write_breakers(text, &status.breakers);
}

fn write_breakers(text: &mut String, breakers: &[BreakerStatus]) {
    let state = |breaker: &BreakerStatus| match breaker.state {
        BreakerState::Closed => 0,
        BreakerState::HalfOpen => 1,
        BreakerState::Open => 2,
    };
    type Value = fn(&BreakerStatus) -> u64;
    let families: [(&str, &str, &str, Value); 3] = [
        (
            "milena_breaker_state",
            "gauge",
            "State of a circuit breaker: 0 closed, 1 half open, 2 open.",
            state,
        ),
        (
            "milena_breaker_failure_percent",
            "gauge",
            "Failed calls in the window of a circuit breaker, in percent.",
            |breaker| u64::from(breaker.failure_percent.unwrap_or(0)),
        ),
        (
            "milena_breaker_not_permitted_total",
            "counter",
            "Calls that a circuit breaker delayed.",
            |breaker| breaker.not_permitted,
        ),
    ];
    for (name, kind, help, value) in families {
        write_family(text, name, kind, help);
        for breaker in breakers {
            let _ = writeln!(
                text,
                "{name}{{breaker=\"{}\"}} {}",
                label(&breaker.name),
                value(breaker)
            );
        }
    }
}

pub(crate) fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}
