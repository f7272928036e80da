//! Keys of the consumer that only librdkafka has. They take only values that ask for what this client does anyway.

use milena_config::{Definition, definitions};

/// Sorted by name. Defaults are librdkafka's.
pub(crate) const LIBRDKAFKA_CONSUMER_CONFIGS: &[Definition] = definitions! {
    "consume.callback.max.messages" Int = "0", default_only("records come from poll; use max.poll.records"),
        about("Maximum number of records for one callback.");
    "enable.auto.offset.store" Boolean = "true",
        default_only("commit the offsets of handled records yourself, with enable.auto.commit=false"),
        about("Whether returned records count as handled.");
    "enable.partition.eof" Boolean = "false",
        default_only("compare the position with the end offset, or ask for the lag"),
        about("Whether the end of a partition is an event.");
    "fetch.error.backoff.ms" Int = "500", default_only("use retry.backoff.ms"),
        about("Backoff after a failed fetch.");
    "fetch.queue.backoff.ms" Int = "1000",
        default_only("the next fetch is sent as soon as milena.fetch.buffer.bytes allows it"),
        about("Backoff after a full queue.");
    "group.protocol.type" String = "consumer", default_only("the group of a consumer has this type"),
        about("Type of a classic group.");
    "message.copy.max.bytes" Int = "65535", default_only("records are never copied"),
        about("Size up to which records are copied.");
    "offset.store.method" String = "broker", default_only("offsets are stored by the broker"),
        about("Where offsets are stored.");
    "queued.min.messages" Int = "100000", default_only("use milena.fetch.buffer.bytes"),
        about("Number of records to buffer for each partition.");
    "topic.blacklist" String = "", default_only("exclude topics in the pattern of the subscription"),
        about("Topics that are ignored.");
};
