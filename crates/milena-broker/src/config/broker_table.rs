//! The broker's keys, by name.
//!
//! Types, defaults, ranges and update modes are Kafka's; `tests/it/kafkas_facts.rs` compares them. The few that differ
//! on purpose: `node.id` has a default, `log.dir` has none (two brokers must never meet in one directory by accident), a
//! new group does not wait for more members (every test would wait with it), and listeners cannot change while the
//! broker runs.

use super::{
    Allowed::{self, Between, BetweenOr},
    ConfigType, Definition,
    definition::definitions,
    topic_table::{
        CLEANUP_POLICIES, COMPRESSION_TYPES, DURABILITIES, GROWING_FILES, NO_REMOTE_STORAGE, ONE_NODE, REMOVED_AT_ONCE,
        TIMESTAMP_TYPES,
    },
};

/// Sorted by name.
pub(super) const BROKER_CONFIGS: &[Definition] = definitions! {
    "advertised.listeners" List;
    "authorizer.class.name" String = "", default_only(NO_JAVA_CLASSES);
    "auto.create.topics.enable" Boolean = "true";
    "auto.leader.rebalance.enable" Boolean = "true", default_only(ONE_NODE);
    "background.threads" Int = "10", at_least(1), cluster_wide, default_only(THREADS);
    "broker.id" Int = "1";
    "broker.rack" String;
    "compression.gzip.level" Int = "-1", allowed(BetweenOr(1, 9, -1)), cluster_wide;
    "compression.lz4.level" Int = "9", allowed(Between(1, 17)), cluster_wide;
    "compression.type" String = "producer", allowed(COMPRESSION_TYPES), cluster_wide;
    "compression.zstd.level" Int = "3", allowed(Between(-131_072, 22)), cluster_wide;
    "connection.failed.authentication.delay.ms" Int = "100", at_least(0), default_only(NO_SASL);
    "connections.max.idle.ms" Long = "600000";
    "connections.max.reauth.ms" Long = "0", default_only(NO_SASL);
    "default.replication.factor" Int = "1";
    "delete.topic.enable" Boolean = "true";
    "fetch.max.bytes" Int = "57671680", at_least(1024);
    "group.consumer.assignment.interval.ms" Int = "1000", at_least(0), cluster_wide, default_only(ASSIGNS_AT_ONCE);
    "group.consumer.assignors" List = "uniform,range";
    "group.consumer.heartbeat.interval.ms" Int = "5000", at_least(1);
    "group.consumer.max.assignment.interval.ms" Int = "15000", at_least(0), default_only(ASSIGNS_AT_ONCE);
    "group.consumer.max.heartbeat.interval.ms" Int = "15000", at_least(1);
    "group.consumer.max.session.timeout.ms" Int = "60000", at_least(1);
    "group.consumer.max.size" Int = "2147483647", at_least(1);
    "group.consumer.migration.policy" String = "bidirectional", allowed(MIGRATION_POLICIES);
    "group.consumer.min.assignment.interval.ms" Int = "0", at_least(0), default_only(ASSIGNS_AT_ONCE);
    "group.consumer.min.heartbeat.interval.ms" Int = "5000", at_least(1);
    "group.consumer.min.session.timeout.ms" Int = "45000", at_least(1);
    "group.consumer.regex.refresh.interval.ms" Int = "600000", at_least(10_000), hidden;
    "group.consumer.session.timeout.ms" Int = "45000", at_least(1);
    "group.coordinator.append.linger.ms" Int = "-1", at_least(-1), default_only(NO_SUCH_BUFFER);
    "group.coordinator.background.threads" Int = "2", at_least(1), default_only(THREADS);
    "group.coordinator.cached.buffer.max.bytes" Int = "1048588", at_least(524_288), cluster_wide,
        default_only(NO_SUCH_BUFFER);
    "group.coordinator.rebalance.protocols" List = "classic,consumer,streams", allowed(GROUP_PROTOCOLS);
    "group.coordinator.threads" Int = "4", at_least(1), default_only(THREADS);
    "group.initial.rebalance.delay.ms" Int = "0";
    "group.max.session.timeout.ms" Int = "1800000";
    "group.max.size" Int = "2147483647", at_least(1);
    "group.min.session.timeout.ms" Int = "6000";
    "group.share.assignment.interval.ms" Int = "1000", at_least(0), cluster_wide, default_only(NO_SHARE_GROUPS);
    "group.share.assignors" List = "simple", default_only(NO_SHARE_GROUPS);
    "group.share.delivery.count.limit" Int = "5", allowed(Between(2, 10)), default_only(NO_SHARE_GROUPS);
    "group.share.heartbeat.interval.ms" Int = "5000", at_least(1), default_only(NO_SHARE_GROUPS);
    "group.share.max.assignment.interval.ms" Int = "15000", at_least(0), default_only(NO_SHARE_GROUPS);
    "group.share.max.delivery.count.limit" Int = "10", allowed(Between(5, 25)), default_only(NO_SHARE_GROUPS);
    "group.share.max.heartbeat.interval.ms" Int = "15000", at_least(1), default_only(NO_SHARE_GROUPS);
    "group.share.max.partition.max.record.locks" Int = "4000", allowed(Between(2000, 10_000)), default_only(NO_SHARE_GROUPS);
    "group.share.max.record.lock.duration.ms" Int = "60000", allowed(Between(30_000, 3_600_000)), default_only(NO_SHARE_GROUPS);
    "group.share.max.session.timeout.ms" Int = "60000", at_least(1), default_only(NO_SHARE_GROUPS);
    "group.share.max.share.sessions" Int = "2000", at_least(1), default_only(NO_SHARE_GROUPS);
    "group.share.max.size" Int = "200", allowed(Between(1, 1000)), default_only(NO_SHARE_GROUPS);
    "group.share.min.assignment.interval.ms" Int = "0", at_least(0), default_only(NO_SHARE_GROUPS);
    "group.share.min.delivery.count.limit" Int = "2", allowed(Between(2, 5)), default_only(NO_SHARE_GROUPS);
    "group.share.min.heartbeat.interval.ms" Int = "5000", at_least(1), default_only(NO_SHARE_GROUPS);
    "group.share.min.partition.max.record.locks" Int = "100", allowed(Between(100, 2000)), default_only(NO_SHARE_GROUPS);
    "group.share.min.record.lock.duration.ms" Int = "15000", allowed(Between(1000, 30_000)), default_only(NO_SHARE_GROUPS);
    "group.share.min.session.timeout.ms" Int = "45000", at_least(1), default_only(NO_SHARE_GROUPS);
    "group.share.partition.max.record.locks" Int = "2000", allowed(Between(100, 10_000)), default_only(NO_SHARE_GROUPS);
    "group.share.record.lock.duration.ms" Int = "30000", allowed(Between(1000, 3_600_000)), default_only(NO_SHARE_GROUPS);
    "group.share.session.timeout.ms" Int = "45000", at_least(1), default_only(NO_SHARE_GROUPS);
    "group.streams.assignment.interval.ms" Int = "1000", at_least(0), cluster_wide, default_only(NO_STREAMS_GROUPS);
    "group.streams.heartbeat.interval.ms" Int = "5000", at_least(1), default_only(NO_STREAMS_GROUPS);
    "group.streams.initial.rebalance.delay.ms" Int = "3000", at_least(0), default_only(NO_STREAMS_GROUPS);
    "group.streams.max.assignment.interval.ms" Int = "15000", at_least(0), default_only(NO_STREAMS_GROUPS);
    "group.streams.max.heartbeat.interval.ms" Int = "15000", at_least(1), default_only(NO_STREAMS_GROUPS);
    "group.streams.max.session.timeout.ms" Int = "60000", at_least(1), default_only(NO_STREAMS_GROUPS);
    "group.streams.max.size" Int = "2147483647", at_least(1), default_only(NO_STREAMS_GROUPS);
    "group.streams.max.standby.replicas" Int = "2", at_least(0), default_only(NO_STREAMS_GROUPS);
    "group.streams.min.assignment.interval.ms" Int = "0", at_least(0), default_only(NO_STREAMS_GROUPS);
    "group.streams.min.heartbeat.interval.ms" Int = "5000", at_least(1), default_only(NO_STREAMS_GROUPS);
    "group.streams.min.session.timeout.ms" Int = "45000", at_least(1), default_only(NO_STREAMS_GROUPS);
    "group.streams.num.standby.replicas" Int = "0", at_least(0), default_only(NO_STREAMS_GROUPS);
    "group.streams.session.timeout.ms" Int = "45000", at_least(1), default_only(NO_STREAMS_GROUPS);
    "leader.imbalance.check.interval.seconds" Long = "300", at_least(1), default_only(ONE_NODE);
    "listener.security.protocol.map" String =
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT";
    "listeners" List = "PLAINTEXT://:9092";
    "log.cleaner.backoff.ms" Long = "15000", at_least(0), cluster_wide;
    "log.cleaner.dedupe.buffer.size" Long = "134217728", cluster_wide;
    "log.cleaner.delete.retention.ms" Long = "86400000", at_least(0), cluster_wide;
    "log.cleaner.enable" Boolean = "true";
    "log.cleaner.io.buffer.load.factor" Double = "0.9", cluster_wide, default_only(NO_SUCH_BUFFER);
    "log.cleaner.io.buffer.size" Int = "524288", at_least(0), cluster_wide, default_only(NO_SUCH_BUFFER);
    "log.cleaner.io.max.bytes.per.second" Double = "1.7976931348623157E308", cluster_wide, default_only(NOT_SLOWED);
    "log.cleaner.max.compaction.lag.ms" Long = "9223372036854775807", at_least(1), cluster_wide;
    "log.cleaner.min.cleanable.ratio" Double = "0.5", allowed(Between(0, 1)), cluster_wide;
    "log.cleaner.min.compaction.lag.ms" Long = "0", at_least(0), cluster_wide;
    "log.cleaner.threads" Int = "1", at_least(0), cluster_wide, default_only(THREADS);
    "log.cleanup.policy" List = "delete", allowed(CLEANUP_POLICIES), cluster_wide;
    "log.dir" List;
    "log.dirs" List;
    "log.flush.interval.messages" Long = "9223372036854775807", at_least(1), cluster_wide;
    "log.flush.interval.ms" Long, cluster_wide;
    "log.flush.offset.checkpoint.interval.ms" Int = "60000", at_least(0);
    "log.flush.scheduler.interval.ms" Long = "9223372036854775807";
    "log.flush.start.offset.checkpoint.interval.ms" Int = "60000", at_least(0), default_only(ONE_CHECKPOINT);
    "log.index.interval.bytes" Int = "4096", at_least(0), cluster_wide;
    "log.index.size.max.bytes" Int = "10485760", at_least(4), cluster_wide;
    "log.initial.task.delay.ms" Long = "30000", at_least(0), hidden, default_only(NO_DELAY);
    "log.local.retention.bytes" Long = "-2", at_least(-2), cluster_wide, default_only(NO_REMOTE_STORAGE);
    "log.local.retention.ms" Long = "-2", at_least(-2), cluster_wide, default_only(NO_REMOTE_STORAGE);
    "log.message.timestamp.after.max.ms" Long = "3600000", at_least(0), cluster_wide;
    "log.message.timestamp.before.max.ms" Long = "9223372036854775807", at_least(0), cluster_wide;
    "log.message.timestamp.type" String = "CreateTime", allowed(TIMESTAMP_TYPES), cluster_wide;
    "log.preallocate" Boolean = "false", cluster_wide, default_only(GROWING_FILES);
    "log.retention.bytes" Long = "-1", cluster_wide;
    "log.retention.check.interval.ms" Long = "300000", at_least(1);
    "log.retention.hours" Int = "168";
    "log.retention.minutes" Int;
    "log.retention.ms" Long, cluster_wide;
    "log.roll.hours" Int = "168", at_least(1);
    "log.roll.jitter.hours" Int = "0", at_least(0);
    "log.roll.jitter.ms" Long, cluster_wide;
    "log.roll.ms" Long, cluster_wide;
    "log.segment.bytes" Int = "1073741824", at_least(1_048_576), cluster_wide;
    "log.segment.delete.delay.ms" Long = "60000", at_least(0), cluster_wide, default_only(REMOVED_AT_ONCE);
    "max.connection.creation.rate" Int = "2147483647", at_least(0), cluster_wide, default_only(NO_QUOTAS);
    "max.connections" Int = "2147483647", at_least(0), cluster_wide;
    "max.connections.per.ip" Int = "2147483647", at_least(0), cluster_wide;
    "max.connections.per.ip.overrides" String = "", cluster_wide;
    "max.incremental.fetch.session.cache.slots" Int = "1000", at_least(0);
    "max.request.partition.size.limit" Int = "2000", at_least(1);
    "message.max.bytes" Int = "1048588", at_least(0), cluster_wide;
    "milena.durability" String = "os", allowed(DURABILITIES), cluster_wide;
    "milena.recovery" String = "strict", allowed(RECOVERIES);
    "milena.strict.replication.factor" Boolean = "false";
    "min.insync.replicas" Int = "1", at_least(1), cluster_wide;
    "node.id" Int = "1", at_least(0);
    "num.io.threads" Int = "8", at_least(1), cluster_wide, default_only(THREADS);
    "num.network.threads" Int = "3", at_least(1), cluster_wide, default_only(THREADS);
    "num.partitions" Int = "1", at_least(1);
    "num.recovery.threads.per.data.dir" Int = "2", at_least(1), cluster_wide, default_only(THREADS);
    "offset.metadata.max.bytes" Int = "4096";
    "offsets.commit.timeout.ms" Int = "5000", at_least(1), default_only(NO_REPLICAS_TO_WAIT_FOR);
    "offsets.load.buffer.size" Int = "5242880", at_least(1), default_only(NO_SUCH_BUFFER);
    "offsets.retention.check.interval.ms" Long = "600000", at_least(1);
    "offsets.retention.minutes" Int = "10080", at_least(1);
    "offsets.topic.compression.codec" Int = "0", default_only(OFFSETS_AS_THEY_ARE);
    "offsets.topic.num.partitions" Int = "50", at_least(1);
    "offsets.topic.replication.factor" Short = "3", at_least(1);
    "offsets.topic.segment.bytes" Int = "104857600", at_least(1);
    "producer.id.expiration.check.interval.ms" Int = "600000", at_least(1), hidden;
    "producer.id.expiration.ms" Int = "86400000", at_least(1), cluster_wide;
    "queued.max.request.bytes" Long = "-1";
    "queued.max.requests" Int = "500", at_least(1), default_only(NO_QUEUE);
    "quota.window.num" Int = "11", at_least(1), default_only(NO_QUOTAS);
    "quota.window.size.seconds" Int = "1", at_least(1), default_only(NO_QUOTAS);
    "sasl.enabled.mechanisms" List = "GSSAPI", per_broker, default_only(NO_SASL);
    "sasl.jaas.config" Password, per_broker, default_only(NO_SASL);
    "sasl.server.max.receive.size" Int = "524288", default_only(NO_SASL);
    "share.coordinator.append.linger.ms" Int = "-1", at_least(-1), default_only(NO_SUCH_BUFFER);
    "share.coordinator.cached.buffer.max.bytes" Int = "1048588", at_least(524_288), cluster_wide,
        default_only(NO_SUCH_BUFFER);
    "share.coordinator.load.buffer.size" Int = "5242880", at_least(1), default_only(NO_SUCH_BUFFER);
    "share.coordinator.snapshot.update.records.per.snapshot" Int = "500", allowed(Between(0, 500)), default_only(NO_SHARE_GROUPS);
    "share.coordinator.state.topic.compression.codec" Int = "0", default_only(NO_SHARE_GROUPS);
    "share.coordinator.state.topic.min.isr" Short = "2", at_least(1), default_only(NO_SHARE_GROUPS);
    "share.coordinator.state.topic.num.partitions" Int = "50", at_least(1), default_only(NO_SHARE_GROUPS);
    "share.coordinator.state.topic.replication.factor" Short = "3", at_least(1), default_only(NO_SHARE_GROUPS);
    "share.coordinator.state.topic.segment.bytes" Int = "104857600", at_least(1), default_only(NO_SHARE_GROUPS);
    "share.coordinator.threads" Int = "1", at_least(1), default_only(THREADS);
    "share.coordinator.write.timeout.ms" Int = "5000", at_least(1), default_only(NO_SHARE_GROUPS);
    "socket.listen.backlog.size" Int = "50", at_least(1);
    "socket.receive.buffer.bytes" Int = "102400", default_only(SYSTEM_BUFFERS);
    "socket.request.max.bytes" Int = "104857600", at_least(1);
    "socket.send.buffer.bytes" Int = "102400", default_only(SYSTEM_BUFFERS);
    "ssl.cipher.suites" List = "", per_broker, default_only(NO_TLS);
    "ssl.client.auth" String = "none", allowed(CLIENT_AUTHENTICATION), per_broker, default_only(NO_TLS);
    "ssl.enabled.protocols" List = "TLSv1.2,TLSv1.3", per_broker, default_only(NO_TLS);
    "ssl.key.password" Password, per_broker, default_only(NO_TLS);
    "ssl.keystore.certificate.chain" Password, per_broker, default_only(NO_TLS);
    "ssl.keystore.key" Password, per_broker, default_only(NO_TLS);
    "ssl.keystore.location" String, per_broker, default_only(NO_TLS);
    "ssl.keystore.password" Password, per_broker, default_only(NO_TLS);
    "ssl.keystore.type" String = "JKS", per_broker, default_only(NO_TLS);
    "ssl.principal.mapping.rules" String = "DEFAULT", default_only(NO_TLS);
    "ssl.truststore.certificates" Password, per_broker, default_only(NO_TLS);
    "ssl.truststore.location" String, per_broker, default_only(NO_TLS);
    "ssl.truststore.password" Password, per_broker, default_only(NO_TLS);
    "ssl.truststore.type" String = "JKS", per_broker, default_only(NO_TLS);
    "transaction.abort.timed.out.transaction.cleanup.interval.ms" Int = "10000", at_least(1);
    "transaction.max.timeout.ms" Int = "900000", at_least(1);
    "transaction.partition.verification.enable" Boolean = "true", cluster_wide;
    "transaction.remove.expired.transaction.cleanup.interval.ms" Int = "3600000", at_least(1);
    "transaction.state.log.load.buffer.size" Int = "5242880", at_least(1), default_only(NO_SUCH_BUFFER);
    "transaction.state.log.min.isr" Int = "2", at_least(1), default_only(ONE_NODE);
    "transaction.state.log.num.partitions" Int = "50", at_least(1);
    "transaction.state.log.replication.factor" Short = "3", at_least(1);
    "transaction.state.log.segment.bytes" Int = "104857600", at_least(1);
    "transaction.two.phase.commit.enable" Boolean = "false", default_only(NO_TWO_PHASE_COMMIT);
    "transactional.id.expiration.ms" Int = "604800000", at_least(1);
    "unclean.leader.election.enable" Boolean = "false", cluster_wide;
};

