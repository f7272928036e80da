//! The first version of each API in which a feature exists, so that client, coordinators and broker agree on it.

pub mod acls {
    /// A resource name can be a prefix, in all three APIs of ACLs.
    pub const PATTERN_TYPE: i16 = 1;
}

pub mod add_partitions_to_txn {
    /// One request is about many transactions; only brokers send it.
    pub const BATCHES: i16 = 4;
    /// The version that Produce and TxnOffsetCommit stand for when they add partitions themselves.
    pub const IMPLICIT: i16 = 5;
}

pub mod api_versions {
    /// Supported and finalized features; also the name and version of the client's software.
    pub const FEATURES: i16 = 3;
    /// Features whose lowest version is 0 are listed.
    pub const FEATURES_FROM_ZERO: i16 = 4;
}

pub mod consumer_group_heartbeat {
    /// The client makes up its member id.
    pub const CLIENT_MEMBER_ID: i16 = 1;
}

pub mod create_topics {
    pub const VALIDATE_ONLY: i16 = 1;
    /// Partitions and replication factor may be left to the broker.
    pub const DEFAULTS: i16 = 4;
    /// The error THROTTLING_QUOTA_EXCEEDED is known, as in the next two APIs.
    pub const STRICT_QUOTA: i16 = 6;
}

pub mod create_partitions {
    pub const STRICT_QUOTA: i16 = 3;
}

pub mod delete_topics {
    pub const STRICT_QUOTA: i16 = 5;
    /// Topics are named by name or by id.
    pub const TOPIC_IDS: i16 = 6;
}

pub mod describe_cluster {
    pub const FENCED_BROKERS: i16 = 2;
}

pub mod describe_configs {
    pub const SYNONYMS: i16 = 1;
}

pub mod describe_groups {
    /// A group that does not exist is an error, not a dead group.
    pub const GROUP_ID_NOT_FOUND: i16 = 6;
}

pub mod describe_quorum {
    pub const NODES: i16 = 2;
}

pub mod elect_leaders {
    /// Also an error for the whole request in the response.
    pub const ELECTION_TYPE: i16 = 1;
}

pub mod end_txn {
    /// The response holds the producer's next epoch.
    pub const NEW_EPOCH: i16 = 5;
}

pub mod fetch {
    /// The response names the leader if the client has it wrong.
    pub const CURRENT_LEADER: i16 = 12;
    /// The broker compares the epoch of the last fetched record with its own log.
    pub const DIVERGING_EPOCH: i16 = 12;
    /// Topics have ids and no names.
    pub const TOPIC_IDS: i16 = 13;
    /// The response has the addresses of the leaders that it names.
    pub const NODE_ENDPOINTS: i16 = 16;
}

pub mod find_coordinator {
    /// One request has a list of keys, and the response a list of coordinators.
    pub const COORDINATORS: i16 = 4;
    /// Keys may be those of share groups.
    pub const SHARE_GROUPS: i16 = 6;
}

pub mod join_group {
    /// A new member must join again with the member id that it was given.
    pub const MEMBER_ID_REQUIRED: i16 = 4;
    /// The name of the protocol may be null.
    pub const NULLABLE_PROTOCOL: i16 = 7;
    /// The leader is told to keep the assignment.
    pub const SKIP_ASSIGNMENT: i16 = 9;
}

pub mod leave_group {
    /// One request has a list of members, and each gets its own error.
    pub const MEMBERS: i16 = 3;
    pub const REASON: i16 = 5;
}

pub mod list_config_resources {
    /// Resources of all types, not only of client metrics.
    pub const ALL_TYPES: i16 = 1;
}

pub mod list_groups {
    pub const STATES_FILTER: i16 = 4;
    pub const TYPES_FILTER: i16 = 5;
}

pub mod list_offsets {
    /// A partition has one offset in place of a list.
    pub const ONE_OFFSET: i16 = 1;
    pub const ISOLATION_LEVEL: i16 = 2;
    pub const LEADER_EPOCH: i16 = 4;
    pub const MAX_TIMESTAMP: i16 = 7;
    pub const EARLIEST_LOCAL: i16 = 8;
    pub const LATEST_TIERED: i16 = 9;
    pub const EARLIEST_PENDING_UPLOAD: i16 = 11;
}

pub mod list_transactions {
    pub const DURATION_FILTER: i16 = 1;
    pub const ID_PATTERN: i16 = 2;
}

pub mod metadata {
    /// The client decides whether a missing topic is created.
    pub const AUTO_CREATION: i16 = 4;
    /// Before this version, a broker may send a leader epoch that is older than the leader beside it.
    pub const RELIABLE_EPOCHS: i16 = 9;
    /// Topics can be requested by id; earlier versions have the field and refuse it.
    pub const TOPIC_IDS: i16 = 12;
    /// The response has an error for the whole request.
    pub const ERROR: i16 = 13;
}

pub mod offset_commit {
    /// The error codes of groups that do not exist and of stale member epochs are understood.
    pub const CONSUMER_PROTOCOL: i16 = 9;
    /// Topics have ids and no names.
    pub const TOPIC_IDS: i16 = 10;
}

pub mod offset_fetch {
    /// Null topics stand for all partitions of the group, and a response has an error for the whole group.
    pub const ALL_PARTITIONS: i16 = 2;
    pub const REQUIRE_STABLE: i16 = 7;
    /// One request is about many groups.
    pub const GROUPS: i16 = 8;
    /// Topics have ids and no names.
    pub const TOPIC_IDS: i16 = 10;
}

pub mod produce {
    pub const ZSTD: i16 = 7;
    /// The response names the leader, with its address, if the client has it wrong.
    pub const CURRENT_LEADER: i16 = 10;
    /// The error code TRANSACTION_ABORTABLE is understood.
    pub const TRANSACTION_ABORTABLE: i16 = 11;
    /// The request adds its partitions to the transaction.
    pub const ADDS_PARTITIONS: i16 = 12;
    /// Topics have ids and no names.
    pub const TOPIC_IDS: i16 = 13;
}

pub mod sync_group {
    /// The request has the protocol that the member expects.
    pub const PROTOCOL: i16 = 5;
}

pub mod txn_offset_commit {
    /// The error code TRANSACTION_ABORTABLE is understood.
    pub const TRANSACTION_ABORTABLE: i16 = 4;
    /// The request adds its group to the transaction.
    pub const ADDS_GROUP: i16 = 5;
}

pub mod update_features {
    /// The request has the kind of a downgrade.
    pub const UPGRADE_TYPE: i16 = 1;
    /// The response has one error for all features.
    pub const ONE_ERROR: i16 = 2;
}
