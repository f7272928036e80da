//! The configuration of the admin client, compared with Kafka's own (`golden/ClientConfigs.java`).

use std::collections::BTreeMap;

use milena_client::config::{AdminConfig, ClientKind::Admin, ConfigErrors, ConfigMap};

use crate::config_facts::{check_page, kafkas_default, lines, written_range};

/// Kafka has no range for these, though zero and negative values are useless.
const OUR_RANGES: &[&str] = &[
    "socket.connection.setup.timeout.max.ms",
    "socket.connection.setup.timeout.ms",
];

fn resolve(settings: &[(&str, &str)]) -> Result<AdminConfig, ConfigErrors> {
    let mut map = ConfigMap::from([("bootstrap.servers", "localhost:9092")]);
    map.extend(settings.iter().copied());
    AdminConfig::resolve(&map)
}

#[test]
fn every_key_of_kafka_is_known_with_its_type_and_default() {
    let mut ours: BTreeMap<_, _> = Admin.definitions().map(|one| (one.name, one)).collect();
    for row in lines("admin") {
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
    assert_eq!(ours.into_keys().collect::<Vec<_>>(), [""; 0]);
}

#[test]
fn the_page_of_all_keys_is_fresh() {
    check_page(Admin, "admin-config.md");
}

#[test]
fn settings_have_kafkas_defaults_and_can_be_set() {
    let config = resolve(&[]).unwrap();
    assert_eq!(config.default_api_timeout_ms, 60_000);
    assert_eq!(config.retries, 2_147_483_647);
    assert_eq!(config.connections_max_idle_ms, Some(300_000));
    assert!(config.client_id.starts_with("adminclient-"), "{}", config.client_id);
    assert_ne!(config.client_id, resolve(&[]).unwrap().client_id);
    let config = resolve(&[("retries", "3"), ("client.id", "me"), ("reconnect.backoff.ms", "70")]).unwrap();
    assert_eq!((config.retries, &*config.client_id), (3, "me"));
    assert_eq!(config.reconnect_backoff_max_ms, 70);
}

#[test]
fn errors_say_what_would_be_right() {
    let cases = [
        (
            ("default.api.timeout", "1"),
            "default.api.timeout (code) is not a key of the admin client; did you mean default.api.timeout.ms?",
        ),
        (
            ("group.id", "g"),
            "group.id (code) is a key of the consumer, not of the admin client; move it to the configuration of the consumer",
        ),
        (
            ("acks", "all"),
            "acks (code) is a key of the producer, not of the admin client; move it to the configuration of the producer",
        ),
        (
            ("bootstrap.controllers", "localhost:9093"),
            "bootstrap.controllers (code) is not supported: requests to controllers go through brokers; use bootstrap.servers",
        ),
        (
            ("zzz", "1"),
            "zzz (code) is not a key of the admin client; docs/admin-config.md lists all keys",
        ),
        (
            ("retries", "-1"),
            "retries (code) cannot be \"-1\"; it must be 0 to 2147483647",
        ),
    ];
    for (setting, expected) in cases {
        assert_eq!(resolve(&[setting]).unwrap_err().to_string(), expected);
    }
    let missing = AdminConfig::resolve(&ConfigMap::new()).unwrap_err();
    assert!(
        missing.to_string().starts_with("bootstrap.servers is missing"),
        "{missing}"
    );
}
