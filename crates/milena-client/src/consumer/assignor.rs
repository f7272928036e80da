//! Assignors: the distribution of partitions in a group of the classic protocol.
//!
//! Kafka's four are selected by `partition.assignment.strategy`. A custom [`Assignor`] is passed to
//! [`Consumer::with_assignors`](super::Consumer::with_assignors) in all members of the group. It runs in one of them,
//! the leader. With `group.protocol=consumer` the broker assigns.
//!
//! This one distributes partitions in proportion to the weights of the members:
//!
//! ```
//! use milena_client::consumer::assignor::{
//!     Assignor, ByteString, Bytes, ClusterLayout, GroupAssignment, MemberSubscription,
//! };
//! use milena_client::consumer::TopicPartition;
//!
//! #[derive(Debug)]
//! struct ByWeight {
//!     weight: u8,
//! }
//!
//! impl Assignor for ByWeight {
//!     fn name(&self) -> &str {
//!         "by-weight"
//!     }
//!
//!     /// The leader hears the weight of every member.
//!     fn user_data(&self, _topics: &[ByteString]) -> Option<Bytes> {
//!         Some(Bytes::copy_from_slice(&[self.weight]))
//!     }
//!
//!     fn assign(&mut self, cluster: &ClusterLayout, members: &[MemberSubscription]) -> GroupAssignment {
//!         let empty = |member: &MemberSubscription| (member.member_id.clone(), Default::default());
//!         let mut assignment: GroupAssignment = members.iter().map(empty).collect();
//!         for (topic, layout) in cluster {
//!             for partition in 0..layout.len() {
//!                 // The member whose share is the furthest behind its weight.
//!                 let next = members.iter().filter(|member| member.topics.contains(topic)).min_by_key(|member| {
//!                     let weight = member.user_data.as_ref().and_then(|data| data.first()).map_or(1, |w| (*w).max(1));
//!                     let owned = assignment[&member.member_id].partitions.len() + 1;
//!                     (owned * 1000 / usize::from(weight), member.member_id.clone())
//!                 });
//!                 if let Some(share) = next.and_then(|member| assignment.get_mut(&member.member_id)) {
//!                     let partition = i32::try_from(partition).unwrap_or_default();
//!                     share.partitions.push(TopicPartition::new(topic.clone(), partition));
//!                 }
//!             }
//!         }
//!         assignment
//!     }
//! }
//!
//! # use milena_client::{config::ConsumerConfig, consumer::Consumer};
//! let config = ConsumerConfig::builder("localhost:9092").group_id("billing");
//! let consumer = Consumer::with_assignors(config, vec![Box::new(ByWeight { weight: 4 })])?;
//! # drop(consumer);
//! # Ok::<(), milena_client::consumer::NewConsumerError>(())
//! ```

pub use bytes::Bytes;
pub use bytestring::ByteString;
pub use milena_machines::assign::{
    Assignor, ClusterLayout, CooperativeStickyAssignor, GroupAssignment, MemberAssignment, MemberSubscription,
    RangeAssignor, RebalanceProtocol, RoundRobinAssignor, StickyAssignor, TopicLayout,
};
