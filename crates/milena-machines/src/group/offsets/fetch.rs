//! OffsetFetch.

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    api::versions,
    errors::ErrorCode,
    messages::{
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics},
        offset_fetch_response::{OffsetFetchResponseGroup, OffsetFetchResponsePartitions, OffsetFetchResponseTopics},
    },
};

use super::{CommittedOffset, Offsets};
use crate::group::{Group, GroupContext, GroupCoordinator, GroupReply};

impl GroupCoordinator {
    pub(in crate::group) fn fetch_offsets(
        &mut self,
        context: &GroupContext,
        group: OffsetFetchRequestGroup,
        require_stable: bool,
    ) -> GroupReply {
        if let Some(Group::Consumer(own)) = self.groups.get(&group.group_id) {
            let validity = own.validate_offset_fetch(group.member_id.as_deref(), group.member_epoch);
            if let Err(error) = validity {
                return GroupReply::OffsetFetch(failed(group, error, context.version));
            }
        }
        let topics = match group.topics {
            Some(topics) => {
                let fetch = |topic| self.offsets.fetch_topic(&group.group_id, topic, require_stable);
                topics.into_iter().map(fetch).collect()
            }
            None => self.offsets.fetch_all(&group.group_id, require_stable),
        };
        GroupReply::OffsetFetch(OffsetFetchResponseGroup {
            group_id: group.group_id,
            topics,
            ..Default::default()
        })
    }
}

impl Offsets {
    fn fetch_topic(
        &self,
        group_id: &ByteString,
        topic: OffsetFetchRequestTopics,
        require_stable: bool,
    ) -> OffsetFetchResponseTopics {
        let fetch = |index: i32| {
            if require_stable && self.open.find(group_id, &topic.name, index).is_some() {
                return unknown(index, ErrorCode::UnstableOffsetCommit);
            }
            let committed = self.committed.find(group_id, &topic.name, index);
            match committed.filter(|committed| !is_of_other_topic(committed.value.topic_id, topic.topic_id)) {
                Some(committed) => known(index, committed),
                None => unknown(index, ErrorCode::None),
            }
        };
        let partitions = topic.partition_indexes.iter().map(|index| fetch(*index)).collect();
        OffsetFetchResponseTopics {
            name: topic.name,
            topic_id: topic.topic_id,
            partitions,
            ..Default::default()
        }
    }

    fn fetch_all(&self, group_id: &ByteString, require_stable: bool) -> Vec<OffsetFetchResponseTopics> {
        let topics = self.committed.group(group_id).into_iter().flatten();
        let topics = topics.map(|(topic, partitions)| {
            let partitions = partitions.iter().map(|(index, committed)| {
                if require_stable && self.open.find(group_id, topic, *index).is_some() {
                    unknown(*index, ErrorCode::UnstableOffsetCommit)
                } else {
                    known(*index, committed)
                }
            });
            OffsetFetchResponseTopics {
                name: topic.clone(),
                partitions: partitions.collect(),
                ..Default::default()
            }
        });
        topics.collect()
    }
}

/// Whether both ids are known and differ: the offset is of an older topic with the same name.
fn is_of_other_topic(committed: Uuid, requested: Uuid) -> bool {
    committed != Uuid::default() && requested != Uuid::default() && committed != requested
}

fn known(partition_index: i32, committed: &CommittedOffset) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: committed.value.offset,
        committed_leader_epoch: committed.value.leader_epoch,
        metadata: Some(committed.value.metadata.clone()),
        ..Default::default()
    }
}

fn unknown(partition_index: i32, error: ErrorCode) -> OffsetFetchResponsePartitions {
    OffsetFetchResponsePartitions {
        partition_index,
        committed_offset: -1,
        committed_leader_epoch: -1,
        metadata: Some(ByteString::new()),
        error_code: error.code(),
        ..Default::default()
    }
}

fn failed(group: OffsetFetchRequestGroup, error: ErrorCode, version: i16) -> OffsetFetchResponseGroup {
    if version >= versions::offset_fetch::ALL_PARTITIONS {
        return OffsetFetchResponseGroup {
            group_id: group.group_id,
            error_code: error.code(),
            ..Default::default()
        };
    }
    let topics = group
        .topics
        .into_iter()
        .flatten()
        .map(|topic| OffsetFetchResponseTopics {
            partitions: topic
                .partition_indexes
                .iter()
                .map(|index| unknown(*index, error))
                .collect(),
            name: topic.name,
            topic_id: topic.topic_id,
            ..Default::default()
        });
    OffsetFetchResponseGroup {
        group_id: group.group_id,
        topics: topics.collect(),
        ..Default::default()
    }
}
