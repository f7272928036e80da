//! Duties of the group's leader: assigning, and watching the topics of all members.

use std::collections::BTreeSet;

use bytestring::ByteString;
use milena_wire::messages::{
    join_group_response::JoinGroupResponseMember, sync_group_request::SyncGroupRequestAssignment,
};

use super::{Classic, Common, MemberError, Phase};
use crate::{
    assign::{
        ClusterLayout, GroupAssignment, MemberSubscription, TopicLayout, decode_subscription, encode_assignment,
        in_transfer,
    },
    member::MemberMetadata,
};

/// Kafka's own cooperative assignor checks generations itself: a member that claims a partition with an old one does
/// not own it.
const COOPERATIVE_STICKY: &str = "cooperative-sticky";

#[derive(Debug)]
pub(super) struct Leader {
    members: Vec<MemberSubscription>,
    /// The topics that any member subscribes to.
    topics: BTreeSet<ByteString>,
    /// The topics when the assignment was made; `None` before.
    assigned: Option<ClusterLayout>,
    /// The topics differ from those of the assignment.
    has_changed: bool,
}

impl Leader {
    pub(super) fn topics(&self) -> &BTreeSet<ByteString> {
        &self.topics
    }

    pub(super) fn has_changed(&self) -> bool {
        self.has_changed
    }

    pub(super) fn unknown_topics(&self, metadata: &MemberMetadata) -> BTreeSet<ByteString> {
        let unknown = self
            .topics
            .iter()
            .filter(|topic| !metadata.layout().contains_key(*topic));
        unknown.cloned().collect()
    }

    /// The metadata that an assignment depends on: the numbers of partitions and, if racks count, the replicas' racks.
    fn snapshot(&self, metadata: &MemberMetadata, with_racks: bool) -> ClusterLayout {
        let known = self
            .topics
            .iter()
            .filter_map(|topic| metadata.layout().get_key_value(topic));
        let seen = known.map(|(topic, layout)| {
            let layout = if with_racks {
                layout.clone()
            } else {
                TopicLayout::without_racks(layout.len())
            };
            (topic.clone(), layout)
        });
        seen.collect()
    }
}

impl Classic {
    /// Handles the election. A static leader that rejoins does not assign, but watches the topics all the same.
    pub(super) fn lead(
        &mut self,
        common: &mut Common,
        now_ms: i64,
        members: &[JoinGroupResponseMember],
        skips_assignment: bool,
    ) {
        let mut subscriptions = vec![];
        for member in members {
            let member_id = ByteString::from(&*member.member_id);
            let instance_id = member.group_instance_id.as_ref().map(|id| ByteString::from(&**id));
            match decode_subscription(member_id.clone(), instance_id, &member.metadata) {
                Ok(subscription) => subscriptions.push(subscription),
                Err(error) => {
                    common.report(MemberError::BadSubscription { member_id, error });
                    self.phase = Phase::Syncing;
                    return self.join_later(common, now_ms, "a subscription cannot be read");
                }
            }
        }
        let topics = subscriptions
            .iter()
            .flat_map(|member| &member.topics)
            .cloned()
            .collect();
        self.leader = Some(Leader {
            members: subscriptions,
            topics,
            assigned: None,
            has_changed: false,
        });
        self.phase = Phase::Assigning;
        if skips_assignment {
            self.sync_with(common, vec![]);
        }
        self.watch_metadata(common, now_ms);
    }

    /// Assigns as soon as all topics of the group are known; later, requests a rebalance when they have changed.
    pub(super) fn watch_metadata(&mut self, common: &mut Common, now_ms: i64) {
        let Some(leader) = &mut self.leader else {
            return; // Only the leader watches.
        };
        let snapshot = leader.snapshot(&common.metadata, common.rack.is_some());
        match &leader.assigned {
            Some(assigned) => leader.has_changed = *assigned != snapshot,
            None if !leader.unknown_topics(&common.metadata).is_empty() => {}
            None => {
                leader.assigned = Some(snapshot);
                if self.phase == Phase::Assigning {
                    self.assign(common, now_ms);
                }
            }
        }
    }

    fn assign(&mut self, common: &mut Common, now_ms: i64) {
        match self.assignments(common) {
            Ok(assignments) => self.sync_with(common, assignments),
            Err(error) => {
                common.report(error);
                self.join_later(common, now_ms, "the assignor failed");
            }
        }
    }

    fn assignments(&mut self, common: &Common) -> Result<Vec<SyncGroupRequestAssignment>, MemberError> {
        let members = self
            .leader
            .as_ref()
            .map(|leader| leader.members.as_slice())
            .unwrap_or_default();
        let is_cooperative = self.is_cooperative();
        let name = self.assignor.clone();
        let assignor = self.assignors.iter_mut().find(|assignor| name == assignor.name());
        let assignor = assignor.ok_or_else(|| MemberError::UnknownAssignor { name: name.clone() })?;
        let assignment: GroupAssignment = assignor.assign(common.metadata.layout(), members);
        if is_cooperative && name != COOPERATIVE_STICKY {
            let partitions = in_transfer(members, &assignment);
            if !partitions.is_empty() {
                let assignor = name;
                return Err(MemberError::AssignorMovesOwned { assignor, partitions });
            }
        }
        let assignments = assignment.iter().map(|(member_id, assignment)| {
            Ok(SyncGroupRequestAssignment {
                member_id: member_id.clone(),
                assignment: encode_assignment(assignment).map_err(MemberError::Unwritable)?,
                ..Default::default()
            })
        });
        assignments.collect()
    }
}
