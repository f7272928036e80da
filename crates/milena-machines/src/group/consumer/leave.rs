//! Members that leave: for good, temporarily as static members, or by fencing.

use bytestring::ByteString;
use milena_wire::messages::{ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse};

use super::{
    Refusal, Timer,
    checks::not_a_consumer_group,
    member::{CurrentAssignment, LEAVE_STATIC_EPOCH, Member},
    timeouts::timer,
};
use crate::group::{Group, GroupContext, GroupCoordinator, GroupEffects, GroupRecord};

impl GroupCoordinator {
    pub(super) fn leave_by_heartbeat(
        &mut self,
        context: &GroupContext,
        request: &ConsumerGroupHeartbeatRequest,
        effects: &mut GroupEffects,
    ) -> Result<ConsumerGroupHeartbeatResponse, Refusal> {
        let (group_id, member_id) = (&request.group_id, &request.member_id);
        let group = match self.groups.get(group_id) {
            Some(Group::Consumer(group)) => group,
            group => return Err(not_a_consumer_group(group_id, group.is_some())),
        };
        let member = group.member(group_id, member_id, request.instance_id.as_ref())?;
        if request.member_epoch == LEAVE_STATIC_EPOCH {
            self.leave_temporarily(group_id, member_id, away(member), effects);
        } else {
            self.fence_members(context.now_ms, group_id, std::slice::from_ref(member_id), effects);
        }
        Ok(ConsumerGroupHeartbeatResponse {
            member_id: Some(member_id.clone()),
            member_epoch: request.member_epoch,
            ..Default::default()
        })
    }

    /// The static member keeps its partitions, and its membership until its session ends.
    fn leave_temporarily(
        &mut self,
        group_id: &ByteString,
        member_id: &ByteString,
        away: CurrentAssignment,
        effects: &mut GroupEffects,
    ) {
        self.timers
            .cancel(&timer(group_id, Timer::Rebalance(member_id.clone())));
        let record = GroupRecord::CurrentAssignment {
            group_id: group_id.clone(),
            member_id: member_id.clone(),
            value: Some(away.to_record()),
        };
        self.write(record, effects);
    }

    /// Removes members for good.
    pub(super) fn fence_members(
        &mut self,
        now_ms: i64,
        group_id: &ByteString,
        member_ids: &[ByteString],
        effects: &mut GroupEffects,
    ) {
        if member_ids.is_empty() {
            return;
        }
        let downgrades = self.can_downgrade_without(group_id, member_ids);
        for member_id in member_ids {
            let regex = self
                .consumer_member(group_id, member_id)
                .and_then(Member::regex)
                .cloned();
            self.write_member_tombstones(group_id, member_id, effects);
            self.drop_unused_regex(group_id, regex, effects);
        }
        if downgrades {
            // The epoch stays: the remaining members know it as their generation.
            self.downgrade(now_ms, group_id, effects);
            self.prepare_rebalance(now_ms, group_id, effects);
        } else {
            self.maybe_bump_epoch(group_id, true, effects);
        }
    }

    /// Writes all tombstones of a member and cancels its timers.
    pub(super) fn write_member_tombstones(
        &mut self,
        group_id: &ByteString,
        member_id: &ByteString,
        effects: &mut GroupEffects,
    ) {
        self.cancel_member_timers(group_id, member_id);
        let (group_id, member_id) = (|| group_id.clone(), || member_id.clone());
        let records = [
            GroupRecord::CurrentAssignment {
                group_id: group_id(),
                member_id: member_id(),
                value: None,
            },
            GroupRecord::TargetAssignment {
                group_id: group_id(),
                member_id: member_id(),
                value: None,
            },
            GroupRecord::Member {
                group_id: group_id(),
                member_id: member_id(),
                value: None,
            },
        ];
        for record in records {
            self.write(record, effects);
        }
    }

    fn drop_unused_regex(&mut self, group_id: &ByteString, regex: Option<ByteString>, effects: &mut GroupEffects) {
        let (Some(regex), Some(Group::Consumer(group))) = (regex, self.groups.get(group_id)) else {
            return; // A member without a pattern.
        };
        if group.regex_members(&regex) == 0 && group.regexes.contains_key(&regex) {
            self.write_regex(group_id, &regex, None, effects);
        }
    }
}

/// The assignment of a static member that has left temporarily. Epoch 0 lets its successor commit for its partitions.
fn away(member: &Member) -> CurrentAssignment {
    let mut current = member.current.clone();
    current.epoch = LEAVE_STATIC_EPOCH;
    current.revoking.clear();
    for epoch in current
        .assigned
        .values_mut()
        .flat_map(|partitions| partitions.values_mut())
    {
        *epoch = 0;
    }
    current
}
