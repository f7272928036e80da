//! Handlers of a file, with their policies.

use std::{path::PathBuf, time::Duration};

use super::keys::{Keys, Limit, Size};
use crate::{
    failure::Scheme,
    outside::{HttpTls, START_TIMEOUT},
    policy::{
        DeadLetters, DlqLimit, Exhausted, NullKey, Order, Policy, Rate, Retry, RetryOrdering, Watermarks, WhenFull,
    },
    request_reply::Replies,
    route::Delivery,
};

/// A handler declared in a file.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct HandlerFile {
    /// Name or pattern of the topics.
    pub topic: String,
    pub delivery: Option<Delivery>,
    pub policy: Policy,
    /// For `milena run`: a program and its arguments. It reads one line of JSON per record and replies with one.
    pub command: Option<Vec<String>>,
    /// For `milena run`: the URL of a service that gets one request per record.
    pub http: Option<String>,
    /// The body of the service's response is the reply to the record, which is a request.
    pub http_replies: bool,
    /// TLS of the service, for https.
    pub http_tls: HttpTls,
    /// Whether a program that does not start, or a service that is down, pauses the handler's partitions. Otherwise it
    /// is a failure of the record.
    pub pause_when_down: bool,
    /// Timeout of a program's first reply after its start.
    pub start_timeout: Duration,
}

impl HandlerFile {
    pub(super) fn from_keys(keys: &Keys<'_>) -> Self {
        let file = Self {
            topic: keys.required("topic").unwrap_or_default(),
            delivery: keys.get_as("delivery", DELIVERIES, |value| delivery(value.as_str()?)),
            policy: policy(keys),
            command: keys.get("command"),
            http: keys.get("http"),
            http_replies: http_replies(keys),
            http_tls: http_tls(keys),
            pause_when_down: keys.get("pause_when_down").unwrap_or(true),
            start_timeout: keys.get("start_timeout").unwrap_or(START_TIMEOUT),
        };
        keys.finish();
        file
    }
}

fn http_replies(keys: &Keys<'_>) -> bool {
    let read = keys.get_as("http_response", "\"outcome\" or \"reply\"", |value| {
        match value.as_str()? {
            "outcome" => Some(false),
            "reply" => Some(true),
            _ => None,
        }
    });
    read.unwrap_or(false)
}

fn http_tls(keys: &Keys<'_>) -> HttpTls {
    let file = |key| keys.get(key).map(|path: String| PathBuf::from(path));
    HttpTls {
        ca: file("http_ca"),
        certificate: file("http_certificate"),
        key: file("http_key"),
        keystore: file("http_keystore"),
        password: keys.get("http_password").map(|text: String| text.into()),
    }
}

const DELIVERIES: &str = "\"at-most-once\", \"at-least-once\", \"exactly-once\" or \"stored-offsets\"";

fn delivery(name: &str) -> Option<Delivery> {
    match name {
        "at-most-once" => Some(Delivery::AtMostOnce),
        "at-least-once" => Some(Delivery::AtLeastOnce),
        "exactly-once" => Some(Delivery::ExactlyOnce),
        "stored-offsets" => Some(Delivery::StoredOffsets),
        _ => None,
    }
}

fn policy(keys: &Keys<'_>) -> Policy {
    let mut policy = Policy::default();
    set(
        &mut policy.order,
        keys.get_as("order", "\"key\", \"partition\" or \"none\"", |value| {
            match value.as_str()? {
                "key" => Some(Order::Key),
                "partition" => Some(Order::Partition),
                "none" => Some(Order::Unordered),
                _ => None,
            }
        }),
    );
    set(
        &mut policy.null_key,
        keys.get_as("null_key", "\"unordered\" or \"serial\"", |value| {
            match value.as_str()? {
                "unordered" => Some(NullKey::Unordered),
                "serial" => Some(NullKey::Serial),
                _ => None,
            }
        }),
    );
    set(&mut policy.in_flight, keys.get("in_flight").map(Watermarks::high));
    set(
        &mut policy.buffer,
        keys.get("buffer").map(|Size(bytes)| Watermarks::high(bytes)),
    );
    policy.concurrency = keys.get("concurrency");
    policy.bulkhead = keys.get("bulkhead");
    set(&mut policy.when_full, when_full(keys));
    policy.rate = rate(keys);
    policy.breakers = keys.get("breakers").unwrap_or_default();
    set(&mut policy.timeout, keys.get("timeout").map(|Limit(limit)| limit));
    set(&mut policy.timeout_is_final, keys.get("dead_letter_on_timeout"));
    set(&mut policy.slow_after, keys.get("slow_after").map(|Limit(limit)| limit));
    if let Some(retry) = keys.inner("retry") {
        read_retry(&retry, &mut policy.retry);
    }
    if let Some(inner) = keys.inner("dead_letters") {
        read_dead_letters(&inner, &mut policy.dead_letters);
    }
    set(
        &mut policy.exhausted,
        keys.get_as(
            "when_exhausted",
            "\"dead-letter\", \"skip\" or \"stop\"",
            |value| match value.as_str()? {
                "dead-letter" => Some(Exhausted::DeadLetter),
                "skip" => Some(Exhausted::Skip),
                "stop" => Some(Exhausted::Stop),
                _ => None,
            },
        ),
    );
    policy.dlq_limit = dlq_limit(keys);
    policy.replies = replies(keys);
    if let Some(batch) = keys.inner("batch") {
        set(&mut policy.batch_size, batch.get("size"));
        set::<Duration>(&mut policy.batch_linger, batch.get("linger"));
        batch.finish();
    }
    policy
}

