//! Keys of a client metrics subscription (KIP-714). Types, defaults and ranges are Kafka's.

use milena_config::{Allowed::Between, Definition, definitions};

/// Sorted by name.
pub(crate) const CLIENT_METRICS_CONFIGS: &[Definition] = definitions! {
    "interval.ms" Int = "300000", allowed(Between(100, 3_600_000)),
        about("The interval at which clients push their metrics.");
    "match" List = "",
        about("The clients that the subscription is for, each as selector=regular expression; empty for all clients.");
    "metrics" List = "",
        about("The prefixes of the metrics that clients push; * for all metrics.");
};
