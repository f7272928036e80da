//! Settings under Kafka's names.
