//! Names that are nearly those of the admin client's keys.

/// Prefixes that frameworks put before Kafka's names.
pub(crate) const PREFIXES: &[&str] = &[
    "spring.kafka.admin.properties.",
    "spring.kafka.admin.",
    "spring.kafka.properties.",
    "spring.kafka.",
    "admin.override.",
    "kafka.admin.",
    "kafka.",
    "admin.",
];

/// Names that Kafka once had, that books have, and that people write.
pub(crate) const OLD_NAMES: &[(&str, &str)] = &[
    ("api.timeout.ms", "default.api.timeout.ms"),
    ("broker.list", "bootstrap.servers"),
    ("brokers", "bootstrap.servers"),
    ("num.retries", "retries"),
    ("servers", "bootstrap.servers"),
    ("timeout.ms", "default.api.timeout.ms"),
    ("zookeeper.connect", "bootstrap.servers"),
];
