//! Settings of topics: values and checks. The valid texts of Kafka's keys are those of its `LogConfig`.

use milena_broker::config::{
    CleanupPolicy, CompressionType, ConfigValue, Durability, TimestampType, TopicConfig, topic_definitions,
};

use crate::{broker, overrides, topic};

/// The value as Kafka prints it, or the error.
fn parsed(name: &str, text: &str) -> Result<String, String> {
    let definition = topic_definitions()
        .iter()
        .find(|definition| definition.name == name)
        .unwrap();
    let value = ConfigValue::parse(definition, text).map_err(|error| error.to_string())?;
    Ok(value.to_string())
}

#[test]
fn texts_that_kafka_accepts() {
    for (name, text, value) in [
        ("cleanup.policy", "", ""),
        ("cleanup.policy", " compact , delete ", "compact,delete"),
        ("cleanup.policy", "delete,delete", "delete"),
        ("unclean.leader.election.enable", "TRUE", "true"),
        ("unclean.leader.election.enable", " False ", "false"),
        ("segment.bytes", " 12345678 ", "12345678"),
        ("segment.bytes", "+12345678", "12345678"),
        ("retention.ms", "-1", "-1"),
        ("retention.ms", "9223372036854775807", "9223372036854775807"),
        ("retention.bytes", "-5", "-5"),
        ("min.cleanable.dirty.ratio", ".5", "0.5"),
        ("min.cleanable.dirty.ratio", "1e-1", "0.1"),
        ("min.cleanable.dirty.ratio", "1.", "1.0"),
        ("min.cleanable.dirty.ratio", "0.0001", "1.0E-4"),
        ("compression.type", " gzip ", "gzip"),
        ("compression.gzip.level", "-1", "-1"),
        ("message.timestamp.type", " LogAppendTime", "LogAppendTime"),
        ("max.message.bytes", "0", "0"),
        ("local.retention.ms", "-2", "-2"),
    ] {
        assert_eq!(parsed(name, text).as_deref(), Ok(value), "{name}={text}");
    }
}

#[test]
fn texts_that_kafka_refuses() {
    for (name, text, expected) in [
        ("cleanup.policy", "foo", "a list of compact, delete"),
        ("cleanup.policy", "Delete", "a list of compact, delete"),
        (
            "cleanup.policy",
            "delete,",
            "a comma-separated list without empty elements",
        ),
        ("unclean.leader.election.enable", "", "true or false"),
        ("unclean.leader.election.enable", "yes", "true or false"),
        ("segment.bytes", "", "a 32-bit integer"),
        ("segment.bytes", "1.5", "a 32-bit integer"),
        ("segment.bytes", "0x10", "a 32-bit integer"),
        ("segment.bytes", "99999999999", "a 32-bit integer"),
        ("segment.bytes", "1_000_000", "a 32-bit integer"),
        ("segment.bytes", "1024", "at least 1048576"),
        ("retention.ms", "-2", "at least -1"),
        ("retention.ms", "9223372036854775808", "a 64-bit integer"),
        ("retention.ms", "1L", "a 64-bit integer"),
        ("min.cleanable.dirty.ratio", "1.1", "0 to 1"),
        ("min.cleanable.dirty.ratio", "Infinity", "a number"),
        (
            "compression.type",
            "GZIP",
            "one of uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        (
            "compression.type",
            "none",
            "one of uncompressed, zstd, lz4, snappy, gzip, producer",
        ),
        ("compression.gzip.level", "0", "1 to 9, or -1"),
        (
            "message.timestamp.type",
            "createtime",
            "one of CreateTime, LogAppendTime",
        ),
        ("segment.ms", "0", "at least 1"),
    ] {
        let message = format!("it must be {expected}");
        assert_eq!(parsed(name, text), Err(message));
    }
}

/// Kafka takes a NaN for a ratio; the second key is ours.
#[test]
fn texts_that_only_we_refuse() {
    for (name, text, expected) in [
        ("min.cleanable.dirty.ratio", "NaN", "a number"),
        ("milena.durability", "disk", "one of memory, os, fsync"),
    ] {
        let message = format!("it must be {expected}");
        assert_eq!(parsed(name, text), Err(message));
    }
}

