//! Offsets of records, and deletion of old records.

use std::collections::BTreeMap;

use milena_machines::TopicPartition;
use milena_wire::{
    api::versions,
    messages::{
        DeleteRecordsRequest, ListOffsetsRequest,
        delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic},
        list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic},
    },
};

use super::{Admin, Results, call::AdminCall, error::check, own, route::Route, topics_of};
use crate::config::IsolationLevel;

/// The record of a partition whose offset is listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OffsetSpec {
    /// The first record.
    Earliest,
    /// The end: the offset of the next record.
    Latest,
    /// The first record that is not older, in milliseconds since the epoch.
    Timestamp(i64),
    /// The record with the largest timestamp.
    MaxTimestamp,
    /// The first record in local storage, with remote storage.
    EarliestLocal,
    /// The last record in remote storage.
    LatestTiered,
}

impl OffsetSpec {
    const fn timestamp(self) -> i64 {
        match self {
            Self::Latest => -1,
            Self::Earliest => -2,
            Self::MaxTimestamp => -3,
            Self::EarliestLocal => -4,
            Self::LatestTiered => -5,
            Self::Timestamp(timestamp) => timestamp,
        }
    }

    const fn version_min(self) -> i16 {
        match self {
            Self::Earliest | Self::Latest | Self::Timestamp(_) => versions::list_offsets::ONE_OFFSET,
            Self::MaxTimestamp => versions::list_offsets::MAX_TIMESTAMP,
            Self::EarliestLocal => versions::list_offsets::EARLIEST_LOCAL,
            Self::LatestTiered => versions::list_offsets::LATEST_TIERED,
        }
    }
}

/// The offset of a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedOffset {
    pub offset: i64,
    /// The timestamp of the record in milliseconds since the epoch, if it was looked up by time.
    pub timestamp: Option<i64>,
    pub leader_epoch: Option<i32>,
}

impl Admin {
    /// Returns offsets of records; `None` without such a record. Records of open transactions count.
    pub async fn list_offsets(
        &self,
        partitions: impl IntoIterator<Item = (TopicPartition, OffsetSpec)>,
    ) -> Results<TopicPartition, Option<ListedOffset>> {
        self.list_offsets_at(partitions, IsolationLevel::ReadUncommitted).await
    }

    /// Like [`list_offsets`](Self::list_offsets); with `read_committed`, a partition ends at its last stable offset.
    pub async fn list_offsets_at(
        &self,
        partitions: impl IntoIterator<Item = (TopicPartition, OffsetSpec)>,
        isolation: IsolationLevel,
    ) -> Results<TopicPartition, Option<ListedOffset>> {
        let specs: BTreeMap<TopicPartition, OffsetSpec> = partitions.into_iter().collect();
        let committed = isolation == IsolationLevel::ReadCommitted;
        let versions = specs.values().map(|spec| spec.version_min());
        let version_min = versions
            .chain(committed.then_some(versions::list_offsets::ISOLATION_LEVEL))
            .max();
        let keys: Vec<TopicPartition> = specs.keys().cloned().collect();
        let call = AdminCall::new(
            "partition",
            |partition: &TopicPartition| Route::Leader(partition.clone()),
            move |batch| ListOffsetsRequest {
                replica_id: -1,
                isolation_level: i8::from(committed),
                topics: questions(&batch.keys, &specs),
                timeout_ms: batch.timeout_ms,
                ..Default::default()
            },
            |_, response| {
                let mut results = vec![];
                for topic in &response.topics {
                    let name = own(&topic.name);
                    for found in &topic.partitions {
                        let listed = (found.offset >= 0).then_some(ListedOffset {
                            offset: found.offset,
                            timestamp: Some(found.timestamp).filter(|timestamp| *timestamp >= 0),
                            leader_epoch: Some(found.leader_epoch).filter(|epoch| *epoch >= 0),
                        });
                        let key = TopicPartition::new(name.clone(), found.partition_index);
                        results.push((key, check(found.error_code, None).map(|()| listed)));
                    }
                }
                Ok(results)
            },
        );
        let call = call.version_min(version_min.unwrap_or(versions::list_offsets::ONE_OFFSET));
        self.call(call, keys).await
    }

    /// Deletes all records of partitions before an offset; `None` deletes up to the high watermark. Returns the new start
    /// offsets.
    pub async fn delete_records(
        &self,
        before: impl IntoIterator<Item = (TopicPartition, Option<i64>)>,
    ) -> Results<TopicPartition, i64> {
        let before: BTreeMap<TopicPartition, Option<i64>> = before.into_iter().collect();
        let keys: Vec<TopicPartition> = before.keys().cloned().collect();
        let call = AdminCall::new(
            "partition",
            |partition: &TopicPartition| Route::Leader(partition.clone()),
            move |batch| {
                let trimmed = |name: &bytestring::ByteString, number: i32| DeleteRecordsPartition {
                    partition_index: number,
                    // -1 stands for the high watermark.
                    offset: before
                        .get(&TopicPartition::new(name.clone(), number))
                        .copied()
                        .flatten()
                        .unwrap_or(-1),
                    ..Default::default()
                };
                let topics = topics_of(&batch.keys).map(|(name, numbers)| DeleteRecordsTopic {
                    partitions: numbers.into_iter().map(|number| trimmed(&name, number)).collect(),
                    name,
                    ..Default::default()
                });
                DeleteRecordsRequest {
                    topics: topics.collect(),
                    timeout_ms: batch.timeout_ms,
                    ..Default::default()
                }
            },
            |_, response| {
                let mut results = vec![];
                for topic in &response.topics {
                    let name = own(&topic.name);
                    for partition in &topic.partitions {
                        let key = TopicPartition::new(name.clone(), partition.partition_index);
                        results.push((key, check(partition.error_code, None).map(|()| partition.low_watermark)));
                    }
                }
                Ok(results)
            },
        );
        self.call(call, keys).await
    }
}

fn questions(keys: &[TopicPartition], specs: &BTreeMap<TopicPartition, OffsetSpec>) -> Vec<ListOffsetsTopic> {
    let topics = topics_of(keys).map(|(name, numbers)| {
        let question = |number: i32| {
            let spec = specs.get(&TopicPartition::new(name.clone(), number))?;
            Some(ListOffsetsPartition {
                partition_index: number,
                current_leader_epoch: -1,
                timestamp: spec.timestamp(),
                ..Default::default()
            })
        };
        ListOffsetsTopic {
            partitions: numbers.into_iter().filter_map(question).collect(),
            name: name.clone(),
            ..Default::default()
        }
    });
    topics.collect()
}
