//! Keys of Kafka that have no effect on this broker, and why. They are refused, not ignored.

pub(crate) const REMOVED_FORMAT: &str = "Kafka 4 removed it; records are stored in the newest format";

/// A name that ends in a dot stands for all names that begin so.
pub(crate) const UNSUPPORTED: &[(&str, &[&str])] = &[
    (
        "the broker is the only node and needs no quorum of controllers",
        &[
            "broker.heartbeat.interval.ms",
            "broker.session.timeout.ms",
            "controlled.shutdown.",
            "controller.",
            "early.start.listeners",
            "initial.broker.registration.timeout.ms",
            "metadata.",
            "process.roles",
            "zookeeper.",
        ],
    ),
    (
        "the broker is the only node and has no replication",
        &[
            "add.partitions.to.txn.",
            "alter.log.dirs.replication.",
            "inter.broker.",
            "log.dir.failure.timeout.ms",
            "num.replica.",
            "replica.",
            "replication.quota.",
            "request.timeout.ms",
            "sasl.mechanism.inter.broker.protocol",
            "security.inter.broker.protocol",
            "socket.connection.setup.",
        ],
    ),
    (
        "the broker has no remote storage",
        &["follower.fetch.last.tiered.offset.enable", "remote."],
    ),
    (
        "Java classes cannot be loaded",
        &[
            "alter.config.policy.class.name",
            "client.quota.callback.class",
            "create.topic.policy.class.name",
            "principal.builder.class",
            "sasl.client.callback.handler.class",
            "sasl.login.",
            "security.providers",
            "ssl.engine.factory.class",
        ],
    ),
    (
        "the broker does not use Java's TLS",
        &["ssl.provider", "ssl.secure.random.implementation"],
    ),
    (
        "the broker does not authenticate clients this way",
        &[
            "delegation.token.",
            "sasl.kerberos.",
            "sasl.mechanism.controller.protocol",
        ],
    ),
    (
        "the broker verifies tokens, and requests none for itself",
        &[
            "sasl.oauthbearer.assertion.",
            "sasl.oauthbearer.client.credentials.",
            "sasl.oauthbearer.header.urlencode",
            "sasl.oauthbearer.jwt.",
            "sasl.oauthbearer.scope",
            "sasl.oauthbearer.token.endpoint.url",
        ],
    ),
    (
        "the broker does not have Kafka's metrics",
        &["kafka.metrics.", "metric.reporters", "metrics."],
    ),
    (
        "waiting requests are completed one by one; there is nothing to purge",
        &[
            "delete.records.purgatory.",
            "fetch.purgatory.",
            "producer.purgatory.",
            "share.fetch.purgatory.",
        ],
    ),
    (
        "the broker does not move data between directories",
        &["cordoned.log.dirs"],
    ),
    (REMOVED_FORMAT, &["log.message.format.version"]),
];
