//! The producer's configuration tables and rules, compared with Kafka's own (`golden/ClientConfigs.java`).

use std::collections::BTreeMap;

use milena_client::config::{
    Allowed, ClientKind::Producer, ConfigError, ConfigMap, ConfigType, ProducerConfig, Support,
};

use crate::config_facts::{check_page, is_of_security, kafkas_default, lines, written_range};

/// Ranges that are narrower than Kafka's on purpose.
const OUR_RANGES: &[&str] = &[
    // Kafka has no range for these, though zero and negative values are useless.
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    "transaction.timeout.ms",
    // Expressed differently.
    "transactional.id",
];

/// Configurations that Java's producer accepts although they make no sense, or that are not supported here.
const STRICTER: &[&str] = &[
    "transaction.timeout.ms=0",
    "transaction.timeout.ms=-1",
    "transaction.two.phase.commit.enable=true",
    "retry.backoff.ms=2000",
    "partitioner.class=org.apache.kafka.clients.producer.RoundRobinPartitioner;partitioner.ignore.keys=true",
];

fn resolve(settings: &[(&str, &str)]) -> Result<ProducerConfig, Vec<ConfigError>> {
    let mut map = ConfigMap::from([("bootstrap.servers", "localhost:9092")]);
    map.extend(settings.iter().copied());
    ProducerConfig::resolve(&map).map_err(|errors| errors.iter().cloned().collect())
}

#[test]
fn every_key_of_kafka_is_known_with_its_type_and_default() {
    let mut ours: BTreeMap<_, _> = Producer.definitions().map(|one| (one.name, one)).collect();
    for row in lines("producer") {
        let [_, name, config_type, default, allowed, importance, shown] = row[..] else {
            panic!("{row:?}");
        };
        let definition = ours
            .remove(name)
            .unwrap_or_else(|| panic!("{name} is not in the tables"));
        let own_type = format!("{:?}", definition.config_type).to_uppercase();
        assert_eq!(own_type, config_type, "{name}");
        assert_eq!(kafkas_default(definition), default, "{name}");
        let own_importance = format!("{:?}", definition.importance).to_uppercase();
        assert_eq!(own_importance, importance, "{name}");
        assert_eq!(definition.hidden, shown == "hidden", "{name}");
        let of_security = name.starts_with("sasl.") || name.starts_with("ssl.");
        if !OUR_RANGES.contains(&name) && !of_security {
            assert_eq!(written_range(definition.allowed), allowed, "{name}");
        }
    }
    let own = [
        "milena.batch.size.max",
        "milena.io",
        "milena.partitioner.bucket.ms",
        "milena.partitioner.field",
        "milena.partitioner.fields",
        "milena.partitioner.hot.records.per.minute",
        "milena.partitioner.regions",
        "milena.partitioner.separator",
        "milena.partitioner.spread",
    ];
    assert_eq!(ours.into_keys().collect::<Vec<_>>(), own);
}

#[test]
fn only_these_defaults_are_not_kafkas() {
    let deviating = Producer.definitions().filter(|one| one.deviation.is_some());
    let names: Vec<_> = deviating.map(|one| one.name).collect();
    assert_eq!(
        names,
        [
            "enable.metrics.push",
            "key.serializer",
            "receive.buffer.bytes",
            "send.buffer.bytes",
            "value.serializer"
        ]
    );
}

#[test]
fn keys_of_other_clients_are_recognized() {
    for (kind, owner) in [("consumer", "the consumer"), ("admin", "the admin client")] {
        for row in lines(kind) {
            let name = row[1];
            if Producer.definitions().any(|definition| definition.name == name) {
                continue;
            }
            let errors = resolve(&[(name, "1")]).unwrap_err();
            let owner_found = errors.iter().any(|error| match error {
                ConfigError::OtherOwner { owner: named, .. } => {
                    named.contains(owner) || (kind == "admin" && *named == "the consumer")
                }
                _ => false,
            });
            assert!(owner_found, "{name}: {errors:?}");
        }
    }
}

