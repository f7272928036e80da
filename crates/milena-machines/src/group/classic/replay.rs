//! Classic groups in the log.
//!
//! A record contains the whole group: it is written when a group gets its first member, when the leader has assigned,
//! when a static member was replaced, and when the group has become empty.

use bytestring::ByteString;
use milena_wire::messages::{
    GroupMetadataValue, group_metadata_value::MemberMetadata, join_group_request::JoinGroupRequestProtocol,
};

use super::{
    Timer,
    member::Member,
    rebalance::timer,
    state::{ClassicGroup, State},
    timeouts::cancel_session,
};
use crate::group::{Group, GroupCoordinator};

impl GroupCoordinator {
    pub(in crate::group) fn replay_classic(&mut self, group_id: ByteString, value: Option<GroupMetadataValue>) {
        let before = match self.groups.remove(&group_id) {
            Some(Group::Classic(group)) => Some(group),
            // The tombstone of an empty classic group precedes the records of its successor in the consumer protocol.
            Some(group @ Group::Consumer(_)) if value.is_none() => {
                self.groups.insert(group_id, group);
                return;
            }
            Some(Group::Consumer(_)) | None => None,
        };
        let Some(value) = value else {
            if let Some(group) = before {
                self.cancel_classic_timers(&group_id, &group);
            }
            return;
        };
        let mut group = group_of(value);
        if let Some(before) = before {
            for member_id in before.members.keys().filter(|id| !group.members.contains_key(*id)) {
                cancel_session(&mut self.timers, &group_id, member_id);
            }
            group.keep_volatile(before);
        }
        self.groups.insert(group_id, Group::Classic(group));
    }

    /// Cancels the timers of a group that is removed or upgraded.
    pub(in crate::group) fn cancel_classic_timers(&mut self, group_id: &ByteString, group: &ClassicGroup) {
        self.timers.cancel(&timer(group_id, Timer::Join));
        self.timers.cancel(&timer(group_id, Timer::Sync));
        for member_id in group.members.keys().chain(&group.pending_members) {
            cancel_session(&mut self.timers, group_id, member_id);
        }
    }
}

impl ClassicGroup {
    /// The stored state of the group.
    pub(in crate::group) fn to_record(&self) -> GroupMetadataValue {
        let protocol = self.protocol_name.clone().unwrap_or_default();
        let members = self.members.iter().map(|(member_id, member)| MemberMetadata {
            member_id: member_id.clone(),
            group_instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            rebalance_timeout: member.rebalance_timeout_ms,
            session_timeout: member.session_timeout_ms,
            subscription: member.metadata(&protocol),
            assignment: member.assignment.clone(),
            ..Default::default()
        });
        GroupMetadataValue {
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            generation: self.generation_id,
            protocol: self.protocol_name.clone(),
            leader: self.leader_id.clone(),
            current_state_timestamp: self.state_since_ms.unwrap_or(-1),
            members: members.collect(),
            ..Default::default()
        }
    }

    /// Keeps the state that is not in the log: waiting requests and session deadlines.
    fn keep_volatile(&mut self, before: Self) {
        self.pending_members = before.pending_members;
        self.pending_sync = before.pending_sync;
        for (member_id, old) in before.members {
            let Some(member) = self.members.get_mut(&member_id) else {
                // Removed by the record.
                self.pending_sync.remove(&member_id);
                continue;
            };
            let selected = self.protocol_name.as_ref();
            if selected.is_some_and(|selected| old.metadata(selected) == member.metadata(selected)) {
                member.protocols = old.protocols;
            }
            member.joining = old.joining;
            member.syncing = old.syncing;
            member.is_new = old.is_new;
            member.session_deadline_ms = old.session_deadline_ms;
        }
    }
}

fn group_of(value: GroupMetadataValue) -> ClassicGroup {
    let mut group = ClassicGroup::new();
    for member in value.members {
        let protocol = JoinGroupRequestProtocol {
            name: value.protocol.clone().unwrap_or_default(),
            metadata: member.subscription,
            ..Default::default()
        };
        let rebalance_timeout_ms = if member.rebalance_timeout == -1 {
            member.session_timeout
        } else {
            member.rebalance_timeout
        };
        let loaded = Member {
            instance_id: member.group_instance_id,
            client_id: member.client_id,
            client_host: member.client_host,
            rebalance_timeout_ms,
            session_timeout_ms: member.session_timeout,
            protocol_type: value.protocol_type.clone(),
            protocols: vec![protocol],
            assignment: member.assignment,
            joining: None,
            syncing: None,
            is_new: false,
            session_deadline_ms: None,
        };
        group.add(member.member_id, loaded);
    }
    group.state = if group.members.is_empty() {
        State::Empty
    } else {
        State::Stable
    };
    group.state_since_ms = Some(value.current_state_timestamp).filter(|since_ms| *since_ms != -1);
    group.generation_id = value.generation;
    group.protocol_type = Some(value.protocol_type).filter(|name| !name.is_empty());
    group.protocol_name = value.protocol;
    group.leader_id = value.leader;
    group.subscribed_topics = group.find_subscribed_topics();
    group
}
