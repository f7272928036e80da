//! Described configs. The expected lines are those of a Kafka 4.3.1, except for our own keys and where a comment says so.

use std::collections::BTreeMap;

use milena_broker::config::{
    BrokerConfig, BrokerOverrides, DescribedConfig, describe_broker, describe_broker_defaults, describe_group,
    describe_topic,
};

use crate::{broker, overrides, raw};

fn line(configs: &[DescribedConfig], name: &str) -> String {
    let config = configs.iter().find(|config| config.name == name).unwrap();
    let synonyms: Vec<String> = config
        .synonyms
        .iter()
        .map(|synonym| {
            let value = synonym.value.as_deref().unwrap_or("null");
            format!(" {:?}:{}={value}", synonym.source, synonym.name)
        })
        .collect();
    let value = config.value.as_deref().unwrap_or("null");
    format!("{value} {:?} |{}", config.source, synonyms.concat())
}

/// The state of the Kafka that was asked.
fn state() -> BrokerConfig {
    BrokerConfig::resolve(BrokerOverrides {
        dynamic: raw(&[
            ("log.segment.bytes", "3145728"),
            ("log.retention.ms", "99"),
            ("log.cleanup.policy", "delete,compact"),
        ]),
        dynamic_default: raw(&[("log.segment.bytes", "4194304"), ("log.retention.ms", "98")]),
        fixed: raw(&[
            ("log.retention.hours", "1"),
            ("log.segment.bytes", "2097152"),
            ("log.roll.jitter.hours", "1"),
        ])
        .into(),
        ..BrokerOverrides::default()
    })
    .unwrap()
}

#[test]
fn an_empty_topic_has_kafkas_defaults() {
    let described = describe_topic(&overrides(&[]), &broker(&[]).unwrap());
    let mut shown = 0;
    for row in include_str!("../golden/configs.txt")
        .lines()
        .map(|line| line.split('\t').collect::<Vec<_>>())
    {
        if row[0] != "topic" || row[5] == "hidden" {
            continue;
        }
        let config = described.iter().find(|config| config.name == row[1]).expect(row[1]);
        assert_eq!(config.value.as_deref(), Some(row[3].trim_matches('"')), "{}", row[1]);
        assert_eq!(format!("{:?}", config.config_type).to_uppercase(), row[2], "{}", row[1]);
        assert_eq!(config.source.id(), 5, "{}", row[1]);
        assert!(!config.documentation.is_empty() && !config.is_sensitive, "{}", row[1]);
        shown += 1;
    }
    // One more is our own.
    assert_eq!(described.len(), shown + 1);
    assert_eq!(
        line(&described, "cleanup.policy"),
        "delete Default | Default:log.cleanup.policy=delete"
    );
    assert_eq!(line(&described, "flush.ms"), "9223372036854775807 Default |");
    assert_eq!(line(&described, "retention.ms"), "604800000 Default |");
    assert_eq!(line(&described, "remote.storage.enable"), "false Default |");
}

#[test]
fn synonyms_of_a_topic_stand_in_kafkas_order() {
    let settings = [
        ("cleanup.policy", ""),
        ("retention.ms", " 77 "),
        ("unclean.leader.election.enable", "TRUE"),
    ];
    let described = describe_topic(&overrides(&settings), &state());
    for (name, expected) in [
        (
            "cleanup.policy",
            " DynamicTopic | DynamicTopic:cleanup.policy= DynamicBroker:log.cleanup.policy=delete,compact \
             Default:log.cleanup.policy=delete",
        ),
        (
            "unclean.leader.election.enable",
            "true DynamicTopic | DynamicTopic:unclean.leader.election.enable=true \
             Default:unclean.leader.election.enable=false",
        ),
        (
            "retention.ms",
            "77 DynamicTopic | DynamicTopic:retention.ms=77 DynamicBroker:log.retention.ms=99 \
             DynamicDefaultBroker:log.retention.ms=98 StaticBroker:log.retention.hours=1 \
             Default:log.retention.hours=168",
        ),
        (
            "segment.bytes",
            "3145728 DynamicBroker | DynamicBroker:log.segment.bytes=3145728 \
             DynamicDefaultBroker:log.segment.bytes=4194304 StaticBroker:log.segment.bytes=2097152 \
             Default:log.segment.bytes=1073741824",
        ),
        ("segment.jitter.ms", "3600000 Default |"),
    ] {
        assert_eq!(line(&described, name), expected, "{name}");
    }
}

#[test]
fn a_broker_is_described_as_kafka_does() {
    let described = describe_broker(&state());
    for (name, expected) in [
        (
            "log.cleanup.policy",
            "delete,compact DynamicBroker | DynamicBroker:log.cleanup.policy=delete,compact Default:log.cleanup.policy=delete",
        ),
        ("log.flush.interval.ms", "null Default |"),
        // Kafka showed 1 before the changes at run time, and after them 168 beside the same source.
        (
            "log.retention.hours",
            "1 StaticBroker | StaticBroker:log.retention.hours=1 Default:log.retention.hours=168",
        ),
        ("log.retention.minutes", "null Default |"),
        (
            "log.retention.ms",
            "99 DynamicBroker | DynamicBroker:log.retention.ms=99 DynamicDefaultBroker:log.retention.ms=98 \
             StaticBroker:log.retention.hours=1 Default:log.retention.hours=168",
        ),
        (
            "log.cleaner.io.max.bytes.per.second",
            "1.7976931348623157E308 Default | Default:log.cleaner.io.max.bytes.per.second=1.7976931348623157E308",
        ),
        ("sasl.jaas.config", "null Default |"),
    ] {
        assert_eq!(line(&described, name), expected, "{name}");
    }
    let defaults = describe_broker_defaults(&state());
    assert_eq!(defaults.len(), 2);
    assert_eq!(
        line(&defaults, "log.retention.ms"),
        "98 DynamicDefaultBroker | DynamicDefaultBroker:log.retention.ms=98"
    );
}

