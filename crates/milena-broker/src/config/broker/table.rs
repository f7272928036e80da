//! Keys of the broker.
//!
//! Types, defaults, ranges and update modes are Kafka's; `tests/it/kafkas_facts.rs` compares them. The exceptions:
//! `node.id` has a default; `log.dir` has none, so that two brokers do not share a directory by accident; the default
//! listener is not reachable from other machines; a new group
//! waits 20 ms for more members (Kafka's 3 s are for clusters that start hundreds of them; Kafka's own
//! `server.properties` has 0, with which members that start together rebalance twice); listeners cannot change at run
//! time.

use milena_config::{
    Allowed::{self, Between, BetweenOr, Each, OneOf, OneOfInAnyCase},
    Definition, definitions,
};

use super::{
    super::{
        group::MIGRATION_POLICIES,
        topic::{
            COMPRESSION_TYPES, CleanupPolicy, Durability, GROWING_FILES, NO_REMOTE_STORAGE, ONE_NODE, TimestampType,
        },
    },
    authorizer::{AuthorizerKind, STANDARD_AUTHORIZER},
    config::Recovery,
};

/// Sorted by name.
pub(crate) const BROKER_CONFIGS: &[Definition] = definitions! {
    "advertised.listeners" List,
        about("The addresses that clients are told to connect to; without it they are told the listeners.");
    "allow.everyone.if.no.acl.found" Boolean = "false",
        about("Whether resources without any ACL are open to everyone, if there is an authorizer.");
    "authorizer.class.name" String = "", allowed(OneOf(&["", STANDARD_AUTHORIZER])),
        about("Kafka's name of its authorizer, which turns on ACLs as milena.authorizer=acl does; empty for none.");
    "auto.create.topics.enable" Boolean = "true",
        about("Whether a topic is created when a client asks for it by name and it does not exist.");
    "auto.leader.rebalance.enable" Boolean = "true", default_only(ONE_NODE),
        about("Whether leadership moves back to preferred replicas; with one node it never moves.");
    "background.threads" Int = "10", at_least(1), cluster_wide, default_only(THREADS),
        about("The number of threads for background work in Kafka.");
    "broker.id" Int = "1",
        about("The id of this broker; the older name of node.id.");
    "broker.rack" String,
        about("The rack of this broker, which consumers use to read from a near replica.");
    "compression.gzip.level" Int = "-1", allowed(BetweenOr(1, 9, -1)), cluster_wide,
        about("The gzip level of batches that the broker compresses; -1 is the library's default.");
    "compression.lz4.level" Int = "9", allowed(Between(1, 17)), cluster_wide,
        about("The LZ4 level of batches that the broker compresses.");
    "compression.type" String = "producer", allowed(COMPRESSION_TYPES), cluster_wide,
        about("The codec of stored batches, or producer to keep the codec of the producer.");
    "compression.zstd.level" Int = "3", allowed(Between(-131_072, 22)), cluster_wide,
        about("The zstd level of batches that the broker compresses.");
    "config.providers" List = "",
        about("Names of more providers of secrets than file, dir and env, for references such as ${file:path:key}.");
    "connection.failed.authentication.delay.ms" Int = "100", at_least(0),
        about("The delay before a connection is closed whose authentication failed.");
    "connections.max.idle.ms" Long = "600000",
        about("A connection without a request for this long is closed.");
    "connections.max.reauth.ms" Long = "0",
        about("The longest time between two authentications of a connection.");
    "controller.quota.window.num" Int = "11", at_least(1),
        about("The number of samples for controller_mutation_rate; the burst of a client is the quota of all of them.");
    "controller.quota.window.size.seconds" Int = "1", at_least(1),
        about("The time span of a sample for controller_mutation_rate.");
    "default.replication.factor" Int = "1",
        about("The replication factor of topics that are created without one.");
    "delete.topic.enable" Boolean = "true",
        about("Whether topics can be deleted.");
    "fetch.max.bytes" Int = "57671680", at_least(1024),
        about("The largest fetch response, unless its first batch alone is larger.");
    "follower.replication.throttled.rate" Long = "9223372036854775807", at_least(0), cluster_wide, hidden,
        about("The bytes per second that throttled followers may read. It is stored and shown; with one node nothing \
               is replicated.");
    "group.consumer.assignment.interval.ms" Int = "1000", at_least(0), cluster_wide, default_only(ASSIGNS_AT_ONCE),
        about("The shortest time between two assignments of a consumer group.");
    "group.consumer.assignors" List = "uniform,range",
        about("The assignors of consumer groups; the first is the default.");
    "group.consumer.heartbeat.interval.ms" Int = "5000", at_least(1),
        about("The interval at which members of consumer groups send heartbeats.");
    "group.consumer.max.assignment.interval.ms" Int = "15000", at_least(0), default_only(ASSIGNS_AT_ONCE),
        about("The largest assignment interval that a single consumer group may set.");
    "group.consumer.max.heartbeat.interval.ms" Int = "15000", at_least(1),
        about("The largest heartbeat interval that a single consumer group may set.");
    "group.consumer.max.session.timeout.ms" Int = "60000", at_least(1),
        about("The largest session timeout that a single consumer group may set.");
    "group.consumer.max.size" Int = "2147483647", at_least(1),
        about("The largest number of members of a consumer group.");
    "group.consumer.migration.policy" String = "bidirectional", allowed(OneOfInAnyCase(&MIGRATION_POLICIES)),
        about("The directions in which a group with members may change between the classic and the consumer protocol.");
    "group.consumer.min.assignment.interval.ms" Int = "0", at_least(0), default_only(ASSIGNS_AT_ONCE),
        about("The smallest assignment interval that a single consumer group may set.");
    "group.consumer.min.heartbeat.interval.ms" Int = "5000", at_least(1),
        about("The smallest heartbeat interval that a single consumer group may set.");
    "group.consumer.min.session.timeout.ms" Int = "45000", at_least(1),
        about("The smallest session timeout that a single consumer group may set.");
    "group.consumer.regex.refresh.interval.ms" Int = "600000", at_least(10_000), hidden,
        about("The interval at which regular expressions in subscriptions are resolved again.");
    "group.consumer.session.timeout.ms" Int = "45000", at_least(1),
        about("A member of a consumer group without a heartbeat for this long is removed.");
    "group.coordinator.append.linger.ms" Int = "-1", at_least(-1), default_only(NO_SUCH_BUFFER),
        about("The time for which Kafka's group coordinator collects writes before it appends them.");
    "group.coordinator.background.threads" Int = "2", at_least(1), default_only(THREADS),
        about("The number of background threads of Kafka's group coordinator.");
    "group.coordinator.cached.buffer.max.bytes" Int = "1048588", at_least(524_288), cluster_wide,
        default_only(NO_SUCH_BUFFER),
        about("The largest buffer that Kafka's group coordinator keeps for the next append.");
    "group.coordinator.rebalance.protocols" List = "classic,consumer,streams", allowed(GROUP_PROTOCOLS),
        about("The group protocols that members may use; classic cannot be left out.");
    "group.coordinator.threads" Int = "4", at_least(1), default_only(THREADS),
        about("The number of threads of Kafka's group coordinator.");
    "group.initial.rebalance.delay.ms" Int = "20",
        about("The time for which an empty classic group waits for more members before its first generation.");
    "group.max.session.timeout.ms" Int = "1800000",
        about("The largest session timeout that a member of a classic group may ask for.");
    "group.max.size" Int = "2147483647", at_least(1),
        about("The largest number of members of a classic group.");
    "group.min.session.timeout.ms" Int = "6000",
        about("The smallest session timeout that a member of a classic group may ask for.");
    "group.share.assignment.interval.ms" Int = "1000", at_least(0), cluster_wide, default_only(NO_SHARE_GROUPS),
        about("The shortest time between two assignments of a share group.");
    "group.share.assignors" List = "simple", default_only(NO_SHARE_GROUPS),
        about("The assignors of share groups.");
    "group.share.delivery.count.limit" Int = "5", allowed(Between(2, 10)), default_only(NO_SHARE_GROUPS),
        about("The number of times that a share group may be given the same record.");
    "group.share.heartbeat.interval.ms" Int = "5000", at_least(1), default_only(NO_SHARE_GROUPS),
        about("The interval at which members of share groups send heartbeats.");
    "group.share.max.assignment.interval.ms" Int = "15000", at_least(0), default_only(NO_SHARE_GROUPS),
        about("The largest assignment interval that a single share group may set.");
    "group.share.max.delivery.count.limit" Int = "10", allowed(Between(5, 25)), default_only(NO_SHARE_GROUPS),
        about("The largest delivery count limit that a single share group may set.");
    "group.share.max.heartbeat.interval.ms" Int = "15000", at_least(1), default_only(NO_SHARE_GROUPS),
        about("The largest heartbeat interval that a single share group may set.");
    "group.share.max.partition.max.record.locks" Int = "4000", allowed(Between(2000, 10_000)),
        default_only(NO_SHARE_GROUPS),
        about("The largest number of record locks for each partition that a single share group may set.");
    "group.share.max.record.lock.duration.ms" Int = "60000", allowed(Between(30_000, 3_600_000)),
        default_only(NO_SHARE_GROUPS),
        about("The longest record lock that a single share group may set.");
    "group.share.max.session.timeout.ms" Int = "60000", at_least(1), default_only(NO_SHARE_GROUPS),
        about("The largest session timeout that a single share group may set.");
    "group.share.max.share.sessions" Int = "2000", at_least(1), default_only(NO_SHARE_GROUPS),
        about("The largest number of share sessions of a broker.");
    "group.share.max.size" Int = "200", allowed(Between(1, 1000)), default_only(NO_SHARE_GROUPS),
        about("The largest number of members of a share group.");
    "group.share.min.assignment.interval.ms" Int = "0", at_least(0), default_only(NO_SHARE_GROUPS),
        about("The smallest assignment interval that a single share group may set.");
    "group.share.min.delivery.count.limit" Int = "2", allowed(Between(2, 5)), default_only(NO_SHARE_GROUPS),
        about("The smallest delivery count limit that a single share group may set.");
    "group.share.min.heartbeat.interval.ms" Int = "5000", at_least(1), default_only(NO_SHARE_GROUPS),
        about("The smallest heartbeat interval that a single share group may set.");
    "group.share.min.partition.max.record.locks" Int = "100", allowed(Between(100, 2000)),
        default_only(NO_SHARE_GROUPS),
        about("The smallest number of record locks for each partition that a single share group may set.");
    "group.share.min.record.lock.duration.ms" Int = "15000", allowed(Between(1000, 30_000)),
        default_only(NO_SHARE_GROUPS),
        about("The shortest record lock that a single share group may set.");
    "group.share.min.session.timeout.ms" Int = "45000", at_least(1), default_only(NO_SHARE_GROUPS),
        about("The smallest session timeout that a single share group may set.");
    "group.share.partition.max.record.locks" Int = "2000", allowed(Between(100, 10_000)), default_only(NO_SHARE_GROUPS),
        about("The number of records of a partition that members of a share group may hold at once.");
    "group.share.record.lock.duration.ms" Int = "30000", allowed(Between(1000, 3_600_000)),
        default_only(NO_SHARE_GROUPS),
        about("The time for which a member of a share group holds a record.");
    "group.share.session.timeout.ms" Int = "45000", at_least(1), default_only(NO_SHARE_GROUPS),
        about("A member of a share group without a heartbeat for this long is removed.");
    "group.streams.assignment.interval.ms" Int = "1000", at_least(0), cluster_wide, default_only(NO_STREAMS_GROUPS),
        about("The shortest time between two assignments of a streams group.");
    "group.streams.heartbeat.interval.ms" Int = "5000", at_least(1), default_only(NO_STREAMS_GROUPS),
        about("The interval at which members of streams groups send heartbeats.");
    "group.streams.initial.rebalance.delay.ms" Int = "3000", at_least(0), default_only(NO_STREAMS_GROUPS),
        about("The time for which a new streams group waits for more members before its first assignment.");
    "group.streams.max.assignment.interval.ms" Int = "15000", at_least(0), default_only(NO_STREAMS_GROUPS),
        about("The largest assignment interval that a single streams group may set.");
    "group.streams.max.heartbeat.interval.ms" Int = "15000", at_least(1), default_only(NO_STREAMS_GROUPS),
        about("The largest heartbeat interval that a single streams group may set.");
    "group.streams.max.session.timeout.ms" Int = "60000", at_least(1), default_only(NO_STREAMS_GROUPS),
        about("The largest session timeout that a single streams group may set.");
    "group.streams.max.size" Int = "2147483647", at_least(1), default_only(NO_STREAMS_GROUPS),
        about("The largest number of members of a streams group.");
    "group.streams.max.standby.replicas" Int = "2", at_least(0), default_only(NO_STREAMS_GROUPS),
        about("The largest number of standby replicas that a single streams group may set.");
    "group.streams.min.assignment.interval.ms" Int = "0", at_least(0), default_only(NO_STREAMS_GROUPS),
        about("The smallest assignment interval that a single streams group may set.");
    "group.streams.min.heartbeat.interval.ms" Int = "5000", at_least(1), default_only(NO_STREAMS_GROUPS),
        about("The smallest heartbeat interval that a single streams group may set.");
    "group.streams.min.session.timeout.ms" Int = "45000", at_least(1), default_only(NO_STREAMS_GROUPS),
        about("The smallest session timeout that a single streams group may set.");
    "group.streams.num.standby.replicas" Int = "0", at_least(0), default_only(NO_STREAMS_GROUPS),
        about("The number of standby replicas for each task of a streams group.");
    "group.streams.session.timeout.ms" Int = "45000", at_least(1), default_only(NO_STREAMS_GROUPS),
        about("A member of a streams group without a heartbeat for this long is removed.");
    "leader.imbalance.check.interval.seconds" Long = "300", at_least(1), default_only(ONE_NODE),
        about("The interval at which Kafka looks for leaders that are not on their preferred replica.");
    "leader.replication.throttled.rate" Long = "9223372036854775807", at_least(0), cluster_wide, hidden,
        about("The bytes per second that throttled leaders may send to followers. It is stored and shown; with one \
               node nothing is replicated.");
    "listener.security.protocol.map" String
        = "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        about("The security protocol of each listener name.");
    "listeners" List = "PLAINTEXT://127.0.0.1:9092",
        about("The addresses that the broker listens on, each as NAME://host:port.");
    "log.cleaner.backoff.ms" Long = "15000", at_least(0), cluster_wide,
        about("The pause of compaction when no log needs it.");
    "log.cleaner.dedupe.buffer.size" Long = "134217728", cluster_wide,
        about("The memory for the keys of one compaction; a larger log takes more than one pass.");
    "log.cleaner.delete.retention.ms" Long = "86400000", at_least(0), cluster_wide,
        about("The time for which compaction keeps the tombstone of a deleted key.");
    "log.cleaner.enable" Boolean = "true",
        about("Whether topics with cleanup.policy=compact are compacted.");
    "log.cleaner.io.buffer.load.factor" Double = "0.9", cluster_wide, default_only(NO_SUCH_BUFFER),
        about("The share of Kafka's deduplication buffer that may be filled.");
    "log.cleaner.io.buffer.size" Int = "524288", at_least(0), cluster_wide, default_only(NO_SUCH_BUFFER),
        about("The size of the buffers that Kafka's compaction reads and writes with.");
    "log.cleaner.io.max.bytes.per.second" Double = "1.7976931348623157E308", cluster_wide, default_only(NOT_SLOWED),
        about("The bytes per second that compaction may read and write.");
    "log.cleaner.max.compaction.lag.ms" Long = "9223372036854775807", at_least(1), cluster_wide,
        about("The longest time that a record may wait for compaction.");
    "log.cleaner.min.cleanable.ratio" Double = "0.5", allowed(Between(0, 1)), cluster_wide,
        about("The share of a log that must be new before it is compacted.");
    "log.cleaner.min.compaction.lag.ms" Long = "0", at_least(0), cluster_wide,
        about("The time for which compaction leaves a new record alone.");
    "log.cleaner.threads" Int = "1", at_least(0), cluster_wide, default_only(THREADS),
        about("The number of threads for compaction.");
    "log.cleanup.policy" List = "delete", allowed(Each(CleanupPolicy::NAMES)), cluster_wide,
        about("The cleanup of old records of topics without a policy of their own: delete, compact, both, or none.");
    "log.dir" List,
        about("The directory of the logs, if log.dirs is not set.");
    "log.dirs" List,
        about("The directory of the logs; this broker has exactly one.");
    "log.flush.interval.messages" Long = "9223372036854775807", at_least(1), cluster_wide,
        about("The number of records after which a log is synced to disk.");
    "log.flush.interval.ms" Long, cluster_wide,
        about("The time after which a log with new records is synced to disk.");
    "log.flush.offset.checkpoint.interval.ms" Int = "60000", at_least(0),
        about("The interval at which recovery points and log start offsets are written down.");
    "log.flush.scheduler.interval.ms" Long = "9223372036854775807",
        about("The interval at which Kafka looks for logs to sync, and the default of log.flush.interval.ms.");
    "log.flush.start.offset.checkpoint.interval.ms" Int = "60000", at_least(0), default_only(ONE_CHECKPOINT),
        about("The interval at which Kafka writes down log start offsets.");
    "log.index.interval.bytes" Int = "4096", at_least(0), cluster_wide,
        about("The bytes of log between two entries of the offset index.");
    "log.index.size.max.bytes" Int = "10485760", at_least(4), cluster_wide,
        about("The size of an index at which the next segment begins.");
    "log.initial.task.delay.ms" Long = "30000", at_least(0), hidden, default_only(NO_DELAY),
        about("The delay of Kafka's background tasks after a start.");
    "log.local.retention.bytes" Long = "-2", at_least(-2), cluster_wide, default_only(NO_REMOTE_STORAGE),
        about("The bytes of a partition that stay on local disk when there is remote storage.");
    "log.local.retention.ms" Long = "-2", at_least(-2), cluster_wide, default_only(NO_REMOTE_STORAGE),
        about("The time for which records stay on local disk when there is remote storage.");
    "log.message.timestamp.after.max.ms" Long = "3600000", at_least(0), cluster_wide,
        about("The time by which a record's timestamp may be ahead of the broker's clock.");
    "log.message.timestamp.before.max.ms" Long = "9223372036854775807", at_least(0), cluster_wide,
        about("The time by which a record's timestamp may be behind the broker's clock.");
    "log.message.timestamp.type" String = "CreateTime", allowed(OneOf(TimestampType::NAMES)), cluster_wide,
        about("The clock of record timestamps: CreateTime is the producer's, LogAppendTime is the broker's.");
    "log.preallocate" Boolean = "false", cluster_wide, default_only(GROWING_FILES),
        about("Whether the file of a new segment gets its full size at once.");
    "log.retention.bytes" Long = "-1", cluster_wide,
        about("The size of a partition above which its oldest segments are deleted; -1 is without limit.");
    "log.retention.check.interval.ms" Long = "300000", at_least(1),
        about("The interval at which segments are checked for deletion.");
    "log.retention.hours" Int = "168",
        about("The age in hours at which segments are deleted, if neither minutes nor milliseconds are set.");
    "log.retention.minutes" Int,
        about("The age in minutes at which segments are deleted, if milliseconds are not set.");
    "log.retention.ms" Long, cluster_wide,
        about("The age at which segments are deleted; -1 is never.");
    "log.roll.hours" Int = "168", at_least(1),
        about("The age in hours at which the next segment begins, if milliseconds are not set.");
    "log.roll.jitter.hours" Int = "0", at_least(0),
        about("The largest random deduction from log.roll.hours, if milliseconds are not set.");
    "log.roll.jitter.ms" Long, cluster_wide,
        about("The largest random deduction from log.roll.ms, so that partitions do not roll together.");
    "log.roll.ms" Long, cluster_wide,
        about("The age at which the next segment begins.");
    "log.segment.bytes" Int = "1073741824", at_least(1_048_576), cluster_wide,
        about("The size at which the next segment begins.");
    "log.segment.delete.delay.ms" Long = "60000", at_least(0), cluster_wide,
        about("The delay before the file of a deleted segment is removed. It is stored and shown; this broker removes \
               files at once, and readers of them are not disturbed.");
    "max.connection.creation.rate" Int = "2147483647", at_least(0), cluster_wide,
        about("The number of new connections per second that are accepted.");
    "max.connections" Int = "2147483647", at_least(0), cluster_wide,
        about("The largest number of connections.");
    "max.connections.per.ip" Int = "2147483647", at_least(0), cluster_wide,
        about("The largest number of connections from one address.");
    "max.connections.per.ip.overrides" String = "", cluster_wide,
        about("Other limits than max.connections.per.ip for single hosts, as host:limit,....");
    "max.incremental.fetch.session.cache.slots" Int = "1000", at_least(0),
        about("The number of incremental fetch sessions that are kept.");
    "max.request.partition.size.limit" Int = "2000", at_least(1),
        about("The largest number of partitions in a DescribeTopicPartitions response.");
    "message.max.bytes" Int = "1048588", at_least(0), cluster_wide,
        about("The largest record batch that is accepted, as compressed.");
    "milena.allow.unauthenticated" Boolean = "false",
        about("Whether a listener that other machines can reach may serve clients that do not log in.");
    "milena.authentication.timeout.ms" Int = "30000", at_least(1),
        about("The time that a new connection has for its TLS handshake and log-in; a handshake alone has at most 10 s.");
    "milena.authorizer" String = "none", allowed(OneOf(AuthorizerKind::NAMES)),
        about("Whether requests are authorized by ACLs (acl), or every client may do everything (none).");
    "milena.durability" String = "os", allowed(OneOf(Durability::NAMES)), cluster_wide,
        about("The durability of an acknowledged record: memory (none), os (survives a crash of the process), or fsync \
               (on disk).");
    "milena.max.acls" Int = "100000", at_least(0), cluster_wide,
        about("The largest number of ACLs.");
    "milena.max.client.metrics.instances" Int = "16384", at_least(1),
        about("The largest number of clients whose metrics subscriptions are remembered; the one that was silent for \
               longest is forgotten.");
    "milena.max.client.metrics.subscriptions" Int = "1000", at_least(0), cluster_wide,
        about("The largest number of client metrics subscriptions.");
    "milena.max.config.value.bytes" Int = "65536", at_least(1), cluster_wide,
        about("The longest value of a config that is set at run time.");
    "milena.max.fetch.session.partitions" Int = "500000", at_least(0),
        about("The largest number of partitions in all incremental fetch sessions.");
    "milena.max.group.configs" Int = "10000", at_least(0), cluster_wide,
        about("The largest number of groups with configs of their own.");
    "milena.max.group.members" Int = "100000", at_least(1), cluster_wide,
        about("The largest number of members of a group, including members that have not joined yet; group.max.size \
               and group.consumer.max.size may be lower.");
    "milena.max.groups" Int = "100000", at_least(1), cluster_wide,
        about("The largest number of groups, including groups that only have committed offsets.");
    "milena.max.member.metadata.bytes" Int = "1048576", at_least(1), cluster_wide,
        about("The most bytes of names, subscriptions and metadata that a member of a group may send.");
    "milena.max.name.bytes" Int = "4096", at_least(249), cluster_wide,
        about("The longest name that a client may give: group, member, client id, transactional id, user.");
    "milena.max.partitions" Int = "200000", at_least(1), cluster_wide,
        about("The largest number of partitions of all topics together.");
    "milena.max.partitions.per.request" Int = "10000", at_least(1), cluster_wide,
        about("The largest number of partitions that one topic of a request may add, as in Kafka.");
    "milena.max.pending.requests" Int = "64", at_least(1),
        about("The largest number of requests of a connection that wait for their response; no more are read \
               meanwhile.");
    "milena.max.producers.per.partition" Int = "100000", at_least(1), cluster_wide,
        about("The largest number of idempotent producers that a partition remembers.");
    "milena.max.quota.clients" Int = "10000", at_least(1),
        about("The largest number of clients that are measured for each kind of quota; further ones share one \
               measurement.");
    "milena.max.quota.entities" Int = "10000", at_least(0), cluster_wide,
        about("The largest number of users, client ids and addresses with quotas.");
    "milena.max.scram.users" Int = "100000", at_least(1),
        about("The largest number of SCRAM users.");
    "milena.max.topics" Int = "100000", at_least(1), cluster_wide,
        about("The largest number of topics.");
    "milena.max.transactional.ids" Int = "100000", at_least(1), cluster_wide,
        about("The largest number of transactional ids.");
    "milena.max.unauthenticated.connections" Int = "1000", at_least(1),
        about("The largest number of connections that have not logged in yet; the oldest is closed for one more.");
    "milena.oauthbearer.unsecured" Boolean = "false",
        about("Whether OAUTHBEARER accepts tokens without a signature, as Kafka's default does. Anyone can log in as anyone \
               with such a token: only for tests.");
    "milena.recovery" String = "strict", allowed(OneOf(Recovery::NAMES)),
        about("Whether a start with damaged files is refused where records are lost (strict), or goes on without them and \
               keeps the damaged files aside (accept-loss).");
    "milena.strict.replication.factor" Boolean = "false",
        about("Whether a topic with more replicas than there are brokers is refused, as Kafka does.");
    "min.insync.replicas" Int = "1", at_least(1), cluster_wide,
        about("The replicas that must have a record that was sent with acks=all.");
    "node.id" Int = "1", at_least(0),
        about("The id of this node.");
    "num.io.threads" Int = "8", at_least(1), cluster_wide, default_only(THREADS),
        about("The number of threads that handle requests in Kafka.");
    "num.network.threads" Int = "3", at_least(1), cluster_wide, default_only(THREADS),
        about("The number of threads that read and write sockets in Kafka.");
    "num.partitions" Int = "1", at_least(1),
        about("The number of partitions of topics that are created without one.");
    "num.recovery.threads.per.data.dir" Int = "2", at_least(1), cluster_wide, default_only(THREADS),
        about("The number of threads that open logs at a start.");
    "offset.metadata.max.bytes" Int = "4096",
        about("The largest metadata that a commit may have.");
    "offsets.commit.timeout.ms" Int = "5000", at_least(1), default_only(NO_REPLICAS_TO_WAIT_FOR),
        about("The time for which Kafka waits until replicas have a commit.");
    "offsets.load.buffer.size" Int = "5242880", at_least(1), default_only(NO_SUCH_BUFFER),
        about("The size of the buffer with which Kafka reads committed offsets at a start.");
    "offsets.retention.check.interval.ms" Long = "600000", at_least(1),
        about("The interval at which committed offsets are checked for expiry.");
    "offsets.retention.minutes" Int = "10080", at_least(1),
        about("The time for which committed offsets of a group without members are kept.");
    "offsets.topic.compression.codec" Int = "0", default_only(OFFSETS_AS_THEY_ARE),
        about("The codec of the topic __consumer_offsets.");
    "offsets.topic.num.partitions" Int = "50", at_least(1),
        about("The number of partitions of the topic __consumer_offsets.");
    "offsets.topic.replication.factor" Short = "3", at_least(1),
        about("The replication factor of the topic __consumer_offsets.");
    "offsets.topic.segment.bytes" Int = "104857600", at_least(1),
        about("The segment size of the topic __consumer_offsets.");
    "producer.id.expiration.check.interval.ms" Int = "600000", at_least(1), hidden,
        about("The interval at which idle producer ids are checked for expiry.");
    "producer.id.expiration.ms" Int = "86400000", at_least(1), cluster_wide,
        about("The time after its last write at which a partition forgets a producer id.");
    "queued.max.request.bytes" Long = "-1",
        about("The bytes of requests that are read and not yet answered, of all connections together; not positive \
               for the default of 64 MiB.");
    "queued.max.requests" Int = "500", at_least(1), default_only(NO_QUEUE),
        about("The number of requests that wait for Kafka's handlers.");
    "quota.window.num" Int = "11", at_least(1),
        about("The number of samples that the rates of client quotas are computed over.");
    "quota.window.size.seconds" Int = "1", at_least(1),
        about("The time span of a sample for client quotas.");
    "replica.alter.log.dirs.io.max.bytes.per.second" Long = "9223372036854775807", at_least(0), cluster_wide, hidden,
        about("The bytes per second for replicas that move between directories. It is stored and shown; this broker \
               has one directory.");
    "sasl.enabled.mechanisms" List = "GSSAPI", per_broker,
        about("The SASL mechanisms that clients may use.");
    "sasl.jaas.config" Password, per_broker,
        about("The JAAS configuration of SASL listeners.");
    "sasl.oauthbearer.clock.skew.seconds" Int = "30",
        about("The difference between the clocks of the broker and of the issuer of tokens that is allowed.");
    "sasl.oauthbearer.expected.audience" List = "",
        about("The audiences of which a token must have one. Without it, a token that has an audience is refused.");
    "sasl.oauthbearer.expected.issuer" String,
        about("The issuer that a token must have; without it the issuer is not checked.");
    "sasl.oauthbearer.jwks.endpoint.refresh.ms" Long = "3600000",
        about("The interval at which the keys of the issuer are read again.");
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms" Long = "10000",
        about("The time for all attempts to read the keys of the issuer.");
    "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms" Long = "100",
        about("The wait after the first failed attempt to read the keys of the issuer; it doubles with each.");
    "sasl.oauthbearer.jwks.endpoint.url" String,
        about("The URL of the keys that verify tokens (JWKS): https, http or file.");
    "sasl.oauthbearer.scope.claim.name" String = "scope",
        about("The claim of a token that has its scope.");
    "sasl.oauthbearer.sub.claim.name" String = "sub",
        about("The claim of a token that has the name of the principal.");
    "sasl.server.callback.handler.class" Class, default_or(KAFKAS_CALLBACK_HANDLERS, NO_JAVA_CLASSES),
        about("The Java class that checks credentials in Kafka. Those of Kafka itself are accepted; this broker does the same.");
    "sasl.server.max.receive.size" Int = "524288",
        about("The largest SASL message that is read before a client is authenticated.");
    "share.coordinator.append.linger.ms" Int = "-1", at_least(-1), default_only(NO_SUCH_BUFFER),
        about("The time for which Kafka's share coordinator collects writes before it appends them.");
    "share.coordinator.cached.buffer.max.bytes" Int = "1048588", at_least(524_288), cluster_wide,
        default_only(NO_SUCH_BUFFER),
        about("The largest buffer that Kafka's share coordinator keeps for the next append.");
    "share.coordinator.load.buffer.size" Int = "5242880", at_least(1), default_only(NO_SUCH_BUFFER),
        about("The size of the buffer with which Kafka reads the state of share groups at a start.");
    "share.coordinator.snapshot.update.records.per.snapshot" Int = "500", allowed(Between(0, 500)),
        default_only(NO_SHARE_GROUPS),
        about("The number of updates between two snapshots of the state of a share group.");
    "share.coordinator.state.topic.compression.codec" Int = "0", default_only(NO_SHARE_GROUPS),
        about("The codec of the topic __share_group_state.");
    "share.coordinator.state.topic.min.isr" Short = "2", at_least(1), default_only(NO_SHARE_GROUPS),
        about("The min.insync.replicas of the topic __share_group_state.");
    "share.coordinator.state.topic.num.partitions" Int = "50", at_least(1), default_only(NO_SHARE_GROUPS),
        about("The number of partitions of the topic __share_group_state.");
    "share.coordinator.state.topic.replication.factor" Short = "3", at_least(1), default_only(NO_SHARE_GROUPS),
        about("The replication factor of the topic __share_group_state.");
    "share.coordinator.state.topic.segment.bytes" Int = "104857600", at_least(1), default_only(NO_SHARE_GROUPS),
        about("The segment size of the topic __share_group_state.");
    "share.coordinator.threads" Int = "1", at_least(1), default_only(THREADS),
        about("The number of threads of Kafka's share coordinator.");
    "share.coordinator.write.timeout.ms" Int = "5000", at_least(1), default_only(NO_SHARE_GROUPS),
        about("The time for which Kafka waits until replicas have the state of a share group.");
    "socket.listen.backlog.size" Int = "50", at_least(1),
        about("The number of connections that may wait to be accepted.");
    "socket.receive.buffer.bytes" Int = "102400", default_only(SYSTEM_BUFFERS),
        about("The receive buffer of sockets.");
    "socket.request.max.bytes" Int = "104857600", at_least(1),
        about("The largest request.");
    "socket.send.buffer.bytes" Int = "102400", default_only(SYSTEM_BUFFERS),
        about("The send buffer of sockets.");
    "ssl.allow.dn.changes" Boolean = "false",
        about("Whether a reloaded certificate of the broker may have another subject.");
    "ssl.allow.san.changes" Boolean = "false",
        about("Whether a reloaded certificate of the broker may lack names that the present one has.");
    "ssl.cipher.suites" List = "", per_broker,
        about("The cipher suites of TLS listeners.");
    "ssl.client.auth" String = "none", allowed(CLIENT_AUTHENTICATION), per_broker,
        about("Whether clients of TLS listeners need a certificate.");
    "ssl.enabled.protocols" List = "TLSv1.2,TLSv1.3", per_broker,
        about("The TLS versions that clients may use.");
    "ssl.endpoint.identification.algorithm" String = "https", per_broker, default_or(&[""], NO_OUTBOUND),
        about("How a client checks the name of a broker; this broker connects to no other.");
    "ssl.key.password" Password, per_broker,
        about("The password of the private key.");
    "ssl.keymanager.algorithm" String = "SunX509", per_broker, default_or(&["PKIX"], NOT_JAVAS_TLS),
        about("The Java algorithm for the keys of the broker.");
    "ssl.keystore.certificate.chain" Password, per_broker,
        about("The certificate chain of the broker as PEM.");
    "ssl.keystore.key" Password, per_broker,
        about("The private key of the broker as PEM.");
    "ssl.keystore.location" String, per_broker,
        about("The file with the certificate and private key of the broker.");
    "ssl.keystore.password" Password, per_broker,
        about("The password of the key store.");
    "ssl.keystore.type" String = "JKS", per_broker,
        about("The format of the key store in Kafka; this broker recognizes PEM, PKCS12 and JKS by their content.");
    "ssl.principal.mapping.rules" String = "DEFAULT",
        about("The rules that make a principal from the distinguished name of a client certificate.");
    "ssl.protocol" String = "TLSv1.3", per_broker, default_or(&["TLS", "TLSv1.2"], VERSIONS_ELSEWHERE),
        about("The newest version of TLS in Kafka, unless ssl.enabled.protocols is set.");
    "ssl.trustmanager.algorithm" String = "PKIX", per_broker, default_only(NOT_JAVAS_TLS),
        about("The Java algorithm that checks certificates of clients.");
    "ssl.truststore.certificates" Password, per_broker,
        about("The certificates that client certificates are checked against, as PEM.");
    "ssl.truststore.location" String, per_broker,
        about("The file with the certificates that client certificates are checked against.");
    "ssl.truststore.password" Password, per_broker,
        about("The password of the trust store.");
    "ssl.truststore.type" String = "JKS", per_broker,
        about("The format of the trust store in Kafka; this broker recognizes PEM, PKCS12 and JKS by their content.");
    "super.users" String = "",
        about("Principals that may do everything whatever the ACLs, separated by semicolons, such as User:admin.");
    "telemetry.max.bytes" Int = "1048576", at_least(1),
        about("The largest metrics payload of a client (PushTelemetry), compressed or not.");
    "transaction.abort.timed.out.transaction.cleanup.interval.ms" Int = "10000", at_least(1),
        about("The interval at which transactions are checked for their timeout.");
    "transaction.max.timeout.ms" Int = "900000", at_least(1),
        about("The largest transaction timeout that a producer may ask for.");
    "transaction.partition.verification.enable" Boolean = "true", cluster_wide,
        about("Whether an append of a transactional producer is refused if its partition is not part of the \
               transaction.");
    "transaction.remove.expired.transaction.cleanup.interval.ms" Int = "3600000", at_least(1),
        about("The interval at which transactional ids are checked for expiry.");
    "transaction.state.log.load.buffer.size" Int = "5242880", at_least(1), default_only(NO_SUCH_BUFFER),
        about("The size of the buffer with which Kafka reads the state of transactions at a start.");
    "transaction.state.log.min.isr" Int = "2", at_least(1), default_only(ONE_NODE),
        about("The min.insync.replicas of the topic __transaction_state.");
    "transaction.state.log.num.partitions" Int = "50", at_least(1),
        about("The number of partitions of the topic __transaction_state.");
    "transaction.state.log.replication.factor" Short = "3", at_least(1),
        about("The replication factor of the topic __transaction_state.");
    "transaction.state.log.segment.bytes" Int = "104857600", at_least(1),
        about("The segment size of the topic __transaction_state.");
    "transaction.two.phase.commit.enable" Boolean = "false", default_only(NO_TWO_PHASE_COMMIT),
        about("Whether producers may take part in two-phase commits.");
    "transactional.id.expiration.ms" Int = "604800000", at_least(1),
        about("The time after its last transaction at which a transactional id is forgotten.");
    "unclean.leader.election.enable" Boolean = "false", cluster_wide,
        about("Whether a replica that lacks records may become leader; with one replica none ever does.");
};

