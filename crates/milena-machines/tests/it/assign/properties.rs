//! Properties that hold for every group.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::{
    Random, TopicPartition,
    assign::{
        Assignor, CooperativeStickyAssignor, GroupAssignment, RangeAssignor, RoundRobinAssignor, StickyAssignor,
        in_transfer,
    },
};

use super::{
    facts::{facts, racks_matter, with_user_data},
    groups::{Group, Size, TINY, USUAL},
};

/// Runs every group for some generations with `assign`, and hands over the input and output of each step.
fn live(
    seeds: u64,
    size: Size,
    mut assign: impl FnMut(&Group) -> GroupAssignment,
    mut check: impl FnMut(&str, &Group),
) {
    for seed in 0..seeds {
        let mut random = Random::new(seed);
        let mut group = Group::new(&mut random, size);
        for generation in 1..5 {
            check(&format!("seed {seed}, generation {generation}"), &group);
            let assignment = assign(&group);
            group.apply(&assignment, generation);
            for _ in 0..=random.below(2) {
                group.change(&mut random, size);
            }
        }
    }
}

fn sticky(group: &Group) -> GroupAssignment {
    StickyAssignor::default().assign(&group.cluster, &with_user_data(&group.members))
}

fn cooperative(group: &Group) -> GroupAssignment {
    CooperativeStickyAssignor::default().assign(&group.cluster, &group.members)
}

/// Every subscribed partition has one owner, which is a subscriber.
fn assert_whole(group: &Group, assignment: &GroupAssignment, when: &str) {
    let ids: BTreeSet<_> = group.members.iter().map(|member| &member.member_id).collect();
    assert_eq!(
        assignment.keys().collect::<BTreeSet<_>>(),
        ids,
        "{when}: each member has an entry"
    );
    let mut given: BTreeMap<TopicPartition, usize> = BTreeMap::new();
    for member in &group.members {
        let partitions = &assignment[&member.member_id].partitions;
        assert!(partitions.is_sorted(), "{when}");
        for partition in partitions {
            assert!(
                member.topics.contains(&partition.topic),
                "{when}: {partition} was not asked for"
            );
            *given.entry(partition.clone()).or_default() += 1;
        }
    }
    let wanted = group.cluster.iter().filter(|(topic, _)| {
        let mut members = group.members.iter();
        members.any(|member| member.topics.contains(topic))
    });
    let expected = wanted.flat_map(|(topic, layout)| {
        let numbers = 0..i32::try_from(layout.len()).unwrap();
        numbers.map(|number| (TopicPartition::new(topic.clone(), number), 1))
    });
    assert_eq!(given, expected.collect(), "{when}");
}

/// No member can pass a partition to one with two or more fewer, not even by way of others.
fn assert_even(group: &Group, assignment: &GroupAssignment, when: &str) {
    let load = |place: usize| assignment[&group.members[place].member_id].partitions.len();
    for from in 0..group.members.len() {
        let mut reached = BTreeSet::from([from]);
        let mut open = vec![from];
        while let Some(place) = open.pop() {
            let partitions = &assignment[&group.members[place].member_id].partitions;
            for (next, member) in group.members.iter().enumerate() {
                let can_take = partitions
                    .iter()
                    .any(|partition| member.topics.contains(&partition.topic));
                if can_take && reached.insert(next) {
                    open.push(next);
                }
            }
        }
        for to in reached {
            assert!(load(from) <= load(to) + 1, "{when}: {group:#?} {assignment:#?}");
        }
    }
}

#[test]
fn every_partition_goes_to_one_subscriber() {
    live(1000, USUAL, sticky, |when, group| {
        assert_whole(group, &RangeAssignor.assign(&group.cluster, &group.members), when);
        assert_whole(group, &RoundRobinAssignor.assign(&group.cluster, &group.members), when);
        assert_whole(group, &sticky(group), when);
    });
}

