//! Creation of a producer.

use std::{
    hash::{BuildHasher, RandomState},
    sync::Arc,
};

use bytestring::ByteString;
use milena_machines::produce::{Sender, SenderConfig, Target, TransactionConfig};

use super::{
    Owner, Producer,
    buffer::Limits,
    compressors::Compressors,
    error::NewProducerError,
    memory::Memory,
    partition::{self, Partitioner},
    shared::{Network, ProducerCore, ProducerShared},
};
use crate::{
    config::{ConfigErrors, ProducerConfig},
    coordinator::{Coordinator, CoordinatorKind},
    io::Io,
    metadata::Metadata,
    metrics::{ProducerMetrics, Window},
    net::{Connections, client_settings},
};

/// Memory for idle response buffers; Produce responses are small.
const IDLE_BUFFER_BYTES: usize = 1 << 20;

impl Producer {
    /// Creates a producer from a configuration, its builder, or a map of settings. It does not contact a broker.
    pub fn new<C>(config: C) -> Result<Self, NewProducerError>
    where
        C: TryInto<ProducerConfig>,
        ConfigErrors: From<C::Error>,
    {
        let config = config.try_into().map_err(ConfigErrors::from)?;
        let partitioner = partition::configured(&config);
        Self::make(config, partitioner)
    }

    /// Creates a producer with a custom partitioner, in place of `partitioner.class`.
    pub fn with_partitioner<C>(config: C, partitioner: Arc<dyn Partitioner>) -> Result<Self, NewProducerError>
    where
        C: TryInto<ProducerConfig>,
        ConfigErrors: From<C::Error>,
    {
        Self::make(config.try_into().map_err(ConfigErrors::from)?, partitioner)
    }

    fn make(config: ProducerConfig, partitioner: Arc<dyn Partitioner>) -> Result<Self, NewProducerError> {
        for note in &config.notes {
            tracing::warn!(event = "config_note", "{note}");
        }
        let io = Io::start().map_err(|error| NewProducerError::Io(error.to_string()))?;
        let runtime = Io::of_records(config.io).map_err(|error| NewProducerError::Io(error.to_string()))?;
        let settings = Arc::new(client_settings!(&config, true, IDLE_BUFFER_BYTES));
        let connections = Connections::with_runtime(io.clone(), runtime, settings);
        let metadata = Metadata::start(connections.clone());
        let sender = Sender::new(sender_config(&config), RandomState::new().hash_one("sender"));
        let transactions = config.transactional_id.as_deref().map(|id| {
            let id = ByteString::from(id);
            Coordinator::start(metadata.clone(), CoordinatorKind::Transaction, id)
        });
        // A single batch must fit into `buffer.memory`.
        let batch_size = config.batch_size.min(config.buffer_memory).max(1);
        // `batch.size=0` means one record per batch, at any load.
        let batch_max = match config.batch_size {
            0 => batch_size,
            _ => config.batch_size_max.min(config.buffer_memory).max(batch_size),
        };
        let limits = Limits {
            memory: Memory::new(config.buffer_memory, batch_size, batch_max),
            batch_size,
            batch_max,
            compressors: Compressors::new(config.compression),
        };
        let window = Window {
            samples: usize::try_from(config.metrics_num_samples).unwrap_or(1),
            length_ms: config.metrics_sample_window_ms,
        };
        let metrics = ProducerMetrics::new(window, config.client_id.clone());
        let core = ProducerCore::new(sender, transactions.clone(), metrics);
        let network = Network {
            io,
            connections,
            metadata,
        };
        let shared = ProducerShared::start(config, network, limits, partitioner, core);
        if let Some(transactions) = transactions {
            shared.watch(&transactions, &Target::TransactionCoordinator);
        }
        let owner = Arc::new(Owner { shared });
        Ok(Self { owner })
    }
}

fn sender_config(config: &ProducerConfig) -> SenderConfig {
    SenderConfig {
        acks: i16::from(config.acks),
        idempotent: config.enable_idempotence,
        max_in_flight: config.max_in_flight_requests_per_connection,
        retries: config.retries,
        delivery_timeout_ms: i64::from(config.delivery_timeout_ms),
        request_timeout_ms: i64::from(config.request_timeout_ms),
        retry_backoff_ms: config.retry_backoff_ms,
        retry_backoff_max_ms: config.retry_backoff_max_ms,
        max_request_bytes: config.max_request_size,
        transaction: config.transactional_id.as_deref().map(|id| TransactionConfig {
            transactional_id: ByteString::from(id),
            timeout_ms: config.transaction_timeout_ms,
        }),
    }
}
