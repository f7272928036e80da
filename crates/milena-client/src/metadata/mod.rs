//! What a client knows of the cluster.
//!
//! [`MetadataCache`] is what is known. [`Refresher`] decides when to ask for more, and what follows from the answer; both
//! know no socket and no clock. [`Metadata`] sends what the refresher wants to a broker that is likely to answer.

mod cache;
mod choose;
mod driver;
mod notices;
mod refresh;

#[cfg(test)]
mod tests;

#[allow(
    unused_imports,
    reason = "made for all clients; the producer and the admin client need the rest"
)]
pub(crate) use cache::{Broker, Leader, LeaderHint, MetadataCache, Partition, Topic};
pub(crate) use driver::Metadata;
pub(crate) use refresh::{MetadataError, Refresh, Refresher, TopicSelection, VERSION_MIN};
