//! A member of a group, in both of Kafka's protocols.
