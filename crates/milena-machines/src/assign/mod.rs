//! Assignors of the classic protocol, which run in the leader of a group.
//!
//! In the classic protocol the coordinator knows nothing of topics. Each member sends a subscription, the leader gets
//! all of them, an [`Assignor`] decides, and the coordinator distributes the assignment. An assignor is a plain value:
//! the existing topics and the members go in, each member's partitions come out, and the same input gives the same
//! output.

mod group;
mod range;
mod round_robin;
mod sticky;
mod subscription;
mod transfer;

use std::{collections::BTreeMap, fmt};

use bytes::Bytes;
use bytestring::ByteString;

pub use range::RangeAssignor;
pub use round_robin::RoundRobinAssignor;
pub use sticky::{CooperativeStickyAssignor, StickyAssignor};
pub use subscription::{decode_assignment, decode_subscription, encode_assignment, encode_subscription};
pub use transfer::in_transfer;

use crate::TopicPartition;

/// The subscription of a member, as the leader of its group sees it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSubscription {
    pub member_id: ByteString,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<ByteString>,
    /// In any order; other clients may name a topic twice.
    pub topics: Vec<ByteString>,
    /// The partitions that it owned when it joined; none if it revoked all of them first (the eager protocol).
    pub owned: Vec<TopicPartition>,
    /// The generation in which it got `owned`, -1 if it is not known.
    pub generation: i32,
    pub rack: Option<ByteString>,
    /// Data of its assignor for the leader's assignor.
    pub user_data: Option<Bytes>,
}

impl MemberSubscription {
    /// A new member with these topics, which owns nothing.
    pub fn new(member_id: impl Into<ByteString>, topics: Vec<ByteString>) -> Self {
        Self {
            member_id: member_id.into(),
            instance_id: None,
            topics,
            owned: vec![],
            generation: -1,
            rack: None,
            user_data: None,
        }
    }
}

/// A topic as assignors see it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TopicLayout {
    /// The racks of all replicas of each partition, also of offline ones: those come back sooner than members move.
    /// Replicas with an unknown rack are left out.
    pub racks: Vec<Vec<ByteString>>,
}

impl TopicLayout {
    /// A topic without known racks.
    pub fn without_racks(partitions: usize) -> Self {
        Self {
            racks: vec![vec![]; partitions],
        }
    }

    /// The number of partitions.
    pub fn len(&self) -> usize {
        self.racks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.racks.is_empty()
    }
}

/// The existing topics. A topic that is not here, or has no partitions yet, is not assigned.
pub type ClusterLayout = BTreeMap<ByteString, TopicLayout>;

/// The assignment of a member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberAssignment {
    pub partitions: Vec<TopicPartition>,
    /// Data of the leader's assignor for the member's assignor; Kafka's four have none.
    pub user_data: Option<Bytes>,
}

/// Assignments by member id. Every member has an entry, even if it gets nothing.
pub type GroupAssignment = BTreeMap<ByteString, MemberAssignment>;

/// The way in which partitions move between members. A group uses the greatest that all its assignors have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RebalanceProtocol {
    /// Members revoke all partitions before joining.
    Eager,
    /// Members keep their partitions. A partition that moves is first only revoked, and assigned in a second rebalance.
    Cooperative,
}

/// Decides the assignment. Kafka's four are here; applications can have their own.
pub trait Assignor: Send + fmt::Debug {
    /// The name by which members agree on an assignor.
    fn name(&self) -> &str;

    /// The protocols it supports. With [`RebalanceProtocol::Cooperative`] it promises never to assign a partition that
    /// one member owns to another.
    fn protocols(&self) -> &[RebalanceProtocol] {
        &[RebalanceProtocol::Eager]
    }

    /// Data for the leader's assignor, sent with the subscription to `topics`, which are sorted.
    ///
    /// The bytes should stay the same as long as nothing has changed: a static member that rejoins with other bytes
    /// causes a rebalance.
    fn user_data(&self, topics: &[ByteString]) -> Option<Bytes> {
        let _ = topics;
        None
    }

    /// Computes the assignment, in the leader. It should have an entry for each member.
    fn assign(&mut self, cluster: &ClusterLayout, members: &[MemberSubscription]) -> GroupAssignment;

    /// Takes the assignment of this member in `generation`, in the leader and in all others.
    fn on_assignment(&mut self, assignment: &MemberAssignment, generation: i32) {
        let _ = (assignment, generation);
    }
}

/// One of Kafka's four assignors by its name.
pub fn builtin(name: &str) -> Option<Box<dyn Assignor>> {
    match name {
        "range" => Some(Box::new(RangeAssignor)),
        "roundrobin" => Some(Box::new(RoundRobinAssignor)),
        "sticky" => Some(Box::new(StickyAssignor::default())),
        "cooperative-sticky" => Some(Box::new(CooperativeStickyAssignor::default())),
        _ => None,
    }
}
