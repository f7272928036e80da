//! Encoding of offset requests.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    api::versions,
    messages::{
        OffsetCommitRequest, OffsetFetchRequest,
        offset_commit_request::{OffsetCommitRequestPartition, OffsetCommitRequestTopic},
        offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopic, OffsetFetchRequestTopics},
    },
};

use super::{OffsetAndMetadata, OffsetRequest};
use crate::{
    TopicPartition,
    member::{ForVersion, GroupMetadata, MemberMetadata},
};

/// Before version 8 a request names one group, in fields of its own; before version 7 it cannot wait for transactions.
impl ForVersion for OffsetFetchRequest {
    fn for_version(mut self, version: i16) -> Self {
        if version >= versions::offset_fetch::GROUPS {
            return self;
        }
        if let Some(group) = self.groups.pop() {
            self.group_id = group.group_id;
            let topics = group.topics.unwrap_or_default().into_iter();
            let topics = topics.map(|topic| OffsetFetchRequestTopic {
                name: topic.name,
                partition_indexes: topic.partition_indexes,
                ..Default::default()
            });
            self.topics = Some(topics.collect());
        }
        self.groups.clear();
        self.require_stable &= version >= versions::offset_fetch::REQUIRE_STABLE;
        self
    }
}

/// The topic ids of a request, for its response.
#[derive(Debug, Default)]
pub(super) struct TopicIds {
    names: BTreeMap<Uuid, ByteString>,
    is_complete: bool,
}

impl TopicIds {
    pub(super) fn of<'a>(
        known: impl Fn(&ByteString) -> Option<Uuid>,
        partitions: impl Iterator<Item = &'a TopicPartition>,
    ) -> Self {
        let mut ids = Self {
            is_complete: true,
            ..Self::default()
        };
        for topic_partition in partitions {
            match known(&topic_partition.topic) {
                Some(id) => {
                    ids.names.entry(id).or_insert_with(|| topic_partition.topic.clone());
                }
                None => ids.is_complete = false,
            }
        }
        ids
    }

    pub(super) fn max_version(&self) -> i16 {
        if self.is_complete {
            versions::offset_fetch::TOPIC_IDS
        } else {
            versions::offset_fetch::TOPIC_IDS - 1
        }
    }

    /// The name of a topic in a response, which has a name or an id.
    pub(super) fn name(&self, name: &ByteString, id: Uuid) -> ByteString {
        self.names.get(&id).unwrap_or(name).clone()
    }
}

pub(super) fn commit(
    identity: &GroupMetadata,
    offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>,
    known: impl Fn(&ByteString) -> Option<Uuid>,
) -> OffsetRequest {
    let mut topics: Vec<OffsetCommitRequestTopic> = vec![];
    for (topic_partition, offset) in offsets {
        let partition = OffsetCommitRequestPartition {
            partition_index: topic_partition.partition,
            committed_offset: offset.offset,
            committed_leader_epoch: offset.leader_epoch.unwrap_or(-1),
            committed_metadata: Some(offset.metadata.clone()),
            ..Default::default()
        };
        match topics.last_mut().filter(|topic| topic.name == topic_partition.topic) {
            Some(topic) => topic.partitions.push(partition),
            None => topics.push(OffsetCommitRequestTopic {
                name: topic_partition.topic.clone(),
                topic_id: known(&topic_partition.topic).unwrap_or_default(),
                partitions: vec![partition],
                ..Default::default()
            }),
        }
    }
    OffsetRequest::Commit(OffsetCommitRequest {
        group_id: identity.group_id.clone(),
        generation_id_or_member_epoch: identity.generation,
        member_id: identity.member_id.clone(),
        group_instance_id: identity.instance_id.clone(),
        topics,
        ..Default::default()
    })
}

/// Only a member of the consumer protocol names itself in a fetch.
pub(super) fn fetch<'a>(
    group_id: &ByteString,
    member: Option<&GroupMetadata>,
    partitions: impl Iterator<Item = &'a TopicPartition>,
    metadata: &MemberMetadata,
) -> OffsetRequest {
    let mut topics: Vec<OffsetFetchRequestTopics> = vec![];
    for topic_partition in partitions {
        match topics.last_mut().filter(|topic| topic.name == topic_partition.topic) {
            Some(topic) => topic.partition_indexes.push(topic_partition.partition),
            None => topics.push(OffsetFetchRequestTopics {
                name: topic_partition.topic.clone(),
                topic_id: metadata.topic_id(&topic_partition.topic).unwrap_or_default(),
                partition_indexes: vec![topic_partition.partition],
                ..Default::default()
            }),
        }
    }
    let group = OffsetFetchRequestGroup {
        group_id: group_id.clone(),
        member_id: member.map(|member| member.member_id.clone()),
        member_epoch: member.map_or(-1, |member| member.generation),
        topics: Some(topics),
        ..Default::default()
    };
    OffsetRequest::Fetch(OffsetFetchRequest {
        groups: vec![group],
        require_stable: true,
        ..Default::default()
    })
}
