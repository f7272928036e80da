//! Names that are nearly those of the producer's keys.

/// Prefixes that frameworks put before Kafka's names.
pub(crate) const PREFIXES: &[&str] = &[
    "spring.kafka.producer.properties.",
    "spring.kafka.producer.",
    "spring.kafka.properties.",
    "spring.kafka.",
    "producer.override.",
    "main.producer.",
    "kafka.producer.",
    "kafka.",
    "producer.",
];

/// Names that Kafka once had, that books have, and that people write.
pub(crate) const OLD_NAMES: &[(&str, &str)] = &[
    ("ack", "acks"),
    ("batch.bytes", "batch.size"),
    ("block.on.buffer.full", "max.block.ms"),
    ("broker.list", "bootstrap.servers"),
    ("brokers", "bootstrap.servers"),
    ("buffer.size", "buffer.memory"),
    ("compressed.topics", "compression.type"),
    ("compression", "compression.type"),
    ("delivery.timeout", "delivery.timeout.ms"),
    ("idempotence", "enable.idempotence"),
    ("idempotence.enable", "enable.idempotence"),
    ("idempotent", "enable.idempotence"),
    ("linger", "linger.ms"),
    ("max.inflight", "max.in.flight.requests.per.connection"),
    ("max.inflight.requests", "max.in.flight.requests.per.connection"),
    ("max.message.bytes", "max.request.size"),
    ("max.message.size", "max.request.size"),
    ("max.request.bytes", "max.request.size"),
    ("metadata.fetch.timeout.ms", "max.block.ms"),
    ("num.retries", "retries"),
    ("producer.id", "client.id"),
    ("queue.enqueue.timeout.ms", "max.block.ms"),
    ("required.acks", "acks"),
    ("serializer.class", "value.serializer"),
    ("servers", "bootstrap.servers"),
    ("timeout.ms", "request.timeout.ms"),
    ("transaction.id", "transactional.id"),
    ("transaction.timeout", "transaction.timeout.ms"),
];
