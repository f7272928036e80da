//! Listing, describing and deleting groups.

use bytestring::ByteString;
use milena_wire::{errors::ErrorCode, messages::describe_groups_response::DescribedGroup};

use super::{GroupContext, GroupCoordinator, GroupEffects, GroupReply};

impl GroupCoordinator {
    pub(super) fn describe_group(&self, _context: &GroupContext, group_id: ByteString) -> GroupReply {
        GroupReply::Describe(DescribedGroup {
            group_id,
            ..Default::default()
        })
    }

    pub(super) fn list_groups(&self, _states: &[ByteString], _types: &[ByteString]) -> GroupReply {
        GroupReply::List(vec![])
    }

    pub(super) fn delete_group(
        &mut self,
        _context: &GroupContext,
        _group_id: &ByteString,
        _effects: &mut GroupEffects,
    ) -> GroupReply {
        GroupReply::Delete(ErrorCode::GroupIdNotFound)
    }
}
