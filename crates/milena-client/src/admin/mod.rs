//! The admin client: describes and changes a cluster.
//!
//! Calls take many items at once. Items are grouped by the broker that serves them (`route.rs`), each broker gets one
//! request for its items, and retriable failures are retried (`call.rs`). The other files have one family of calls each.

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
    config::{AdminConfig, ReloadError},
    io::Io,
    metadata::Metadata,
    net::Connections,
    reachability::{self, BootstrapError, UnreachableBroker},
};

/// A result for each item.
pub type Results<K, V> = BTreeMap<K, Result<V, AdminError>>;

/// A list collected from all brokers, with the brokers that failed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Listed<T> {
    pub found: Vec<T>,
    /// The errors of brokers whose entries are missing.
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

    /// The list if it is complete, else the first error.
    pub fn all(self) -> Result<Vec<T>, AdminError> {
        match self.failed.into_values().next() {
            Some(error) => Err(error),
            None => Ok(self.found),
        }
    }
}

/// An admin client: manages topics, configs, groups, transactions, ACLs and quotas of a cluster.
///
/// It is cheap to clone, and clones share their connections. Calls take many items and return a result for each, so that
/// one item can fail alone. Retriable failures are retried, with the current leader or coordinator, until
/// `default.api.timeout.ms` or the limit of [`within`](Self::within).
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
/// All calls may be dropped before they end. Then no more requests are sent, but the broker may still process those in
/// flight. The same is true of [`AdminError::TimedOut`]. A repeated call may therefore fail because its change was made
/// already, as in `TOPIC_ALREADY_EXISTS`.
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
    /// Returns the same client with another timeout for its calls.
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

    /// Waits until a bootstrap server has responded, at most for `within`. The error has the failure of each address:
    /// refused, unknown host, timed out, and so on. Without this call a client retries forever, and logs the failures.
    pub async fn connect(&self, within: Duration) -> Result<(), BootstrapError> {
        reachability::connect(&self.inner.metadata, within).await
    }

    /// Reads the certificates of `ssl.*` again, for the connections from now on. Clients look at the files every ten seconds
    /// by themselves.
    ///
    /// Returns whether anything changed. The present certificates stay if a file cannot be used.
    pub fn reload_certificates(&self) -> Result<bool, ReloadError> {
        self.inner.config.security.reload()
    }

    /// The brokers and bootstrap servers whose last connection attempt failed, each with its failure.
    pub fn unreachable_brokers(&self) -> Vec<UnreachableBroker> {
        self.inner.connections.unreachable()
    }

    /// Cancels all calls of this client and its clones, and closes their connections. Dropping the last clone does the
    /// same. Neither waits.
    pub fn close(&self) {
        self.inner.metadata.close();
        self.inner.connections.close();
    }

    /// The ids of all known brokers.
    async fn broker_ids(&self) -> Result<Vec<i32>, AdminError> {
        let cluster = self.describe_cluster().await?;
        // Brokers that become known later are not part of this list.
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

/// A copy that does not keep the response in memory.
fn own(text: &ByteString) -> ByteString {
    ByteString::from(&**text)
}

fn own_option(text: &Option<ByteString>) -> Option<ByteString> {
    text.as_ref().map(own)
}

/// Partitions grouped by topic, in order.
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
