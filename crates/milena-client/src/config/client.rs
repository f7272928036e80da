//! The kinds of clients, and the keys of each.

use std::fmt;

use milena_config::{Definition, Schema, Table};

use super::{
    admin::{self, ADMIN_CONFIGS},
    common_table::COMMON_CONFIGS,
    consumer::{self, CONSUMER_CONFIGS, LIBRDKAFKA_CONSUMER_CONFIGS},
    librdkafka_table::LIBRDKAFKA_CONFIGS,
    producer::{self, LIBRDKAFKA_PRODUCER_CONFIGS, PRODUCER_CONFIGS},
    security::{LIBRDKAFKA_SECURITY_CONFIGS, SECURITY_CONFIGS},
};

/// A kind of client, with keys of its own. Displayed as in messages: "the consumer".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientKind {
    Consumer,
    Producer,
    Admin,
}

impl ClientKind {
    #[cfg(test)]
    pub(super) const ALL: [Self; 3] = [Self::Consumer, Self::Producer, Self::Admin];

    pub(crate) fn schema(self) -> &'static Schema {
        match self {
            Self::Consumer => &CONSUMER,
            Self::Producer => &PRODUCER,
            Self::Admin => &ADMIN,
        }
    }

    /// Every key of Kafka and of Milena that this client knows.
    pub fn definitions(self) -> impl Iterator<Item = &'static Definition> {
        let tables = self.schema().tables.iter().filter(|table| table.suggested);
        tables.flat_map(|table| table.definitions)
    }

    /// Keys that only librdkafka has. [`Support`](super::Support) says which of them have an effect.
    pub fn librdkafka_definitions(self) -> impl Iterator<Item = &'static Definition> {
        let tables = self.schema().tables.iter().filter(|table| !table.suggested);
        tables.flat_map(|table| table.definitions)
    }

    /// Whether the client has a key of this name or alias.
    pub fn knows(self, key: &str) -> bool {
        self.schema().find(key).is_some()
    }
}

impl fmt::Display for ClientKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.schema().name)
    }
}

static CONSUMER: Schema = Schema {
    name: "the consumer",
    page: Some("docs/consumer-config.md"),
    tables: &[
        Table::new(CONSUMER_CONFIGS),
        Table::new(COMMON_CONFIGS),
        SECURITY,
        librdkafka(LIBRDKAFKA_CONFIGS),
        librdkafka(LIBRDKAFKA_SECURITY_CONFIGS),
        librdkafka(LIBRDKAFKA_CONSUMER_CONFIGS),
    ],
    prefixes: consumer::PREFIXES,
    old_names: consumer::OLD_NAMES,
    owners: &[
        ("the producer and the admin client", &["retries"]),
        STREAMS,
        SCHEMA_REGISTRY,
    ],
    others: &[&PRODUCER, &ADMIN],
    unsupported: UNSUPPORTED,
};

static PRODUCER: Schema = Schema {
    name: "the producer",
    page: Some("docs/producer-config.md"),
    tables: &[
        Table::new(PRODUCER_CONFIGS),
        Table::new(COMMON_CONFIGS),
        SECURITY,
        librdkafka(LIBRDKAFKA_CONFIGS),
        librdkafka(LIBRDKAFKA_SECURITY_CONFIGS),
        librdkafka(LIBRDKAFKA_PRODUCER_CONFIGS),
    ],
    prefixes: producer::PREFIXES,
    old_names: producer::OLD_NAMES,
    owners: &[STREAMS, SCHEMA_REGISTRY],
    others: &[&CONSUMER, &ADMIN],
    unsupported: UNSUPPORTED,
};

static ADMIN: Schema = Schema {
    name: "the admin client",
    page: Some("docs/admin-config.md"),
    tables: &[
        Table::new(ADMIN_CONFIGS),
        Table::new(COMMON_CONFIGS),
        SECURITY,
        librdkafka(LIBRDKAFKA_CONFIGS),
        librdkafka(LIBRDKAFKA_SECURITY_CONFIGS),
    ],
    prefixes: admin::PREFIXES,
    old_names: admin::OLD_NAMES,
    owners: &[STREAMS, SCHEMA_REGISTRY],
    others: &[&CONSUMER, &PRODUCER],
    unsupported: UNSUPPORTED,
};

const SECURITY: Table = Table {
    heading: Some("Keys of TLS and SASL that take only their default"),
    suggested: true,
    definitions: SECURITY_CONFIGS,
};

const fn librdkafka(definitions: &'static [Definition]) -> Table {
    Table {
        heading: Some("Keys of librdkafka that take only their default"),
        suggested: false,
        definitions,
    }
}

type Names = &'static [&'static str];

const STREAMS: (&str, Names) = (
    "Kafka Streams",
    &[
        "application.id",
        "application.server",
        "default.deserialization.exception.handler",
        "default.key.serde",
        "default.value.serde",
        "num.standby.replicas",
        "num.stream.threads",
        "processing.guarantee",
        "state.dir",
        "statestore.cache.max.bytes",
    ],
);

const SCHEMA_REGISTRY: (&str, Names) = (
    "a schema registry's serializers and deserializers",
    &[
        "auto.register.schemas",
        "basic.auth.",
        "schema.registry.",
        "specific.avro.reader",
        "use.latest.version",
    ],
);

const UNSUPPORTED: &[(&str, Names)] = &[
    (
        "it is an object of OpenSSL; use the keys that end in .location or .pem",
        super::librdkafka_table::OPENSSL_OBJECTS,
    ),
    ("callbacks are given in code", super::librdkafka_table::CALLBACKS),
    (
        "it is a key of Kafka 4.4, and this client implements Kafka 4.3",
        &[
            "bootstrap.resolve.timeout.ms",
            "metadata.cluster.check.enable",
            "partitioner.rack.aware",
        ],
    ),
    (
        "Kafka 4 removed it; remove it",
        &["auto.include.jmx.reporter", "internal.leave.group.on.close"],
    ),
    (
        "text is UTF-8; for another encoding, give a deserializer of your own in code",
        &[
            "deserializer.encoding",
            "key.deserializer.encoding",
            "value.deserializer.encoding",
        ],
    ),
    (
        "records are sent as the bytes that they are given as; encode text before it is sent",
        &[
            "key.serializer.encoding",
            "serializer.encoding",
            "value.serializer.encoding",
        ],
    ),
    (
        "it is internal to Kafka Streams, and Kafka removed it",
        &["internal.auto.downgrade.txn.commit"],
    ),
];

#[cfg(test)]
mod tests {
    use milena_config::is_secret;

    use super::*;

    #[test]
    fn tables_are_sorted_and_no_name_stands_for_two_keys() {
        for client in ClientKind::ALL {
            let schema = client.schema();
            for table in schema.tables {
                assert!(table.definitions.is_sorted_by(|a, b| a.name < b.name), "{client}");
            }
            let aliases = schema.definitions().flat_map(|definition| definition.aliases);
            let keys = schema.definitions().map(|definition| definition.name);
            let mut names: Vec<_> = keys.chain(aliases.map(|alias| alias.name)).collect();
            let count = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), count, "{client}");
            for name in names {
                let listed = schema.owners.iter().any(|(_, names)| names.contains(&name));
                assert!(!listed, "{client}: {name}");
            }
        }
    }

    /// Messages about texts that no schema has seen yet go by the name.
    #[test]
    fn secrets_are_known_by_name() {
        for client in ClientKind::ALL {
            for definition in client.schema().definitions().filter(|one| one.is_sensitive()) {
                assert!(is_secret(definition.name), "{}", definition.name);
            }
        }
    }
}
