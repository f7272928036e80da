//! The keys of topics, the broker, groups and client metrics subscriptions.

use std::fmt;

use milena_config::{Definition, Schema, Table};

use super::{
    broker::{BROKER_CONFIGS, REMOVED_FORMAT, UNSUPPORTED},
    client_metrics::CLIENT_METRICS_CONFIGS,
    group::GROUP_CONFIGS,
    topic::TOPIC_CONFIGS,
};

/// The kind of resource that a key belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    Topic,
    Broker,
    Group,
    /// A subscription to the metrics of clients.
    ClientMetrics,
}

impl Scope {
    pub(super) fn schema(self) -> &'static Schema {
        match self {
            Self::Topic => &TOPIC,
            Self::Broker => &BROKER,
            Self::Group => &GROUP,
            Self::ClientMetrics => &CLIENT_METRICS,
        }
    }
}

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Topic => "topic",
            Self::Broker => "broker",
            Self::Group => "group",
            Self::ClientMetrics => "client metrics",
        })
    }
}

static TOPIC: Schema = Schema {
    old_names: &[("message.timestamp.difference.max.ms", "message.timestamp.before.max.ms")],
    others: &[&BROKER],
    unsupported: &[(REMOVED_FORMAT, &["message.format.version"])],
    ..Schema::new("topics", &[Table::new(TOPIC_CONFIGS)])
};

static BROKER: Schema = Schema {
    old_names: &[
        ("advertised.host.name", "advertised.listeners"),
        ("advertised.port", "advertised.listeners"),
        ("host", "listeners"),
        ("host.name", "listeners"),
        (
            "log.cleaner.min.cleanable.dirty.ratio",
            "log.cleaner.min.cleanable.ratio",
        ),
        (
            "log.message.timestamp.difference.max.ms",
            "log.message.timestamp.before.max.ms",
        ),
        ("port", "listeners"),
        ("transaction.id.expiration.ms", "transactional.id.expiration.ms"),
    ],
    others: &[&TOPIC, &GROUP],
    unsupported: UNSUPPORTED,
    ..Schema::new("the broker", &[Table::new(BROKER_CONFIGS)])
};

static GROUP: Schema = Schema {
    others: &[&BROKER],
    ..Schema::new("groups", &[Table::new(GROUP_CONFIGS)])
};

static CLIENT_METRICS: Schema = Schema::new("client metrics subscriptions", &[Table::new(CLIENT_METRICS_CONFIGS)]);

/// Every topic config that this broker knows, sorted by name.
pub fn topic_definitions() -> &'static [Definition] {
    TOPIC_CONFIGS
}

/// Every broker config that this broker knows, sorted by name.
pub fn broker_definitions() -> &'static [Definition] {
    BROKER_CONFIGS
}

/// Every config of a single group that this broker knows, sorted by name.
pub fn group_definitions() -> &'static [Definition] {
    GROUP_CONFIGS
}

/// Every config of a client metrics subscription that this broker knows, sorted by name.
pub fn client_metrics_definitions() -> &'static [Definition] {
    CLIENT_METRICS_CONFIGS
}

/// The broker's keys that mean the same as the given one, the strongest first; often it is alone.
pub(super) fn broker_family(name: &'static str) -> Vec<&'static str> {
    let families = TOPIC_CONFIGS.iter().map(|definition| definition.synonyms);
    let family = families
        .filter(|family| family.len() > 1)
        .find(|family| family.iter().any(|one| one.name == name));
    family.map_or_else(|| vec![name], |family| family.iter().map(|one| one.name).collect())
}

#[cfg(test)]
mod tests {
    use milena_config::{ConfigError, Origin, is_secret};

    use super::*;

    const SCOPES: [Scope; 4] = [Scope::Topic, Scope::Broker, Scope::Group, Scope::ClientMetrics];

    #[test]
    fn tables_are_sorted_and_without_duplicates() {
        for scope in SCOPES {
            for table in scope.schema().tables {
                assert!(table.definitions.is_sorted_by(|a, b| a.name < b.name), "{scope}");
            }
        }
    }

    #[test]
    fn synonyms_are_keys_of_the_broker() {
        let followers = TOPIC_CONFIGS.iter().chain(GROUP_CONFIGS);
        for synonym in followers.flat_map(|definition| definition.synonyms) {
            assert!(BROKER.get(synonym.name).is_some(), "{}", synonym.name);
        }
    }

    #[test]
    fn secrets_are_known_by_name() {
        for scope in SCOPES {
            for definition in scope.schema().definitions().filter(|one| one.is_sensitive()) {
                assert!(is_secret(definition.name), "{}", definition.name);
            }
        }
    }

    #[test]
    fn wrong_names_lead_to_right_ones() {
        for (scope, wrong, right) in [
            (Scope::Topic, "retention.mss", Some("retention.ms")),
            (Scope::Topic, "log.retention.hours", Some("retention.ms")),
            (Scope::Topic, "cleanup.polcy", Some("cleanup.policy")),
            (Scope::Topic, "cleanup_policy", Some("cleanup.policy")),
            (
                Scope::Topic,
                "message.timestamp.difference.max.ms",
                Some("message.timestamp.before.max.ms"),
            ),
            (Scope::Topic, "message.max.bytes", Some("max.message.bytes")),
            (Scope::Topic, "zzz", None),
            (Scope::Topic, "", None),
            (
                Scope::Group,
                "group.consumer.session.timeout.ms",
                Some("consumer.session.timeout.ms"),
            ),
            (
                Scope::Group,
                "consumer.heartbeat.interval",
                Some("consumer.heartbeat.interval.ms"),
            ),
            (Scope::Group, "retention.ms", None),
            (
                Scope::Broker,
                "consumer.session.timeout.ms",
                Some("group.consumer.session.timeout.ms"),
            ),
            (Scope::Broker, "retention.ms", Some("log.retention.ms")),
            (Scope::Broker, "max.message.bytes", Some("message.max.bytes")),
            (Scope::Broker, "num.partition", Some("num.partitions")),
            (
                Scope::Broker,
                "AUTO_CREATE_TOPICS_ENABLE",
                Some("auto.create.topics.enable"),
            ),
            (Scope::Broker, "port", Some("listeners")),
            (Scope::Broker, "auto.create", Some("auto.create.topics.enable")),
            (Scope::Broker, "group", None),
        ] {
            let ConfigError::UnknownKey { nearest, .. } = scope.schema().explain(wrong, &Origin::Request) else {
                panic!("{scope} {wrong:?} is not unknown");
            };
            assert_eq!(nearest, right, "{scope} {wrong:?}");
        }
    }

    #[test]
    fn keys_of_another_scope_are_explained() {
        let error = TOPIC.explain("num.partitions", &Origin::Request).to_string();
        assert!(
            error.starts_with("num.partitions is a key of the broker, not of topics"),
            "{error}"
        );
    }
}
