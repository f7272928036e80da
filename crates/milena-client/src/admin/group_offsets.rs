//! Committed offsets of groups: listed, altered and deleted.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::{TopicPartition, member::OffsetAndMetadata};
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        OffsetCommitRequest, OffsetDeleteRequest, OffsetDeleteResponse, OffsetFetchRequest, OffsetFetchResponse,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_delete_request::{OffsetDeleteRequestPartition, OffsetDeleteRequestTopic},
        offset_fetch_request::OffsetFetchRequestGroup,
    },
};

use super::{
    Admin, AdminError, Results,
    call::{AdminCall, CallContext},
    error::{BrokerError, check},
    own,
    route::Route,
    topics_of,
};

/// Errors of a deleted topic, which are not retried.
const GONE: &[ErrorCode] = &[ErrorCode::UnknownTopicOrPartition, ErrorCode::UnknownTopicId];

/// The committed offsets of a group.
type Committed = BTreeMap<TopicPartition, OffsetAndMetadata>;

impl Admin {
    /// Returns all committed offsets of groups. An unknown group has none.
    pub async fn list_group_offsets<N: Into<ByteString>>(
        &self,
        groups: impl IntoIterator<Item = N>,
    ) -> Results<ByteString, BTreeMap<TopicPartition, OffsetAndMetadata>> {
        let call = AdminCall::new(
            "offsets of group",
            |group: &ByteString| Route::Group(group.clone()),
            |batch| {
                let groups = batch.keys.iter().map(|group| OffsetFetchRequestGroup {
                    group_id: group.clone(),
                    topics: None,
                    member_epoch: -1,
                    ..Default::default()
                });
                OffsetFetchRequest {
                    groups: groups.collect(),
                    ..Default::default()
                }
            },
            |_, response| Ok(of_groups(&response)),
        );
        let call = call
            .version_min(versions::offset_fetch::GROUPS)
            .version_max(versions::offset_fetch::TOPIC_IDS - 1);
        let mut results = self.call(call, groups.into_iter().map(Into::into)).await;
        let is_old = |result: &Result<_, AdminError>| matches!(result, Err(AdminError::Unsupported { .. }));
        let again: Vec<ByteString> = results
            .iter()
            .filter(|(_, result)| is_old(result))
            .map(|(group, _)| group.clone())
            .collect();
        if !again.is_empty() {
            results.extend(self.list_one_by_one(again).await);
        }
        results
    }

    async fn list_one_by_one(&self, groups: Vec<ByteString>) -> Results<ByteString, Committed> {
        let call = AdminCall::new(
            "offsets of group",
            |group: &ByteString| Route::Group(group.clone()),
            |batch| OffsetFetchRequest {
                group_id: batch.keys.first().cloned().unwrap_or_default(),
                topics: None,
                ..Default::default()
            },
            |context: &CallContext<ByteString>, response: OffsetFetchResponse| {
                check(response.error_code, None)?;
                let mut committed = Committed::new();
                for topic in &response.topics {
                    let name = own(&topic.name);
                    for found in &topic.partitions {
                        check(found.error_code, None)?;
                        let offset = offset(found.committed_offset, found.committed_leader_epoch, &found.metadata);
                        let partition = TopicPartition::new(name.clone(), found.partition_index);
                        committed.extend(offset.map(|offset| (partition, offset)));
                    }
                }
                context.all(&committed)
            },
        );
        let versions = call
            .version_min(versions::offset_fetch::ALL_PARTITIONS)
            .version_max(versions::offset_fetch::GROUPS - 1);
        self.call(versions.one_by_one(), groups).await
    }

