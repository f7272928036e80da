//! Groups: listed, described and deleted.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_machines::{TopicPartition, assign};
use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        ConsumerGroupDescribeRequest, DeleteGroupsRequest, DescribeGroupsRequest, ListGroupsRequest,
        consumer_group_describe_response as consumer_protocol, describe_groups_response as classic,
        list_groups_response::ListedGroup,
    },
};

use super::{
    Admin, AdminError, Listed, Results,
    call::{AdminCall, CallContext},
    error::{BrokerError, check},
    own, own_option,
    route::Route,
};
use crate::consumer::Node;

/// The state of a group that does not exist.
const DEAD: &str = "Dead";

/// The protocol of a group.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum GroupType {
    /// The classic protocol: a member assigns the partitions.
    Classic,
    /// The consumer protocol: the broker assigns the partitions.
    Consumer,
    /// Another type, as in `Share` and `Streams`.
    Other(ByteString),
}

impl GroupType {
    fn parse(name: &str) -> Self {
        match name {
            _ if name.eq_ignore_ascii_case("classic") => Self::Classic,
            _ if name.eq_ignore_ascii_case("consumer") => Self::Consumer,
            _ => Self::Other(name.into()),
        }
    }

    /// Kafka's name.
    pub fn name(&self) -> &str {
        match self {
            Self::Classic => "Classic",
            Self::Consumer => "Consumer",
            Self::Other(name) => name,
        }
    }
}

/// A filter of groups. The default matches all.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GroupFilter {
    /// States, as in `Stable` and `Empty`.
    pub states: BTreeSet<ByteString>,
    /// Types.
    pub types: BTreeSet<GroupType>,
    /// Protocol types: `consumer` for consumers, empty for groups that only commit.
    pub protocol_types: BTreeSet<ByteString>,
}

/// A group in a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupListing {
    pub group_id: ByteString,
    /// As in `consumer`; empty if no member has joined yet.
    pub protocol_type: ByteString,
    /// `None` if the broker is too old to report it.
    pub state: Option<ByteString>,
    /// `None` if the broker is too old to report it.
    pub group_type: Option<GroupType>,
}

/// A group and its members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupDescription {
    pub group_id: ByteString,
    pub group_type: GroupType,
    /// As in `Stable`.
    pub state: ByteString,
    /// As in `consumer`.
    pub protocol_type: ByteString,
    /// The assignor; empty if no member has joined.
    pub assignor: ByteString,
    pub coordinator: Node,
    /// The group epoch; `None` for classic groups.
    pub epoch: Option<i32>,
    /// The epoch of the target assignment; `None` for classic groups.
    pub target_epoch: Option<i32>,
    /// Sorted by id.
    pub members: Vec<MemberDescription>,
}

/// A member of a group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberDescription {
    pub member_id: ByteString,
    /// The `group.instance.id` of a static member.
    pub instance_id: Option<ByteString>,
    pub client_id: ByteString,
    pub host: ByteString,
    pub rack: Option<ByteString>,
    /// The current assignment.
    pub assignment: BTreeSet<TopicPartition>,
    /// The target assignment; `None` for classic groups.
    pub target: Option<BTreeSet<TopicPartition>>,
    /// The member epoch; `None` for classic groups.
    pub epoch: Option<i32>,
}

impl Admin {
    /// Returns the groups of all brokers, sorted by name.
    pub async fn list_groups(&self, filter: GroupFilter) -> Result<Listed<GroupListing>, AdminError> {
        let brokers = self.broker_ids().await?;
        let wanted = filter.clone();
        let call = AdminCall::new(
            "groups of broker",
            |id: &i32| Route::Broker(*id),
            move |batch| {
                let names = |since: i16, names: Vec<ByteString>| if batch.version >= since { names } else { vec![] };
                ListGroupsRequest {
                    states_filter: names(
                        versions::list_groups::STATES_FILTER,
                        wanted.states.iter().cloned().collect(),
                    ),
                    types_filter: names(
                        versions::list_groups::TYPES_FILTER,
                        wanted.types.iter().map(|of| of.name().into()).collect(),
                    ),
                    ..Default::default()
                }
            },
            |context, response| {
                check(response.error_code, None)?;
                let groups: Vec<GroupListing> = response.groups.iter().map(listing).collect();
                context.all(&groups)
            },
        );
        let mut listed = Listed::of(self.call(call, brokers).await);
        // Older brokers do not apply the filter.
        listed.found.retain(|group| filter.takes(group));
        listed.found.sort_unstable_by(|a, b| a.group_id.cmp(&b.group_id));
        Ok(listed)
    }

