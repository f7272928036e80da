//! The operations that a client may do on a resource: one bit for each of Kafka's. Without an authorizer all are allowed.

/// Kafka's value where the client did not request them.
pub(crate) const NOT_REQUESTED: i32 = i32::MIN;

/// Read, write, create, delete, alter, describe, describe and alter configs.
pub(crate) const OF_TOPIC: i32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;
/// Create, alter, describe, cluster action, describe and alter configs, idempotent write.
pub(crate) const OF_CLUSTER: i32 = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;
/// Read, delete, describe, describe and alter configs.
pub(crate) const OF_GROUP: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// All operations, if the client requested them.
pub(crate) fn if_requested(is_requested: bool, operations: i32) -> i32 {
    if is_requested { operations } else { NOT_REQUESTED }
}
