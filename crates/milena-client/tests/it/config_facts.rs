//! The configuration tables and rules, compared with Kafka's own clients (`golden/ClientConfigs.java`).

use std::{collections::BTreeMap, fs, time::Duration};

use milena_client::config::{
    Allowed, AutoOffsetReset, ClientKind, ConfigError, ConfigMap, ConfigType, ConsumerConfig, Definition, Support,
    document,
};

/// Ranges that differ from Kafka's on purpose.
const OUR_RANGES: &[&str] = &[
    // Kafka has no range for these, though zero and negative values are useless.
    "heartbeat.interval.ms",
    "session.timeout.ms",
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
    // Expressed differently.
    "auto.offset.reset",
    "group.instance.id",
];

/// Configurations that Java's consumer accepts although they make no sense.
const STRICTER: &[&str] = &[
    "group.id=g;heartbeat.interval.ms=0",
    // Java fails later, in subscribe.
    "partition.assignment.strategy=;group.id=g",
    "bootstrap.servers=[::1:9092",
    "fetch.max.wait.ms=30000",
    "retry.backoff.ms=2000",
    "reconnect.backoff.ms=2000;reconnect.backoff.max.ms=1000",
    "socket.connection.setup.timeout.ms=40000",
];

pub(crate) fn lines(kind: &str) -> Vec<Vec<&'static str>> {
    let rows = include_str!("../golden/configs.txt").lines();
    let rows = rows.map(|line| line.split('\t').collect::<Vec<_>>());
    let rows: Vec<_> = rows.filter(|row| row[0] == kind).collect();
    assert!(rows.len() > 20, "{} lines of {kind}", rows.len());
    rows
}

fn resolve(settings: &[(&str, &str)]) -> Result<ConsumerConfig, Vec<ConfigError>> {
    let mut map = ConfigMap::from([("bootstrap.servers", "localhost:9092")]);
    map.extend(settings.iter().copied());
    ConsumerConfig::resolve(&map).map_err(|errors| errors.iter().cloned().collect())
}

#[test]
fn every_key_of_kafka_is_known_with_its_type_and_default() {
    let mut ours: BTreeMap<_, _> = ClientKind::Consumer
        .definitions()
        .map(|definition| (definition.name, definition))
        .collect();
    for row in lines("consumer") {
        let [_, name, config_type, default, allowed, importance, shown] = row[..] else {
            panic!("{row:?}");
        };
        let definition = ours
            .remove(name)
            .unwrap_or_else(|| panic!("{name} is not in the tables"));
        assert_eq!(
            format!("{:?}", definition.config_type).to_uppercase(),
            config_type,
            "{name}"
        );
        assert_eq!(kafkas_default(definition), default, "{name}");
        assert_eq!(
            format!("{:?}", definition.importance).to_uppercase(),
            importance,
            "{name}"
        );
        assert_eq!(definition.hidden, shown == "hidden", "{name}");
        let of_security = name.starts_with("sasl.") || name.starts_with("ssl.");
        if !OUR_RANGES.contains(&name) && !of_security {
            assert_eq!(written_range(definition.allowed), allowed, "{name}");
        }
    }
    let own: Vec<_> = ours.into_keys().collect();
    assert_eq!(own, ["milena.fetch.buffer.bytes", "milena.io", "milena.profile"]);
}

/// The default as in the golden file.
pub(crate) fn kafkas_default(definition: &Definition) -> String {
    let default = match definition.deviation {
        Some(deviation) => deviation.kafkas_default,
        None => definition.default,
    };
    match default {
        Some(text) => format!("\"{text}\""),
        None if definition.required || definition.deviation.is_some() => "required".to_owned(),
        None => "null".to_owned(),
    }
}

/// The range as Kafka prints it.
pub(crate) fn written_range(allowed: Allowed) -> String {
    match allowed {
        Allowed::AtLeast(least) => format!("[{least},...]"),
        Allowed::Between(least, most) => format!("[{least},...,{most}]"),
        Allowed::BetweenOr(least, most, also) => format!("[{least},...,{most}] or {also}"),
        Allowed::OneOf(names) => format!("[{}]", names.join(", ")),
        Allowed::OneOfInAnyCase(names) => format!("(case insensitive) [{}]", names.join(", ").to_uppercase()),
        _ => String::new(),
    }
}

#[test]
fn only_these_defaults_are_not_kafkas() {
    let deviating = ClientKind::Consumer
        .definitions()
        .filter(|definition| definition.deviation.is_some());
    let names: Vec<_> = deviating.map(|definition| definition.name).collect();
    assert_eq!(
        names,
        [
            "enable.metrics.push",
            "key.deserializer",
            "receive.buffer.bytes",
            "send.buffer.bytes",
            "value.deserializer"
        ]
    );
}

#[test]
fn keys_of_other_clients_are_recognized() {
    for (kind, owner) in [("producer", "the producer"), ("admin", "the admin client")] {
        for row in lines(kind) {
            let name = row[1];
            if ClientKind::Consumer
                .definitions()
                .any(|definition| definition.name == name)
            {
                continue;
            }
            let errors = resolve(&[(name, "1")]).unwrap_err();
            let owner_found = errors.iter().any(|error| match error {
                ConfigError::OtherOwner { owner: named, .. } => named.contains(owner),
                // Internal keys belong to no client.
                ConfigError::UnknownKey { key, .. } => key.starts_with("internal."),
                _ => false,
            });
            assert!(owner_found, "{name}: {errors:?}");
        }
    }
}