const GROUP_PROTOCOLS: Allowed = Each(&["consumer", "classic", "share", "streams"]);
const CLIENT_AUTHENTICATION: Allowed = OneOf(&["required", "requested", "none"]);

const THREADS: &str = "the runtime decides on the number of threads";
const NOT_SLOWED: &str = "compaction is not throttled";
const ONE_CHECKPOINT: &str = "all checkpoints are written together, every log.flush.offset.checkpoint.interval.ms";
const NO_DELAY: &str = "background tasks begin one interval after the start";
const NO_QUEUE: &str = "there is no request queue; queued.max.request.bytes limits the requests in memory";
const SYSTEM_BUFFERS: &str = "the operating system adapts the socket buffers";
const NO_SUCH_BUFFER: &str = "the broker has no such buffer";
pub(crate) const NO_SHARE_GROUPS: &str = "share groups are not supported yet";
pub(crate) const NO_STREAMS_GROUPS: &str = "streams groups are not supported; Kafka Streams uses classic groups";
pub(crate) const ASSIGNS_AT_ONCE: &str = "partitions are assigned as soon as a group changes";
const NO_REPLICAS_TO_WAIT_FOR: &str = "there are no replicas to wait for";
const OFFSETS_AS_THEY_ARE: &str = "the records of groups are too small for compression";
const NO_TWO_PHASE_COMMIT: &str = "two-phase commit is not supported";
const KAFKAS_CALLBACK_HANDLERS: &[&str] = &[
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerValidatorCallbackHandler",
    "org.apache.kafka.common.security.plain.internals.PlainServerCallbackHandler",
    "org.apache.kafka.common.security.scram.internals.ScramServerCallbackHandler",
];
const NO_JAVA_CLASSES: &str = "Java classes cannot be loaded";
const NO_OUTBOUND: &str = "the broker connects to no other";
const NOT_JAVAS_TLS: &str = "the broker does not use Java's TLS";
const VERSIONS_ELSEWHERE: &str = "ssl.enabled.protocols selects the versions of TLS";
