//! ConsumerGroupDescribe.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    errors::ErrorCode,
    messages::consumer_group_describe_response::{self as response, Assignment, DescribedGroup, TopicPartitions},
};

use super::{
    checks::not_a_consumer_group,
    group::ConsumerGroup,
    member::{Member, Partitions},
};
use crate::{
    TopicsImage,
    group::{Group, GroupContext, GroupCoordinator, GroupReply},
};

/// The authorized operations were not requested, or are unknown.
const NO_OPERATIONS: i32 = i32::MIN;

impl GroupCoordinator {
    pub(in crate::group) fn describe_consumer_group(
        &self,
        _context: &GroupContext,
        group_id: ByteString,
    ) -> GroupReply {
        let described = match self.groups.get(&group_id) {
            _ if !self.config.consumer_protocol_enabled => DescribedGroup {
                error_code: ErrorCode::UnsupportedVersion.code(),
                group_id,
                authorized_operations: NO_OPERATIONS,
                ..Default::default()
            },
            Some(Group::Consumer(group)) => self.describe(group_id, group),
            group => {
                let refusal = not_a_consumer_group(&group_id, group.is_some());
                DescribedGroup {
                    error_code: refusal.code.code(),
                    error_message: Some(refusal.message.into()),
                    group_id,
                    authorized_operations: NO_OPERATIONS,
                    ..Default::default()
                }
            }
        };
        GroupReply::ConsumerDescribe(described)
    }

    fn describe(&self, group_id: ByteString, group: &ConsumerGroup) -> DescribedGroup {
        let assignor = group.preferred_assignor(&self.config.consumer_assignors);
        let members = group.members.iter();
        let members = members.map(|(member_id, member)| {
            let target = group.target.get(member_id);
            describe_member(member_id.clone(), member, target, &self.topics)
        });
        DescribedGroup {
            group_id,
            group_state: ByteString::from_static(group.state_name()),
            group_epoch: group.epoch,
            assignment_epoch: group.target_epoch,
            assignor_name: assignor.cloned().unwrap_or_default(),
            members: members.collect(),
            authorized_operations: NO_OPERATIONS,
            ..Default::default()
        }
    }
}

fn describe_member(
    member_id: ByteString,
    member: &Member,
    target: Option<&Partitions>,
    topics: &TopicsImage,
) -> response::Member {
    let mut owned: BTreeMap<Uuid, Vec<i32>> = BTreeMap::new();
    for (topic, partition) in member.current.owned() {
        owned.entry(topic).or_default().push(partition);
    }
    let metadata = &member.metadata;
    response::Member {
        member_id,
        instance_id: metadata.instance_id.clone(),
        rack_id: metadata.rack_id.clone(),
        member_epoch: member.current.epoch,
        client_id: metadata.client_id.clone(),
        client_host: metadata.client_host.clone(),
        subscribed_topic_names: metadata.subscribed_topic_names.clone(),
        subscribed_topic_regex: metadata.subscribed_topic_regex.clone(),
        assignment: named(owned.iter(), topics),
        target_assignment: named(target.into_iter().flatten(), topics),
        member_type: i8::from(!member.uses_classic_protocol()),
        ..Default::default()
    }
}

/// Deleted topics are left out.
fn named<'a, P>(partitions: impl Iterator<Item = (&'a Uuid, &'a P)>, topics: &TopicsImage) -> Assignment
where
    &'a P: IntoIterator<Item = &'a i32>,
    P: 'a,
{
    let topics = partitions.filter_map(|(topic_id, partitions)| {
        let (name, _) = topics.by_id(*topic_id)?;
        Some(TopicPartitions {
            topic_id: *topic_id,
            topic_name: name.clone(),
            partitions: partitions.into_iter().copied().collect(),
            ..Default::default()
        })
    });
    Assignment {
        topic_partitions: topics.collect(),
        ..Default::default()
    }
}
