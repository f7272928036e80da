//! The producer's configuration in code.

use std::fmt;

use milena_config::{ConfigErrors, ConfigMap};
use milena_wire::compression::Codec;

use super::{super::client_config::client_config_builder, Acks, PartitionerName, ProducerConfig};

client_config_builder!(ProducerConfigBuilder, ProducerConfig);

impl ProducerConfigBuilder {
    /// Never sends a record twice: `acks=0`, `retries=0`. The fastest, but lost records are not noticed.
    pub fn at_most_once(self) -> Self {
        self.acks(Acks::None).set("retries", 0)
    }

    /// Acknowledges records when all in-sync replicas have them: `acks=all`, `enable.idempotence=true`. The default.
    ///
    /// A record that failed may be stored all the same. Retries of the client cause no duplicates and keep the order, but
    /// an application that sends a failed record again, or starts again after a crash, may store it twice.
    pub fn at_least_once(self) -> Self {
        self.acks(Acks::All).set("enable.idempotence", true)
    }

    /// Sends records in transactions, together with the offsets of the records that they were made from.
    ///
    /// Consumers with `isolation.level=read_committed` see the records when their transaction is committed. The id must be
    /// the same in every run and must not be used by another producer at the same time.
    pub fn exactly_once(self, transactional_id: impl fmt::Display) -> Self {
        self.at_least_once().transactional_id(transactional_id)
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

    /// `partitioner.class`. A partitioner of your own is given to the producer itself.
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
}
