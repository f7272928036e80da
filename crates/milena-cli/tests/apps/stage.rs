//! What a test stands on: brokers, topics, and what groups have committed.

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

use crate::{ledger::Place, world::World};

pub const PARTITIONS: i32 = 4;
/// There is a group for each protocol, and both read everything.
pub const PROTOCOLS: [&str; 2] = ["classic", "consumer"];

/// How long a test waits for what must come. It is long, because it only counts when something is wrong.
const PATIENCE: Duration = Duration::from_secs(240);
const TICK: Duration = Duration::from_millis(50);

pub struct Stage {
    pub world: World,
}

impl Stage {
    pub fn new(world: World) -> Self {
        Self { world }
    }

    pub fn address(&self) -> &str {
        self.world.address()
    }

    /// Its connections are of the runtime that asks.
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
    }

    /// Lets members of a group of the broker's protocol be silent for long before they are given up, so that only what the
    /// test does takes partitions from them.
    pub async fn be_patient_with(&self, group: &str) {
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

    /// What a group has committed of a partition.
    pub async fn committed(&self, group: &str, topic: &str, partition: i32) -> Option<i64> {
        let offsets = self.offsets(group).await;
        offsets
            .get(&TopicPartition::new(topic, partition))
            .map(|committed| committed.offset)
    }

    /// All that a group has committed as done of a topic, and how much of it stands in the maps above the offsets, by
    /// partition.
    pub async fn done(&self, group: &str, topic: &str) -> (BTreeSet<Place>, Vec<usize>) {
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

    /// All of a topic is committed, and nothing is left to tell above that.
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

/// Waits until something is so.
pub async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !is_so().await {
        assert!(Instant::now() < deadline, "in vain: {what}");
        tokio::time::sleep(TICK).await;
    }
}
