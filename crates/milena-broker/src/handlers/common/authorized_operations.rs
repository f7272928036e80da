//! What a client may do to something, a bit for each of Kafka's operations. Without an authorizer that is everything.

/// Kafka's sign that a client has not asked.
pub(super) const NOT_ASKED: i32 = i32::MIN;

/// Read, write, create, delete, alter, describe, describe and alter configs.
pub(super) const OF_TOPIC: i32 = 1 << 3 | 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7 | 1 << 8 | 1 << 10 | 1 << 11;
/// Create, alter, describe, cluster action, describe and alter configs, idempotent write.
pub(super) const OF_CLUSTER: i32 = 1 << 5 | 1 << 7 | 1 << 8 | 1 << 9 | 1 << 10 | 1 << 11 | 1 << 12;
/// Read, delete, describe, describe and alter configs.
pub(super) const OF_GROUP: i32 = 1 << 3 | 1 << 6 | 1 << 8 | 1 << 10 | 1 << 11;

/// All operations, if they were asked for.
pub(super) fn if_asked(asked: bool, operations: i32) -> i32 {
    if asked { operations } else { NOT_ASKED }
}
