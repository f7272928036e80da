//! Limits of what clients can make a coordinator keep: groups, members, and the bytes of each.

use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        ConsumerGroupHeartbeatRequest, JoinGroupRequest, SyncGroupRequest,
        join_group_request::JoinGroupRequestProtocol, sync_group_request::SyncGroupRequestAssignment,
    },
};

use super::{Group, GroupCoordinator, GroupRequest};

/// The limits of one group and of each member. The driver enforces that on the number of groups, of all coordinators.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GroupLimits {
    /// `milena.max.name.bytes`
    pub name_bytes: usize,
    /// `milena.max.member.metadata.bytes`
    pub member_bytes: usize,
    /// `milena.max.group.members`
    pub members: usize,
}

impl Default for GroupLimits {
    fn default() -> Self {
        Self {
            name_bytes: usize::MAX,
            member_bytes: usize::MAX,
            members: usize::MAX,
        }
    }
}

/// A limit that a request exceeds: the error code, and a text that names the setting.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct LimitExceeded {
    pub code: ErrorCode,
    pub text: String,
}

impl LimitExceeded {
    pub fn new(code: ErrorCode, text: impl Into<String>) -> Self {
        let text = text.into();
        Self { code, text }
    }
}

impl GroupCoordinator {
    /// The number of groups that have or had members, and of those with offsets. A group may be among both.
    pub fn group_counts(&self) -> (usize, usize) {
        (self.groups.len(), self.offsets.groups_len())
    }

    /// The number of groups. It takes as long as there are groups with offsets, so it is counted when
    /// [`Self::group_counts`] have changed.
    pub fn count_groups(&self) -> usize {
        let with_offsets = self.offsets.group_ids().into_iter();
        let only_offsets = with_offsets.filter(|group_id| !self.groups.contains_key(*group_id));
        self.groups.len() + only_offsets.count()
    }

    /// Checks that a request keeps to the limits. `may_create` tells whether there may be one more group.
    pub fn check_limits(&self, client_id: &str, request: &GroupRequest, may_create: bool) -> Result<(), LimitExceeded> {
        let (group_id, names, bytes, member_id): (_, Vec<Option<&ByteString>>, _, _) = match request {
            GroupRequest::Join(join) => {
                let names = vec![
                    Some(&join.member_id),
                    join.group_instance_id.as_ref(),
                    Some(&join.protocol_type),
                ];
                (&join.group_id, names, join_bytes(join), Some(&join.member_id))
            }
            GroupRequest::Sync(sync) => (
                &sync.group_id,
                vec![Some(&sync.member_id)],
                assignment_bytes(sync),
                None,
            ),
            GroupRequest::ConsumerHeartbeat(heartbeat) => {
                let names = vec![
                    Some(&heartbeat.member_id),
                    heartbeat.instance_id.as_ref(),
                    heartbeat.rack_id.as_ref(),
                ];
                let joins = heartbeat.member_epoch == 0;
                let member_id = joins.then_some(&heartbeat.member_id);
                (&heartbeat.group_id, names, subscription_bytes(heartbeat), member_id)
            }
            GroupRequest::OffsetCommit(commit) => (&commit.group_id, vec![Some(&commit.member_id)], 0, None),
            GroupRequest::TxnOffsetCommit(commit) => (&commit.group_id, vec![Some(&commit.member_id)], 0, None),
            _ => return Ok(()),
        };
        let limits = &self.config.limits;
        check_name(group_id, ErrorCode::InvalidGroupId, limits)?;
        let names = names.into_iter().flatten().map(|name| &**name);
        for name in names.chain([client_id]) {
            check_name(name, ErrorCode::InvalidRequest, limits)?;
        }
        if bytes > limits.member_bytes {
            let text = format!(
                "a member of group {group_id} sends {bytes} bytes of metadata, more than \
                 milena.max.member.metadata.bytes={} allows",
                limits.member_bytes
            );
            return Err(LimitExceeded::new(ErrorCode::InvalidRequest, text));
        }
        if !may_create && !self.groups.contains_key(group_id) && !self.offsets.has_group(group_id) {
            let text = format!("group {group_id} cannot be created: there are as many as milena.max.groups allows");
            return Err(LimitExceeded::new(ErrorCode::PolicyViolation, text));
        }
        match member_id {
            Some(member_id) => self.check_members(group_id, member_id),
            None => Ok(()),
        }
    }