    /// Returns groups with their members, of both protocols.
    pub async fn describe_groups<N: Into<ByteString>>(
        &self,
        groups: impl IntoIterator<Item = N>,
    ) -> Results<ByteString, GroupDescription> {
        let consumer_protocol = AdminCall::new(
            "group",
            |group: &ByteString| Route::Group(group.clone()),
            |batch| ConsumerGroupDescribeRequest {
                group_ids: batch.keys.clone(),
                ..Default::default()
            },
            |context, response| {
                let described = response
                    .groups
                    .iter()
                    .map(|group| (own(&group.group_id), describe_consumer_protocol(context, group)));
                Ok(described.collect())
            },
        );
        let mut results = self.call(consumer_protocol, groups.into_iter().map(Into::into)).await;
        let classic: Vec<ByteString> = results
            .iter()
            .filter(|(_, result)| result.as_ref().is_err_and(may_be_classic))
            .map(|(group, _)| group.clone())
            .collect();
        if !classic.is_empty() {
            results.extend(self.describe_classic(classic).await);
        }
        results
    }

    async fn describe_classic(&self, groups: Vec<ByteString>) -> Results<ByteString, GroupDescription> {
        let call = AdminCall::new(
            "group",
            |group: &ByteString| Route::Group(group.clone()),
            |batch| DescribeGroupsRequest {
                groups: batch.keys.clone(),
                ..Default::default()
            },
            |context, response| {
                let described = response
                    .groups
                    .iter()
                    .map(|group| (own(&group.group_id), describe_classic(context, group)));
                Ok(described.collect())
            },
        );
        self.call(call, groups).await
    }

    /// Deletes groups that have no members, with their committed offsets.
    pub async fn delete_groups<N: Into<ByteString>>(
        &self,
        groups: impl IntoIterator<Item = N>,
    ) -> Results<ByteString, ()> {
        let call = AdminCall::new(
            "group",
            |group: &ByteString| Route::Group(group.clone()),
            |batch| DeleteGroupsRequest {
                groups_names: batch.keys.clone(),
                ..Default::default()
            },
            |_, response| {
                let results = response.results.iter();
                Ok(results
                    .map(|result| (own(&result.group_id), check(result.error_code, None)))
                    .collect())
            },
        );
        self.call(call, groups.into_iter().map(Into::into)).await
    }
}

impl GroupFilter {
    fn takes(&self, group: &GroupListing) -> bool {
        let GroupListing {
            state,
            group_type,
            protocol_type,
            ..
        } = group;
        let has_state = |state: &ByteString| self.states.iter().any(|wanted| wanted.eq_ignore_ascii_case(state));
        // A property that the broker does not report excludes no group.
        (self.states.is_empty() || state.as_ref().is_none_or(has_state))
            && (self.types.is_empty() || group_type.as_ref().is_none_or(|of| self.types.contains(of)))
            && (self.protocol_types.is_empty() || self.protocol_types.contains(protocol_type))
    }
}

fn listing(group: &ListedGroup) -> GroupListing {
    let known = |text: &ByteString| Some(text).filter(|text| !text.is_empty()).map(own);
    GroupListing {
        group_id: own(&group.group_id),
        protocol_type: own(&group.protocol_type),
        state: known(&group.group_state),
        group_type: known(&group.group_type).map(|name| GroupType::parse(&name)),
    }
}

