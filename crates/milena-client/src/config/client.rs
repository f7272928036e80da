//! Whose keys they are.

use std::fmt;

use super::{
    Definition, admin_table::ADMIN_CONFIGS, consumer_table::CONSUMER_CONFIGS, librdkafka_table::LIBRDKAFKA_CONFIGS,
    producer_librdkafka_table as of_producer, producer_table::PRODUCER_CONFIGS, security_table::SECURITY_CONFIGS,
};

/// A kind of client, with keys of its own. Messages call it as it is displayed: "the consumer".
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum ClientKind {
    Consumer,
    Producer,
    Admin,
}

impl ClientKind {
    pub(super) const ALL: [Self; 3] = [Self::Consumer, Self::Producer, Self::Admin];

    /// Every key that this client knows: Kafka's and our own.
    pub fn definitions(self) -> impl Iterator<Item = &'static Definition> {
        let own = match self {
            Self::Consumer => CONSUMER_CONFIGS,
            Self::Producer => PRODUCER_CONFIGS,
            Self::Admin => ADMIN_CONFIGS,
        };
        own.iter().chain(SECURITY_CONFIGS)
    }

    /// Keys that only librdkafka has. None of them does anything; see [`Support`](super::Support).
    pub fn librdkafka_definitions(self) -> impl Iterator<Item = &'static Definition> {
        let (own, of_others): (&[Definition], &[&str]) = match self {
            Self::Consumer => (&[], &[]),
            Self::Producer => (of_producer::LIBRDKAFKA_PRODUCER_CONFIGS, of_producer::CONSUMERS_ONLY),
            Self::Admin => (&[], of_producer::CONSUMERS_ONLY),
        };
        let common = LIBRDKAFKA_CONFIGS.iter();
        common
            .filter(move |definition| !of_others.contains(&definition.name))
            .chain(own)
    }

    /// The page that lists all of its keys.
    pub(super) const fn page(self) -> &'static str {
        match self {
            Self::Consumer => "docs/consumer-config.md",
            Self::Producer => "docs/producer-config.md",
            Self::Admin => "docs/admin-config.md",
        }
    }
}

impl fmt::Display for ClientKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Consumer => "the consumer",
            Self::Producer => "the producer",
            Self::Admin => "the admin client",
        })
    }
}
