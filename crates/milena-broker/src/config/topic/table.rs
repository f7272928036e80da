//! Keys of topics. Types, defaults, ranges and synonyms are Kafka's; `tests/it/kafkas_facts.rs` compares them.

use milena_config::{
    Alias,
    Allowed::{Between, BetweenOr, Custom, Each, OneOf},
    Definition, definitions,
};

use super::types::{COMPRESSION_TYPES, CleanupPolicy, Durability, THROTTLED_REPLICAS, TimestampType};

/// Sorted by name.
pub(crate) const TOPIC_CONFIGS: &[Definition] = definitions! {
    "cleanup.policy" List = "delete", allowed(Each(CleanupPolicy::NAMES)), follows(&[Alias::same("log.cleanup.policy")]),
        about("How old records are removed: by retention (delete), all but the newest of each key (compact), both, or neither.");
    "compression.gzip.level" Int = "-1", allowed(BetweenOr(1, 9, -1)), follows(&[Alias::same("compression.gzip.level")]),
        about("The gzip level of batches that the broker compresses; -1 is the library's default.");
    "compression.lz4.level" Int = "9", allowed(Between(1, 17)), follows(&[Alias::same("compression.lz4.level")]),
        about("The LZ4 level of batches that the broker compresses.");
    "compression.type" String = "producer", allowed(COMPRESSION_TYPES), follows(&[Alias::same("compression.type")]),
        about("The codec of stored batches, or producer to keep the codec of the producer.");
    "compression.zstd.level" Int = "3", allowed(Between(-131_072, 22)), follows(&[Alias::same("compression.zstd.level")]),
        about("The zstd level of batches that the broker compresses.");
    "delete.retention.ms" Long = "86400000", at_least(0), follows(&[Alias::same("log.cleaner.delete.retention.ms")]),
        about("The time for which compaction keeps the tombstone of a deleted key.");
    "file.delete.delay.ms" Long = "60000", at_least(0), follows(&[Alias::same("log.segment.delete.delay.ms")]),
        about("The delay before the file of a deleted segment is removed. It is stored and shown; this broker removes \
               files at once, and their readers are not disturbed.");
    "flush.messages" Long = "9223372036854775807", at_least(1), follows(&[Alias::same("log.flush.interval.messages")]),
        about("The number of records after which the log is flushed to disk.");
    "flush.ms" Long = "9223372036854775807", at_least(0),
        follows(&[Alias::same("log.flush.interval.ms"), Alias::same("log.flush.scheduler.interval.ms")]),
        about("The time after which the log is flushed to disk.");
    "follower.replication.throttled.replicas" List = "", allowed(Custom(&THROTTLED_REPLICAS)),
        about("Followers whose replication is throttled, as partition:broker or * for all. It is stored and shown; with \
               one node nothing is replicated.");
    "index.interval.bytes" Int = "4096", at_least(0), follows(&[Alias::same("log.index.interval.bytes")]),
        about("The number of bytes of the log between two entries of the offset index.");
    "internal.segment.bytes" Int, at_least(1), hidden,
        about("A segment size below the smallest that segment.bytes allows, for tests.");
    "leader.replication.throttled.replicas" List = "", allowed(Custom(&THROTTLED_REPLICAS)),
        about("Leaders whose replication is throttled, as partition:broker or * for all. It is stored and shown; with \
               one node nothing is replicated.");
    "local.retention.bytes" Long = "-2", at_least(-2), follows(&[Alias::same("log.local.retention.bytes")]),
        default_only(NO_REMOTE_STORAGE), about("The size of the local log of a topic with remote storage.");
    "local.retention.ms" Long = "-2", at_least(-2), follows(&[Alias::same("log.local.retention.ms")]),
        default_only(NO_REMOTE_STORAGE), about("The time for which a topic with remote storage keeps local segments.");
    "max.compaction.lag.ms" Long = "9223372036854775807", at_least(1),
        follows(&[Alias::same("log.cleaner.max.compaction.lag.ms")]),
        about("The age of a record from which the log must be compacted.");
    "max.message.bytes" Int = "1048588", at_least(0), follows(&[Alias::same("message.max.bytes")]),
        about("The largest record batch that is accepted, as compressed.");
    "message.timestamp.after.max.ms" Long = "3600000", at_least(0),
        follows(&[Alias::same("log.message.timestamp.after.max.ms")]),
        about("The largest difference by which a record's timestamp may be after the broker's clock.");
    "message.timestamp.before.max.ms" Long = "9223372036854775807", at_least(0),
        follows(&[Alias::same("log.message.timestamp.before.max.ms")]),
        about("The largest difference by which a record's timestamp may be before the broker's clock.");
    "message.timestamp.type" String = "CreateTime", allowed(OneOf(TimestampType::NAMES)),
        follows(&[Alias::same("log.message.timestamp.type")]),
        about("The clock of record timestamps: that of the producer (CreateTime), or that of the broker at the append \
               (LogAppendTime).");
    "milena.durability" String = "os", allowed(OneOf(Durability::NAMES)), follows(&[Alias::same("milena.durability")]),
        about("The durability of an acknowledged record: memory (none), os (survives a crash of the process), or fsync \
               (on disk).");
    "min.cleanable.dirty.ratio" Double = "0.5", allowed(Between(0, 1)),
        follows(&[Alias::same("log.cleaner.min.cleanable.ratio")]),
        about("The share of the log that must be uncompacted before it is compacted.");
    "min.compaction.lag.ms" Long = "0", at_least(0), follows(&[Alias::same("log.cleaner.min.compaction.lag.ms")]),
        about("The age of a record from which compaction may remove it.");
    "min.insync.replicas" Int = "1", at_least(1), follows(&[Alias::same("min.insync.replicas")]),
        about("The replicas that must have a record that was sent with acks=all. With one node, a larger number is \
               enforced only with milena.strict.replication.factor.");
    "preallocate" Boolean = "false", follows(&[Alias::same("log.preallocate")]), default_only(GROWING_FILES),
        about("Whether the file of a new segment gets its full size at once.");
    "remote.log.copy.disable" Boolean = "false", default_only(NO_REMOTE_STORAGE),
        about("Whether a topic with remote storage stops copying to it.");
    "remote.log.delete.on.disable" Boolean = "false", default_only(NO_REMOTE_STORAGE),
        about("Whether remote data is deleted when remote storage is turned off.");
    "remote.storage.enable" Boolean = "false", default_only(NO_REMOTE_STORAGE),
        about("Whether old segments move to remote storage.");
    "retention.bytes" Long = "-1", follows(&[Alias::same("log.retention.bytes")]),
        about("The size of a partition from which its oldest segments are deleted; -1 is unlimited.");
    "retention.ms" Long = "604800000", at_least(-1),
        follows(&[Alias::same("log.retention.ms"), Alias::minutes("log.retention.minutes"), Alias::hours("log.retention.hours")]),
        about("The age at which segments are deleted; -1 is never.");
    "segment.bytes" Int = "1073741824", at_least(1_048_576), follows(&[Alias::same("log.segment.bytes")]),
        about("The size at which the next segment begins.");
    "segment.index.bytes" Int = "10485760", at_least(4), follows(&[Alias::same("log.index.size.max.bytes")]),
        about("The size of an index at which the next segment begins.");
    "segment.jitter.ms" Long = "0", at_least(0),
        follows(&[Alias::same("log.roll.jitter.ms"), Alias::hours("log.roll.jitter.hours")]),
        about("The largest random deduction from segment.ms, so that partitions do not roll together.");
    "segment.ms" Long = "604800000", at_least(1), follows(&[Alias::same("log.roll.ms"), Alias::hours("log.roll.hours")]),
        about("The age at which the next segment begins.");
    "unclean.leader.election.enable" Boolean = "false", follows(&[Alias::same("unclean.leader.election.enable")]),
        about("Whether a replica that lacks records may become leader; with one replica none ever does.");
};

pub(crate) const ONE_NODE: &str = "the broker is the only node";
pub(crate) const GROWING_FILES: &str = "files grow as they are written";
pub(crate) const NO_REMOTE_STORAGE: &str = "the broker has no remote storage";
