//! Keys of the producer that only librdkafka has. They take only values that ask for what this client does anyway.

use milena_config::{Definition, definitions};

/// Sorted by name. Defaults are librdkafka's.
pub(crate) const LIBRDKAFKA_PRODUCER_CONFIGS: &[Definition] = definitions! {
    "batch.num.messages" Int = "10000", default_only("batches are measured in bytes; use batch.size"),
        about("Maximum number of records in a batch.");
    "compression.level" Int = "-1",
        default_only("use compression.gzip.level, compression.lz4.level or compression.zstd.level"),
        about("Compression level of the codec.");
    "delivery.report.only.error" Boolean = "false",
        default_only("every send has a delivery of its own; drop those you do not need"),
        about("Whether only failures are reported.");
    "enable.gapless.guarantee" Boolean = "false",
        default_only("use a transaction: if a record fails, none of its records becomes visible"),
        about("Whether a failed record stops the producer.");
    "message.copy.max.bytes" Int = "65535", default_only("every record is copied into its batch once, when it is sent"),
        about("Size up to which records are copied.");
    "produce.offset.report" Boolean = "false", default_only("librdkafka ignores it; the delivery has the offset"),
        about("No effect any more.");
    "queue.buffering.backpressure.threshold" Int = "1",
        default_only("a batch collects records until it can be sent"),
        about("Number of waiting requests from which batches wait.");
    "queue.buffering.max.messages" Int = "100000", default_only("the buffer is measured in bytes; use buffer.memory"),
        about("Maximum number of buffered records.");
    "queuing.strategy" String = "fifo", default_only("records are sent in the order of the calls"),
        about("Order in which records are sent.");
    "sticky.partitioning.linger.ms" Int = "10",
        default_only("records without a key stay with a partition for one batch; use batch.size"),
        about("Time for which records without a key go to one partition.");
};
