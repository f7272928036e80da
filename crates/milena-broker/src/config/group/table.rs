//! Keys of single groups. Types, defaults, ranges and synonyms are Kafka's; `tests/it/kafkas_facts.rs` compares them.

use milena_config::{Alias, Allowed, Definition, definitions};

use super::super::broker::{ASSIGNS_AT_ONCE, NO_SHARE_GROUPS, NO_STREAMS_GROUPS};

/// Sorted by name.
pub(crate) const GROUP_CONFIGS: &[Definition] = definitions! {
    "consumer.assignment.interval.ms" Int = "1000", at_least(0), default_only(ASSIGNS_AT_ONCE),
        follows(&[Alias::same("group.consumer.assignment.interval.ms")]),
        about("The shortest time between two assignments of a consumer group.");
    "consumer.heartbeat.interval.ms" Int = "5000", at_least(1),
        follows(&[Alias::same("group.consumer.heartbeat.interval.ms")]),
        about("The interval between heartbeats of members of a consumer group.");
    "consumer.session.timeout.ms" Int = "45000", at_least(1),
        follows(&[Alias::same("group.consumer.session.timeout.ms")]),
        about("A member of a consumer group without a heartbeat for this long is removed.");
    "share.assignment.interval.ms" Int = "1000", at_least(0), default_only(NO_SHARE_GROUPS),
        follows(&[Alias::same("group.share.assignment.interval.ms")]),
        about("The shortest time between two assignments of a share group.");
    "share.auto.offset.reset" String = "latest", default_only(NO_SHARE_GROUPS),
        about("The initial position of a share group in a partition.");
    "share.delivery.count.limit" Int = "5", at_least(2), default_only(NO_SHARE_GROUPS),
        follows(&[Alias::same("group.share.delivery.count.limit")]),
        about("The number of times that a share group may be given the same record.");
    "share.heartbeat.interval.ms" Int = "5000", at_least(1), default_only(NO_SHARE_GROUPS),
        follows(&[Alias::same("group.share.heartbeat.interval.ms")]),
        about("The interval between heartbeats of members of a share group.");
    "share.isolation.level" String = "read_uncommitted", allowed(ISOLATION_LEVELS), default_only(NO_SHARE_GROUPS),
        about("Whether a share group sees records of open and aborted transactions.");
    "share.partition.max.record.locks" Int = "2000", at_least(100), default_only(NO_SHARE_GROUPS),
        follows(&[Alias::same("group.share.partition.max.record.locks")]),
        about("The number of records of a partition that members of a share group may hold at once.");
    "share.record.lock.duration.ms" Int = "30000", at_least(1000), default_only(NO_SHARE_GROUPS),
        follows(&[Alias::same("group.share.record.lock.duration.ms")]),
        about("The time for which a member of a share group holds a record.");
    "share.renew.acknowledge.enable" Boolean = "true", default_only(NO_SHARE_GROUPS),
        about("Whether a member of a share group may renew its lock of a record.");
    "share.session.timeout.ms" Int = "45000", at_least(1), default_only(NO_SHARE_GROUPS),
        follows(&[Alias::same("group.share.session.timeout.ms")]),
        about("A member of a share group without a heartbeat for this long is removed.");
    "streams.assignment.interval.ms" Int = "1000", at_least(0), default_only(NO_STREAMS_GROUPS),
        follows(&[Alias::same("group.streams.assignment.interval.ms")]),
        about("The shortest time between two assignments of a streams group.");
    "streams.heartbeat.interval.ms" Int = "5000", at_least(1), default_only(NO_STREAMS_GROUPS),
        follows(&[Alias::same("group.streams.heartbeat.interval.ms")]),
        about("The interval between heartbeats of members of a streams group.");
    "streams.initial.rebalance.delay.ms" Int = "3000", at_least(0), default_only(NO_STREAMS_GROUPS),
        follows(&[Alias::same("group.streams.initial.rebalance.delay.ms")]),
        about("The time for which a new streams group waits for more members before its first assignment.");
    "streams.num.standby.replicas" Int = "0", at_least(0), default_only(NO_STREAMS_GROUPS),
        follows(&[Alias::same("group.streams.num.standby.replicas")]),
        about("The number of standby replicas for each task of a streams group.");
    "streams.session.timeout.ms" Int = "45000", at_least(1), default_only(NO_STREAMS_GROUPS),
        follows(&[Alias::same("group.streams.session.timeout.ms")]),
        about("A member of a streams group without a heartbeat for this long is removed.");
};

const ISOLATION_LEVELS: Allowed = Allowed::OneOf(&["read_committed", "read_uncommitted"]);
