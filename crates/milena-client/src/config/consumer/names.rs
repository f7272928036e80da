//! Names that are nearly those of the consumer's keys.

/// Prefixes that frameworks put before Kafka's names.
pub(crate) const PREFIXES: &[&str] = &[
    "spring.kafka.consumer.properties.",
    "spring.kafka.consumer.",
    "spring.kafka.properties.",
    "spring.kafka.",
    "consumer.override.",
    "main.consumer.",
    "kafka.consumer.",
    "kafka.",
    "consumer.",
];

/// Names that Kafka once had, that books have, and that people write.
pub(crate) const OLD_NAMES: &[(&str, &str)] = &[
    ("auto.commit", "enable.auto.commit"),
    ("auto.commit.offset", "enable.auto.commit"),
    ("auto.commit.offsets", "enable.auto.commit"),
    ("autocommit.enable", "enable.auto.commit"),
    ("autocommit.interval.ms", "auto.commit.interval.ms"),
    ("autooffset.reset", "auto.offset.reset"),
    ("broker.list", "bootstrap.servers"),
    ("brokers", "bootstrap.servers"),
    ("consumer.id", "client.id"),
    ("fetch.size", "max.partition.fetch.bytes"),
    ("group", "group.id"),
    ("groupid", "group.id"),
    ("max.fetch.bytes", "fetch.max.bytes"),
    ("max.fetch.wait.ms", "fetch.max.wait.ms"),
    ("max.fetch.wait", "fetch.max.wait.ms"),
    ("min.fetch.bytes", "fetch.min.bytes"),
    ("offset.reset", "auto.offset.reset"),
    ("poll.timeout.ms", "max.poll.interval.ms"),
    ("queued.max.message.chunks", "milena.fetch.buffer.bytes"),
    ("rack", "client.rack"),
    ("servers", "bootstrap.servers"),
    ("zk.connect", "bootstrap.servers"),
    ("zookeeper.connect", "bootstrap.servers"),
];
