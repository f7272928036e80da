//! Types of the consumer's values.

use std::{fmt, time::Duration};

use milena_config::{FromConfigValue as _, FromText, Validator, choices, parse_duration};

/// `auto.offset.reset`: the position without a valid committed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AutoOffsetReset {
    Earliest,
    #[default]
    Latest,
    /// The first record that is at most this old.
    ByDuration(Duration),
    /// An error.
    None,
}

/// `isolation.level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IsolationLevel {
    #[default]
    ReadUncommitted,
    ReadCommitted,
}

choices! { IsolationLevel { ReadCommitted = "read_committed", ReadUncommitted = "read_uncommitted" } }

/// `group.protocol`, with the keys that only one of the protocols has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupProtocol {
    /// A member of the group assigns the partitions.
    Classic {
        session_timeout_ms: i32,
        heartbeat_interval_ms: i32,
        /// Preferred first.
        assignors: Vec<AssignorName>,
    },
    /// The broker assigns the partitions and sets the heartbeat interval.
    Consumer { remote_assignor: Option<String> },
}

/// The values of `group.protocol`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum GroupProtocolName {
    #[default]
    Classic,
    Consumer,
}

choices! { GroupProtocolName [any case] { Consumer = "consumer", Classic = "classic" } }

/// The built-in assignors of the classic protocol.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum AssignorName {
    Range,
    RoundRobin,
    Sticky,
    CooperativeSticky,
}

choices! {
    AssignorName (classes in "org.apache.kafka.clients.consumer.") {
        Range = "range" | "RangeAssignor",
        RoundRobin = "roundrobin" | "RoundRobinAssignor",
        Sticky = "sticky" | "StickyAssignor",
        CooperativeSticky = "cooperative-sticky" | "CooperativeStickyAssignor",
    }
}

/// `milena.profile`: a set of defaults.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Throughput,
    Latency,
}

choices! { Profile { Throughput = "throughput", Latency = "latency" } }

/// `key.deserializer` and `value.deserializer`, for applications that name no type.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DeserializerName {
    String,
    #[default]
    Bytes,
    I16,
    I32,
    I64,
    F32,
    F64,
    Bool,
    Uuid,
    Json,
    /// Only null is accepted.
    Void,
}

choices! {
    DeserializerName (classes in "org.apache.kafka.common.serialization.") {
        String = "string" | "StringDeserializer",
        Bytes = "bytes" | "ByteArrayDeserializer" | "BytesDeserializer" | "ByteBufferDeserializer",
        I16 = "i16" | "ShortDeserializer",
        I32 = "i32" | "IntegerDeserializer",
        I64 = "i64" | "LongDeserializer",
        F32 = "f32" | "FloatDeserializer",
        F64 = "f64" | "DoubleDeserializer",
        Bool = "bool" | "BooleanDeserializer",
        Uuid = "uuid" | "UUIDDeserializer",
        Json = "json"
            | "org.apache.kafka.connect.json.JsonDeserializer"
            | "org.springframework.kafka.support.serializer.JsonDeserializer",
        Void = "void" | "VoidDeserializer",
    }
}

impl FromText for AutoOffsetReset {
    fn from_text(text: &str) -> Option<Self> {
        match text {
            "earliest" => Some(Self::Earliest),
            "latest" => Some(Self::Latest),
            "none" => Some(Self::None),
            _ => text
                .strip_prefix("by_duration:")
                .and_then(parse_duration)
                .map(Self::ByDuration),
        }
    }
}

impl fmt::Display for AutoOffsetReset {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Earliest => f.write_str("earliest"),
            Self::Latest => f.write_str("latest"),
            Self::ByDuration(age) => write!(f, "by_duration:PT{}.{:09}S", age.as_secs(), age.subsec_nanos()),
            Self::None => f.write_str("none"),
        }
    }
}

impl Profile {
    /// The defaults that replace Kafka's.
    pub(crate) const fn defaults(self) -> [(&'static str, &'static str); 4] {
        let [min_bytes, wait_ms, records, partition_bytes] = match self {
            Self::Throughput => ["1048576", "500", "1000", "1048576"],
            Self::Latency => ["1", "50", "100", "262144"],
        };
        [
            ("fetch.min.bytes", min_bytes),
            ("fetch.max.wait.ms", wait_ms),
            ("max.poll.records", records),
            ("max.partition.fetch.bytes", partition_bytes),
        ]
    }
}

/// `auto.offset.reset`.
pub(super) const RESET_POLICY: Validator = Validator {
    accepts: |value| AutoOffsetReset::from_config_value(value).is_some(),
    expected: || {
        "earliest, latest, none, or by_duration: and an ISO-8601 duration, as in by_duration:P1DT12H".to_owned()
    },
    summary: || "earliest, latest, none, by_duration:DURATION".to_owned(),
};

/// `partition.assignment.strategy`.
pub(super) const ASSIGNORS: Validator = Validator {
    accepts: |value| Vec::<AssignorName>::from_config_value(value).is_some(),
    expected: || {
        format!(
            "a list of {}, or of Kafka's classes of these; an assignor of your own is given in code",
            AssignorName::NAMES.join(", ")
        )
    },
    summary: || format!("list of {}", AssignorName::NAMES.join(", ")),
};

/// `key.deserializer` and `value.deserializer`.
pub(super) const DESERIALIZER: Validator = Validator {
    accepts: |value| DeserializerName::from_config_value(value).is_some(),
    expected: || {
        format!(
            "one of {}, or Kafka's class of one of these; a deserializer of your own is given in code",
            DeserializerName::NAMES.join(", ")
        )
    },
    summary: || DeserializerName::NAMES.join(", "),
};
