//! Keys of a producer that only librdkafka has. Those that mean what a key of Kafka means are aliases in
//! `producer_table.rs`; these do not, and so only values are accepted that ask for what this client does anyway.

use super::{ConfigType, Definition, definition::definitions};

/// Sorted by name. Defaults are librdkafka's.
pub(super) const LIBRDKAFKA_PRODUCER_CONFIGS: &[Definition] = definitions! {
    "batch.num.messages" Int = "10000", default_only("batches are measured in bytes; use batch.size"),
        about("How many records a batch has at most.");
    "compression.level" Int = "-1",
        default_only("use compression.gzip.level, compression.lz4.level or compression.zstd.level"),
        about("How hard the codec works, whichever it is.");
    "delivery.report.only.error" Boolean = "false", default_only("every send has its own outcome; drop those you do not need"),
        about("Whether only failures are reported.");
    "enable.gapless.guarantee" Boolean = "false",
        default_only("use a transaction: none of its records is seen if one of them fails"),
        about("Whether one failed record ends the producer.");
    "message.copy.max.bytes" Int = "65535", default_only("every record is copied into its batch once, when it is sent"),
        about("Below which size a record is copied.");
    "produce.offset.report" Boolean = "false", default_only("librdkafka ignores it; the outcome of a send has the offset"),
        about("Nothing any more.");
    "queue.buffering.backpressure.threshold" Int = "1",
        default_only("a batch is closed when it can leave, and collects records until then"),
        about("How many requests wait before batches do.");
    "queue.buffering.max.messages" Int = "100000", default_only("what waits is measured in bytes; use buffer.memory"),
        about("How many records may wait.");
    "queuing.strategy" String = "fifo", default_only("records leave in the order in which they were sent"),
        about("Which records leave first.");
    "sticky.partitioning.linger.ms" Int = "10",
        default_only("a record without a key stays with a partition until it has got a batch; use batch.size"),
        about("How long records without a key go to one partition.");
};

/// Keys of `librdkafka_table.rs` that a producer does not have, or for another reason.
pub(super) const CONSUMERS_ONLY: &[&str] = &[
    "consume.callback.max.messages",
    "enable.auto.offset.store",
    "enable.partition.eof",
    "fetch.error.backoff.ms",
    "fetch.queue.backoff.ms",
    "group.protocol.type",
    "message.copy.max.bytes",
    "offset.store.method",
    "queued.min.messages",
    "topic.blacklist",
];
