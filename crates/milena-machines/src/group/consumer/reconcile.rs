//! Reconciliation of a member with its target, one step at a time.
//!
//! A member first revokes the partitions that are not in its target, in its old epoch. When it reports that it no
//! longer owns them, it moves to the target's epoch and gets the partitions without an owner; for the rest it waits
//! until their owners have given them up.

use bytestring::ByteString;
use milena_wire::{Uuid, messages::consumer_group_heartbeat_request::TopicPartitions};

use super::{
    group::ConsumerGroup,
    member::{CurrentAssignment, EpochPartitions, Member, MemberState},
};
use crate::TopicsImage;

pub(super) struct Reconciliation<'a> {
    pub(super) group: &'a ConsumerGroup,
    pub(super) topics: &'a TopicsImage,
    pub(super) member_id: &'a ByteString,
    pub(super) member: &'a Member,
    pub(super) subscription_changed: bool,
    /// The partitions that the member claims to own; `None` if the request leaves them out.
    pub(super) owned: Option<&'a [TopicPartitions]>,
}

impl Reconciliation<'_> {
    /// The next assignment of the member.
    pub(super) fn next(&self) -> CurrentAssignment {
        let current = &self.member.current;
        match current.state {
            MemberState::Stable if current.epoch != self.group.target_epoch => self.step(current.epoch),
            MemberState::Stable if self.subscription_changed => self.drop_unsubscribed(),
            MemberState::Stable => current.clone(),
            MemberState::UnrevokedPartitions if !self.owns_any(&current.revoking) => self.step(current.epoch),
            MemberState::UnrevokedPartitions if self.subscription_changed => self.drop_unsubscribed(),
            MemberState::UnrevokedPartitions => current.clone(),
            MemberState::UnreleasedPartitions => self.step(current.epoch),
            MemberState::Unknown => self.step(self.group.target_epoch),
        }
    }

    /// Revokes partitions that are not in the target; with nothing to wait for, moves to the target's epoch with all
    /// partitions that are free.
    fn step(&self, epoch_while_revoking: i32) -> CurrentAssignment {
        let target_epoch = self.group.target_epoch;
        let (mut assigned, revoking) = self.split_assigned();
        if self.owns_any(&revoking) {
            return self.moved_to(
                epoch_while_revoking,
                MemberState::UnrevokedPartitions,
                assigned,
                revoking,
            );
        }
        let mut state = MemberState::Stable;
        let target = self.group.target.get(self.member_id).into_iter().flatten();
        for (topic, partitions) in target.filter(|(topic, _)| self.is_subscribed(**topic)) {
            for partition in partitions {
                if assigned.get(topic).is_some_and(|has| has.contains_key(partition)) {
                    continue;
                }
                let owner = self.group.owner(*topic, *partition);
                if owner.is_none_or(|owner| owner == self.member_id) {
                    assigned.entry(*topic).or_default().insert(*partition, target_epoch);
                } else {
                    state = MemberState::UnreleasedPartitions;
                }
            }
        }
        self.moved_to(target_epoch, state, assigned, EpochPartitions::new())
    }

    /// Splits the assigned partitions into those that stay and those that must be revoked.
    fn split_assigned(&self) -> (EpochPartitions, EpochPartitions) {
        let target = self.group.target.get(self.member_id);
        let (mut stay, mut go) = (EpochPartitions::new(), EpochPartitions::new());
        for (topic, partitions) in &self.member.current.assigned {
            let target = target.and_then(|target| target.get(topic));
            let target = target.filter(|_| self.is_subscribed(*topic));
            for (partition, epoch) in partitions {
                let is_in_target = target.is_some_and(|target| target.contains(partition));
                let side = if is_in_target { &mut stay } else { &mut go };
                side.entry(*topic).or_default().insert(*partition, *epoch);
            }
        }
        (stay, go)
    }

    /// Also revokes partitions that the member no longer subscribes to.
    fn drop_unsubscribed(&self) -> CurrentAssignment {
        let current = &self.member.current;
        let mut next = current.clone();
        next.assigned.retain(|topic, _| self.is_subscribed(*topic));
        if next.assigned.len() == current.assigned.len() {
            return next;
        }
        for (topic, partitions) in &current.assigned {
            if !next.assigned.contains_key(topic) {
                next.revoking.entry(*topic).or_default().extend(partitions);
            }
        }
        if self.owns_any(&next.revoking) {
            self.moved_to(
                current.epoch,
                MemberState::UnrevokedPartitions,
                next.assigned,
                next.revoking,
            )
        } else {
            self.moved_to(current.epoch, current.state, next.assigned, current.revoking.clone())
        }
    }

    fn moved_to(
        &self,
        epoch: i32,
        state: MemberState,
        assigned: EpochPartitions,
        revoking: EpochPartitions,
    ) -> CurrentAssignment {
        CurrentAssignment {
            epoch,
            previous_epoch: self.member.current.epoch,
            state,
            assigned,
            revoking,
        }
    }

    /// Whether the member may still own one of these: also if it does not report what it owns.
    fn owns_any(&self, partitions: &EpochPartitions) -> bool {
        if partitions.is_empty() {
            return false;
        }
        let Some(owned) = self.owned else {
            return true;
        };
        let is_meant = |topic: &Uuid, partition: &i32| {
            let partitions = partitions.get(topic);
            partitions.is_some_and(|partitions| partitions.contains_key(partition))
        };
        let mut topics = owned.iter();
        topics.any(|topic| {
            topic
                .partitions
                .iter()
                .any(|partition| is_meant(&topic.topic_id, partition))
        })
    }

    /// A deleted topic is subscribed to by no member.
    fn is_subscribed(&self, topic: Uuid) -> bool {
        let Some((name, _)) = self.topics.by_id(topic) else {
            return false;
        };
        let names = &self.member.metadata.subscribed_topic_names;
        let matches = self.group.matches_of(self.member);
        names.binary_search(name).is_ok() || matches.is_some_and(|topics| topics.contains(name))
    }
}