#[test]
fn what_a_java_consumer_accepts_is_accepted() {
    for row in lines("accepts") {
        let [_, text, accepted] = row[..] else {
            panic!("{row:?}")
        };
        let settings: Vec<(&str, &str)> = text
            .split(';')
            .map(|setting| setting.split_once('=').unwrap())
            .collect();
        let result = resolve(&settings);
        let expected = accepted == "yes" && !STRICTER.contains(&text);
        assert_eq!(result.is_ok(), expected, "{text}: {result:?}");
    }
}

#[test]
fn durations_are_javas() {
    for row in lines("duration") {
        let text = format!("by_duration:{}", row[1]);
        let read = resolve(&[("auto.offset.reset", &text)]).map(|config| config.auto_offset_reset);
        match row[2..] {
            // White space is trimmed before the value is parsed.
            _ if row[1].ends_with(' ') => assert!(read.is_ok(), "{text}"),
            [seconds, nanos] => {
                let duration = Duration::new(seconds.parse().unwrap(), nanos.parse().unwrap());
                let policy = AutoOffsetReset::ByDuration(duration);
                assert_eq!(read, Ok(policy), "{text}");
                // The printed value parses as the same policy.
                let written = policy.to_string();
                assert_eq!(
                    resolve(&[("auto.offset.reset", &written)]).unwrap().auto_offset_reset,
                    policy
                );
            }
            _ => assert!(read.is_err(), "{text}: {read:?}"),
        }
    }
}

#[test]
fn properties_are_javas() {
    for row in lines("properties") {
        let text = from_hex(row[1]);
        let read = ConfigMap::parse_properties(&text, "test.properties").map(|map| {
            let pairs = map.iter().map(|(key, value)| (key.to_owned(), value.to_owned()));
            pairs.collect::<Vec<_>>()
        });
        match row[2] {
            "no" => assert!(read.is_err(), "{text:?}: {read:?}"),
            pairs => {
                let pairs = pairs.split_whitespace().map(|pair| pair.split_once('=').unwrap());
                let expected = pairs.map(|(key, value)| (from_hex(key), from_hex(value))).collect();
                assert_eq!(read, Ok(expected), "{text:?}");
            }
        }
    }
}

fn from_hex(text: &str) -> String {
    let digits = text
        .as_bytes()
        .chunks(2)
        .map(|pair| std::str::from_utf8(pair).expect("ASCII"));
    let bytes = digits
        .map(|pair| u8::from_str_radix(pair, 16).expect("hexadecimal"))
        .collect();
    String::from_utf8(bytes).expect("UTF-8")
}

#[test]
fn every_default_is_accepted_and_no_other_value_of_what_cannot_change() {
    for definition in ClientKind::Consumer
        .definitions()
        .chain(ClientKind::Consumer.librdkafka_definitions())
    {
        let name = definition.name;
        if let Some(default) = definition.default {
            let needed = [("group.id", "g"), (name, default)];
            resolve(&needed).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
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
    let base = [("client.id", "c"), ("group.id", "g")];
    for definition in ClientKind::Consumer
        .definitions()
        .filter(|definition| definition.support == Support::Honoured && !is_of_security(definition.name))
    {
        let name = definition.name;
        let other = match (name, definition.config_type) {
            ("bootstrap.servers", _) => "other:9092",
            ("auto.offset.reset", _) => "earliest",
            ("group.protocol", _) => "consumer",
            ("isolation.level", _) => "read_committed",
            ("metadata.recovery.strategy", _) => "none",
            ("milena.io", _) => "runtime",
            ("milena.profile", _) => "latency",
            ("partition.assignment.strategy", _) => "sticky",
            ("milena.fetch.buffer.bytes", _) => "12345",
            (_, ConfigType::Class) => "string",
            (_, ConfigType::Boolean) if definition.default == Some("true") => "false",
            (_, ConfigType::Int | ConfigType::Long) if name.contains("session") || name.contains("max") => "40123",
            ("request.timeout.ms", _) => "501",
            (_, ConfigType::Int | ConfigType::Long) => "77",
            (_, ConfigType::String) => "other",
            other => panic!("{other:?}"),
        };
        let mut settings = base.to_vec();
        if name == "group.remote.assignor" {
            settings.push(("group.protocol", "consumer"));
        }
        if name == "fetch.max.wait.ms" {
            settings.push(("request.timeout.ms", "50000"));
        }
        let before = resolve(&settings).unwrap();
        settings.push((name, other));
        let after = resolve(&settings).unwrap_or_else(|errors| panic!("{name}: {errors:?}"));
        assert_ne!(fields(&before), fields(&after), "{name}");
    }
}

/// Keys that have an effect only together; `security_config.rs` tests them.
pub(crate) fn is_of_security(name: &str) -> bool {
    let prefixes = ["sasl.", "ssl.", "security.protocol", "config.providers"];
    prefixes.iter().any(|prefix| name.starts_with(prefix))
}

/// Without the list of set keys, which always differs.
fn fields(config: &ConsumerConfig) -> String {
    let text = format!("{config:?}");
    let (fields, _) = text.split_once("notes: ").expect("the last public field");
    fields.to_owned()
}

#[test]
fn the_page_of_all_keys_is_fresh() {
    check_page(ClientKind::Consumer, "consumer-config.md");
}

pub(crate) fn check_page(client: ClientKind, name: &str) {
    let path = format!("{}/../../docs/{name}", env!("CARGO_MANIFEST_DIR"));
    let page = document(client);
    let before = fs::read_to_string(&path).unwrap_or_default();
    if page != before {
        fs::write(path, page).unwrap();
        panic!("docs/{name} was stale and has been written anew; commit it");
    }
}
