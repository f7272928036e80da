//! Effects of a member's report: on the log, on the group's epoch and target, and on the member itself.

use bytestring::ByteString;
use milena_invariant::{invariant, violated};
use milena_wire::messages::consumer_group_heartbeat_request::TopicPartitions as Owned;

use super::{
    MemberMetadata,
    member::{Member, MemberState, regex_of},
    reconcile::Reconciliation,
};
use crate::group::{Group, GroupCoordinator, GroupEffects, GroupRecord, VisibleTopics};

/// The report of a member, by heartbeat or by join.
pub(super) struct Report<'a> {
    pub(super) now_ms: i64,
    pub(super) group_id: &'a ByteString,
    pub(super) member_id: &'a ByteString,
    /// The partitions that it claims to own.
    pub(super) owned: Option<&'a [Owned]>,
    /// `None` for all.
    pub(super) visible_topics: Option<&'a VisibleTopics>,
}

impl GroupCoordinator {
    pub(super) fn consumer_member(&self, group_id: &str, member_id: &str) -> Option<&Member> {
        match self.groups.get(group_id)? {
            Group::Consumer(group) => group.members.get(member_id),
            Group::Classic(_) => None,
        }
    }

    /// Stores changes of a member, and updates the group's epoch and target and the member's assignment. Returns
    /// whether the member's assignment changed.
    pub(super) fn settle_member(
        &mut self,
        report: &Report<'_>,
        metadata: Option<MemberMetadata>,
        effects: &mut GroupEffects,
    ) -> bool {
        let subscription_changed = self.write_member(report, metadata, effects);
        self.maybe_update_target(report.now_ms, report.group_id, effects);
        self.maybe_reconcile(report, subscription_changed, effects)
    }

    /// Stores changes of a member, and bumps the epoch if they matter to others. Returns whether its subscription
    /// changed.
    pub(super) fn write_member(
        &mut self,
        report: &Report<'_>,
        metadata: Option<MemberMetadata>,
        effects: &mut GroupEffects,
    ) -> bool {
        let group_id = report.group_id;
        let old = self.consumer_member(group_id, report.member_id);
        let had_regex = old.and_then(Member::regex).cloned();
        let (mut names_changed, mut regex_changed) = (false, false);
        if let Some(metadata) = metadata {
            let old_names = old.map(|old| old.metadata.subscribed_topic_names.as_slice());
            names_changed = old_names.unwrap_or_default() != metadata.subscribed_topic_names;
            regex_changed = had_regex.as_ref() != regex_of(&metadata);
            let record = GroupRecord::Member {
                group_id: group_id.clone(),
                member_id: report.member_id.clone(),
                value: Some(metadata),
            };
            self.write(record, effects);
        }
        let subscription_changed = names_changed || regex_changed;
        let matches_changed = self.refresh_regexes(report, had_regex.as_ref(), effects);
        self.maybe_bump_epoch(group_id, subscription_changed || matches_changed, effects);
        subscription_changed
    }

    /// Returns whether the member's assignment changed.
    pub(super) fn maybe_reconcile(
        &mut self,
        report: &Report<'_>,
        subscription_changed: bool,
        effects: &mut GroupEffects,
    ) -> bool {
        let (group_id, member_id) = (report.group_id, report.member_id);
        let Some(Group::Consumer(group)) = self.groups.get(group_id) else {
            violated!("a_reporting_member_has_a_group");
            return false;
        };
        let Some(member) = group.members.get(member_id) else {
            violated!("a_reporting_member_exists");
            return false;
        };
        if !subscription_changed && member.is_reconciled_to(group.target_epoch) {
            return false;
        }
        let reconciliation = Reconciliation {
            group,
            topics: &self.topics,
            member_id,
            member,
            subscription_changed,
            owned: report.owned,
        };
        let next = reconciliation.next();
        invariant!(
            group.all_are_free_for(member_id, &next),
            "a_new_partition_of_a_member_has_no_other_owner"
        );
        if next == member.current {
            return false;
        }
        let assignment_changed = next.assigned != member.current.assigned;
        // A member of the classic protocol has a timeout of its own for rejoining.
        if !member.uses_classic_protocol() {
            let timeout_ms = member.metadata.rebalance_timeout_ms;
            let must_revoke = next.state == MemberState::UnrevokedPartitions;
            self.set_rebalance_timer(report, must_revoke.then_some(timeout_ms));
        }
        let record = GroupRecord::CurrentAssignment {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(next.to_record()),
        };
        self.write(record, effects);
        assignment_changed
    }

    /// Gives the place of a static member to its successor with another member id.
    pub(super) fn replace_consumer_static_member(
        &mut self,
        group_id: &ByteString,
        instance_id: &ByteString,
        member_id: &ByteString,
        effects: &mut GroupEffects,
    ) {
        let Some(Group::Consumer(group)) = self.groups.get(group_id) else {
            return; // The first member of a new group.
        };
        let Some((old_id, old)) = group.static_member(instance_id) else {
            return; // A new static member.
        };
        let (old_id, metadata, mut current) = (old_id.clone(), old.metadata.clone(), old.current.clone());
        (current.epoch, current.previous_epoch) = (0, 0);
        let target = group.target.get(&old_id).cloned().unwrap_or_default();
        self.write_member_tombstones(group_id, &old_id, effects);
        let record = GroupRecord::Member {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(metadata),
        };
        self.write(record, effects);
        self.write_target(group_id, member_id.clone(), &target, effects);
        let record = GroupRecord::CurrentAssignment {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(current.to_record()),
        };
        self.write(record, effects);
    }
}