    fn check_members(&self, group_id: &ByteString, member_id: &ByteString) -> Result<(), LimitExceeded> {
        let (len, is_known) = match self.groups.get(group_id) {
            None => return Ok(()),
            Some(Group::Classic(group)) => {
                let is_known = group.members.contains_key(member_id) || group.pending_members.contains(member_id);
                (group.members.len() + group.pending_members.len(), is_known)
            }
            Some(Group::Consumer(group)) => (group.members_len(), group.has_member(member_id)),
        };
        let max = self.config.limits.members;
        if is_known || len < max {
            return Ok(());
        }
        let text = format!("group {group_id} has {len} members, and milena.max.group.members is {max}");
        Err(LimitExceeded::new(ErrorCode::GroupMaxSizeReached, text))
    }
}

fn check_name(name: &str, code: ErrorCode, limits: &GroupLimits) -> Result<(), LimitExceeded> {
    if name.len() <= limits.name_bytes {
        return Ok(());
    }
    let (len, max) = (name.len(), limits.name_bytes);
    let text = format!("a name has {len} bytes, more than milena.max.name.bytes={max} allows");
    Err(LimitExceeded::new(code, text))
}

fn join_bytes(join: &JoinGroupRequest) -> usize {
    let protocols = join.protocols.iter();
    protocols
        .map(|protocol| protocol.name.len() + protocol.metadata.len())
        .sum()
}

/// The largest assignment: each is kept with its member.
fn assignment_bytes(sync: &SyncGroupRequest) -> usize {
    let assignments = sync.assignments.iter();
    let sizes = assignments.map(|assignment| assignment.member_id.len() + assignment.assignment.len());
    sizes.max().unwrap_or(0)
}

fn subscription_bytes(heartbeat: &ConsumerGroupHeartbeatRequest) -> usize {
    let names = heartbeat.subscribed_topic_names.iter().flatten();
    let regex = heartbeat.subscribed_topic_regex.iter();
    names.chain(regex).map(|text| text.len()).sum()
}

impl GroupRequest {
    /// A copy of a request whose parts are kept. Its names are slices of a frame, which would stay in memory with them.
    #[must_use]
    pub fn detached(self) -> Self {
        match self {
            Self::Join(join) => Self::Join(JoinGroupRequest {
                group_id: copied(&join.group_id),
                member_id: copied(&join.member_id),
                group_instance_id: join.group_instance_id.as_ref().map(copied),
                protocol_type: copied(&join.protocol_type),
                protocols: join.protocols.iter().map(copied_protocol).collect(),
                ..join
            }),
            Self::Sync(sync) => Self::Sync(SyncGroupRequest {
                assignments: sync.assignments.iter().map(copied_assignment).collect(),
                ..sync
            }),
            Self::ConsumerHeartbeat(heartbeat) => Self::ConsumerHeartbeat(ConsumerGroupHeartbeatRequest {
                group_id: copied(&heartbeat.group_id),
                member_id: copied(&heartbeat.member_id),
                instance_id: heartbeat.instance_id.as_ref().map(copied),
                rack_id: heartbeat.rack_id.as_ref().map(copied),
                server_assignor: heartbeat.server_assignor.as_ref().map(copied),
                subscribed_topic_names: heartbeat
                    .subscribed_topic_names
                    .map(|names| names.iter().map(copied).collect()),
                subscribed_topic_regex: heartbeat.subscribed_topic_regex.as_ref().map(copied),
                ..heartbeat
            }),
            Self::OffsetCommit(mut commit) => {
                commit.group_id = copied(&commit.group_id);
                for topic in &mut commit.topics {
                    topic.name = copied(&topic.name);
                    for partition in &mut topic.partitions {
                        partition.committed_metadata = partition.committed_metadata.as_ref().map(copied);
                    }
                }
                Self::OffsetCommit(commit)
            }
            Self::TxnOffsetCommit(mut commit) => {
                commit.group_id = copied(&commit.group_id);
                for topic in &mut commit.topics {
                    topic.name = copied(&topic.name);
                    for partition in &mut topic.partitions {
                        partition.committed_metadata = partition.committed_metadata.as_ref().map(copied);
                    }
                }
                Self::TxnOffsetCommit(commit)
            }
            other => other,
        }
    }
}

fn copied(text: &ByteString) -> ByteString {
    ByteString::from(&**text)
}

fn copied_protocol(protocol: &JoinGroupRequestProtocol) -> JoinGroupRequestProtocol {
    JoinGroupRequestProtocol {
        name: copied(&protocol.name),
        metadata: Bytes::copy_from_slice(&protocol.metadata),
        ..Default::default()
    }
}

fn copied_assignment(assignment: &SyncGroupRequestAssignment) -> SyncGroupRequestAssignment {
    SyncGroupRequestAssignment {
        member_id: copied(&assignment.member_id),
        assignment: Bytes::copy_from_slice(&assignment.assignment),
        ..Default::default()
    }
}
