//! Deletion of offsets: by request, with their group, or with their topic.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    errors::ErrorCode,
    messages::{
        OffsetDeleteRequest, OffsetDeleteResponse,
        offset_delete_response::{OffsetDeleteResponsePartition, OffsetDeleteResponseTopic},
    },
};

use crate::{
    TopicsImage,
    group::{Group, GroupContext, GroupCoordinator, GroupEffects, GroupRecord, GroupReply, OffsetKey},
};

impl GroupCoordinator {
    pub(in crate::group) fn delete_offsets(
        &mut self,
        _context: &GroupContext,
        request: OffsetDeleteRequest,
        effects: &mut GroupEffects,
    ) -> GroupReply {
        if let Err(error) = self.check_delete(&request.group_id) {
            return GroupReply::OffsetDelete(OffsetDeleteResponse {
                error_code: error.code(),
                ..Default::default()
            });
        }
        let mut topics = Vec::with_capacity(request.topics.len());
        for topic in request.topics {
            let error = if self.is_subscribed(&request.group_id, &topic.name) {
                ErrorCode::GroupSubscribedToTopic
            } else {
                ErrorCode::None
            };
            let mut partitions = Vec::with_capacity(topic.partitions.len());
            for partition in topic.partitions {
                let partition_index = partition.partition_index;
                partitions.push(OffsetDeleteResponsePartition {
                    partition_index,
                    error_code: error.code(),
                });
                let key = OffsetKey {
                    group_id: request.group_id.clone(),
                    topic: topic.name.clone(),
                    partition: partition_index,
                };
                let exists = self.offsets.committed.get(&key).is_some() || self.offsets.open.get(&key).is_some();
                if error == ErrorCode::None && exists {
                    self.write(GroupRecord::Offset { key, value: None }, effects);
                }
            }
            topics.push(OffsetDeleteResponseTopic {
                name: topic.name,
                partitions,
            });
        }
        GroupReply::OffsetDelete(OffsetDeleteResponse {
            topics,
            ..Default::default()
        })
    }

    /// A group with members must be of consumers: only for those is it known which topics are still read.
    fn check_delete(&self, group_id: &ByteString) -> Result<(), ErrorCode> {
        if group_id.is_empty() {
            return Err(ErrorCode::InvalidGroupId);
        }
        match self.groups.get(group_id) {
            Some(Group::Classic(group)) if !group.is_empty() && !group.uses_consumer_protocol() => {
                Err(ErrorCode::NonEmptyGroup)
            }
            Some(_) => Ok(()),
            None if self.offsets.has_group(group_id) => Ok(()),
            None => Err(ErrorCode::GroupIdNotFound),
        }
    }

    pub(super) fn is_subscribed(&self, group_id: &str, topic: &str) -> bool {
        match self.groups.get(group_id) {
            Some(Group::Classic(group)) => group.is_subscribed_to(topic),
            Some(Group::Consumer(group)) => group.is_subscribed_to(topic),
            None => false,
        }
    }

    /// Deletes all offsets of a group, also those of open transactions.
    pub(in crate::group) fn delete_all_offsets(&mut self, group_id: &ByteString, effects: &mut GroupEffects) {
        let committed = self.offsets.committed.entries_of(group_id).map(|(key, _)| key);
        let open = self.offsets.open.entries_of(group_id).map(|(key, _)| key);
        let keys: BTreeSet<OffsetKey> = committed.chain(open).collect();
        for key in keys {
            self.write(GroupRecord::Offset { key, value: None }, effects);
        }
    }

    /// Deletes the offsets of deleted topics: they must not be positions in later topics with the same name.
    pub(in crate::group) fn offsets_topics_changed(&mut self, before: &TopicsImage, effects: &mut GroupEffects) {
        let is_gone = |name: &ByteString, id: Uuid| self.topics.by_name(name).is_none_or(|topic| topic.id != id);
        let deleted: BTreeMap<&ByteString, Uuid> = before
            .iter()
            .map(|(name, topic)| (name, topic.id))
            .filter(|(name, id)| is_gone(name, *id))
            .collect();
        if deleted.is_empty() {
            return;
        }
        let pending = self.offsets.pending.values().flat_map(|pending| pending.entries());
        let all = self.offsets.committed.entries().chain(pending);
        let keys: BTreeSet<OffsetKey> = all
            .filter(|(key, committed)| {
                let committed_for = committed.value.topic_id;
                let deleted = deleted.get(&key.topic);
                deleted.is_some_and(|id| committed_for == Uuid::default() || committed_for == *id)
            })
            .map(|(key, _)| key)
            .collect();
        for key in keys {
            self.write(GroupRecord::Offset { key, value: None }, effects);
        }
    }
}
