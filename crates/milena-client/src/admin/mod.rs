//! The admin client: what there is in a cluster, and how it is changed.
//!
//! Calls take many items at once. Items are sorted by the broker that must be asked (`route.rs`), each broker is asked
//! once for all of its own, and what can be tried again is (`ask.rs`). The other files have one family of calls each.

mod acls;
mod call;
mod cluster;
mod codes;
mod configs;
mod error;
mod features;
mod group_members;
mod group_offsets;
mod groups;
mod log_dirs;
mod new;
mod new_topic;
mod partitions;
mod producers;
mod quotas;
mod reassignments;
mod records;
mod reset;
mod route;
mod scram;
mod topics;
mod transactions;

pub use acls::{AclBinding, AclFilter, AclOperation, AclPermission, AclResourceType, PatternType};
pub use cluster::{ClusterBroker, ClusterDescription};
pub use configs::{ConfigChange, ConfigEntry, ConfigResource, ConfigSource, ConfigSynonym, ResourceKind};
pub use error::{AdminError, NewAdminError};
pub use features::{FeatureUpdate, Features, UpgradeType, VersionLevels};
pub use group_members::MemberToRemove;
pub use groups::{GroupDescription, GroupFilter, GroupListing, GroupType, MemberDescription};
pub use log_dirs::{LogDir, LogDirReplica};
pub use milena_machines::member::OffsetAndMetadata;
pub use milena_wire::{Uuid, errors::ErrorCode};
pub use new_topic::{CreatedTopic, NewPartitions, NewTopic};
pub use partitions::ElectionType;
pub use producers::ProducerState;
pub use quotas::{QuotaChange, QuotaEntity, QuotaFilter, QuotaMatch};
pub use reassignments::Reassignment;
pub use records::{ListedOffset, OffsetSpec};
pub use reset::{OffsetTarget, PlannedOffset};
pub use scram::{ScramChange, ScramCredential, ScramMechanism};
pub use topics::{TopicDescription, TopicListing};
pub use transactions::{
    AbortTransaction, FencedProducer, TransactionDescription, TransactionFilter, TransactionListing,
};

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytestring::ByteString;
use milena_machines::TopicPartition;

use crate::{
    config::AdminConfig,
    io::Io,
    metadata::Metadata,
    net::Connections,
    reachability::{self, BootstrapError, UnreachableBroker},
};

/// A result for each item.
pub type Results<K, V> = BTreeMap<K, Result<V, AdminError>>;

/// What all brokers have listed, those that could not be asked apart.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T> {
    pub found: Vec<T>,
    /// Why the list lacks what these brokers have.
    pub failed: BTreeMap<i32, AdminError>,
}

impl<T> Listed<T> {
    fn of(results: Results<i32, Vec<T>>) -> Self {
        let (mut found, mut failed) = (vec![], BTreeMap::new());
        for (broker, result) in results {
            match result {
                Ok(listed) => found.extend(listed),
                Err(error) => drop(failed.insert(broker, error)),
            }
        }
        Self { found, failed }
    }

    /// The list if it is whole, or why it is not.
    pub fn all(self) -> Result<Vec<T>, AdminError> {
        match self.failed.into_values().next() {
            Some(error) => Err(error),
            None => Ok(self.found),
        }
    }
}

/// Looks after a cluster: topics, settings, groups, transactions, and who may do what.
///
/// It is cheap to clone, and clones share their connections. Calls take many items and have a result for each, so that
/// one item's failure is not another's. What can be tried again is, with whoever leads or coordinates by then, until
/// `default.api.timeout.ms` is over, or what [`within`](Self::within) says.
///
/// ```no_run
/// use milena_client::{
///     admin::{Admin, NewTopic},
///     config::AdminConfig,
/// };
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let admin = Admin::new(AdminConfig::builder("localhost:9092"))?;
/// let created = admin.create_topics([NewTopic::new("letters").partitions(3)]).await;
/// for (name, result) in created {
///     println!("{name} has the id {:?}", result?.id);
/// }
/// # Ok(())
/// # }
/// ```
///
/// # Dropping a call
///
/// All calls may be dropped before they end. Then nothing more is sent, but what was sent goes its way: the broker may do
/// it. The same is true of [`AdminError::TimedOut`]. A call that changes something and is made again may therefore hear
/// that it has been done already, as in `TOPIC_ALREADY_EXISTS`.
#[derive(Debug, Clone)]
pub struct Admin {
    inner: Arc<Inner>,
    timeout_ms: i64,
}

#[derive(Debug)]
struct Inner {
    config: AdminConfig,
    io: Io,
    connections: Connections,
    metadata: Metadata,
}

impl Admin {
    /// The same client with another limit to how long each of its calls may take.
    #[must_use]
    pub fn within(&self, timeout: Duration) -> Self {
        Self {
            inner: Arc::clone(&self.inner),
            timeout_ms: i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX),
        }
    }

    pub fn config(&self) -> &AdminConfig {
        &self.inner.config
    }

    /// Waits until one bootstrap server has answered, but not longer than `within`. The error has the reason of each
    /// address: refused, name unknown, timed out, and so on. Without this call a client tries for ever, and logs why.
    pub async fn connect(&self, within: Duration) -> Result<(), BootstrapError> {
        reachability::connect(&self.inner.metadata, within).await
    }

    /// The brokers and bootstrap servers whose last connection attempt failed, and why. Empty if all is well.
    pub fn unreachable_brokers(&self) -> Vec<UnreachableBroker> {
        self.inner.connections.unreachable()
    }

    /// Ends all calls of this client and of its clones, and closes their connections. Dropping the last clone does the
    /// same. Neither waits.
    pub fn close(&self) {
        self.inner.metadata.close();
        self.inner.connections.close();
    }

    /// The ids of all brokers, as far as is known.
    async fn broker_ids(&self) -> Result<Vec<i32>, AdminError> {
        let cluster = self.describe_cluster().await?;
        // Those that are not known yet can be asked from now on.
        let known = self.inner.metadata.cache();
        if cluster
            .brokers
            .iter()
            .any(|broker| known.broker(broker.node.id).is_none())
        {
            self.inner.metadata.request_update(crate::metadata::Refresh::Stale);
        }
        let up = cluster.brokers.iter().filter(|broker| !broker.fenced);
        Ok(up.map(|broker| broker.node.id).collect())
    }
}

/// A copy that holds no answer in memory.
fn own(text: &ByteString) -> ByteString {
    ByteString::from(&**text)
}

fn own_option(text: &Option<ByteString>) -> Option<ByteString> {
    text.as_ref().map(own)
}

/// Partitions by their topics, in order.
fn topics_of(partitions: &[TopicPartition]) -> impl Iterator<Item = (ByteString, Vec<i32>)> {
    let mut topics: BTreeMap<ByteString, Vec<i32>> = BTreeMap::new();
    for partition in partitions {
        topics
            .entry(partition.topic.clone())
            .or_default()
            .push(partition.partition);
    }
    topics.into_iter()
}
