//! Keys of Kafka that mean nothing to this broker, and why. They are refused rather than ignored.

use super::Scope;

/// Why a key of Kafka is not in the tables; `None` if it is no key of Kafka.
pub(super) fn reason(scope: Scope, name: &str) -> Option<&'static str> {
    match scope {
        Scope::Topic => return (name == "message.format.version").then_some(OLD_FORMAT),
        Scope::Group | Scope::ClientMetrics => return None,
        Scope::Broker => {}
    }
    let group = UNSUPPORTED
        .iter()
        .find(|(_, names)| names.iter().any(|known| matches(known, name)));
    group.map(|(reason, _)| *reason)
}

/// A name that ends in a dot stands for all that begin so.
fn matches(known: &str, name: &str) -> bool {
    known == name || (known.ends_with('.') && name.starts_with(known))
}

const OLD_FORMAT: &str = "Kafka 4 has removed it; records are stored in the newest format";

const UNSUPPORTED: &[(&str, &[&str])] = &[
    (
        "it is the only node and needs no quorum of controllers",
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
        "it is the only node and replicates nothing",
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
        "it has no remote storage",
        &["follower.fetch.last.tiered.offset.enable", "remote."],
    ),
    (
        "it cannot load Java classes",
        &[
            "alter.config.policy.class.name",
            "client.quota.callback.class",
            "config.providers",
            "create.topic.policy.class.name",
            "principal.builder.class",
            "sasl.client.callback.handler.class",
            "sasl.login.",
            "sasl.server.callback.handler.class",
            "security.providers",
            "ssl.engine.factory.class",
        ],
    ),
    (
        "its TLS is not Java's",
        &[
            "ssl.allow.",
            "ssl.endpoint.identification.algorithm",
            "ssl.keymanager.algorithm",
            "ssl.protocol",
            "ssl.provider",
            "ssl.secure.random.implementation",
            "ssl.trustmanager.algorithm",
        ],
    ),
    (
        "it does not authenticate clients this way",
        &[
            "delegation.token.",
            "sasl.kerberos.",
            "sasl.mechanism.controller.protocol",
            "sasl.oauthbearer.",
        ],
    ),
    (
        "its metrics are not Kafka's",
        &["kafka.metrics.", "metric.reporters", "metrics."],
    ),
    (
        "it wakes waiting requests one by one and has nothing to purge",
        &[
            "delete.records.purgatory.",
            "fetch.purgatory.",
            "producer.purgatory.",
            "share.fetch.purgatory.",
        ],
    ),
    ("it does not move data between directories", &["cordoned.log.dirs"]),
    (OLD_FORMAT, &["log.message.format.version"]),
];
