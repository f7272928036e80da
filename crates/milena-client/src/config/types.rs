//! The values that are more than a number or a text.

use std::{fmt, time::Duration};

use super::duration;

/// A broker to ask first.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct ServerAddress {
    /// A name or an address; that of IPv6 is without brackets.
    pub host: String,
    pub port: u16,
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

/// `auto.offset.reset`: where to begin without a valid committed offset.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum AutoOffsetReset {
    Earliest,
    #[default]
    Latest,
    /// At the first record that is at most this old.
    ByDuration(Duration),
    /// With an error.
    None,
}

/// `isolation.level`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IsolationLevel {
    #[default]
    ReadUncommitted,
    ReadCommitted,
}

/// `group.protocol`, with what only one of the two has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GroupProtocol {
    /// A member of the group assigns the partitions.
    Classic {
        session_timeout_ms: i32,
        heartbeat_interval_ms: i32,
        /// The best first.
        assignors: Vec<AssignorName>,
    },
    /// The broker assigns the partitions, and says how often it wants to hear of the member.
    Consumer { remote_assignor: Option<String> },
}

/// The assignors that come with the client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AssignorName {
    Range,
    RoundRobin,
    Sticky,
    CooperativeSticky,
}

/// `metadata.recovery.strategy`: what to do when no known broker can be reached.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum MetadataRecovery {
    #[default]
    Rebootstrap,
    None,
}

/// `milena.io`: where the connections live that carry records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RecordsIo {
    /// On a thread of their own, whatever the application does.
    #[default]
    Thread,
    /// On the tokio runtime on which the client was made.
    Runtime,
}

/// `milena.profile`: defaults for a purpose.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Profile {
    Throughput,
    Latency,
}

/// `key.deserializer` and `value.deserializer`: what bytes are, for those who do not say it with a type.
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
    /// There must be none.
    Void,
}

impl ServerAddress {
    /// Reads `host:port`. A protocol in front is for brokers and says nothing new here, if it is PLAINTEXT.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let address = match text.split_once("://") {
            Some((protocol, address)) => Some(address).filter(|_| protocol.eq_ignore_ascii_case("PLAINTEXT"))?,
            None => text,
        };
        let (host, port) = address.rsplit_once(':')?;
        let host = match host.strip_prefix('[') {
            Some(host) => host.strip_suffix(']')?,
            None => host,
        };
        let is_host = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '%' | '.' | '_' | ':');
        let valid = !host.is_empty() && host.chars().all(is_host) && port.bytes().all(|digit| digit.is_ascii_digit());
        let port = port.parse().ok().filter(|port| valid && *port != 0)?;
        let host = host.to_owned();
        Some(Self { host, port })
    }
}

impl AutoOffsetReset {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "earliest" | "smallest" | "beginning" => Some(Self::Earliest),
            "latest" | "largest" | "end" => Some(Self::Latest),
            "none" | "error" => Some(Self::None),
            _ => text
                .strip_prefix("by_duration:")
                .and_then(duration::parse)
                .map(Self::ByDuration),
        }
    }

    /// Kafka's name of a policy that was given by librdkafka's, which was Kafka's once.
    pub(super) fn new_name(text: &str) -> Option<&'static str> {
        match text {
            "smallest" | "beginning" => Some("earliest"),
            "largest" | "end" => Some("latest"),
            "error" => Some("none"),
            _ => None,
        }
    }
}

impl AssignorName {
    pub(super) fn parse(text: &str) -> Option<Self> {
        // What Java prints of a class begins so.
        let text = text.strip_prefix("class ").unwrap_or(text);
        match text.strip_prefix("org.apache.kafka.clients.consumer.").unwrap_or(text) {
            "range" | "RangeAssignor" => Some(Self::Range),
            "roundrobin" | "RoundRobinAssignor" => Some(Self::RoundRobin),
            "sticky" | "StickyAssignor" => Some(Self::Sticky),
            "cooperative-sticky" | "CooperativeStickyAssignor" => Some(Self::CooperativeSticky),
            _ => None,
        }
    }
}

impl DeserializerName {
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix("class ").unwrap_or(text);
        match text
            .strip_prefix("org.apache.kafka.common.serialization.")
            .unwrap_or(text)
        {
            "string" | "StringDeserializer" => Some(Self::String),
            "bytes" | "ByteArrayDeserializer" | "BytesDeserializer" | "ByteBufferDeserializer" => Some(Self::Bytes),
            "i16" | "ShortDeserializer" => Some(Self::I16),
            "i32" | "IntegerDeserializer" => Some(Self::I32),
            "i64" | "LongDeserializer" => Some(Self::I64),
            "f32" | "FloatDeserializer" => Some(Self::F32),
            "f64" | "DoubleDeserializer" => Some(Self::F64),
            "bool" | "BooleanDeserializer" => Some(Self::Bool),
            "uuid" | "UUIDDeserializer" => Some(Self::Uuid),
            "json"
            | "org.apache.kafka.connect.json.JsonDeserializer"
            | "org.springframework.kafka.support.serializer.JsonDeserializer" => Some(Self::Json),
            "void" | "VoidDeserializer" => Some(Self::Void),
            _ => None,
        }
    }
}

impl IsolationLevel {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "read_uncommitted" => Some(Self::ReadUncommitted),
            "read_committed" => Some(Self::ReadCommitted),
            _ => None,
        }
    }
}

impl MetadataRecovery {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text.to_ascii_lowercase().as_str() {
            "rebootstrap" => Some(Self::Rebootstrap),
            "none" => Some(Self::None),
            _ => None,
        }
    }
}

impl RecordsIo {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "thread" => Some(Self::Thread),
            "runtime" => Some(Self::Runtime),
            _ => None,
        }
    }
}

impl Profile {
    pub(super) fn parse(text: &str) -> Option<Self> {
        match text {
            "throughput" => Some(Self::Throughput),
            "latency" => Some(Self::Latency),
            _ => None,
        }
    }

    /// The defaults that it has instead of Kafka's.
    pub(super) const fn defaults(self) -> [(&'static str, &'static str); 4] {
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

impl fmt::Display for IsolationLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::ReadUncommitted => "read_uncommitted",
            Self::ReadCommitted => "read_committed",
        })
    }
}

/// The name that members of a group know it by.
impl fmt::Display for AssignorName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Range => "range",
            Self::RoundRobin => "roundrobin",
            Self::Sticky => "sticky",
            Self::CooperativeSticky => "cooperative-sticky",
        })
    }
}

impl fmt::Display for RecordsIo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Thread => "thread",
            Self::Runtime => "runtime",
        })
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Throughput => "throughput",
            Self::Latency => "latency",
        })
    }
}
