//! The topics' keys, by name. Types, defaults, ranges and synonyms are Kafka's; `tests/it/kafkas_facts.rs` compares.

use super::{
    Allowed::{self, Between, BetweenOr},
    BrokerSynonym, ConfigType, Definition, Unit,
    definition::definitions,
};

/// Sorted by name.
pub(super) const TOPIC_CONFIGS: &[Definition] = definitions! {
    "cleanup.policy" List = "delete", allowed(CLEANUP_POLICIES), follows(&[same("log.cleanup.policy")]),
        about("What happens to old records: they are deleted, or all but the newest of each key, or both; or nothing.");
    "compression.gzip.level" Int = "-1", allowed(BetweenOr(1, 9, -1)), follows(&[same("compression.gzip.level")]),
        about("How hard gzip tries when the broker compresses; -1 leaves it to the library.");
    "compression.lz4.level" Int = "9", allowed(Between(1, 17)), follows(&[same("compression.lz4.level")]),
        about("How hard LZ4 tries when the broker compresses.");
    "compression.type" String = "producer", allowed(COMPRESSION_TYPES), follows(&[same("compression.type")]),
        about("How batches are stored: with a codec of the topic's choice, or as the producer sent them.");
    "compression.zstd.level" Int = "3", allowed(Between(-131_072, 22)), follows(&[same("compression.zstd.level")]),
        about("How hard zstd tries when the broker compresses.");
    "delete.retention.ms" Long = "86400000", at_least(0), follows(&[same("log.cleaner.delete.retention.ms")]),
        about("How long compaction keeps the mark that a key was deleted.");
    "file.delete.delay.ms" Long = "60000", at_least(0), follows(&[same("log.segment.delete.delay.ms")]),
        about("How long the file of a deleted segment stays on disk. It is stored and shown; this broker removes files \
               at once, and readers of them are not disturbed.");
    "flush.messages" Long = "9223372036854775807", at_least(1), follows(&[same("log.flush.interval.messages")]),
        about("After how many records the log is forced to disk.");
    "flush.ms" Long = "9223372036854775807", at_least(0),
        follows(&[same("log.flush.interval.ms"), same("log.flush.scheduler.interval.ms")]),
        about("After how long the log is forced to disk.");
    "follower.replication.throttled.replicas" List = "", allowed(Allowed::ThrottledReplicas),
        about("Followers whose replication is throttled, as partition:broker or * for all. It is stored and shown; with \
               one node nothing is replicated.");
    "index.interval.bytes" Int = "4096", at_least(0), follows(&[same("log.index.interval.bytes")]),
        about("How many bytes of the log lie between two entries of the offset index.");
    "internal.segment.bytes" Int, at_least(1), hidden,
        about("A segment size below the smallest that segment.bytes allows, for tests.");
    "leader.replication.throttled.replicas" List = "", allowed(Allowed::ThrottledReplicas),
        about("Leaders whose replication is throttled, as partition:broker or * for all. It is stored and shown; with \
               one node nothing is replicated.");
    "local.retention.bytes" Long = "-2", at_least(-2), follows(&[same("log.local.retention.bytes")]),
        default_only(NO_REMOTE_STORAGE), about("How much stays on local disk when there is remote storage.");
    "local.retention.ms" Long = "-2", at_least(-2), follows(&[same("log.local.retention.ms")]),
        default_only(NO_REMOTE_STORAGE), about("How long data stays on local disk when there is remote storage.");
    "max.compaction.lag.ms" Long = "9223372036854775807", at_least(1),
        follows(&[same("log.cleaner.max.compaction.lag.ms")]),
        about("How old a record may get before compaction must look at it.");
    "max.message.bytes" Int = "1048588", at_least(0), follows(&[same("message.max.bytes")]),
        about("The largest record batch that is accepted, as compressed.");
    "message.timestamp.after.max.ms" Long = "3600000", at_least(0),
        follows(&[same("log.message.timestamp.after.max.ms")]),
        about("How far a record's timestamp may be ahead of the broker's clock.");
    "message.timestamp.before.max.ms" Long = "9223372036854775807", at_least(0),
        follows(&[same("log.message.timestamp.before.max.ms")]),
        about("How far a record's timestamp may be behind the broker's clock.");
    "message.timestamp.type" String = "CreateTime", allowed(TIMESTAMP_TYPES),
        follows(&[same("log.message.timestamp.type")]),
        about("Whose clock a record's timestamp is: the producer's, or the broker's at the time of the append.");
    "milena.durability" String = "os", allowed(DURABILITIES), follows(&[same("milena.durability")]),
        about("Where a record is when its producer hears of it: in memory, with the operating system, or on disk.");
    "min.cleanable.dirty.ratio" Double = "0.5", allowed(Between(0, 1)),
        follows(&[same("log.cleaner.min.cleanable.ratio")]),
        about("How much of the log must be new before compaction is worth it.");
    "min.compaction.lag.ms" Long = "0", at_least(0), follows(&[same("log.cleaner.min.compaction.lag.ms")]),
        about("How old a record must be before compaction may remove it.");
    "min.insync.replicas" Int = "1", at_least(1), follows(&[same("min.insync.replicas")]),
        about("How many replicas must have a record that was sent with acks=all. There is one here: more are missed only with \
               milena.strict.replication.factor.");
    "preallocate" Boolean = "false", follows(&[same("log.preallocate")]), default_only(GROWING_FILES),
        about("Whether the file of a new segment gets its full size at once.");
    "remote.log.copy.disable" Boolean = "false", default_only(NO_REMOTE_STORAGE),
        about("Whether a topic with remote storage stops copying to it.");
    "remote.log.delete.on.disable" Boolean = "false", default_only(NO_REMOTE_STORAGE),
        about("Whether remote data is deleted when remote storage is turned off.");
    "remote.storage.enable" Boolean = "false", default_only(NO_REMOTE_STORAGE),
        about("Whether old segments move to remote storage.");
    "retention.bytes" Long = "-1", follows(&[same("log.retention.bytes")]),
        about("How large a partition may grow before its oldest segments are deleted; -1 is without end.");
    "retention.ms" Long = "604800000", at_least(-1),
        follows(&[same("log.retention.ms"), minutes("log.retention.minutes"), hours("log.retention.hours")]),
        about("How old a segment may grow before it is deleted; -1 is without end.");
    "segment.bytes" Int = "1073741824", at_least(1_048_576), follows(&[same("log.segment.bytes")]),
        about("How large a segment may grow before the next one begins.");
    "segment.index.bytes" Int = "10485760", at_least(4), follows(&[same("log.index.size.max.bytes")]),
        about("How large an index may grow before the next segment begins.");
    "segment.jitter.ms" Long = "0", at_least(0),
        follows(&[same("log.roll.jitter.ms"), hours("log.roll.jitter.hours")]),
        about("By how much at most segment.ms is shortened at random, so that partitions do not roll together.");
    "segment.ms" Long = "604800000", at_least(1), follows(&[same("log.roll.ms"), hours("log.roll.hours")]),
        about("How old a segment may grow before the next one begins.");
    "unclean.leader.election.enable" Boolean = "false", follows(&[same("unclean.leader.election.enable")]),
        about("Whether a replica that lags may become leader; with one replica none ever does.");
};

pub(super) const CLEANUP_POLICIES: Allowed = Allowed::Each(&["compact", "delete"]);
pub(super) const COMPRESSION_TYPES: Allowed =
    Allowed::OneOf(&["uncompressed", "zstd", "lz4", "snappy", "gzip", "producer"]);
pub(super) const TIMESTAMP_TYPES: Allowed = Allowed::OneOf(&["CreateTime", "LogAppendTime"]);
pub(super) const DURABILITIES: Allowed = Allowed::OneOf(&["memory", "os", "fsync"]);

pub(super) const ONE_NODE: &str = "it is the only node";
pub(super) const GROWING_FILES: &str = "its files grow as they are written";
pub(super) const NO_REMOTE_STORAGE: &str = "it has no remote storage";

pub(super) const fn same(name: &'static str) -> BrokerSynonym {
    BrokerSynonym { name, unit: Unit::Same }
}

const fn minutes(name: &'static str) -> BrokerSynonym {
    let unit = Unit::Minutes;
    BrokerSynonym { name, unit }
}

const fn hours(name: &'static str) -> BrokerSynonym {
    let unit = Unit::Hours;
    BrokerSynonym { name, unit }
}
