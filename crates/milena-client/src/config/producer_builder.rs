//! A producer's configuration in code.

use std::fmt;

use milena_wire::compression::Codec;

use super::{Acks, ConfigErrors, ConfigMap, PartitionerName, ProducerConfig};

/// Collects settings in code; [`build`](Self::build) checks them like all others.
#[derive(Debug, Clone, Default)]
#[must_use = "a configuration does nothing until it is built"]
pub struct ProducerConfigBuilder {
    map: ConfigMap,
}

impl ProducerConfigBuilder {
    /// `bootstrap.servers`: `host:port`, several separated by commas.
    pub fn new(bootstrap_servers: impl Into<String>) -> Self {
        Self::default().set("bootstrap.servers", bootstrap_servers.into())
    }

    /// Sets any key by Kafka's name.
    pub fn set(mut self, key: impl Into<String>, value: impl fmt::Display) -> Self {
        self.map.set(key, value);
        self
    }

    /// Adds settings that are stronger than those there are, such as those of a file.
    pub fn merge(mut self, stronger: ConfigMap) -> Self {
        self.map.merge(stronger);
        self
    }

    /// Nothing is ever sent twice, and what is lost stays lost: `acks=0`, `retries=0`. The fastest, and nobody learns of
    /// a loss.
    pub fn at_most_once(self) -> Self {
        self.acks(Acks::None).set("retries", 0)
    }

    /// What was acknowledged survives the loss of a broker; what failed may be there all the same: `acks=all`,
    /// `enable.idempotence=true`. This is the default. Retries repeat nothing and keep the order, but who sends a failed
    /// record again, or starts again after a crash, may repeat it.
    pub fn at_least_once(self) -> Self {
        self.acks(Acks::All).set("enable.idempotence", true)
    }

    /// Records become visible together with the offsets of what they were made from, or not at all: a transaction for
    /// each window of work, which readers with `isolation.level=read_committed` see when it is committed, so later. The
    /// name must be the same in every run, and no other producer's at the same time.
    pub fn exactly_once(self, transactional_id: impl fmt::Display) -> Self {
        self.at_least_once().transactional_id(transactional_id)
    }

    /// `client.id`
    pub fn client_id(self, client_id: impl fmt::Display) -> Self {
        self.set("client.id", client_id)
    }

    /// `transactional.id`
    pub fn transactional_id(self, transactional_id: impl fmt::Display) -> Self {
        self.set("transactional.id", transactional_id)
    }

    /// `acks`
    pub fn acks(self, acks: Acks) -> Self {
        self.set("acks", acks)
    }

    /// `linger.ms`
    pub fn linger_ms(self, linger_ms: u32) -> Self {
        self.set("linger.ms", linger_ms)
    }

    /// `batch.size`, in bytes.
    pub fn batch_size(self, bytes: u32) -> Self {
        self.set("batch.size", bytes)
    }

    /// `buffer.memory`, in bytes.
    pub fn buffer_memory(self, bytes: u64) -> Self {
        self.set("buffer.memory", bytes)
    }

    /// `compression.type`
    pub fn compression(self, codec: Codec) -> Self {
        self.set("compression.type", codec)
    }

    /// `partitioner.class`; one that is not named here is given to the producer itself.
    pub fn partitioner(mut self, partitioner: PartitionerName) -> Self {
        match partitioner {
            PartitionerName::BuiltIn => {
                self.map.remove("partitioner.class");
                self.map.remove("partitioner");
                self
            }
            named => self.set("partitioner.class", named),
        }
    }

    /// The settings as they are, unchecked.
    pub fn into_map(self) -> ConfigMap {
        self.map
    }

    pub fn build(self) -> Result<ProducerConfig, ConfigErrors> {
        ProducerConfig::resolve(&self.map)
    }
}

impl TryFrom<ProducerConfigBuilder> for ProducerConfig {
    type Error = ConfigErrors;

    fn try_from(builder: ProducerConfigBuilder) -> Result<Self, ConfigErrors> {
        builder.build()
    }
}