    /// Commits offsets for a group, which must have no members.
    pub async fn alter_group_offsets(
        &self,
        group: impl Into<ByteString>,
        offsets: impl IntoIterator<Item = (TopicPartition, OffsetAndMetadata)>,
    ) -> Results<TopicPartition, ()> {
        let group = group.into();
        let offsets: BTreeMap<TopicPartition, OffsetAndMetadata> = offsets.into_iter().collect();
        let partitions: Vec<TopicPartition> = offsets.keys().cloned().collect();
        let of_group = group.clone();
        let call = AdminCall::new(
            "offset of",
            move |_| Route::Group(of_group.clone()),
            move |batch| OffsetCommitRequest {
                group_id: group.clone(),
                // The commit is not from a member of the group.
                generation_id_or_member_epoch: -1,
                retention_time_ms: -1,
                topics: commits(&batch.keys, &offsets),
                ..Default::default()
            },
            |_, response| {
                let results = response.topics.iter().flat_map(|topic| {
                    let name = own(&topic.name);
                    let result = move |partition: &milena_wire::messages::offset_commit_response::OffsetCommitResponsePartition| {
                        let key = TopicPartition::new(name.clone(), partition.partition_index);
                        (key, check(partition.error_code, None))
                    };
                    topic.partitions.iter().map(result)
                });
                Ok(results.collect())
            },
        );
        self.call(
            call.version_max(versions::offset_commit::TOPIC_IDS - 1).finals(GONE),
            partitions,
        )
        .await
    }

    /// Deletes committed offsets of partitions. No member may be subscribed to their topics.
    pub async fn delete_group_offsets(
        &self,
        group: impl Into<ByteString>,
        partitions: impl IntoIterator<Item = TopicPartition>,
    ) -> Results<TopicPartition, ()> {
        let group = group.into();
        let of_group = group.clone();
        let call = AdminCall::new(
            "offset of",
            move |_| Route::Group(of_group.clone()),
            move |batch| {
                let topics = topics_of(&batch.keys).map(|(name, numbers)| OffsetDeleteRequestTopic {
                    name,
                    partitions: numbers
                        .into_iter()
                        .map(|partition_index| OffsetDeleteRequestPartition { partition_index })
                        .collect(),
                });
                OffsetDeleteRequest {
                    group_id: group.clone(),
                    topics: topics.collect(),
                }
            },
            |_, response: OffsetDeleteResponse| {
                check(response.error_code, None)?;
                let mut results = vec![];
                for topic in &response.topics {
                    let name = own(&topic.name);
                    for partition in &topic.partitions {
                        let key = TopicPartition::new(name.clone(), partition.partition_index);
                        results.push((key, check(partition.error_code, None)));
                    }
                }
                Ok(results)
            },
        );
        self.call(call.finals(GONE), partitions).await
    }
}

fn of_groups(response: &OffsetFetchResponse) -> Vec<(ByteString, Result<Committed, BrokerError>)> {
    let groups = response.groups.iter().map(|group| {
        let committed = check(group.error_code, None).and_then(|()| {
            let mut committed = Committed::new();
            for topic in &group.topics {
                let name = own(&topic.name);
                for found in &topic.partitions {
                    check(found.error_code, None)?;
                    let offset = offset(found.committed_offset, found.committed_leader_epoch, &found.metadata);
                    let partition = TopicPartition::new(name.clone(), found.partition_index);
                    committed.extend(offset.map(|offset| (partition, offset)));
                }
            }
            Ok(committed)
        });
        (own(&group.group_id), committed)
    });
    groups.collect()
}

/// A negative offset means that none is committed.
fn offset(offset: i64, leader_epoch: i32, metadata: &Option<ByteString>) -> Option<OffsetAndMetadata> {
    (offset >= 0).then(|| OffsetAndMetadata {
        offset,
        leader_epoch: Some(leader_epoch).filter(|epoch| *epoch >= 0),
        metadata: metadata.as_ref().map(own).unwrap_or_default(),
    })
}

fn commits(
    partitions: &[TopicPartition],
    offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>,
) -> Vec<OffsetCommitRequestTopic> {
    let commit = |name: &ByteString, number: i32| {
        let committed = offsets.get(&TopicPartition::new(name.clone(), number))?;
        Some(OffsetCommitRequestPartition {
            partition_index: number,
            committed_offset: committed.offset,
            committed_leader_epoch: committed.leader_epoch.unwrap_or(-1),
            committed_metadata: Some(committed.metadata.clone()),
            ..Default::default()
        })
    };
    let topics = topics_of(partitions).map(|(name, numbers)| OffsetCommitRequestTopic {
        partitions: numbers.into_iter().filter_map(|number| commit(&name, number)).collect(),
        name,
        ..Default::default()
    });
    topics.collect()
}
