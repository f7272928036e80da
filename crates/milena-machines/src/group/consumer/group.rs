//! State of a group of the consumer protocol.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::Uuid;

use super::{
    member::{CurrentAssignment, Member, Partitions},
    regex::ResolvedRegex,
};
use crate::group::GroupRecord;

#[derive(Debug)]
pub(in crate::group) struct ConsumerGroup {
    /// Bumped whenever members or their subscriptions change.
    pub(super) epoch: i32,
    /// Hash of the subscribed topics when the epoch was last bumped.
    pub(super) metadata_hash: i64,
    /// The epoch that `target` was computed for.
    pub(super) target_epoch: i32,
    /// The target assignment of each member.
    pub(super) target: BTreeMap<ByteString, Partitions>,
    pub(super) members: BTreeMap<ByteString, Member>,
    /// Member ids by instance id.
    pub(super) static_members: BTreeMap<ByteString, ByteString>,
    pub(super) regexes: BTreeMap<ByteString, ResolvedRegex>,

    /// The owner of a partition: no other member is assigned to it until the owner has given it up.
    owners: BTreeMap<(Uuid, i32), ByteString>,
    /// The number of members and regular expressions that subscribe to a topic.
    subscriptions: BTreeMap<ByteString, usize>,

    /// A topic of the group may have changed. Not in the log: after a restart it is checked once.
    pub(super) topics_changed: bool,
    /// The time when the regular expressions were last matched with all topics; `None` if topics were created since.
    pub(super) regexes_matched_ms: Option<i64>,
}

impl Default for ConsumerGroup {
    fn default() -> Self {
        Self {
            epoch: 1,
            metadata_hash: 0,
            target_epoch: 1,
            target: BTreeMap::new(),
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            regexes: BTreeMap::new(),
            owners: BTreeMap::new(),
            subscriptions: BTreeMap::new(),
            topics_changed: true,
            regexes_matched_ms: None,
        }
    }
}

/// Properties that groups of both protocols have.
impl ConsumerGroup {
    pub(in crate::group) fn members_len(&self) -> usize {
        self.members.len()
    }

    pub(in crate::group) fn has_member(&self, member_id: &str) -> bool {
        self.members.contains_key(member_id)
    }

    pub(in crate::group) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    pub(in crate::group) fn state_name(&self) -> &'static str {
        let is_reconciled = |member: &Member| member.is_reconciled_to(self.target_epoch);
        if self.members.is_empty() {
            "Empty"
        } else if self.epoch > self.target_epoch {
            "Assigning"
        } else if self.members.values().all(is_reconciled) {
            "Stable"
        } else {
            "Reconciling"
        }
    }

    pub(in crate::group) fn is_subscribed_to(&self, topic: &str) -> bool {
        self.subscriptions.contains_key(topic)
    }

    /// The tombstones of the whole group.
    pub(in crate::group) fn tombstones(&self, group_id: &ByteString) -> Vec<GroupRecord> {
        let group_id = || group_id.clone();
        let mut records = vec![];
        records.extend(self.members.keys().map(|member_id| GroupRecord::CurrentAssignment {
            group_id: group_id(),
            member_id: member_id.clone(),
            value: None,
        }));
        records.extend(self.target.keys().map(|member_id| GroupRecord::TargetAssignment {
            group_id: group_id(),
            member_id: member_id.clone(),
            value: None,
        }));
        records.push(GroupRecord::TargetEpoch {
            group_id: group_id(),
            value: None,
        });
        records.extend(self.members.keys().map(|member_id| GroupRecord::Member {
            group_id: group_id(),
            member_id: member_id.clone(),
            value: None,
        }));
        records.extend(self.regexes.keys().map(|regex| GroupRecord::Regex {
            group_id: group_id(),
            regex: regex.clone(),
            value: None,
        }));
        records.push(GroupRecord::ConsumerGroup {
            group_id: group_id(),
            value: None,
        });
        records
    }
}

impl ConsumerGroup {
    pub(super) fn static_member(&self, instance_id: &str) -> Option<(&ByteString, &Member)> {
        self.members.get_key_value(self.static_members.get(instance_id)?)
    }

    /// The member that must give up a partition before another gets it.
    pub(super) fn owner(&self, topic: Uuid, partition: i32) -> Option<&ByteString> {
        self.owners.get(&(topic, partition))
    }

