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

pub(crate) use cache::{Broker, LeaderHint, MetadataCache, Topic};
pub(crate) use driver::Metadata;
pub(crate) use refresh::{MetadataError, Refresh, Refresher, TopicSelection, VERSION_MIN};
