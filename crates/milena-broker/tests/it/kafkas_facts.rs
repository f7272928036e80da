//! The tables against Kafka's own definitions, which `golden/Configs.java` writes.

use std::collections::BTreeMap;

use milena_broker::config::{
    Alias, Allowed, AlterOp, AlterOpKind, ConfigError, ConfigType, Definition, RawConfig, SettingError, Support, Unit,
    UpdateMode, alter_group, broker_definitions, group_definitions, topic_definitions,
};

use crate::{broker, raw, topic};

/// Keys that differ from Kafka on purpose; the tables have the reasons.
const OUR_DEFAULTS: &[&str] = &[
    "broker.id",
    "group.initial.rebalance.delay.ms",
    "listeners",
    "log.dir",
    "node.id",
];
const OUR_UPDATE_MODES: &[&str] = &["config.providers", "listener.security.protocol.map", "listeners"];
const OUR_RANGES: &[&str] = &[
    "authorizer.class.name",
    "internal.segment.bytes",
    "share.auto.offset.reset",
];
/// Keys of Kafka's authorizer, which reads them itself.
const OF_THE_AUTHORIZER: &[&str] = &["allow.everyone.if.no.acl.found", "super.users"];
/// Keys that Kafka knows at run time only, and so not in its definition of a broker's configuration.
const AT_RUN_TIME: &[&str] = &[
    "follower.replication.throttled.rate",
    "leader.replication.throttled.rate",
    "replica.alter.log.dirs.io.max.bytes.per.second",
];

struct Fact {
    config_type: &'static str,
    default: Option<&'static str>,
    allowed: &'static str,
    hidden: bool,
    /// The synonyms of a topic's or a group's key, the update mode of a broker's.
    last: &'static str,
}

fn facts(kind: &str) -> BTreeMap<&'static str, Fact> {
    let rows = include_str!("../golden/configs.txt").lines();
    let rows = rows.map(|line| line.split('\t').collect::<Vec<_>>());
    let facts: BTreeMap<_, _> = rows
        .filter(|row| row[0] == kind)
        .map(|row| {
            let fact = Fact {
                config_type: row[2],
                default: (row[3] != "null").then(|| row[3].trim_matches('"')),
                allowed: row[4],
                hidden: row[5] == "hidden",
                last: row[6],
            };
            (row[1], fact)
        })
        .collect();
    assert!(facts.len() > 16, "{} facts of {kind}", facts.len());
    facts
}

fn ours(definition: &Definition) -> bool {
    definition.name.starts_with("milena.")
}

#[test]
fn topic_configs_are_kafkas() {
    check_followers(topic_definitions(), facts("topic"));
}

#[test]
fn group_configs_are_kafkas() {
    check_followers(group_definitions(), facts("group"));
}

/// Keys that follow the broker's: there is none too many, and none is missing.
fn check_followers(definitions: &[Definition], mut facts: BTreeMap<&str, Fact>) {
    for definition in definitions.iter().filter(|definition| !ours(definition)) {
        let fact = facts.remove(definition.name).expect(definition.name);
        check(definition, &fact);
        let synonyms: Vec<String> = definition.synonyms.iter().map(written_synonym).collect();
        assert_eq!(synonyms.join(","), fact.last, "{}", definition.name);
    }
    assert!(facts.is_empty(), "{:?}", facts.keys());
}

#[test]
fn broker_configs_are_kafkas() {
    let facts = facts("broker");
    let elsewhere = |name: &&str| AT_RUN_TIME.contains(name) || OF_THE_AUTHORIZER.contains(name);
    let in_the_file = |definition: &&Definition| !ours(definition) && !elsewhere(&definition.name);
    for definition in broker_definitions().iter().filter(in_the_file) {
        let fact = facts.get(definition.name).expect(definition.name);
        check(definition, fact);
        let update = match definition.update {
            UpdateMode::ReadOnly => "read-only",
            UpdateMode::PerBroker => "per-broker",
            UpdateMode::ClusterWide => "cluster-wide",
        };
        if !OUR_UPDATE_MODES.contains(&definition.name) {
            assert_eq!(update, fact.last, "{}", definition.name);
        }
    }
}

