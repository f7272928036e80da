//! Assignors of the broker.
//!
//! Kafka computes a new assignment at most once in `group.consumer.assignment.interval.ms` (by default a second),
//! because it assigns for groups of thousands on the thread that serves heartbeats. We assign at once.

mod range;
mod uniform;

use std::rc::Rc;

use bytestring::ByteString;
use milena_wire::Uuid;

use super::member::Partitions;

/// The input of an assignor for one member.
#[derive(Debug)]
pub(super) struct MemberSpec<'a> {
    pub(super) member_id: &'a ByteString,
    pub(super) instance_id: Option<&'a ByteString>,
    /// The existing topics that it subscribes to, in the order of their ids. Equal lists are shared.
    pub(super) topics: Rc<[TopicSpec]>,
    /// Its previous target.
    pub(super) previous: &'a Partitions,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct TopicSpec {
    pub(super) id: Uuid,
    pub(super) partitions: i32,
}

/// The names of the assignors. The first is the default.
pub const CONSUMER_ASSIGNORS: [&str; 2] = ["uniform", "range"];

/// Assigns partitions to the members, in the order of their ids; the result has the same order.
pub(super) fn assign(assignor: &str, members: &[MemberSpec<'_>]) -> Vec<Partitions> {
    match assignor {
        "range" => range::assign(members),
        _ => uniform::assign(members),
    }
}

/// Whether all members have the same subscription.
fn is_homogeneous(members: &[MemberSpec<'_>]) -> bool {
    members.windows(2).all(|pair| match pair {
        [one, other] => one.topics == other.topics,
        _ => true,
    })
}

#[cfg(test)]
mod test {
    use super::*;

    pub(super) fn topic(number: u8, partitions: i32) -> TopicSpec {
        TopicSpec {
            id: Uuid::from_bytes([number; 16]),
            partitions,
        }
    }

    pub(super) fn partitions(topics: &[(u8, &[i32])]) -> Partitions {
        let topics = topics.iter();
        topics
            .map(|(number, partitions)| (topic(*number, 0).id, partitions.iter().copied().collect()))
            .collect()
    }

    /// Members without previous partitions.
    pub(super) fn specs(members: &[(&'static str, &[TopicSpec])]) -> Vec<MemberSpec<'static>> {
        let members = members.iter().map(|(member_id, topics)| MemberSpec {
            member_id: Box::leak(Box::new(ByteString::from_static(member_id))),
            instance_id: None,
            topics: (*topics).into(),
            previous: Box::leak(Box::default()),
        });
        members.collect()
    }
}