#[test]
fn sticky_is_as_even_as_it_can_be() {
    live(1000, USUAL, sticky, |when, group| {
        assert_even(group, &sticky(group), when)
    });
}

#[test]
fn nothing_moves_without_a_reason() {
    live(1000, USUAL, sticky, |when, group| {
        let mut group = group.clone();
        for assign in [sticky, cooperative] {
            // The second round, in case that the first had to revoke partitions.
            let first = assign(&group);
            group.apply(&first, 8);
            let second = assign(&group);
            group.apply(&second, 9);
            assert_eq!(assign(&group), second, "{when}: {group:#?}");
        }
        let assignment = sticky(&group);
        group.apply(&assignment, 10);
        assert_eq!(sticky(&group), assignment, "{when}: {group:#?}");
    });
}

#[test]
fn the_order_of_members_does_not_matter() {
    let assignors: [fn(&Group) -> GroupAssignment; 4] = [
        |group| RangeAssignor.assign(&group.cluster, &group.members),
        |group| RoundRobinAssignor.assign(&group.cluster, &group.members),
        sticky,
        cooperative,
    ];
    live(300, USUAL, sticky, |when, group| {
        let mut other = group.clone();
        other.members.reverse();
        for assign in assignors {
            assert_eq!(assign(group), assign(&other), "{when}: {group:#?}");
        }
    });
}

#[test]
fn cooperative_takes_away_first_and_gives_in_the_next_round() {
    live(1000, USUAL, cooperative, |when, group| {
        let first = cooperative(group);
        assert_eq!(in_transfer(&group.members, &first), [], "{when}: {group:#?}");
        let mut group = group.clone();
        group.apply(&first, 8);
        let second = cooperative(&group);
        assert_eq!(in_transfer(&group.members, &second), [], "{when}: {group:#?}");
        for (member, before) in &first {
            let after: BTreeSet<_> = second[member].partitions.iter().collect();
            let keeps_all = before.partitions.iter().all(|partition| after.contains(partition));
            assert!(
                keeps_all,
                "{when}: {member} loses something in the second round: {group:#?}"
            );
        }
        assert_whole(&group, &second, when);
        assert_even(&group, &second, when);
    });
}

/// Tries all assignments of small groups.
#[test]
fn no_other_way_is_better() {
    live(400, TINY, sticky, |when, group| {
        let cost = |assignment: &GroupAssignment| {
            let facts = facts(&group.cluster, &group.members, assignment);
            let uneven: usize = facts.counts.iter().map(|count| count * count).sum();
            let far = if racks_matter(&group.cluster, &group.members) {
                facts.far
            } else {
                0
            };
            // A partition in the right rack is worth one move, not two.
            (uneven, 3 * far + 2 * facts.moved)
        };
        let best = all_assignments(group).iter().map(cost).min();
        assert_eq!(Some(cost(&sticky(group))), best, "{when}: {group:#?}");
    });
}

fn all_assignments(group: &Group) -> Vec<GroupAssignment> {
    let nothing = group
        .members
        .iter()
        .map(|member| (member.member_id.clone(), Default::default()));
    let mut all: Vec<GroupAssignment> = vec![nothing.collect()];
    for (topic, layout) in &group.cluster {
        let takers: Vec<_> = group
            .members
            .iter()
            .filter(|member| member.topics.contains(topic))
            .collect();
        for number in 0..layout.len() {
            let partition = TopicPartition::new(topic.clone(), i32::try_from(number).unwrap());
            let with = |before: &GroupAssignment| {
                let ways = takers.iter().map(|taker| {
                    let mut after = before.clone();
                    let assignment = after.get_mut(&taker.member_id).unwrap();
                    assignment.partitions.push(partition.clone());
                    after
                });
                ways.collect::<Vec<_>>()
            };
            if !takers.is_empty() {
                all = all.iter().flat_map(with).collect();
            }
        }
    }
    all
}
