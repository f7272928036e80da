//! Who of a group reads what: the assignors that run in its leader.
//!
//! In the classic protocol the coordinator knows nothing of topics. Each member sends a subscription, the leader gets all
//! of them, lets an [`Assignor`] decide, and the coordinator hands out what it decided. An assignor is a plain value: the
//! topics there are and the members go in, each member's partitions come out, and the same input gives the same output.

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

/// What a member tells the leader of its group.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemberSubscription {
    pub member_id: ByteString,
    /// `group.instance.id` of a static member.
    pub instance_id: Option<ByteString>,
    /// In any order; a topic may stand here twice, as members of other clients do what they like.
    pub topics: Vec<ByteString>,
    /// What it had when it joined; nothing if it gave everything back first (the eager protocol).
    pub owned: Vec<TopicPartition>,
    /// The generation in which it got `owned`, -1 if it does not say.
    pub generation: i32,
    pub rack: Option<ByteString>,
    /// What its assignor wanted the leader's assignor to know.
    pub user_data: Option<Bytes>,
}

impl MemberSubscription {
    /// A new member of `topics`: it owns nothing and says nothing else.
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
    /// For each partition the racks of all its replicas, offline ones too: those come back sooner than members move.
    /// A replica whose rack is unknown is left out.
    pub racks: Vec<Vec<ByteString>>,
}

impl TopicLayout {
    /// A topic of which no racks are known.
    pub fn without_racks(partitions: usize) -> Self {
        Self {
            racks: vec![vec![]; partitions],
        }
    }

    /// How many partitions there are.
    pub fn len(&self) -> usize {
        self.racks.len()
    }

    pub fn is_empty(&self) -> bool {
        self.racks.is_empty()
    }
}

/// The topics there are. A topic that is not here, or has no partitions yet, is given to nobody.
pub type ClusterLayout = BTreeMap<ByteString, TopicLayout>;

/// What the leader tells a member.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct MemberAssignment {
    pub partitions: Vec<TopicPartition>,
    /// What the leader's assignor wanted the member's to know; none of Kafka's four has anything to say.
    pub user_data: Option<Bytes>,
}

/// Member id to what it gets. Every member has an entry, even if it gets nothing.
pub type GroupAssignment = BTreeMap<ByteString, MemberAssignment>;

/// How partitions go from one member to another. A group uses the greatest that all its assignors have in common.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum RebalanceProtocol {
    /// Everybody gives back everything before joining.
    Eager,
    /// Members keep what they have. What is to move is first only taken away, and given out in a rebalance of its own.
    Cooperative,
}

/// Decides who reads what. Kafka's four are here; applications can have their own.
pub trait Assignor: Send + fmt::Debug {
    /// Members agree on an assignor by its name.
    fn name(&self) -> &str;

    /// The protocols it can serve. With [`RebalanceProtocol::Cooperative`] it promises never to give a partition that a
    /// member owns to another one.
    fn protocols(&self) -> &[RebalanceProtocol] {
        &[RebalanceProtocol::Eager]
    }

    /// What to send to the leader's assignor with the subscription to `topics`, which are sorted.
    ///
    /// It should be the same bytes as long as nothing has changed: a static member that comes back with other bytes
    /// causes a rebalance.
    fn user_data(&self, topics: &[ByteString]) -> Option<Bytes> {
        let _ = topics;
        None
    }

    /// Decides, in the leader. The answer should have an entry for each member.
    fn assign(&mut self, cluster: &ClusterLayout, members: &[MemberSubscription]) -> GroupAssignment;

    /// Learns what this member got in `generation`, in the leader and in all others.
    fn on_assignment(&mut self, assignment: &MemberAssignment, generation: i32) {
        let _ = (assignment, generation);
    }
}

/// One of Kafka's four by its name.
pub fn builtin(name: &str) -> Option<Box<dyn Assignor>> {
    match name {
        "range" => Some(Box::new(RangeAssignor)),
        "roundrobin" => Some(Box::new(RoundRobinAssignor)),
        "sticky" => Some(Box::new(StickyAssignor::default())),
        "cooperative-sticky" => Some(Box::new(CooperativeStickyAssignor::default())),
        _ => None,
    }
}