    /// Whether no partition that `next` adds to a member has another owner.
    ///
    /// Only of added ones is that certain: in a compacted log the next owner of a partition may come first.
    pub(super) fn all_are_free_for(&self, member_id: &ByteString, next: &CurrentAssignment) -> bool {
        let current = self.members.get(member_id).map(|member| &member.current.assigned);
        let is_new = |topic: &Uuid, partition: &i32| {
            let before = current.and_then(|current| current.get(topic));
            before.is_none_or(|before| !before.contains_key(partition))
        };
        next.assigned.iter().all(|(topic, partitions)| {
            let mut added = partitions.keys().filter(|partition| is_new(topic, partition));
            added.all(|partition| self.owner(*topic, *partition).is_none_or(|owner| owner == member_id))
        })
    }

    /// The names of all subscribed topics, whether they exist or not.
    pub(super) fn subscribed_topics(&self) -> impl Iterator<Item = &ByteString> {
        self.subscriptions.keys()
    }

    pub(super) fn regex_members(&self, regex: &str) -> usize {
        let members = self.members.values().filter_map(Member::regex);
        members.filter(|own| *own == regex).count()
    }

    pub(super) fn matches_of(&self, member: &Member) -> Option<&BTreeSet<ByteString>> {
        Some(&self.regexes.get(member.regex()?)?.topics)
    }

    /// The assignor with the most votes among the configured ones; of equals, the one configured first.
    pub(super) fn preferred_assignor<'a>(&self, assignors: &'a [ByteString]) -> Option<&'a ByteString> {
        let votes = |assignor: &ByteString| {
            let choices = self.members.values().map(|member| &member.metadata.server_assignor);
            choices.filter(|choice| choice.as_ref() == Some(assignor)).count()
        };
        let voted = assignors.iter().rev().map(|assignor| (votes(assignor), assignor));
        let best = voted.filter(|(votes, _)| *votes > 0).max_by_key(|(votes, _)| *votes);
        best.map(|(_, assignor)| assignor).or_else(|| assignors.first())
    }
}

/// The only ways to change replayed state: they keep the indexes consistent.
impl ConsumerGroup {
    pub(super) fn put_metadata(&mut self, member_id: ByteString, mut metadata: super::MemberMetadata) {
        metadata.subscribed_topic_names.sort_unstable();
        metadata.subscribed_topic_names.dedup();
        let member = self.members.entry(member_id.clone()).or_default();
        let old = std::mem::replace(&mut member.metadata, metadata);
        forget_topics(&mut self.subscriptions, &old.subscribed_topic_names);
        count_topics(&mut self.subscriptions, &member.metadata.subscribed_topic_names);
        if let Some(instance_id) = member.metadata.instance_id.clone() {
            self.static_members.insert(instance_id, member_id);
        }
    }

    pub(super) fn put_current(&mut self, member_id: &ByteString, current: CurrentAssignment) {
        let member = self.members.entry(member_id.clone()).or_default();
        release(&mut self.owners, member_id, &member.current);
        for partition in current.owned() {
            self.owners.insert(partition, member_id.clone());
        }
        member.current = current;
    }

    pub(super) fn remove_member(&mut self, member_id: &ByteString) {
        let Some(member) = self.members.remove(member_id) else {
            return; // In a compacted log, a tombstone may outlive what it deleted.
        };
        release(&mut self.owners, member_id, &member.current);
        forget_topics(&mut self.subscriptions, &member.metadata.subscribed_topic_names);
        if let Some(instance_id) = &member.metadata.instance_id
            && self.static_members.get(instance_id) == Some(member_id)
        {
            self.static_members.remove(instance_id);
        }
    }

    pub(super) fn put_regex(&mut self, regex: ByteString, resolved: Option<ResolvedRegex>) {
        if let Some(old) = self.regexes.remove(&regex) {
            forget_topics(&mut self.subscriptions, &old.topics);
        }
        if let Some(resolved) = resolved {
            count_topics(&mut self.subscriptions, &resolved.topics);
            self.regexes.insert(regex, resolved);
        }
    }
}

/// Removes only partitions that are still the member's: in a log the next owner may come first.
fn release(owners: &mut BTreeMap<(Uuid, i32), ByteString>, member_id: &ByteString, current: &CurrentAssignment) {
    for partition in current.owned() {
        if owners.get(&partition) == Some(member_id) {
            owners.remove(&partition);
        }
    }
}

fn count_topics<'a>(counts: &mut BTreeMap<ByteString, usize>, topics: impl IntoIterator<Item = &'a ByteString>) {
    for topic in topics {
        *counts.entry(topic.clone()).or_default() += 1;
    }
}

fn forget_topics<'a>(counts: &mut BTreeMap<ByteString, usize>, topics: impl IntoIterator<Item = &'a ByteString>) {
    for topic in topics {
        let Some(count) = counts.get_mut(topic) else {
            violated!("subscribed_topics_are_counted");
            continue;
        };
        *count -= 1;
        if *count == 0 {
            counts.remove(topic);
        }
    }
}
