//! Removal of members from groups.

use bytestring::ByteString;
use milena_wire::{
    api::versions,
    messages::{LeaveGroupRequest, LeaveGroupResponse, leave_group_request::MemberIdentity},
};

use super::{
    Admin, AdminError, Results,
    call::{AdminCall, CallContext},
    error::check,
    own, own_option,
    route::Route,
};

const REASON: &str = "member was removed by an admin";

/// A member to remove from its group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum MemberToRemove {
    /// By member id.
    Member(ByteString),
    /// A static member, by its `group.instance.id`.
    Instance(ByteString),
}

impl std::fmt::Display for MemberToRemove {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Member(id) => write!(f, "member {id}"),
            Self::Instance(id) => write!(f, "static member {id}"),
        }
    }
}

impl Admin {
    /// Removes members from a group, so that their partitions are reassigned. A running member joins again.
    pub async fn remove_members(
        &self,
        group: impl Into<ByteString>,
        members: impl IntoIterator<Item = MemberToRemove>,
    ) -> Results<MemberToRemove, ()> {
        let group = group.into();
        let of_group = group.clone();
        let call = AdminCall::new(
            "",
            move |_| Route::Group(of_group.clone()),
            move |batch| LeaveGroupRequest {
                group_id: group.clone(),
                members: batch
                    .keys
                    .iter()
                    .map(|member| identity(member, batch.version))
                    .collect(),
                ..Default::default()
            },
            |context: &CallContext<MemberToRemove>, response: LeaveGroupResponse| {
                check(response.error_code, None)?;
                let results = response.members.iter().map(|member| {
                    let removed = match own_option(&member.group_instance_id) {
                        Some(id) => MemberToRemove::Instance(id),
                        None => MemberToRemove::Member(own(&member.member_id)),
                    };
                    (removed, check(member.error_code, None))
                });
                let mut results: Vec<_> = results.collect();
                // A response without members means success for all of them.
                if results.is_empty() {
                    results.extend(context.keys.iter().map(|key| (key.clone(), Ok(()))));
                }
                Ok(results)
            },
        );
        self.call(call.version_min(versions::leave_group::MEMBERS), members)
            .await
    }

    /// Removes all members from a group.
    pub async fn remove_all_members(
        &self,
        group: impl Into<ByteString>,
    ) -> Result<Results<MemberToRemove, ()>, AdminError> {
        let group = group.into();
        let described = self.describe_groups([group.clone()]).await.remove(&group);
        let members = match described {
            Some(described) => described?.members,
            None => vec![],
        };
        let members = members.into_iter().map(|member| match member.instance_id {
            Some(id) => MemberToRemove::Instance(id),
            None => MemberToRemove::Member(member.member_id),
        });
        Ok(self.remove_members(group, members).await)
    }
}

fn identity(member: &MemberToRemove, version: i16) -> MemberIdentity {
    let (member_id, group_instance_id) = match member {
        MemberToRemove::Member(id) => (id.clone(), None),
        MemberToRemove::Instance(id) => (ByteString::new(), Some(id.clone())),
    };
    MemberIdentity {
        member_id,
        group_instance_id,
        reason: (version >= versions::leave_group::REASON).then(|| REASON.into()),
        ..Default::default()
    }
}
