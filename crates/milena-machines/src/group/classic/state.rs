//! State of a group of the classic protocol.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use bytestring::ByteString;
use milena_wire::{
    decode::{DecodeError, Reader},
    errors::ErrorCode,
    message::Message,
    messages::{
        ConsumerProtocolSubscription,
        join_group_request::JoinGroupRequestProtocol,
        join_group_response::{JoinGroupResponse, JoinGroupResponseMember},
    },
};

use super::member::Member;

/// The protocol type of groups whose members are consumers. The coordinator knows the topics of these only.
pub(in crate::group) const CONSUMER_PROTOCOL_TYPE: &str = "consumer";

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::group) enum State {
    /// Without members; offsets may exist.
    Empty,
    /// Waits for members to join.
    PreparingRebalance,
    /// Waits for the leader's assignment.
    CompletingRebalance,
    Stable,
}

impl State {
    pub(in crate::group) fn name(self) -> &'static str {
        match self {
            Self::Empty => "Empty",
            Self::PreparingRebalance => "PreparingRebalance",
            Self::CompletingRebalance => "CompletingRebalance",
            Self::Stable => "Stable",
        }
    }
}

/// A group of the classic protocol.
///
/// `replay` sets the part that is in the log. Between a rebalance and the leader's assignment the rest is ahead of the
/// log, and a coordinator loaded then falls back to the previous generation.
#[derive(Debug)]
pub(in crate::group) struct ClassicGroup {
    pub(in crate::group) state: State,
    /// The time of the last change of state. Offsets of an empty group expire from here.
    pub(in crate::group) state_since_ms: Option<i64>,
    /// `None` as long as no member has joined.
    pub(in crate::group) protocol_type: Option<ByteString>,
    /// The protocol that was selected for this generation.
    pub(in crate::group) protocol_name: Option<ByteString>,
    pub(in crate::group) generation_id: i32,
    pub(in crate::group) leader_id: Option<ByteString>,
    pub(in crate::group) members: BTreeMap<ByteString, Member>,
    /// Member ids by instance id.
    pub(in crate::group) static_members: BTreeMap<ByteString, ByteString>,
    /// Member ids that were given out and have not joined yet.
    pub(in crate::group) pending_members: BTreeSet<ByteString>,
    /// Members that have not sent SyncGroup in this generation.
    pub(in crate::group) pending_sync: BTreeSet<ByteString>,
    /// `None` if the subscriptions cannot be decoded.
    pub(in crate::group) subscribed_topics: Option<BTreeSet<ByteString>>,
    /// Set while the first rebalance after being empty waits for more members.
    pub(in crate::group) initial_delay: Option<InitialDelay>,
}

/// The initial rebalance delay, and the time by which joining members may extend it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::group) struct InitialDelay {
    pub(in crate::group) delay_ms: i32,
    pub(in crate::group) remaining_ms: i32,
    pub(in crate::group) has_new_member: bool,
}

impl ClassicGroup {
    pub(in crate::group) fn new() -> Self {
        Self {
            state: State::Empty,
            state_since_ms: None,
            protocol_type: None,
            protocol_name: None,
            generation_id: 0,
            leader_id: None,
            members: BTreeMap::new(),
            static_members: BTreeMap::new(),
            pending_members: BTreeSet::new(),
            pending_sync: BTreeSet::new(),
            subscribed_topics: None,
            initial_delay: None,
        }
    }

    /// Extends the initial delay, if it runs: another member has joined or is about to.
    pub(super) fn extend_initial_delay(&mut self) {
        if let Some(delay) = &mut self.initial_delay {
            delay.has_new_member = true;
        }
    }

    pub(in crate::group) fn is_empty(&self) -> bool {
        self.state == State::Empty
    }

    pub(in crate::group) fn is_leader(&self, member_id: &str) -> bool {
        self.leader_id.as_ref().is_some_and(|leader| leader == member_id)
    }

    pub(in crate::group) fn uses_consumer_protocol(&self) -> bool {
        self.protocol_type
            .as_ref()
            .is_some_and(|own| own == CONSUMER_PROTOCOL_TYPE)
    }

    /// A group whose topics are unknown counts as subscribed to all.
    pub(in crate::group) fn is_subscribed_to(&self, topic: &str) -> bool {
        match &self.subscribed_topics {
            Some(topics) => topics.contains(topic),
            None => self.uses_consumer_protocol(),
        }
    }

    /// Checks that the request comes from the member that it names.
    pub(in crate::group) fn validate_member(
        &self,
        member_id: &str,
        instance_id: Option<&ByteString>,
    ) -> Result<(), ErrorCode> {
        if let Some(instance_id) = instance_id {
            match self.static_members.get(instance_id) {
                None => return Err(ErrorCode::UnknownMemberId),
                Some(known) if known != member_id => return Err(ErrorCode::FencedInstanceId),
                Some(_) => {}
            }
        }
        if self.members.contains_key(member_id) {
            Ok(())
        } else {
            Err(ErrorCode::UnknownMemberId)
        }
    }