#[test]
fn what_a_java_producer_accepts_is_accepted_and_becomes_the_same() {
    for row in lines("produces") {
        let [_, text, accepted, ref became @ ..] = row[..] else {
            panic!("{row:?}")
        };
        let settings: Vec<(&str, &str)> = text
            .split(';')
            .map(|setting| setting.split_once('=').unwrap())
            .collect();
        let result = resolve(&settings);
        let expected = accepted == "yes" && !STRICTER.contains(&text);
        assert_eq!(result.is_ok(), expected, "{text}: {result:?}");
        if let Ok(config) = result {
            let ours = [
                config.enable_idempotence.to_string(),
                config.acks.code().to_string(),
                config.delivery_timeout_ms.to_string(),
            ];
            assert_eq!(ours, became, "{text}");
        }
    }
}

#[test]
fn every_default_is_accepted_and_no_other_value_of_what_cannot_change() {
    for definition in Producer.definitions().chain(Producer.librdkafka_definitions()) {
        let name = definition.name;
        if let Some(default) = definition.default {
            resolve(&[(name, default)]).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        }
        if let Support::DefaultOnly { reason, .. } = definition.support {
            let names = match definition.allowed {
                Allowed::OneOf(names) | Allowed::OneOfInAnyCase(names) => names,
                _ => &["7", "other", "true", "false"],
            };
            for other in names {
                let is_default = definition
                    .default
                    .is_some_and(|default| default.eq_ignore_ascii_case(other));
                let refused = resolve(&[(name, other)]).is_err_and(
                    |errors| matches!(&errors[..], [ConfigError::Unsupported { key, why, .. }] if key == name && *why == reason),
                );
                assert_ne!(refused, is_default, "{name}={other}");
            }
        }
    }
}

/// No key is accepted and ignored: another value than the default makes another configuration.
#[test]
fn every_key_that_is_honoured_changes_something() {
    for definition in Producer
        .definitions()
        .filter(|definition| definition.support == Support::Honoured && !is_of_security(definition.name))
    {
        let name = definition.name;
        let other = match (name, definition.config_type) {
            ("bootstrap.servers", _) => "other:9092",
            ("acks", _) => "1",
            ("compression.type", _) => "lz4",
            ("metadata.recovery.strategy", _) => "none",
            ("max.in.flight.requests.per.connection" | "compression.gzip.level" | "compression.lz4.level", _) => "4",
            ("compression.zstd.level", _) => "7",
            ("milena.io", _) => "runtime",
            ("partitioner.class", _) => "fnv1a",
            ("milena.partitioner.field" | "milena.partitioner.fields", _) => "header:other",
            ("milena.partitioner.regions", _) => "us=4",
            ("milena.partitioner.separator", _) => "/",
            (_, ConfigType::Boolean) if definition.default == Some("true") => "false",
            (_, ConfigType::Boolean) => "true",
            (_, ConfigType::Int | ConfigType::Long) if name.contains("max") || name.contains("delivery") => "40123",
            (_, ConfigType::Int | ConfigType::Long) => "77",
            (_, ConfigType::String) => "other",
            other => panic!("{other:?}"),
        };
        let mut settings = vec![("client.id", "c")];
        let codec = name
            .strip_prefix("compression.")
            .and_then(|rest| rest.strip_suffix(".level"));
        settings.extend(codec.map(|codec| ("compression.type", codec)));
        settings.extend_from_slice(match name {
            "milena.partitioner.field" | "milena.partitioner.regions" => &[
                ("partitioner.class", "region"),
                ("milena.partitioner.regions", "eu=0-3"),
            ],
            "milena.partitioner.fields" => &[("partitioner.class", "composite"), ("milena.partitioner.fields", "key")],
            "milena.partitioner.separator" | "milena.partitioner.spread" => &[("partitioner.class", "tenant")],
            "milena.partitioner.bucket.ms" => &[("partitioner.class", "time_bucket")],
            "milena.partitioner.hot.records.per.minute" => &[("partitioner.class", "hot_keys")],
            _ => &[],
        });
        let before = resolve(&settings).unwrap();
        settings.push((name, other));
        let after = resolve(&settings).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        assert_ne!(fields(&before), fields(&after), "{name}");
    }
}

/// Without the list of set keys, which always differs.
fn fields(config: &ProducerConfig) -> String {
    let text = format!("{config:?}");
    let (fields, _) = text.split_once("notes: ").expect("the last public field");
    fields.to_owned()
}

#[test]
fn the_page_of_all_keys_is_fresh() {
    check_page(Producer, "producer-config.md");
}
