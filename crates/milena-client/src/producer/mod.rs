//! The producer.
//!
//! [`Producer::send`] waits for the acknowledgement of one record. [`Producer::enqueue`] waits for memory only, and
//! returns a [`Delivery`]; [`Deliveries`] collects many. Records of one partition are written in the order of these
//! calls, also after retries.
//!
//! The path of a record: its partition is chosen (`partition`) and its bytes are encoded into the open batch of that
//! partition (`buffer`), in the calling thread. When the batch is full or `linger.ms` is over, a task on the io thread
//! hands it to the sender machine, which assigns sequences and decides about retries, and sends its requests (`drive`).

mod batch_delivery;
mod buffer;
mod close;
mod compressors;
mod control;
mod delivery;
mod drive;
mod error;
mod interceptor;
mod memory;
mod new;
pub mod partition;
mod record;
mod send;
mod shared;
mod split;
mod topic_metadata;
mod topics;
mod transaction;

use std::{sync::Arc, time::Duration};

pub use delivery::{Deliveries, Delivery};
pub use error::{FlushError, NewProducerError, SendError, TransactionCallError};
pub use interceptor::{OutgoingHeader, OutgoingRecord, ProducerInterceptor};
pub use milena_machines::produce::{
    BatchCause, BatchError, Misuse, Remedy, TransactionCause, TransactionError, WriteStatus,
};
pub use milena_wire::records::Header;
pub use record::{ProducerRecord, RecordMetadata};
pub use send::TrySendError;
pub use transaction::Transaction;

use crate::{
    config::{ProducerConfig, ReloadError},
    reachability::{self, BootstrapError, UnavailableTopic, UnreachableBroker},
};
use shared::ProducerShared;

/// A Kafka producer. Clones share it. Dropping the last clone closes it without sending the remaining records; call
/// [`Producer::close`] or [`Producer::flush`] before.
///
/// ```no_run
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use milena_client::{
///     config::ProducerConfig,
///     producer::{Producer, ProducerRecord},
/// };
///
/// let producer = Producer::new(ProducerConfig::builder("localhost:9092"))?;
/// let written = producer
///     .send(ProducerRecord::new("letters").key("milena").value("Dear Milena,"))
///     .await?;
/// println!("partition {}, offset {:?}", written.partition, written.offset);
/// producer.close().await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Producer {
    owner: Arc<Owner>,
}

/// Closes the producer when the last clone is dropped.
#[derive(Debug)]
struct Owner {
    shared: Arc<ProducerShared>,
}

impl Producer {
    /// The configuration of the producer.
    pub fn config(&self) -> &ProducerConfig {
        &self.shared().config
    }

    /// Waits until one bootstrap server has responded, up to `within`. The error has the reason of each address:
    /// refused, name unknown, timed out, and so on. Without this call a client retries without end, and logs the
    /// reasons.
    pub async fn connect(&self, within: Duration) -> Result<(), BootstrapError> {
        reachability::connect(&self.shared().metadata, within).await
    }

    /// Reads the certificates of `ssl.*` again, for the connections from now on. Clients look at the files every ten seconds
    /// by themselves.
    ///
    /// Returns whether anything changed. The present certificates stay if a file cannot be used.
    pub fn reload_certificates(&self) -> Result<bool, ReloadError> {
        self.shared().config.security.reload()
    }

    /// The brokers and bootstrap servers whose last connection attempt failed.
    pub fn unreachable_brokers(&self) -> Vec<UnreachableBroker> {
        self.shared().connections.unreachable()
    }

    /// Topics that this producer writes to and that the cluster reports an error for, such as a missing topic.
    pub fn unavailable_topics(&self) -> Vec<UnavailableTopic> {
        let cache = self.shared().metadata.cache();
        let errors = cache.topic_errors().map(|(topic, code)| UnavailableTopic {
            topic: topic.to_string(),
            reason: code.to_string(),
        });
        errors.collect()
    }

    fn shared(&self) -> &Arc<ProducerShared> {
        &self.owner.shared
    }
}

impl Drop for Owner {
    fn drop(&mut self) {
        self.shared.shut_down();
    }
}