/// A key of Kafka is known, or refused with a reason; it is never taken for a typing error.
#[test]
fn every_key_of_kafka_is_known_or_refused_with_a_reason() {
    for (name, _) in facts("broker").iter().filter(|(_, fact)| !fact.hidden) {
        if broker_definitions().iter().any(|definition| definition.name == *name) {
            continue;
        }
        let error = broker(&[(name, "1")]).unwrap_err();
        assert!(
            matches!(error, ConfigError::Setting(SettingError::Unsupported { .. })),
            "{name}: {error}"
        );
    }
}

#[test]
fn every_default_is_accepted_and_no_other_value_of_what_cannot_change() {
    for definition in topic_definitions() {
        let name = definition.name;
        if let Some(default) = definition.default {
            topic(&[(name, default)]).expect(name);
        }
        if let Support::DefaultOnly { reason, .. } = definition.support {
            let other = if definition.config_type == ConfigType::Boolean {
                "true"
            } else {
                "1"
            };
            assert_unsupported(topic(&[(name, other)]), name, reason);
        }
    }
    let nothing = RawConfig::new();
    let defaults = broker(&[]).unwrap();
    for definition in group_definitions() {
        let name = definition.name;
        let set = |value: &str| alter_group(&nothing, vec![set_op(name, value)], &defaults);
        let default = definition.default.unwrap();
        assert_eq!(set(default), Ok(raw(&[(name, default)])));
        if let Support::DefaultOnly { reason, .. } = definition.support {
            let other = match default {
                "true" => "false",
                "read_uncommitted" => "read_committed",
                "latest" => "earliest",
                _ => "9999",
            };
            assert_unsupported(set(other), name, reason);
        }
    }
    for definition in broker_definitions() {
        if let Some(default) = definition.default {
            broker(&[(definition.name, default)]).expect(definition.name);
        }
        if matches!(definition.support, Support::DefaultOnly { .. }) {
            let other = match definition.default {
                Some("true") => "false",
                Some("false") => "true",
                _ => "7",
            };
            assert!(broker(&[(definition.name, other)]).is_err(), "{}", definition.name);
        }
    }
}

fn assert_unsupported<T: std::fmt::Debug>(result: Result<T, ConfigError>, name: &str, reason: &str) {
    match result {
        Err(ConfigError::Setting(SettingError::Unsupported { key, why, .. })) if key == name => assert_eq!(why, reason),
        other => panic!("{name}: {other:?}"),
    }
}

fn set_op(name: &str, value: &str) -> AlterOp {
    AlterOp {
        name: name.to_owned(),
        kind: AlterOpKind::Set,
        value: Some(value.to_owned()),
    }
}

fn check(definition: &Definition, fact: &Fact) {
    let name = definition.name;
    let config_type = format!("{:?}", definition.config_type).to_uppercase();
    assert_eq!(config_type, fact.config_type, "{name}");
    assert_eq!(definition.hidden, fact.hidden, "{name}");
    if !OUR_DEFAULTS.contains(&name) {
        assert_eq!(definition.default, fact.default, "{name}");
    }
    if !OUR_RANGES.contains(&name) {
        let allowed = fact.allowed.replace("non-null string", "");
        assert_eq!(written_range(definition.allowed), allowed, "{name}");
    }
}

/// As Kafka writes it.
fn written_range(allowed: Allowed) -> String {
    match allowed {
        Allowed::Any => String::new(),
        Allowed::AtLeast(least) => format!("[{least},...]"),
        Allowed::Between(least, most) => format!("[{least},...,{most}]"),
        Allowed::BetweenOr(least, most, other) => format!("[{least},...,{most}] or {other}"),
        Allowed::OneOf(names) | Allowed::Each(names) => format!("[{}]", names.join(", ")),
        Allowed::OneOfInAnyCase(names) => format!("(case insensitive) [{}]", names.join(", ")),
        Allowed::Custom(_) => "[partitionId]:[brokerId],[partitionId]:[brokerId],...".to_owned(),
        other => panic!("{other:?}"),
    }
}

fn written_synonym(synonym: &Alias) -> String {
    match synonym.unit {
        Unit::Same => synonym.name.to_owned(),
        Unit::Minutes => format!("{} minutes", synonym.name),
        Unit::Hours => format!("{} hours", synonym.name),
        other => panic!("{other:?}"),
    }
}