#[test]
fn a_topic_without_settings_has_the_defaults() {
    let expected = TopicConfig {
        cleanup_policy: CleanupPolicy {
            delete: true,
            compact: false,
        },
        compression_type: CompressionType::Producer,
        compression_gzip_level: -1,
        compression_lz4_level: 9,
        compression_zstd_level: 3,
        delete_retention_ms: 86_400_000,
        durability: Durability::Os,
        flush_messages: i64::MAX,
        flush_ms: i64::MAX,
        index_interval_bytes: 4096,
        max_compaction_lag_ms: i64::MAX,
        max_message_bytes: 1_048_588,
        message_timestamp_after_max_ms: 3_600_000,
        message_timestamp_before_max_ms: i64::MAX,
        message_timestamp_type: TimestampType::CreateTime,
        min_cleanable_dirty_ratio: 0.5,
        min_compaction_lag_ms: 0,
        min_insync_replicas: 1,
        retention_bytes: -1,
        retention_ms: 604_800_000,
        segment_bytes: 1_073_741_824,
        segment_index_bytes: 10_485_760,
        segment_jitter_ms: 0,
        segment_ms: 604_800_000,
        unclean_leader_election_enable: false,
    };
    assert_eq!(topic(&[]), Ok(expected));
}

#[test]
fn enums_have_a_variant_for_every_allowed_text() {
    for definition in topic_definitions() {
        if let milena_broker::config::Allowed::OneOf(texts) = definition.allowed {
            for text in texts {
                topic(&[(definition.name, text)]).expect(text);
            }
        }
    }
    let policy = topic(&[("cleanup.policy", "compact")]).unwrap().cleanup_policy;
    assert_eq!(
        policy,
        CleanupPolicy {
            delete: false,
            compact: true
        }
    );
    let durability = topic(&[("milena.durability", "fsync")]).unwrap().durability;
    assert_eq!(durability, Durability::Fsync);
}

#[test]
fn settings_of_the_broker_are_defaults_of_topics() {
    for (settings, retention_ms) in [
        (&[("log.retention.hours", "1")][..], 3_600_000),
        (&[("log.retention.minutes", "2"), ("log.retention.hours", "1")], 120_000),
        (&[("log.retention.ms", "3"), ("log.retention.minutes", "2")], 3),
        (&[("log.retention.hours", "-1")], -1),
        (&[("log.retention.minutes", "-7")], -1),
        (&[("log.retention.hours", "2147483647")], 7_730_941_129_200_000),
    ] {
        let broker = broker(settings).unwrap();
        assert_eq!(broker.topic_defaults.retention_ms, retention_ms, "{settings:?}");
        let topic = TopicConfig::resolve(&overrides(&[("retention.ms", "77")]), &broker).unwrap();
        assert_eq!(topic.retention_ms, 77);
    }
    let defaults = broker(&[
        ("log.roll.hours", "2"),
        ("log.roll.jitter.hours", "1"),
        ("log.flush.scheduler.interval.ms", "5"),
        ("message.max.bytes", "9"),
        ("log.cleanup.policy", "compact"),
        ("milena.durability", "memory"),
    ])
    .unwrap()
    .topic_defaults;
    assert_eq!(
        (defaults.segment_ms, defaults.segment_jitter_ms),
        (7_200_000, 3_600_000)
    );
    assert_eq!((defaults.flush_ms, defaults.max_message_bytes), (5, 9));
    assert_eq!(defaults.durability, Durability::Memory);
    assert!(defaults.cleanup_policy.compact && !defaults.cleanup_policy.delete);
}

#[test]
fn the_whole_is_checked_too() {
    let error = topic(&[("min.compaction.lag.ms", "100"), ("max.compaction.lag.ms", "50")]).unwrap_err();
    let expected =
        "min.compaction.lag.ms=100 conflicts with max.compaction.lag.ms=50: the minimum cannot exceed the maximum";
    assert_eq!(error.to_string(), expected);
    let broker = broker(&[("log.cleaner.max.compaction.lag.ms", "50")]).unwrap();
    assert!(TopicConfig::resolve(&overrides(&[("min.compaction.lag.ms", "100")]), &broker).is_err());
}

#[test]
fn a_test_can_have_tiny_segments() {
    assert_eq!(topic(&[("internal.segment.bytes", "512")]).unwrap().segment_bytes, 512);
    assert!(topic(&[("internal.segment.bytes", "0")]).is_err());
}

#[test]
fn wrong_names_are_refused_with_the_right_one() {
    for (name, message) in [
        (
            "retention.mss",
            "retention.mss is not a key of topics; did you mean retention.ms?",
        ),
        ("zzz", "zzz is not a key of topics"),
        (
            "remote.storage.enable",
            "remote.storage.enable is not supported: the broker has no remote storage",
        ),
        (
            "message.format.version",
            "message.format.version is not supported: \
             Kafka 4 removed it; records are stored in the newest format",
        ),
    ] {
        assert_eq!(topic(&[(name, "true")]).unwrap_err().to_string(), message);
    }
}