/// Whether the group is unknown to the consumer protocol, or the broker does not support it.
fn may_be_classic(error: &AdminError) -> bool {
    let codes = [ErrorCode::GroupIdNotFound, ErrorCode::UnsupportedVersion];
    matches!(error, AdminError::Unsupported { .. }) || error.code().is_some_and(|code| codes.contains(&code))
}

fn describe_consumer_protocol(
    context: &CallContext<ByteString>,
    group: &consumer_protocol::DescribedGroup,
) -> Result<GroupDescription, BrokerError> {
    check(group.error_code, group.error_message.as_deref())?;
    let members = group.members.iter().map(|member| MemberDescription {
        member_id: own(&member.member_id),
        instance_id: own_option(&member.instance_id),
        client_id: own(&member.client_id),
        host: own(&member.client_host),
        rack: own_option(&member.rack_id),
        assignment: consumer_protocol_partitions(&member.assignment),
        target: Some(consumer_protocol_partitions(&member.target_assignment)),
        epoch: Some(member.member_epoch),
    });
    Ok(GroupDescription {
        group_id: own(&group.group_id),
        group_type: GroupType::Consumer,
        state: own(&group.group_state),
        protocol_type: "consumer".into(),
        assignor: own(&group.assignor_name),
        coordinator: context.node.clone(),
        epoch: Some(group.group_epoch),
        target_epoch: Some(group.assignment_epoch),
        members: sorted(members.collect()),
    })
}

fn consumer_protocol_partitions(assignment: &consumer_protocol::Assignment) -> BTreeSet<TopicPartition> {
    let topics = assignment.topic_partitions.iter();
    let partitions = topics.flat_map(|topic| {
        let name = own(&topic.topic_name);
        topic
            .partitions
            .iter()
            .map(move |number| TopicPartition::new(name.clone(), *number))
    });
    partitions.collect()
}

fn describe_classic(
    context: &CallContext<ByteString>,
    group: &classic::DescribedGroup,
) -> Result<GroupDescription, BrokerError> {
    check(group.error_code, group.error_message.as_deref())?;
    if group.group_state == DEAD {
        // Older brokers report this for a group that does not exist.
        return Err(BrokerError {
            code: ErrorCode::GroupIdNotFound,
            message: None,
        });
    }
    let members = group.members.iter().map(|member| MemberDescription {
        member_id: own(&member.member_id),
        instance_id: own_option(&member.group_instance_id),
        client_id: own(&member.client_id),
        host: own(&member.client_host),
        rack: None,
        assignment: classic_partitions(&group.protocol_type, member),
        target: None,
        epoch: None,
    });
    Ok(GroupDescription {
        group_id: own(&group.group_id),
        group_type: GroupType::Classic,
        state: own(&group.group_state),
        protocol_type: own(&group.protocol_type),
        assignor: own(&group.protocol_data),
        coordinator: context.node.clone(),
        epoch: None,
        target_epoch: None,
        members: sorted(members.collect()),
    })
}

/// The assignment of a member. Other protocol types, such as Kafka Connect's, have a format of their own.
fn classic_partitions(protocol_type: &str, member: &classic::DescribedGroupMember) -> BTreeSet<TopicPartition> {
    if protocol_type != "consumer" || member.member_assignment.is_empty() {
        return BTreeSet::new();
    }
    let assignment = assign::decode_assignment(&member.member_assignment);
    let partitions = assignment.map(|assignment| assignment.partitions).unwrap_or_default();
    let own_names: BTreeMap<ByteString, ByteString> = partitions
        .iter()
        .map(|partition| (partition.topic.clone(), own(&partition.topic)))
        .collect();
    let owned = |partition: TopicPartition| {
        let name = own_names.get(&partition.topic).unwrap_or(&partition.topic);
        TopicPartition::new(name.clone(), partition.partition)
    };
    partitions.into_iter().map(owned).collect()
}

fn sorted(mut members: Vec<MemberDescription>) -> Vec<MemberDescription> {
    members.sort_unstable_by(|a, b| a.member_id.cmp(&b.member_id));
    members
}
