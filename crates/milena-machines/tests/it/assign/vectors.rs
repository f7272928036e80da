//! Groups, and the decisions of Kafka's own assignors: `golden/Assignors.java` writes them and explains how.

use bytes::Bytes;
use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    assign::{ClusterLayout, GroupAssignment, MemberAssignment, MemberSubscription, TopicLayout},
};

/// A group and Kafka's decisions.
#[derive(Debug, Default)]
pub(super) struct Vector {
    pub(super) cluster: ClusterLayout,
    pub(super) members: Vec<MemberSubscription>,
    pub(super) range: GroupAssignment,
    pub(super) round_robin: GroupAssignment,
    pub(super) sticky: Facts,
    pub(super) cooperative: Facts,
    /// The subscriptions of members that use `sticky`, of those that use `cooperative-sticky`, and the assignments of
    /// `range`, in the order of the members. Only the first groups have them.
    pub(super) sticky_bytes: Vec<Bytes>,
    pub(super) cooperative_bytes: Vec<Bytes>,
    pub(super) range_bytes: Vec<Bytes>,
}

/// The measures of a sticky assignment.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Facts {
    /// Partitions that went from their owner to another member.
    pub(super) moved: usize,
    /// Partitions whose member has a rack in which they have no replica.
    pub(super) far: usize,
    /// The number of partitions of each member.
    pub(super) counts: Vec<usize>,
}

pub(super) fn read() -> Vec<Vector> {
    let text = include_str!("../../golden/assignors.txt");
    text.trim_end().split("\n\n").map(read_one).collect()
}

pub(super) fn read_one(text: &str) -> Vector {
    let mut vector = Vector::default();
    for line in text.lines() {
        let words: Vec<&str> = line.split(' ').collect();
        match (words[0], &words[1..]) {
            ("topic", [name, partitions @ ..]) => {
                let racks = partitions.iter().map(|racks| list(racks)).collect();
                vector.cluster.insert(ByteString::from(*name), TopicLayout { racks });
            }
            ("member", words) => vector.members.push(member(words)),
            ("range", words) => vector.range = assignment(&vector.members, words),
            ("roundrobin", words) => vector.round_robin = assignment(&vector.members, words),
            ("sticky", words) => vector.sticky = facts(words),
            ("cooperative", words) => vector.cooperative = facts(words),
            ("stickybytes", words) => vector.sticky_bytes = words.iter().map(|word| bytes(word)).collect(),
            ("cooperativebytes", words) => vector.cooperative_bytes = words.iter().map(|word| bytes(word)).collect(),
            ("rangebytes", words) => vector.range_bytes = words.iter().map(|word| bytes(word)).collect(),
            _ => panic!("{line:?} is no line of a vector"),
        }
    }
    vector
}

fn member(words: &[&str]) -> MemberSubscription {
    let [member_id, instance_id, rack, generation, topics, owned] = words else {
        panic!("{words:?} is no member");
    };
    MemberSubscription {
        instance_id: list(instance_id).pop(),
        rack: list(rack).pop(),
        generation: generation.parse().unwrap(),
        owned: partitions(owned),
        ..MemberSubscription::new(*member_id, list(topics))
    }
}

fn assignment(members: &[MemberSubscription], words: &[&str]) -> GroupAssignment {
    assert_eq!(members.len(), words.len());
    let members = members.iter().zip(words);
    members
        .map(|(member, words)| {
            let assignment = MemberAssignment {
                partitions: partitions(words),
                user_data: None,
            };
            (member.member_id.clone(), assignment)
        })
        .collect()
}

fn facts(words: &[&str]) -> Facts {
    let numbers: Vec<usize> = words.iter().map(|word| word.parse().unwrap()).collect();
    let [moved, far, counts @ ..] = numbers.as_slice() else {
        panic!("{words:?} are no facts");
    };
    Facts {
        moved: *moved,
        far: *far,
        counts: counts.to_vec(),
    }
}

fn list(words: &str) -> Vec<ByteString> {
    if words == "-" {
        return vec![];
    }
    words.split(',').map(ByteString::from).collect()
}

fn partitions(words: &str) -> Vec<TopicPartition> {
    if words == "-" {
        return vec![];
    }
    let topics = words.split(';').map(|topic| topic.split_once(':').unwrap());
    topics
        .flat_map(|(topic, numbers)| {
            let numbers = numbers.split(',').map(|number| number.parse().unwrap());
            numbers.map(move |number| TopicPartition::new(topic, number))
        })
        .collect()
}

fn bytes(hex: &str) -> Bytes {
    let byte = |place| u8::from_str_radix(&hex[place..place + 2], 16).unwrap();
    (0..hex.len()).step_by(2).map(byte).collect()
}
