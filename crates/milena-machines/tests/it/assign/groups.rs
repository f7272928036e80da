//! Groups from a seed, with an arbitrary history.

use bytestring::ByteString;
use milena_machines::{
    Random, TopicPartition,
    assign::{ClusterLayout, GroupAssignment, MemberSubscription, TopicLayout},
};

/// The size limits of a group.
#[derive(Debug, Clone, Copy)]
pub(super) struct Size {
    pub(super) members: u64,
    pub(super) topics: u64,
    pub(super) partitions: u64,
}

pub(super) const USUAL: Size = Size {
    members: 9,
    topics: 6,
    partitions: 9,
};
/// Small enough to try all assignments.
pub(super) const TINY: Size = Size {
    members: 3,
    topics: 2,
    partitions: 3,
};

#[derive(Debug, Clone)]
pub(super) struct Group {
    pub(super) cluster: ClusterLayout,
    pub(super) members: Vec<MemberSubscription>,
}

impl Group {
    /// A new group.
    pub(super) fn new(random: &mut Random, size: Size) -> Self {
        let racks = random.below(3) == 0;
        let mut cluster = ClusterLayout::new();
        for number in 0..=random.below(size.topics) {
            let partitions = random.below(size.partitions + 1);
            let layout = TopicLayout {
                racks: (0..partitions).map(|_| replicas(random, racks)).collect(),
            };
            cluster.insert(topic(number), layout);
        }
        let mut group = Self {
            cluster,
            members: vec![],
        };
        let equal = random.below(3) == 0;
        for number in 0..=random.below(size.members) {
            let mut member = group.member(random, number, racks);
            if equal {
                member.topics = group.cluster.keys().cloned().collect();
            }
            group.members.push(member);
        }
        group
    }

    fn member(&self, random: &mut Random, number: u64, racks: bool) -> MemberSubscription {
        let mut topics: Vec<ByteString> = self.cluster.keys().filter(|_| random.below(2) == 0).cloned().collect();
        if random.below(8) == 0 {
            topics.push(ByteString::from_static("missing"));
            topics.extend(topics.first().cloned());
        }
        MemberSubscription {
            instance_id: (random.below(4) == 0).then(|| ByteString::from(format!("i{}", 99 - number))),
            rack: (racks && random.below(5) > 0).then(|| rack(random.below(4))),
            ..MemberSubscription::new(format!("m{number}"), topics)
        }
    }

    /// Every member owns its assignment now.
    pub(super) fn apply(&mut self, assignment: &GroupAssignment, generation: i32) {
        for member in &mut self.members {
            member.owned.clone_from(&assignment[&member.member_id].partitions);
            member.generation = generation;
        }
    }

    /// A random change: members join and leave, change their subscription, or miss a generation; topics grow and
    /// vanish.
    pub(super) fn change(&mut self, random: &mut Random, size: Size) {
        let place = usize::try_from(random.below(self.members.len() as u64)).unwrap();
        let racks = self.members.iter().any(|member| member.rack.is_some());
        match random.below(7) {
            0 if self.members.len() > 1 => drop(self.members.remove(place)),
            1 | 2 if (self.members.len() as u64) < size.members => {
                let number = (0..).find(|number| !self.has_member(*number)).unwrap();
                let member = self.member(random, number, racks);
                self.members.push(member);
            }
            3 => self.members[place].topics = self.member(random, 0, racks).topics,
            4 => {
                let layout = self.cluster.values_mut().next().unwrap();
                if (layout.len() as u64) < size.partitions {
                    layout.racks.push(replicas(random, racks));
                }
            }
            5 => {
                let layout = self.cluster.values_mut().next_back().unwrap();
                layout.racks.pop();
            }
            _ => self.claim(random, place),
        }
    }

    fn has_member(&self, number: u64) -> bool {
        self.members
            .iter()
            .any(|member| member.member_id == format!("m{number}"))
    }

    /// A member with a wrong claim: to partitions that others own, that do not exist, or that it does not subscribe to.
    fn claim(&mut self, random: &mut Random, place: usize) {
        let member = &mut self.members[place];
        member.generation = i32::try_from(random.below(4)).unwrap() - 1;
        for _ in 0..random.below(4) {
            let partition = i32::try_from(random.below(12)).unwrap() - 1;
            member
                .owned
                .push(TopicPartition::new(topic(random.below(8)), partition));
        }
    }
}

fn topic(number: u64) -> ByteString {
    ByteString::from(format!("t{number}"))
}

fn rack(number: u64) -> ByteString {
    ByteString::from(format!("r{number}"))
}

fn replicas(random: &mut Random, racks: bool) -> Vec<ByteString> {
    let count = if racks { 1 + random.below(2) } else { 0 };
    (0..count).map(|_| rack(random.below(3))).collect()
}
