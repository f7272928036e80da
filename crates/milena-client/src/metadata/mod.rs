//! Cluster metadata.
//!
//! [`MetadataCache`] holds the brokers, topics and partitions. [`Refresher`] decides when to request them and applies
//! the response; neither has a socket or a clock. [`Metadata`] sends the requests to a broker that is likely to
//! respond.

mod cache;
mod choose;
mod driver;
mod notices;
mod refresh;

#[cfg(test)]
mod tests;

pub(crate) use cache::{Broker, LeaderHint, MetadataCache, Topic};
pub(crate) use driver::Metadata;
pub(crate) use refresh::{MetadataError, Refresh, Refresher, TopicSelection, VERSION_MIN};