#[test]
fn a_group_is_described_as_kafka_does() {
    let broker = BrokerConfig::resolve(BrokerOverrides {
        groups: BTreeMap::from([(
            "g".to_owned(),
            raw(&[
                ("consumer.session.timeout.ms", " 50001 "),
                ("share.auto.offset.reset", "latest"),
            ]),
        )]),
        ..BrokerOverrides::fixed(raw(&[("group.consumer.session.timeout.ms", "50000")]))
    })
    .unwrap();
    let described = describe_group("g", &broker);
    for (name, expected) in [
        (
            "consumer.session.timeout.ms",
            "50001 DynamicGroup | DynamicGroup:consumer.session.timeout.ms=50001 \
             StaticBroker:group.consumer.session.timeout.ms=50000 Default:group.consumer.session.timeout.ms=45000",
        ),
        (
            "consumer.heartbeat.interval.ms",
            "5000 Default | Default:group.consumer.heartbeat.interval.ms=5000",
        ),
        (
            "share.auto.offset.reset",
            "latest DynamicGroup | DynamicGroup:share.auto.offset.reset=latest Default:share.auto.offset.reset=latest",
        ),
        (
            "share.isolation.level",
            "read_uncommitted Default | Default:share.isolation.level=read_uncommitted",
        ),
    ] {
        assert_eq!(line(&described, name), expected, "{name}");
    }
    assert_eq!(described[0].source.id(), 5);
    assert_eq!(described[2].source.id(), 8);
    assert!(described[0].read_only && !described[2].read_only);
    assert!(described.iter().all(|config| !config.documentation.is_empty()));

    let described = describe_group("another", &broker);
    assert_eq!(
        line(&described, "consumer.session.timeout.ms"),
        "50000 StaticBroker | StaticBroker:group.consumer.session.timeout.ms=50000 \
         Default:group.consumer.session.timeout.ms=45000"
    );
}

/// Kafka went on showing 90000 after it was started with 60000 as the most, and logged that it uses 60000.
#[test]
fn what_a_group_has_is_kept_within_the_limits_and_described_as_it_is() {
    let settings = |session: &str, heartbeat: &str| BrokerOverrides {
        groups: BTreeMap::from([(
            "g".to_owned(),
            raw(&[
                ("consumer.session.timeout.ms", session),
                ("consumer.heartbeat.interval.ms", heartbeat),
                ("from.the.future", "1"),
            ]),
        )]),
        ..BrokerOverrides::default()
    };
    for ((session, heartbeat), in_force) in [
        (("90000", "1"), (Some(60_000), Some(5_000))),
        (("1", "90000"), (Some(45_000), Some(15_000))),
        (("50000", "6000"), (Some(50_000), Some(6_000))),
        (("x", "0"), (None, None)),
    ] {
        let broker = BrokerConfig::resolve(settings(session, heartbeat)).unwrap();
        let own = broker.groups.overrides["g"];
        assert_eq!(
            (own.consumer_session_timeout_ms, own.consumer_heartbeat_interval_ms),
            in_force
        );
        let described = describe_group("g", &broker);
        assert!(line(&described, "consumer.session.timeout.ms").starts_with(&format!("{session} DynamicGroup")));
    }
}

#[test]
fn both_names_of_the_node_are_described() {
    let described = describe_broker(&broker(&[("node.id", "5")]).unwrap());
    assert_eq!(
        line(&described, "broker.id"),
        "5 StaticBroker | StaticBroker:broker.id=5 Default:broker.id=1"
    );
}

#[test]
fn a_hidden_key_is_described_where_it_is_set() {
    let tiny = overrides(&[("internal.segment.bytes", "512")]);
    let described = describe_topic(&tiny, &broker(&[]).unwrap());
    let expected = "512 DynamicTopic | DynamicTopic:internal.segment.bytes=512";
    assert_eq!(line(&described, "internal.segment.bytes"), expected);
}

#[test]
fn secrets_are_marked_and_what_cannot_change_is_read_only() {
    let described = describe_broker(&broker(&[]).unwrap());
    let find = |name: &str| described.iter().find(|config| config.name == name).unwrap();
    assert!(find("ssl.keystore.password").is_sensitive);
    assert!(!find("log.retention.ms").read_only);
    assert!(find("log.retention.hours").read_only);
    assert!(find("num.io.threads").read_only);
    assert!(
        described
            .iter()
            .all(|config| config.name != "producer.id.expiration.check.interval.ms")
    );
}
