//! Permission to commit and fetch offsets.

use milena_wire::{Uuid, api::versions, errors::ErrorCode};

use super::{group::ConsumerGroup, member::Member};

impl ConsumerGroup {
    /// Checks that a member may commit. A past epoch is not an error by itself (KIP-1251):
    /// [`Self::validate_partition_commits`] decides.
    pub(in crate::group) fn validate_offset_commit(
        &self,
        member_id: &str,
        instance_id: Option<&str>,
        epoch: i32,
        is_transactional: bool,
        version: i16,
    ) -> Result<(), ErrorCode> {
        // A consumer without a group, or a producer that does not name the member it commits for.
        let is_alone = epoch < 0 && self.members.is_empty();
        let is_silent = is_transactional && epoch == -1 && member_id.is_empty() && instance_id.is_none();
        if is_alone || is_silent {
            return Ok(());
        }
        let member = self.members.get(member_id).ok_or(ErrorCode::UnknownMemberId)?;
        if !is_transactional && !member.uses_classic_protocol() && version < versions::offset_commit::CONSUMER_PROTOCOL
        {
            return Err(ErrorCode::UnsupportedVersion);
        }
        if epoch > member.current.epoch {
            return Err(wrong_epoch(member));
        }
        Ok(())
    }

    /// Checks that a member may commit for these partitions: with a past epoch only if it has owned them since then.
    pub(in crate::group) fn validate_partition_commits(
        &self,
        member_id: &str,
        epoch: i32,
        mut partitions: impl Iterator<Item = (Uuid, i32)>,
    ) -> Result<(), ErrorCode> {
        let Some(member) = self.members.get(member_id) else {
            return Ok(()); // Allowed by `validate_offset_commit`: no member is named.
        };
        let has_since = |(topic, partition)| {
            let assigned_in = member.current.assignment_epoch(topic, partition);
            assigned_in.is_some_and(|assigned_in| epoch >= assigned_in)
        };
        if epoch == member.current.epoch || partitions.all(has_since) {
            Ok(())
        } else {
            Err(wrong_epoch(member))
        }
    }

    pub(in crate::group) fn validate_offset_fetch(&self, member_id: Option<&str>, epoch: i32) -> Result<(), ErrorCode> {
        let Some(member_id) = member_id else {
            return if epoch < 0 {
                Ok(())
            } else {
                Err(ErrorCode::UnknownMemberId)
            };
        };
        let member = self.members.get(member_id).ok_or(ErrorCode::UnknownMemberId)?;
        if epoch == member.current.epoch {
            Ok(())
        } else {
            Err(wrong_epoch(member))
        }
    }
}

/// The same error has two names in the two protocols.
fn wrong_epoch(member: &Member) -> ErrorCode {
    if member.uses_classic_protocol() {
        ErrorCode::IllegalGeneration
    } else {
        ErrorCode::StaleMemberEpoch
    }
}
