//! Names of failure headers: Milena's and those of other tools.

use std::{fmt, str::FromStr};

/// Naming scheme of failure headers.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Scheme {
    /// `dlq.original.topic` and so on. All values are text.
    Milena,
    /// `X-Original-Topic` and so on. All values are text.
    X,
    /// `kafka_dlt-original-topic` and so on, as Spring for Apache Kafka writes them. Numbers are big-endian bytes.
    Spring,
    /// `__connect.errors.topic` and so on, as Kafka Connect writes them. All values are text.
    Connect,
}

impl Scheme {
    pub const ALL: [Self; 4] = [Self::Milena, Self::X, Self::Spring, Self::Connect];
}

impl fmt::Display for Scheme {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Milena => "milena",
            Self::X => "x",
            Self::Spring => "spring",
            Self::Connect => "connect",
        })
    }
}

impl FromStr for Scheme {
    type Err = ();

    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL
            .into_iter()
            .find(|scheme| scheme.to_string() == name)
            .ok_or(())
    }
}

/// Number of handler calls so far; on every record of a retry topic.
pub(crate) const RETRY_COUNT: &str = "X-Retry-Count";
/// Time of the next attempt of a record in a retry topic, in milliseconds since 1970.
pub(crate) const DUE_AT: &str = "milena.due_at";
/// Time of the first failure, in milliseconds since 1970.
pub(crate) const FIRST_FAILED_AT: &str = "milena.first_failed_at";
/// Original timestamp in milliseconds since 1970, for schemes without a name for it. The timestamp of the failure
/// record is the time of writing, which is the one that retention uses.
pub(crate) const ORIGINAL_TIMESTAMP: &str = "milena.original_timestamp";

/// Number of times any group has returned the record from a retry topic to its own topic.
pub(crate) const RETURNS: &str = "milena.returns";
/// Headers that producers use for event ids, in order of precedence; `id` is the one of Debezium's outbox.
pub(crate) const EVENT_IDS: [&str; 3] = ["event_id", "ce_id", "id"];

/// Encoding of numbers: text, or the bytes of Java's serializers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Numbers {
    Text,
    Bytes,
}

/// Header names of one scheme. An empty name is never read or written.
#[derive(Debug)]
pub(super) struct Names {
    pub(super) topic: &'static str,
    pub(super) partition: &'static str,
    pub(super) offset: &'static str,
    pub(super) timestamp: &'static str,
    pub(super) exception: &'static str,
    pub(super) reason: &'static str,
    pub(super) stack: &'static str,
    pub(super) attempts: &'static str,
    pub(super) failed_at: &'static str,
    pub(super) group: &'static str,
    pub(super) instance: &'static str,
    pub(super) numbers: Numbers,
}

pub(super) const fn names(scheme: Scheme) -> &'static Names {
    match scheme {
        Scheme::Milena => &MILENA,
        Scheme::X => &X,
        Scheme::Spring => &SPRING,
        Scheme::Connect => &CONNECT,
    }
}

static MILENA: Names = Names {
    topic: "dlq.original.topic",
    partition: "dlq.original.partition",
    offset: "dlq.original.offset",
    timestamp: "dlq.original.timestamp",
    exception: "dlq.failure.exception",
    reason: "dlq.failure.reason",
    stack: "dlq.stacktrace",
    attempts: "dlq.retry.count",
    failed_at: "dlq.failed.at",
    group: "dlq.consumer.group",
    instance: "dlq.consumer.instance",
    numbers: Numbers::Text,
};

static X: Names = Names {
    topic: "X-Original-Topic",
    partition: "X-Original-Partition",
    offset: "X-Original-Offset",
    timestamp: "X-Original-Timestamp",
    exception: "X-Error-Class",
    reason: "X-Error-Message",
    stack: "",
    attempts: RETRY_COUNT,
    failed_at: "X-Error-Timestamp",
    group: "",
    instance: "",
    numbers: Numbers::Text,
};

static SPRING: Names = Names {
    topic: "kafka_dlt-original-topic",
    partition: "kafka_dlt-original-partition",
    offset: "kafka_dlt-original-offset",
    timestamp: "kafka_dlt-original-timestamp",
    exception: "kafka_dlt-exception-fqcn",
    reason: "kafka_dlt-exception-message",
    stack: "kafka_dlt-exception-stacktrace",
    attempts: "retry_topic-attempts",
    failed_at: "",
    group: "kafka_dlt-original-consumer-group",
    instance: "",
    numbers: Numbers::Bytes,
};

static CONNECT: Names = Names {
    topic: "__connect.errors.topic",
    partition: "__connect.errors.partition",
    offset: "__connect.errors.offset",
    timestamp: "",
    exception: "__connect.errors.exception.class.name",
    reason: "__connect.errors.exception.message",
    stack: "__connect.errors.exception.stacktrace",
    attempts: "",
    failed_at: "",
    group: "__connect.errors.connector.name",
    instance: "__connect.errors.task.id",
    numbers: Numbers::Text,
};

/// Unprefixed names, common in dead letters written by hand. Read, never written.
static BARE: Names = Names {
    topic: "original_topic",
    partition: "original_partition",
    offset: "original_offset",
    timestamp: "original_timestamp",
    exception: "failure_exception",
    reason: "failure_reason",
    stack: "",
    attempts: "retry_count",
    failed_at: "failed_at",
    group: "",
    instance: "",
    numbers: Numbers::Text,
};

/// Alternative name of the reason, read together with [`Scheme::X`].
pub(super) const X_ERROR: &str = "X-Error";

/// Every set of names that is read, the most specific first.
pub(super) fn readable() -> impl Iterator<Item = &'static Names> {
    Scheme::ALL.into_iter().map(names).chain([&BARE])
}

impl Names {
    fn all(&self) -> [&'static str; 11] {
        [
            self.topic,
            self.partition,
            self.offset,
            self.timestamp,
            self.exception,
            self.reason,
            self.stack,
            self.attempts,
            self.failed_at,
            self.group,
            self.instance,
        ]
    }
}

/// Returns whether a header belongs to one of the schemes and is therefore replaced by the next failure record.
pub(crate) fn is_ours(name: &[u8], schemes: &[Scheme]) -> bool {
    let of_retries = [RETRY_COUNT, DUE_AT, FIRST_FAILED_AT, ORIGINAL_TIMESTAMP, RETURNS];
    let mut schemes = schemes.iter().flat_map(|scheme| names(*scheme).all());
    of_retries.into_iter().any(|ours| ours.as_bytes() == name)
        || schemes.any(|ours| !ours.is_empty() && ours.as_bytes() == name)
}
