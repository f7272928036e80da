//! Kafka on the wire.
