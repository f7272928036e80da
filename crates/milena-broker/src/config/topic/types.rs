//! Types of the topics' values.

use milena_config::{Allowed, ConfigValue, FromConfigValue, FromText, Validator, choices, names_of};
use milena_wire::compression::Codec;

/// `cleanup.policy`: how old records are removed. With neither policy they stay.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CleanupPolicy {
    pub delete: bool,
    pub compact: bool,
}

/// `compression.type`: how batches are stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CompressionType {
    /// As the producer sent them.
    Producer,
    Codec(Codec),
}

/// `message.timestamp.type`: the clock of record timestamps.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TimestampType {
    CreateTime,
    LogAppendTime,
}

choices! { TimestampType { CreateTime = "CreateTime", LogAppendTime = "LogAppendTime" } }

/// `milena.durability`: the failures that an acknowledged record survives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Durability {
    /// None: records are kept in this process only, not in files.
    Memory,
    /// A crash of the process, not of the machine: records are with the operating system.
    Os,
    /// A crash of the machine: records are on disk.
    Fsync,
}

choices! { Durability { Memory = "memory", Os = "os", Fsync = "fsync" } }

impl CleanupPolicy {
    pub(crate) const NAMES: &'static [&'static str] = &["compact", "delete"];
}

impl FromConfigValue for CleanupPolicy {
    fn from_config_value(value: &ConfigValue) -> Option<Self> {
        let policies: Vec<String> = Vec::from_config_value(value)?;
        let has = |name| policies.iter().any(|policy| policy == name);
        Some(Self {
            delete: has("delete"),
            compact: has("compact"),
        })
    }
}

/// The values of `compression.type`: all codecs, in the order of Kafka's documentation. A new codec does not compile
/// until it is added here.
pub(crate) const COMPRESSION_TYPES: Allowed = {
    const NAMES: [&str; 6] = {
        let [_none, gzip, snappy, lz4, zstd] = *names_of!(Codec);
        ["uncompressed", zstd, lz4, snappy, gzip, "producer"]
    };
    Allowed::OneOf(&NAMES)
};

impl FromText for CompressionType {
    fn from_text(text: &str) -> Option<Self> {
        match text {
            "producer" => Some(Self::Producer),
            "uncompressed" => Some(Self::Codec(Codec::None)),
            "none" => None,
            codec => codec.parse().ok().map(Self::Codec),
        }
    }
}

/// The keys `*.replication.throttled.replicas`: a list of `partition:broker`, or `*` alone.
pub(super) const THROTTLED_REPLICAS: Validator = Validator {
    accepts: |value| match value {
        ConfigValue::List(elements) => *elements == ["*"] || elements.iter().all(|element| is_replica(element)),
        _ => false,
    },
    expected: || "a list of partition:broker, or * for all replicas".to_owned(),
    summary: || "list of PARTITION:BROKER, or *".to_owned(),
};

fn is_replica(text: &str) -> bool {
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit());
    matches!(text.split_once(':'), Some((partition, broker)) if is_number(partition) && is_number(broker))
}
