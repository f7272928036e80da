//! Finds the definition of a key, or says why there is none.

use super::{Alias, AliasUnit, ClientKind, ConfigError, Definition, Origin, librdkafka_table, names};

/// A key, and how a value under the given name becomes one of it.
pub(super) fn find(client: ClientKind, name: &str) -> Option<(&'static Definition, AliasUnit)> {
    let mut definitions = client.definitions().chain(client.librdkafka_definitions());
    definitions.find_map(|definition| {
        if definition.name == name {
            return Some((definition, AliasUnit::Same));
        }
        let alias = definition.aliases.iter().find(|alias| alias.name == name);
        alias.map(|Alias { unit, .. }| (definition, *unit))
    })
}

/// Why a name is not a key of this client.
pub(super) fn explain(client: ClientKind, name: &str, origin: &Origin) -> ConfigError {
    let key = name.to_owned();
    let origin = origin.clone();
    if let Some(owner) = names::owner(client, name) {
        return ConfigError::OtherClient {
            client,
            key,
            origin,
            owner,
        };
    }
    let unsupported = UNSUPPORTED
        .iter()
        .find(|(names, _)| names.iter().any(|known| names::matches(known, name)));
    match unsupported {
        Some((_, why)) => ConfigError::Unsupported { key, origin, why },
        None => ConfigError::UnknownKey {
            client,
            key,
            origin,
            nearest: names::suggestion(client, name),
        },
    }
}

/// All names that can be suggested.
pub(super) fn names(client: ClientKind) -> impl Iterator<Item = &'static str> {
    let shown = client.definitions().filter(|definition| !definition.hidden);
    shown.map(|definition| definition.name)
}

/// A value as messages may show it: secrets they may not. What is not known may be one too.
pub(super) fn shown(name: &str, value: &str) -> String {
    let known = ClientKind::ALL.iter().find_map(|client| find(*client, name));
    let sensitive = match known {
        Some((definition, _)) => definition.is_sensitive(),
        None => SECRETS.iter().any(|secret| name.to_lowercase().contains(secret)),
    };
    if sensitive {
        "(hidden)".to_owned()
    } else {
        value.to_owned()
    }
}

const SECRETS: &[&str] = &[
    "credential",
    "jaas",
    "passphrase",
    "password",
    "pem",
    "secret",
    "token",
    "user.info",
];

const UNSUPPORTED: &[(&[&str], &str)] = &[
    (librdkafka_table::SECURITY, librdkafka_table::SECURITY_REASON),
    (librdkafka_table::CALLBACKS, librdkafka_table::CALLBACK_REASON),
    (
        &[
            "bootstrap.resolve.timeout.ms",
            "metadata.cluster.check.enable",
            "partitioner.rack.aware",
        ],
        "it is a key of Kafka 4.4, and this client is like Kafka 4.3",
    ),
    (
        &["auto.include.jmx.reporter", "internal.leave.group.on.close"],
        "Kafka 4 has removed it; take it out",
    ),
    (
        &[
            "deserializer.encoding",
            "key.deserializer.encoding",
            "value.deserializer.encoding",
        ],
        "text is UTF-8; give a deserializer of your own in code for another encoding",
    ),
    (
        &[
            "key.serializer.encoding",
            "serializer.encoding",
            "value.serializer.encoding",
        ],
        "records are sent as the bytes that they are given as; encode text before it is sent",
    ),
    (
        &["internal.auto.downgrade.txn.commit"],
        "it is internal to Kafka Streams, and Kafka has removed it",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::{
        admin_table::ADMIN_CONFIGS, consumer_table::CONSUMER_CONFIGS, librdkafka_table::LIBRDKAFKA_CONFIGS,
        producer_librdkafka_table::LIBRDKAFKA_PRODUCER_CONFIGS, producer_table::PRODUCER_CONFIGS,
        security_table::SECURITY_CONFIGS,
    };

    #[test]
    fn tables_are_sorted_and_no_name_stands_for_two_keys() {
        for table in [
            CONSUMER_CONFIGS,
            PRODUCER_CONFIGS,
            ADMIN_CONFIGS,
            SECURITY_CONFIGS,
            LIBRDKAFKA_CONFIGS,
            LIBRDKAFKA_PRODUCER_CONFIGS,
        ] {
            assert!(table.is_sorted_by(|a, b| a.name < b.name));
        }
        for client in ClientKind::ALL {
            check_names(client);
        }
    }

    fn check_names(client: ClientKind) {
        let all = || client.definitions().chain(client.librdkafka_definitions());
        let aliases = all().flat_map(|definition| definition.aliases.iter().map(|alias| alias.name));
        let mut names: Vec<_> = all().map(|definition| definition.name).chain(aliases).collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        for name in names {
            assert_eq!(names::owner(client, name), None, "{name}");
        }
    }
}
