//! Thousands of histories, each from its seed: no partition ever has two owners, and every history settles.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::{Random, TopicImage};
use milena_wire::{Uuid, errors::ErrorCode, messages::ConsumerGroupHeartbeatRequest};

use super::harness::*;

const SEEDS: u64 = 2_000;
const STEPS: usize = 40;
const MEMBERS: [&str; 5] = ["a", "b", "c", "d", "e"];
const TOPICS: [&str; 4] = ["t", "u", "v", "w"];

/// A slow member: its assignment is one thing, its owned partitions another.
struct Slow {
    member_id: &'static str,
    instance_id: Option<&'static str>,
    topics: Vec<&'static str>,
    regex: Option<&'static str>,
    epoch: i32,
    given: Owned,
    owned: Owned,
    /// It must send all fields again: it has joined, or the last response was lost.
    says_all: bool,
    wants: bool,
}

struct Play {
    world: World,
    random: Random,
    members: Vec<Slow>,
    topics_made: u8,
}

impl Play {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let members = MEMBERS.into_iter().enumerate();
        let members = members.map(|(place, member_id)| Slow {
            member_id,
            instance_id: ["one", "two"].get(place).copied(),
            topics: vec!["t", "u"],
            regex: None,
            epoch: 0,
            given: Owned::new(),
            owned: Owned::new(),
            says_all: true,
            wants: false,
        });
        let mut play = Self {
            world: World::with_topics(&[]),
            members: members.collect(),
            topics_made: 0,
            random: Random::new(random.next_u64()),
        };
        play.make_topic();
        play
    }

    fn chance(&mut self, of: u64) -> bool {
        self.random.below(of) == 0
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.random.below(from.len() as u64)).unwrap()]
    }

    fn make_topic(&mut self) {
        let name = self.pick(&TOPICS);
        let partitions = 1 + i32::try_from(self.random.below(6)).unwrap();
        match self.world.topics.by_name(name) {
            Some(old) => {
                let partitions = partitions.max(old.partitions);
                self.world.topics.insert(name.into(), TopicImage { partitions, ..old });
            }
            None => {
                self.topics_made += 1;
                let id = Uuid::from_bytes([self.topics_made; 16]);
                self.world.topics.insert(name.into(), TopicImage { id, partitions });
            }
        }
        self.world.publish_topics();
    }

    fn step(&mut self) {
        let place = usize::try_from(self.random.below(MEMBERS.len() as u64)).unwrap();
        match self.random.below(24) {
            0 => self.make_topic(),
            1 => {
                let name = self.pick(&TOPICS);
                self.world.delete_topic(name);
            }
            2 => self.world.restart(),
            3 => {
                let ms = i64::try_from(self.random.below(50_000)).unwrap();
                self.world.pass(ms);
            }
            4 => {
                let topics: Vec<&str> = TOPICS.into_iter().filter(|_| self.chance(2)).collect();
                self.members[place].topics = topics;
                self.members[place].regex = self.pick(&[None, Some("[tu]"), Some(".*"), Some("v|w")]);
                self.members[place].says_all = true;
            }
            5 | 6 => self.leave(place),
            7..=11 => {
                let member = &mut self.members[place];
                member.owned = member.given.clone();
            }
            _ => {
                let is_heard = !self.chance(6);
                self.beat(place, is_heard);
            }
        }
        self.check();
    }

    fn leave(&mut self, place: usize) {
        let for_a_while = self.chance(2);
        let member = &mut self.members[place];
        let mut request = beating(member.member_id, -1);
        request.instance_id = member.instance_id.map(Into::into);
        if member.instance_id.is_some() && for_a_while {
            request.member_epoch = -2;
        }
        member.lose();
        member.wants = false;
        let response = self.world.heartbeat(request);
        let allowed = [ErrorCode::None, ErrorCode::UnknownMemberId, ErrorCode::GroupIdNotFound];
        assert!(
            allowed.map(ErrorCode::code).contains(&response.error_code),
            "{response:?}"
        );
    }

    fn beat(&mut self, place: usize, is_heard: bool) {
        let member = &mut self.members[place];
        member.wants = true;
        let request = member.request();
        let response = self.world.heartbeat(request);
        if !is_heard {
            // It reported that it does not own the partitions that it has yet to take, so those may be gone.
            member.given = member.owned.clone();
            member.says_all = true;
            return;
        }
        match ErrorCode::from_code(response.error_code).unwrap() {
            ErrorCode::None => {
                member.epoch = response.member_epoch;
                member.says_all = false;
                if let Some(given) = assignment(&response) {
                    member.given = given;
                }
            }
            ErrorCode::UnknownMemberId | ErrorCode::FencedMemberEpoch | ErrorCode::GroupIdNotFound => member.lose(),
            // Its own first join got no response: it must wait until the session ends.
            ErrorCode::UnreleasedInstanceId => member.lose(),
            error => panic!("{error}: {response:?}"),
        }
    }

    /// Conditions that hold at any moment.
    fn check(&mut self) {
        let group = self.world.describe(GROUP);
        let mut owners: BTreeMap<(Uuid, i32), &str> = BTreeMap::new();
        for member in &group.members {
            for topic in &member.assignment.topic_partitions {
                for partition in &topic.partitions {
                    let before = owners.insert((topic.topic_id, *partition), &*member.member_id);
                    assert_eq!(before, None, "{topic:?} has two owners: {group:#?}");
                }
            }
        }
        let topics = &self.world.topics;
        for member in &self.members {
            if member.epoch == 0 || !group.members.iter().any(|known| known.member_id == member.member_id) {
                continue;
            }
            for (topic, partitions) in member.owned.iter().filter(|(topic, _)| topics.by_id(**topic).is_some()) {
                for partition in partitions {
                    let owner = owners.get(&(*topic, *partition)).copied();
                    assert_eq!(owner, Some(member.member_id), "who reads {partition}? {group:#?}");
                }
            }
        }
    }

    /// Nothing changes any more, and members follow the coordinator.
    fn settle(&mut self) {
        for _ in 0..20 {
            self.world.pass(5_000);
            for place in 0..self.members.len() {
                if self.members[place].wants {
                    self.beat(place, true);
                    let member = &mut self.members[place];
                    member.says_all |= member.owned != member.given;
                    member.owned = member.given.clone();
                }
            }
            self.check();
        }
        let group = self.world.describe(GROUP);
        let wants: BTreeSet<&str> = self
            .members
            .iter()
            .filter(|member| member.wants)
            .map(|m| m.member_id)
            .collect();
        if wants.is_empty() {
            return;
        }
        assert_eq!(group.group_state, "Stable", "{group:#?}");
        for member in &group.members {
            assert_eq!(member.assignment, member.target_assignment, "{group:#?}");
            assert_eq!(member.member_epoch, group.assignment_epoch);
        }
        self.check_complete_and_balanced();
        self.world.restart();
    }

    /// Every subscribed partition is read, and members with the same subscription get equal numbers.
    fn check_complete_and_balanced(&mut self) {
        let here: Vec<&Slow> = self.members.iter().filter(|member| member.wants).collect();
        let wanted = |member: &Slow| -> BTreeSet<Uuid> {
            let topics = self.world.topics.iter();
            let wanted = topics.filter(|(name, _)| member.wants_topic(name));
            wanted.map(|(_, topic)| topic.id).collect()
        };
        for (name, topic) in self.world.topics.iter() {
            let readers = here.iter().filter_map(|member| member.owned.get(&topic.id));
            let read: usize = readers.map(BTreeSet::len).sum();
            let is_wanted = here.iter().any(|member| member.wants_topic(name));
            let expected = if is_wanted {
                usize::try_from(topic.partitions).unwrap()
            } else {
                0
            };
            assert_eq!(read, expected, "{name}");
        }
        if here.iter().all(|member| wanted(member) == wanted(here[0])) {
            let counts = here
                .iter()
                .map(|member| member.owned.values().map(BTreeSet::len).sum::<usize>());
            let counts: Vec<usize> = counts.collect();
            assert!(
                counts.iter().max().unwrap() - counts.iter().min().unwrap() <= 1,
                "{counts:?}"
            );
        }
    }
}