fn set<T>(field: &mut T, value: Option<T>) {
    if let Some(value) = value {
        *field = value;
    }
}

fn when_full(keys: &Keys<'_>) -> Option<WhenFull> {
    keys.get_as(
        "when_full",
        "\"wait\", \"dead-letter\" or \"skip\"",
        |value| match value.as_str()? {
            "wait" => Some(WhenFull::Wait),
            "dead-letter" => Some(WhenFull::DeadLetter),
            "skip" => Some(WhenFull::Skip),
            _ => None,
        },
    )
}

fn rate(keys: &Keys<'_>) -> Option<Rate> {
    let rate = keys.inner("rate")?;
    let per_second = rate.required("per_second").map(Rate::per_second);
    let burst = rate.get("burst");
    rate.finish();
    per_second.map(|rate| burst.map_or(rate, |burst| rate.burst(burst)))
}

fn dlq_limit(keys: &Keys<'_>) -> Option<DlqLimit> {
    let inner = keys.inner("dlq_limit")?;
    let mut guard = DlqLimit::default();
    set(&mut guard.percent, inner.get("percent"));
    set(&mut guard.window, inner.get("window"));
    set(&mut guard.consecutive, inner.get("consecutive"));
    inner.finish();
    Some(guard)
}

fn replies(keys: &Keys<'_>) -> Option<Replies> {
    let inner = keys.inner("replies")?;
    let mut replies = Replies::default();
    set(&mut replies.topics, inner.get("topics"));
    if let Some(handle) = inner.get::<bool>("handle_expired") {
        replies.skip_expired = !handle;
    }
    set(&mut replies.errors, inner.get("errors"));
    set::<Duration>(&mut replies.clock_skew, inner.get("clock_skew"));
    set::<Duration>(&mut replies.timeout, inner.get("timeout"));
    inner.finish();
    Some(replies)
}

fn read_retry(keys: &Keys<'_>, retry: &mut Retry) {
    set(&mut retry.attempts, keys.get("attempts"));
    set(&mut retry.first, keys.get("first"));
    set(&mut retry.max, keys.get("max"));
    set(&mut retry.jitter_percent, keys.get("jitter_percent"));
    set(
        &mut retry.elapsed_max,
        keys.get("elapsed_max").map(|Limit(limit)| limit),
    );
    set(&mut retry.topics, keys.get("topics"));
    set(&mut retry.attempts_from_topics, keys.get("attempts_from_topics"));
    let keeps = keys.get("keep_key_order").unwrap_or(false);
    if keeps {
        retry.ordering = RetryOrdering::HoldKey;
    }
    let returns = keys.get_as(
        "return_to_origin",
        "true or false; it excludes keep_key_order",
        |value| value.as_bool().filter(|returns| !(*returns && keeps)),
    );
    if returns == Some(true) {
        retry.ordering = RetryOrdering::Return;
    }
    keys.finish();
}

fn read_dead_letters(keys: &Keys<'_>, dead_letters: &mut DeadLetters) {
    dead_letters.topic = keys.get("topic");
    let schemes = keys.get_as(
        "headers",
        "a list of \"milena\", \"x\", \"spring\" and \"connect\"",
        |value| {
            let names = value.as_array()?.iter();
            names.map(|name| name.as_str()?.parse::<Scheme>().ok()).collect()
        },
    );
    set(&mut dead_letters.schemes, schemes);
    set(&mut dead_letters.with_stack, keys.get("stack"));
    set(&mut dead_letters.create, keys.get("create"));
    dead_letters.retention = keys.get("retention");
    keys.finish();
}
