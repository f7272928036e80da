//! Listing, describing and deleting groups.

use bytestring::ByteString;
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        describe_groups_response::{DescribedGroup, DescribedGroupMember},
        list_groups_response::ListedGroup,
    },
};

use super::{
    Group, GroupContext, GroupCoordinator, GroupEffects, GroupRecord, GroupReply,
    classic::{CONSUMER_PROTOCOL_TYPE, ClassicGroup, State},
};

impl GroupCoordinator {
    /// Classic groups only; groups of the consumer protocol have a request of their own.
    pub(super) fn describe_group(&self, context: &GroupContext, group_id: ByteString) -> GroupReply {
        let problem = match self.groups.get(&group_id) {
            Some(Group::Classic(group)) => return GroupReply::Describe(group.describe(group_id)),
            None if self.offsets.has_group(&group_id) => {
                return GroupReply::Describe(ClassicGroup::new().describe(group_id));
            }
            Some(Group::Consumer(_)) => format!("Group {group_id} is not a classic group."),
            None => format!("Group {group_id} not found."),
        };
        let mut described = DescribedGroup {
            group_id,
            group_state: "Dead".into(),
            ..Default::default()
        };
        if context.version >= versions::describe_groups::GROUP_ID_NOT_FOUND {
            described.error_code = ErrorCode::GroupIdNotFound.code();
            described.error_message = Some(problem.into());
        }
        GroupReply::Describe(described)
    }

    pub(super) fn list_groups(&self, states: &[ByteString], types: &[ByteString]) -> GroupReply {
        let joined = self.groups.iter().map(|(group_id, group)| group.list(group_id));
        let only_offsets = self.offsets.group_ids().into_iter();
        let simple = only_offsets
            .filter(|group_id| !self.groups.contains_key(*group_id))
            .map(|group_id| ClassicGroup::new().list(group_id));
        let mut groups: Vec<ListedGroup> = joined
            .chain(simple)
            .filter(|group| is_among(&group.group_state, states) && is_among(&group.group_type, types))
            .collect();
        groups.sort_by(|one, other| one.group_id.cmp(&other.group_id));
        GroupReply::List(groups)
    }

    pub(super) fn delete_group(
        &mut self,
        _context: &GroupContext,
        group_id: &ByteString,
        effects: &mut GroupEffects,
    ) -> GroupReply {
        match self.groups.get(group_id) {
            Some(group) if !group.is_empty() => return GroupReply::Delete(ErrorCode::NonEmptyGroup),
            None if !self.offsets.has_group(group_id) => return GroupReply::Delete(ErrorCode::GroupIdNotFound),
            Some(_) | None => {}
        }
        self.delete_all_offsets(group_id, effects);
        self.remove_empty_group(group_id, effects);
        GroupReply::Delete(ErrorCode::None)
    }

    /// Writes the tombstones of a group without members.
    pub(super) fn remove_empty_group(&mut self, group_id: &ByteString, effects: &mut GroupEffects) {
        let tombstones = match self.groups.get(group_id) {
            Some(Group::Classic(group)) if group.is_empty() => vec![GroupRecord::Classic {
                group_id: group_id.clone(),
                value: None,
            }],
            Some(Group::Consumer(group)) if group.is_empty() => group.tombstones(group_id),
            Some(_) | None => vec![],
        };
        for tombstone in tombstones {
            self.write(tombstone, effects);
        }
    }
}

/// An empty list matches all. Case and surrounding space do not matter.
fn is_among(name: &str, names: &[ByteString]) -> bool {
    names.is_empty() || names.iter().any(|one| one.trim().eq_ignore_ascii_case(name))
}

impl Group {
    fn is_empty(&self) -> bool {
        match self {
            Self::Classic(group) => group.is_empty(),
            Self::Consumer(group) => group.is_empty(),
        }
    }

    fn list(&self, group_id: &ByteString) -> ListedGroup {
        match self {
            Self::Classic(group) => group.list(group_id),
            Self::Consumer(group) => ListedGroup {
                group_id: group_id.clone(),
                protocol_type: CONSUMER_PROTOCOL_TYPE.into(),
                group_state: group.state_name().into(),
                group_type: "consumer".into(),
                ..Default::default()
            },
        }
    }
}

impl ClassicGroup {
    fn list(&self, group_id: &ByteString) -> ListedGroup {
        ListedGroup {
            group_id: group_id.clone(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            group_state: self.state.name().into(),
            group_type: "classic".into(),
            ..Default::default()
        }
    }

    /// Metadata and assignments of members are shown in a stable group only.
    fn describe(&self, group_id: ByteString) -> DescribedGroup {
        let agreed = self.protocol_name.clone().filter(|_| self.state == State::Stable);
        let members = self.members.iter().map(|(member_id, member)| DescribedGroupMember {
            member_id: member_id.clone(),
            group_instance_id: member.instance_id.clone(),
            client_id: member.client_id.clone(),
            client_host: member.client_host.clone(),
            member_metadata: agreed
                .as_ref()
                .map(|agreed| member.metadata(agreed))
                .unwrap_or_default(),
            member_assignment: member.assignment.clone(),
            ..Default::default()
        });
        DescribedGroup {
            group_id,
            group_state: self.state.name().into(),
            protocol_type: self.protocol_type.clone().unwrap_or_default(),
            protocol_data: agreed.clone().unwrap_or_default(),
            members: members.collect(),
            ..Default::default()
        }
    }
}
