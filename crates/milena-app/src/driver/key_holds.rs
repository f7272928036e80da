//! Key holds: reads the held-keys topics and the commits of their group.
//!
//! The protocol is described in `milena_machines::app::key_holds`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytestring::ByteString;
use milena_client::{
    admin::{Admin, AdminError, OffsetAndMetadata, OffsetSpec},
    config::ConfigMap,
    consumer::{Consumer, ListenerError, TopicPartition},
};
use milena_machines::app::{CommittedOffset, HeldRecord, PartitionId, Role, commit_map};
use tokio::sync::Notify;

use super::Engine;
use crate::{
    failure,
    policy::RetryOrdering,
    route::Route,
    topics::{HELD, held_topic},
};

/// The time that a poll waits before the position is checked.
const POLL: Duration = Duration::from_millis(200);

/// Access to the held-keys topics of an engine.
#[derive(Debug)]
pub(crate) struct HeldTopics {
    admin: Admin,
    /// The group whose records are held.
    owner: String,
    /// The group that reads them.
    group: ByteString,
    /// Of a consumer that assigns partitions itself and commits nothing.
    config: ConfigMap,
    /// Notified when the scheduler asks which keys are free.
    check_requested: Notify,
}

/// The group that reads the held-keys topics of another group.
pub(crate) fn held_group(group: &str) -> String {
    format!("{group}{HELD}")
}

/// Whether a route keeps the order of keys through retries.
pub(crate) fn keeps_key_order(route: &Route) -> bool {
    route.policy.retry.ordering == RetryOrdering::HoldKey
}

/// The held-keys partition of a main partition.
fn held_partition(main: &TopicPartition) -> TopicPartition {
    TopicPartition::new(held_topic(&main.topic), main.partition)
}

impl HeldTopics {
    pub(super) fn new(admin: Admin, group: &str, config: ConfigMap) -> Self {
        Self {
            admin,
            owner: group.to_owned(),
            group: ByteString::from(held_group(group)),
            config,
            check_requested: Notify::new(),
        }
    }

    pub(super) fn request_check(&self) {
        self.check_requested.notify_one();
    }

    /// The committed offsets of the group.
    async fn committed(&self) -> Result<BTreeMap<TopicPartition, OffsetAndMetadata>, AdminError> {
        let mut results = self.admin.list_group_offsets([self.group.clone()]).await;
        results.remove(&self.group).unwrap_or_else(|| Ok(BTreeMap::new()))
    }

    /// The log end offset, with the records of open transactions.
    async fn end(&self, partition: &TopicPartition) -> Result<i64, AdminError> {
        let request = [(partition.clone(), OffsetSpec::Latest)];
        let mut results = self.admin.list_offsets(request).await;
        let found = results.remove(partition).unwrap_or(Ok(None))?;
        Ok(found.map_or(0, |found| found.offset))
    }

    /// The last offset of a partition: an upper bound for a record whose offset the broker did not return. A key that is
    /// held up to a higher offset is only freed a little later.
    pub(super) async fn last_offset(&self, topic: &str, partition: i32) -> Result<i64, AdminError> {
        let end = self.end(&TopicPartition::new(topic, partition)).await?;
        Ok(end - 1)
    }

    /// The unfinished records that are held for a main partition.
    pub(super) async fn read(&self, main: &TopicPartition) -> Result<Vec<HeldRecord>, ListenerError> {
        let partition = held_partition(main);
        let committed = self.committed().await?.remove(&partition);
        let end = self.end(&partition).await?;
        let begin = committed.as_ref().map_or(0, |committed| committed.offset);
        let mut held = vec![];
        if begin >= end {
            return Ok(held);
        }
        let mut consumer = Consumer::new(self.config.clone())?;
        consumer.assign([partition.clone()])?;
        consumer.seek(&partition, begin)?;
        while consumer.position(&partition).await?.offset < end {
            let records = consumer.poll(POLL).await?;
            // Another group may hold its records in the same topic.
            let ours = records.iter().filter(|record| {
                let failure_record = failure::read(record.headers());
                failure_record
                    .and_then(|failure_record| failure_record.group)
                    .is_none_or(|group| group == self.owner)
            });
            held.extend(ours.map(|record| HeldRecord {
                key: record.key().map(<[u8]>::to_vec),
                offset: record.offset(),
            }));
        }
        consumer.close().await?;
        let finished = committed.and_then(|it| commit_map::decode(&it.metadata, it.offset).ok());
        let finished = finished.unwrap_or_default();
        held.retain(|record| {
            !finished
                .iter()
                .any(|range| range.start <= record.offset && record.offset < range.end)
        });
        Ok(held)
    }
}

impl Engine {
    /// Reads the held records of partitions that were just assigned, if their handlers keep the order of keys.
    pub(super) async fn read_held(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<(TopicPartition, Vec<HeldRecord>)>, ListenerError> {
        let Some(topics) = &self.key_holds else {
            return Ok(vec![]);
        };
        let mut all = vec![];
        for partition in partitions {
            let found = self.routing.find_main(&partition.topic);
            if found.is_some_and(|found| found.keeps_key_order) {
                all.push((partition.clone(), topics.read(partition).await?));
            }
        }
        Ok(all)
    }

    /// Waits for main partitions whose held keys are to be checked.
    async fn key_hold_checks(&self, topics: &HeldTopics) -> Vec<(PartitionId, TopicPartition)> {
        loop {
            {
                let mut state = self.state();
                let ids = std::mem::take(&mut state.key_hold_checks);
                let named = ids
                    .iter()
                    .filter_map(|id| Some((*id, state.scheduler.partition(*id)?.clone())));
                let named: Vec<_> = named.collect();
                if !named.is_empty() {
                    return named;
                }
            }
            topics.check_requested.notified().await;
        }
    }
}

/// The task that checks which keys are free. It ends when it is aborted.
pub(super) async fn run(engine: Arc<Engine>) {
    let Some(topics) = &engine.key_holds else { return };
    loop {
        let checks = engine.key_hold_checks(topics).await;
        let committed = match topics.committed().await {
            Ok(committed) => committed,
            Err(error) => {
                tracing::warn!(event = "held_keys_check_failed", %error, group = &*topics.group,
                    "reading the offsets of group {} failed, retrying: {error}", &*topics.group);
                continue;
            }
        };
        engine.act(None, |state, _| {
            for (id, main) in checks {
                if let Some(found) = committed.get(&held_partition(&main)) {
                    let found = CommittedOffset {
                        offset: found.offset,
                        metadata: found.metadata.to_string(),
                    };
                    state.scheduler.handle_held_commit(id, &found);
                }
            }
        });
    }
}

/// The group that reads the partitions of a role.
pub(super) fn group_of(group: &str, role: Role) -> String {
    match role {
        Role::Main => group.to_owned(),
        Role::RetryTopic { delay_ms, .. } => format!("{group}.{}", milena_machines::app::retry_topic_suffix(delay_ms)),
        Role::HeldKeys => held_group(group),
    }
}