const MIGRATION_POLICIES: Allowed = Allowed::OneOfInAnyCase(&["DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"]);
const GROUP_PROTOCOLS: Allowed = Allowed::Each(&["consumer", "classic", "share", "streams"]);
const RECOVERIES: Allowed = Allowed::OneOf(&["strict", "accept-loss"]);
const CLIENT_AUTHENTICATION: Allowed = Allowed::OneOf(&["required", "requested", "none"]);

const THREADS: &str = "its runtime decides how many threads there are";
const NOT_SLOWED: &str = "its compaction is not slowed down";
const ONE_CHECKPOINT: &str = "it writes all checkpoints at once, every log.flush.offset.checkpoint.interval.ms";
const NO_DELAY: &str = "its chores begin one interval after the start";
const NO_QUEUE: &str = "it has no queue of requests; queued.max.request.bytes bounds what is read";
const NO_QUOTAS: &str = "it has no quotas";
const SYSTEM_BUFFERS: &str = "it leaves the size of socket buffers to the operating system";
const NO_SUCH_BUFFER: &str = "it has no such buffer";
const NO_JAVA_CLASSES: &str = "it cannot load Java classes";
pub(super) const NO_SHARE_GROUPS: &str = "it has no share groups yet";
pub(super) const NO_STREAMS_GROUPS: &str = "it has no streams groups; Kafka Streams uses classic ones";
pub(super) const ASSIGNS_AT_ONCE: &str = "it assigns as soon as a group changes";
const NO_REPLICAS_TO_WAIT_FOR: &str = "there are no replicas to wait for";
const OFFSETS_AS_THEY_ARE: &str = "its records about groups are too small to be worth compressing";
const NO_TWO_PHASE_COMMIT: &str = "it has no two-phase commit";
const NO_SASL: &str = "it does not authenticate clients";
const NO_TLS: &str = "it does not speak TLS";
