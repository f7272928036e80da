//! Histories of groups with members of both protocols, each from its seed.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::{Random, group::MigrationPolicy};
use milena_wire::errors::ErrorCode;

use super::{
    harness::*,
    mixed::{Classic, world_with},
};

const SEEDS: u64 = 500;
const STEPS: usize = 60;
const CLASSIC_MEMBERS: usize = 3;

struct Play {
    world: World,
    random: Random,
    /// Of the consumer protocol, and always there: the group never becomes classic.
    anchor: Client,
    classic: Vec<Classic>,
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut world = world_with(MigrationPolicy::Bidirectional);
        let anchor = world.join("anchor", &["t"]);
        let classic = std::iter::repeat_with(Classic::default);
        Self {
            world,
            random: Random::new(seed),
            anchor,
            classic: classic.take(CLASSIC_MEMBERS).collect(),
        }
    }

    fn step(&mut self) {
        let place = usize::try_from(self.random.below(CLASSIC_MEMBERS as u64)).unwrap();
        let member = &mut self.classic[place];
        match self.random.below(12) {
            0 => {
                let partitions = 4 + i32::try_from(self.random.below(5)).unwrap();
                let grown = self.world.topics.by_name("t").unwrap().partitions.max(partitions);
                self.world.create_topic("t", grown);
            }
            1 => self.world.restart(),
            2 => {
                self.anchor.beat(&mut self.world);
                self.world.pass(i64::try_from(self.random.below(9_000)).unwrap());
            }
            3 => {
                let error = member.leave(&mut self.world);
                assert!(matches!(error, ErrorCode::None | ErrorCode::UnknownMemberId), "{error}");
                *member = Classic::default();
            }
            4 | 5 => self.anchor.beat(&mut self.world),
            6..=8 => {
                let group = self.world.describe(GROUP);
                if !group.members.iter().any(|known| known.member_id == member.member_id) {
                    // It was fenced: the partitions that it reads until it learns of that are no longer its own.
                    member.owned.clear();
                }
                let response = member.join(&mut self.world).expect("an immediate reply");
                assert_eq!(response.error_code, 0, "{response:?}");
            }
            _ => sync_or_lose(member, &mut self.world),
        }
        self.check();
    }

    fn check(&mut self) {
        let group = self.world.describe(GROUP);
        let mut owners = BTreeMap::new();
        for member in &group.members {
            let topics = member.assignment.topic_partitions.iter();
            for partition in topics.flat_map(|topic| &topic.partitions) {
                let before = owners.insert(*partition, member.member_id.clone());
                assert_eq!(before, None, "{partition} has two owners: {group:#?}");
            }
        }
        for member in &self.classic {
            if group.members.iter().any(|known| known.member_id == member.member_id) {
                for partition in &member.owned {
                    assert_eq!(owners.get(partition), Some(&member.member_id), "{group:#?}");
                }
            }
        }
    }

    fn settle(&mut self) {
        // A member that has joined sends SyncGroup in the end.
        for member in &mut self.classic {
            sync_or_lose(member, &mut self.world);
        }
        for _ in 0..20 {
            self.anchor.beat(&mut self.world);
            for member in &mut self.classic {
                match member.heartbeat(&mut self.world) {
                    ErrorCode::None => {}
                    ErrorCode::RebalanceInProgress => member.rejoin(&mut self.world),
                    _ => {
                        *member = Classic::default();
                        member.rejoin(&mut self.world);
                    }
                }
            }
            self.check();
        }
        let group = self.world.describe(GROUP);
        assert_eq!(group.group_state, "Stable", "{group:#?}");
        let mut counts: BTreeSet<usize> = self.classic.iter().map(|member| member.owned.len()).collect();
        counts.insert(self.anchor.count());
        let (least, most) = (counts.first().unwrap(), counts.last().unwrap());
        assert!(most - least <= 1, "{counts:?}");
        let all = usize::try_from(self.world.topics.by_name("t").unwrap().partitions).unwrap();
        let read: usize = self.classic.iter().map(|member| member.owned.len()).sum();
        assert_eq!(read + self.anchor.count(), all, "{group:#?}");
        self.world.restart();
    }
}

fn sync_or_lose(member: &mut Classic, world: &mut World) {
    match member.sync(world, &[]) {
        ErrorCode::None | ErrorCode::RebalanceInProgress => {}
        ErrorCode::UnknownMemberId | ErrorCode::IllegalGeneration => *member = Classic::default(),
        error => panic!("{error}"),
    }
}

#[test]
fn no_partition_has_two_owners_in_a_mixed_group() {
    for seed in 0..SEEDS {
        let mut play = Play::new(seed);
        for _ in 0..STEPS {
            play.step();
        }
        play.settle();
    }
}