impl Slow {
    fn wants_topic(&self, name: &str) -> bool {
        let by_regex = match self.regex {
            Some("[tu]") => ["t", "u"].contains(&name),
            Some("v|w") => ["v", "w"].contains(&name),
            Some(_) => true,
            None => false,
        };
        by_regex || self.topics.contains(&name)
    }

    fn lose(&mut self) {
        self.epoch = 0;
        self.given.clear();
        self.owned.clear();
        self.says_all = true;
    }

    fn request(&self) -> ConsumerGroupHeartbeatRequest {
        let mut request = beating(self.member_id, self.epoch);
        request.instance_id = self.instance_id.map(Into::into);
        if self.says_all || self.epoch == 0 {
            request.rebalance_timeout_ms = REBALANCE_TIMEOUT_MS;
            request.subscribed_topic_names = Some(names(&self.topics));
            request.subscribed_topic_regex = Some(self.regex.unwrap_or_default().into());
        }
        request.topic_partitions = Some(topic_partitions(&self.owned));
        request
    }
}

#[test]
fn no_partition_has_two_owners_and_all_comes_to_rest() {
    for seed in 0..SEEDS {
        let mut play = Play::new(seed);
        for _ in 0..STEPS {
            play.step();
        }
        play.settle();
    }
}

#[test]
fn the_same_seed_writes_the_same_log() {
    let log = |seed| {
        let mut play = Play::new(seed);
        for _ in 0..STEPS {
            play.step();
        }
        play.world.log
    };
    for seed in 0..20 {
        assert_eq!(log(seed), log(seed));
    }
}
