//! The keys of single groups, by name. Types, defaults, ranges and synonyms are Kafka's; `tests/it/kafkas_facts.rs`
//! compares.

use super::{
    Allowed, ConfigType, Definition,
    broker_table::{ASSIGNS_AT_ONCE, NO_SHARE_GROUPS, NO_STREAMS_GROUPS},
    definition::definitions,
    topic_table::same,
};

/// Sorted by name.
pub(super) const GROUP_CONFIGS: &[Definition] = definitions! {
    "consumer.assignment.interval.ms" Int = "1000", at_least(0), default_only(ASSIGNS_AT_ONCE),
        follows(&[same("group.consumer.assignment.interval.ms")]),
        about("How much time there is at least between two assignments of a consumer group.");
    "consumer.heartbeat.interval.ms" Int = "5000", at_least(1),
        follows(&[same("group.consumer.heartbeat.interval.ms")]),
        about("How often the members of a consumer group are told to send a heartbeat.");
    "consumer.session.timeout.ms" Int = "45000", at_least(1),
        follows(&[same("group.consumer.session.timeout.ms")]),
        about("After how long without a heartbeat a member of a consumer group is given up.");
    "share.assignment.interval.ms" Int = "1000", at_least(0), default_only(NO_SHARE_GROUPS),
        follows(&[same("group.share.assignment.interval.ms")]),
        about("How much time there is at least between two assignments of a share group.");
    "share.auto.offset.reset" String = "latest", default_only(NO_SHARE_GROUPS),
        about("Where a share group begins to read a partition.");
    "share.delivery.count.limit" Int = "5", at_least(2), default_only(NO_SHARE_GROUPS),
        follows(&[same("group.share.delivery.count.limit")]),
        about("How often a share group may be given the same record.");
    "share.heartbeat.interval.ms" Int = "5000", at_least(1), default_only(NO_SHARE_GROUPS),
        follows(&[same("group.share.heartbeat.interval.ms")]),
        about("How often the members of a share group are told to send a heartbeat.");
    "share.isolation.level" String = "read_uncommitted", allowed(ISOLATION_LEVELS), default_only(NO_SHARE_GROUPS),
        about("Whether a share group sees records of transactions that are not committed.");
    "share.partition.max.record.locks" Int = "2000", at_least(100), default_only(NO_SHARE_GROUPS),
        follows(&[same("group.share.partition.max.record.locks")]),
        about("How many records of a partition the members of a share group may hold at once.");
    "share.record.lock.duration.ms" Int = "30000", at_least(1000), default_only(NO_SHARE_GROUPS),
        follows(&[same("group.share.record.lock.duration.ms")]),
        about("How long a member of a share group may hold a record.");
    "share.renew.acknowledge.enable" Boolean = "true", default_only(NO_SHARE_GROUPS),
        about("Whether a member of a share group may ask to hold a record for longer.");
    "share.session.timeout.ms" Int = "45000", at_least(1), default_only(NO_SHARE_GROUPS),
        follows(&[same("group.share.session.timeout.ms")]),
        about("After how long without a heartbeat a member of a share group is given up.");
    "streams.assignment.interval.ms" Int = "1000", at_least(0), default_only(NO_STREAMS_GROUPS),
        follows(&[same("group.streams.assignment.interval.ms")]),
        about("How much time there is at least between two assignments of a streams group.");
    "streams.heartbeat.interval.ms" Int = "5000", at_least(1), default_only(NO_STREAMS_GROUPS),
        follows(&[same("group.streams.heartbeat.interval.ms")]),
        about("How often the members of a streams group are told to send a heartbeat.");
    "streams.initial.rebalance.delay.ms" Int = "3000", at_least(0), default_only(NO_STREAMS_GROUPS),
        follows(&[same("group.streams.initial.rebalance.delay.ms")]),
        about("How long a new streams group waits for more members before its first assignment.");
    "streams.num.standby.replicas" Int = "0", at_least(0), default_only(NO_STREAMS_GROUPS),
        follows(&[same("group.streams.num.standby.replicas")]),
        about("How many members of a streams group keep a copy of each task's state.");
    "streams.session.timeout.ms" Int = "45000", at_least(1), default_only(NO_STREAMS_GROUPS),
        follows(&[same("group.streams.session.timeout.ms")]),
        about("After how long without a heartbeat a member of a streams group is given up.");
};

const ISOLATION_LEVELS: Allowed = Allowed::OneOf(&["read_committed", "read_uncommitted"]);
