//! The environment of a test: brokers, topics, and committed offsets.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use milena_client::{
    admin::{Admin, ConfigChange, ConfigResource, NewTopic},
    config::AdminConfig,
    consumer::{OffsetAndMetadata, TopicPartition},
};
use milena_machines::app::commit_map;

use crate::{any_cluster::AnyCluster, handled_log::RecordId};

pub const PARTITIONS: i32 = 4;
/// One group per protocol; each reads everything.
pub const PROTOCOLS: [&str; 2] = ["classic", "consumer"];

/// The time limit of every wait. It is generous, because it only matters when a test fails.
const TIMEOUT: Duration = Duration::from_secs(240);
const TICK: Duration = Duration::from_millis(50);

pub struct Environment {
    pub cluster: AnyCluster,
}

impl Environment {
    pub fn new(cluster: AnyCluster) -> Self {
        Self { cluster }
    }

    pub fn address(&self) -> &str {
        self.cluster.address()
    }

    /// A new client: its connections belong to the current runtime.
    pub fn admin(&self) -> Admin {
        Admin::new(AdminConfig::builder(self.address())).unwrap()
    }

    pub async fn create(&self, topic: &str, partitions: i32) {
        let created = self
            .admin()
            .create_topics([NewTopic::new(topic).partitions(partitions)])
            .await;
        for (name, created) in created {
            created.unwrap_or_else(|error| panic!("cannot create {name}: {error}"));
        }
        // The brokers of a cluster learn of a topic one after the other, and an app asks any of them at its start.
        for broker in self.address().split(',') {
            until("every broker knows the topic", async || {
                let admin = Admin::new(AdminConfig::builder(broker)).unwrap();
                admin.describe_topics([topic]).await.values().all(Result::is_ok)
            })
            .await;
        }
    }

    /// Raises the session timeout of a consumer-protocol group, so that only the test itself takes partitions from
    /// members.
    pub async fn raise_session_timeout(&self, group: &str) {
        let session = ConfigChange::Set("45000".into());
        let change = (ConfigResource::group(group), "consumer.session.timeout.ms", session);
        for (resource, changed) in self.admin().alter_configs([change]).await {
            changed.unwrap_or_else(|error| panic!("{resource}: {error}"));
        }
    }

    async fn offsets(&self, group: &str) -> BTreeMap<TopicPartition, OffsetAndMetadata> {
        let mut offsets = self.admin().list_group_offsets([group]).await;
        let offsets = offsets.remove(group).unwrap();
        offsets.unwrap_or_else(|error| panic!("the offsets of {group}: {error}"))
    }

    /// The committed offset and metadata of a partition.
    pub async fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let offsets = self.offsets(group).await;
        offsets
            .get(&TopicPartition::new(topic, partition))
            .map(|committed| committed.offset)
    }

    /// The number of finished records that a group has committed, and how many of them are in the maps above the
    /// offsets, by partition.
    pub async fn done(&self, group: &str, topic: &str) -> (BTreeSet<RecordId>, Vec<usize>) {
        let offsets = self.offsets(group).await;
        let mut done = BTreeSet::new();
        let mut above = vec![];
        for partition in 0..PARTITIONS {
            let committed = offsets.get(&TopicPartition::new(topic, partition));
            let Some(committed) = committed else {
                above.push(0);
                continue;
            };
            let finished = commit_map::decode(&committed.metadata, committed.offset).unwrap();
            let numbers = finished.iter().flat_map(|run| run.start..run.end);
            above.push(numbers.clone().count());
            done.extend((0..committed.offset).chain(numbers).map(|number| (partition, number)));
        }
        (done, above)
    }

    /// Whether all of a topic is committed and the maps are empty.
    pub async fn assert_all_committed(&self, group: &str, topic: &str, counts: &[i64]) {
        let offsets = self.offsets(group).await;
        for (partition, count) in (0..).zip(counts) {
            let committed = &offsets[&TopicPartition::new(topic, partition)];
            assert_eq!(
                (committed.offset, &*committed.metadata),
                (*count, ""),
                "{group}, {topic}-{partition}"
            );
        }
    }
}

/// Waits until a condition holds.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + TIMEOUT;
    while !is_so().await {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(TICK).await;
    }
}
