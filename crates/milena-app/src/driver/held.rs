//! Keys that stay in order through retries: what is held of them, and what of that is done.
//!
//! The rules are the machine's: see `milena_machines::app::fence`.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use bytestring::ByteString;
use milena_client::{
    admin::{Admin, AdminError, OffsetAndMetadata, OffsetSpec},
    config::ConfigMap,
    consumer::{Consumer, ListenerError, TopicPartition},
};
use milena_machines::app::{CommittedOffset, HeldRecord, PartitionId, Role, commit_map};

use super::Engine;
use crate::{
    failure,
    policy::RetryOrdering,
    route::Route,
    topics::{HELD, held_topic},
};

/// How long a poll waits before it is looked whether all is read.
const POLL: Duration = Duration::from_millis(200);

/// What an engine needs to keep keys in order.
#[derive(Debug)]
pub(crate) struct HeldTopics {
    admin: Admin,
    /// The group whose records are held.
    owner: String,
    /// The group that reads them.
    group: ByteString,
    /// Of a consumer that reads partitions by hand, and commits nothing.
    config: ConfigMap,
}

/// The group that reads what is held for another.
pub(crate) fn held_group(group: &str) -> String {
    format!("{group}{HELD}")
}

/// Whether keys stay in order through the retries of a route.
pub(crate) fn keeps_key_order(route: &Route) -> bool {
    route.policy.retry.ordering == RetryOrdering::HoldKey
}

/// The partition that holds records of this one.
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
        }
    }

    /// What the group has committed.
    async fn committed(&self) -> Result<BTreeMap<TopicPartition, OffsetAndMetadata>, AdminError> {
        let mut results = self.admin.list_group_offsets([self.group.clone()]).await;
        results.remove(&self.group).unwrap_or_else(|| Ok(BTreeMap::new()))
    }

    /// The first offset that is not written; what open transactions have written counts.
    async fn end(&self, partition: &TopicPartition) -> Result<i64, AdminError> {
        let asked = [(partition.clone(), OffsetSpec::Latest)];
        let mut results = self.admin.list_offsets(asked).await;
        let found = results.remove(partition).unwrap_or(Ok(None))?;
        Ok(found.map_or(0, |found| found.offset))
    }

    /// Where a record is that was written before, if the broker did not say so: no later than the last that there is. A
    /// fence that is a little too far away frees its key a little too late.
    pub(super) async fn last(&self, topic: &str, partition: i32) -> Result<i64, AdminError> {
        let end = self.end(&TopicPartition::new(topic, partition)).await?;
        Ok(end - 1)
    }

    /// What is held for a main partition and not done.
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
            // Another group may read the topic and hold its records beside ours.
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
    /// Reads what is held for partitions that were just assigned, as far as their keys stay in order.
    pub(super) async fn read_held(
        &self,
        partitions: &[TopicPartition],
    ) -> Result<Vec<(TopicPartition, Vec<HeldRecord>)>, ListenerError> {
        let Some(topics) = &self.held else {
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

    /// The main partitions that the machine asks for, with their names.
    async fn asked(&self) -> Vec<(PartitionId, TopicPartition)> {
        loop {
            {
                let mut state = self.state();
                let ids = std::mem::take(&mut state.asked_held);
                let named = ids
                    .iter()
                    .filter_map(|id| Some((*id, state.work.partition(*id)?.clone())));
                let named: Vec<_> = named.collect();
                if !named.is_empty() {
                    return named;
                }
            }
            self.held_asked.notified().await;
        }
    }
}

/// The task that asks which keys are free. It ends when it is aborted.
pub(super) async fn run(engine: Arc<Engine>) {
    let Some(topics) = &engine.held else { return };
    loop {
        let asked = engine.asked().await;
        let committed = match topics.committed().await {
            Ok(committed) => committed,
            Err(error) => {
                tracing::warn!(%error, group = &*topics.group, "which keys are free is not known; it is asked again");
                continue;
            }
        };
        engine.act(None, |state, _| {
            for (id, main) in asked {
                if let Some(found) = committed.get(&held_partition(&main)) {
                    let found = CommittedOffset {
                        offset: found.offset,
                        metadata: found.metadata.to_string(),
                    };
                    state.work.handle_held_commit(id, &found);
                }
            }
        });
    }
}

/// The name of the group that reads a partition for this one.
pub(super) fn group_of(group: &str, role: Role) -> String {
    match role {
        Role::Main => group.to_owned(),
        Role::RetryTopic { delay_ms, .. } => format!("{group}.{}", milena_machines::app::retry_topic_suffix(delay_ms)),
        Role::HeldKeys => held_group(group),
    }
}