    /// Whether a client with these protocols can join: one of them must be supported by all members.
    pub(super) fn supports(&self, protocol_type: &str, protocols: &[JoinGroupRequestProtocol]) -> bool {
        if self.is_empty() {
            return !protocol_type.is_empty() && !protocols.is_empty();
        }
        self.protocol_type.as_ref().is_some_and(|own| own == protocol_type)
            && protocols.iter().any(|protocol| self.all_support(&protocol.name))
    }

    fn all_support(&self, protocol: &str) -> bool {
        self.members.values().all(|member| member.supports(protocol))
    }

    /// The protocol with the most votes among those that all members support; of equals, the first by name.
    pub(in crate::group) fn select_protocol(&self) -> Option<ByteString> {
        let first = self.members.values().next()?;
        let candidates: BTreeSet<&ByteString> = first
            .protocols
            .iter()
            .map(|protocol| &protocol.name)
            .filter(|name| self.all_support(name))
            .collect();
        let mut votes = BTreeMap::<&ByteString, usize>::new();
        for member in self.members.values() {
            let favourite = member.protocols.iter().map(|protocol| &protocol.name);
            if let Some(vote) = favourite.into_iter().find(|name| candidates.contains(name)) {
                *votes.entry(vote).or_default() += 1;
            }
        }
        let most = votes.values().max().copied()?;
        let (winner, _) = votes.into_iter().find(|(_, count)| *count == most)?;
        Some(winner.clone())
    }

    pub(in crate::group) fn rebalance_timeout_ms(&self) -> i32 {
        let timeouts = self.members.values().map(|member| member.rebalance_timeout_ms);
        timeouts.max().unwrap_or(0).max(0)
    }

    pub(super) fn awaiting_join(&self) -> usize {
        self.members.values().filter(|member| member.joining.is_some()).count()
    }

    pub(super) fn have_all_joined(&self) -> bool {
        self.pending_members.is_empty() && self.members.values().all(|member| member.joining.is_some())
    }

    pub(in crate::group) fn enter(&mut self, state: State, now_ms: i64) {
        self.state = state;
        self.state_since_ms = Some(now_ms);
    }

    pub(in crate::group) fn add(&mut self, member_id: ByteString, member: Member) {
        if self.members.is_empty() {
            self.protocol_type = Some(member.protocol_type.clone());
        }
        if let Some(instance_id) = &member.instance_id {
            self.static_members.insert(instance_id.clone(), member_id.clone());
        }
        self.leader_id.get_or_insert_with(|| member_id.clone());
        self.pending_members.remove(&member_id);
        self.members.insert(member_id, member);
    }

    /// Removes a member. If it was the leader, another member becomes it.
    pub(super) fn remove(&mut self, member_id: &str) -> Option<Member> {
        self.pending_members.remove(member_id);
        self.pending_sync.remove(member_id);
        let removed = self.members.remove(member_id)?;
        if let Some(instance_id) = &removed.instance_id {
            self.static_members.remove(instance_id);
        }
        if self.is_leader(member_id) {
            self.leader_id = self.members.keys().next().cloned();
        }
        Some(removed)
    }

    /// Returns whether the leader has joined; if it has not, a member that has joined becomes the leader.
    pub(super) fn elect_joined_leader(&mut self) -> bool {
        let leader = self.leader_id.as_ref().and_then(|leader| self.members.get(leader));
        if leader.is_some_and(|leader| leader.joining.is_some()) {
            return true;
        }
        let joined = self.members.iter().find(|(_, member)| member.joining.is_some());
        match joined {
            Some((member_id, _)) => {
                self.leader_id = Some(member_id.clone());
                true
            }
            None => false,
        }
    }

    /// The topics in the subscriptions of the members.
    pub(in crate::group) fn find_subscribed_topics(&self) -> Option<BTreeSet<ByteString>> {
        if !self.uses_consumer_protocol() {
            return None;
        }
        let mut topics = BTreeSet::new();
        for member in self.members.values() {
            let metadata = member.metadata(self.protocol_name.as_ref()?);
            topics.extend(topics_in(&metadata).ok()?);
        }
        Some(topics)
    }

    /// The JoinGroup response of a member in this generation.
    pub(super) fn joined(&self, member_id: ByteString) -> JoinGroupResponse {
        let members = if self.is_leader(&member_id) {
            self.joined_members()
        } else {
            vec![]
        };
        JoinGroupResponse {
            generation_id: self.generation_id,
            protocol_type: self.protocol_type.clone(),
            protocol_name: self.protocol_name.clone(),
            leader: self.leader_id.clone().unwrap_or_default(),
            member_id,
            members,
            ..Default::default()
        }
    }

    fn joined_members(&self) -> Vec<JoinGroupResponseMember> {
        let protocol = self.protocol_name.clone().unwrap_or_default();
        self.members
            .iter()
            .map(|(member_id, member)| JoinGroupResponseMember {
                member_id: member_id.clone(),
                group_instance_id: member.instance_id.clone(),
                metadata: member.metadata(&protocol),
                ..Default::default()
            })
            .collect()
    }
}

/// All versions of a subscription begin like the oldest, which contains the topics.
fn topics_in(metadata: &Bytes) -> Result<Vec<ByteString>, DecodeError> {
    let mut reader = Reader::new(metadata, ConsumerProtocolSubscription::NAME, 0);
    reader.i16("version")?;
    Ok(ConsumerProtocolSubscription::read(&mut reader)?.topics)
}
