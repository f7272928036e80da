//! Groups of 1,000 members that share 100,000 partitions of 1,000 topics.
//!
//! `cargo bench -p milena-machines --bench assignors`

use bytestring::ByteString;
use divan::Bencher;
use milena_machines::{
    Random,
    assign::{
        Assignor, ClusterLayout, CooperativeStickyAssignor, MemberSubscription, RangeAssignor, RoundRobinAssignor,
        TopicLayout,
    },
};

fn main() {
    divan::main();
}

const MEMBERS: usize = 1_000;
const TOPICS: usize = 1_000;
const PARTITIONS: usize = 100;

/// The subscriptions of the members.
#[derive(Debug, Clone, Copy)]
enum Subscriptions {
    /// All members to all topics.
    Equal,
    /// Half of the members to half of the topics more, as while a new release is rolled out.
    Rollout,
    /// Each to a half of its own.
    Halves,
    /// Each to eight topics, four of which it shares with the next member.
    Chain,
}

/// The history of the group.
#[derive(Debug, Clone, Copy)]
enum Event {
    /// It is new.
    Start,
    /// It was assigned, and then a member left.
    Leave,
    /// It was assigned, and then a member joined.
    Join,
    /// One member had everything, and then all others joined.
    Flood,
}

const SUBSCRIPTIONS: [Subscriptions; 4] = [
    Subscriptions::Equal,
    Subscriptions::Rollout,
    Subscriptions::Halves,
    Subscriptions::Chain,
];

fn topic(number: usize) -> ByteString {
    ByteString::from(format!("topic-{number:04}"))
}

fn cluster(racks: usize) -> ClusterLayout {
    let rack = |number: usize| ByteString::from(format!("rack-{}", number % racks));
    let replicas = |partition: usize| match racks {
        0 => vec![],
        _ => vec![rack(partition), rack(partition + 1)],
    };
    let layout = |number: usize| TopicLayout {
        racks: (0..PARTITIONS).map(|partition| replicas(number + partition)).collect(),
    };
    (0..TOPICS).map(|number| (topic(number), layout(number))).collect()
}

fn member(number: usize, subscriptions: Subscriptions, racks: usize) -> MemberSubscription {
    let mut random = Random::new(number as u64);
    let wants = |number_of_topic: &usize| match subscriptions {
        Subscriptions::Equal => true,
        Subscriptions::Rollout => number.is_multiple_of(2) || number_of_topic.is_multiple_of(2),
        Subscriptions::Halves => random.below(2) == 0,
        Subscriptions::Chain => (number_of_topic + TOPICS - number * 4 % TOPICS) % TOPICS < 8,
    };
    let topics = (0..TOPICS).filter(wants).map(topic).collect();
    let rack = (racks > 0).then(|| ByteString::from(format!("rack-{}", number % racks)));
    MemberSubscription {
        rack,
        ..MemberSubscription::new(format!("member-{number:04}"), topics)
    }
}

/// The members that join after `event`, with their owned partitions.
fn members(
    cluster: &ClusterLayout,
    subscriptions: Subscriptions,
    event: Event,
    racks: usize,
) -> Vec<MemberSubscription> {
    let before = match event {
        Event::Start => 0,
        Event::Leave => MEMBERS + 1,
        Event::Join => MEMBERS - 1,
        Event::Flood => 1,
    };
    let mut group: Vec<MemberSubscription> = (0..before).map(|number| member(number, subscriptions, racks)).collect();
    let assignment = CooperativeStickyAssignor::default().assign(cluster, &group);
    for member in &mut group {
        member.owned = assignment[&member.member_id].partitions.clone();
        member.generation = 1;
    }
    // Not the last one, which has a smaller share in some of these groups.
    if matches!(event, Event::Leave) {
        group.remove(MEMBERS / 2);
    }
    group.extend((before..MEMBERS).map(|number| member(number, subscriptions, racks)));
    group
}

fn bench(
    bencher: Bencher<'_, '_>,
    mut assignor: impl Assignor + Clone + Sync,
    group: (Subscriptions, Event),
    racks: usize,
) {
    let cluster = cluster(racks);
    let members = members(&cluster, group.0, group.1, racks);
    assert_eq!(members.len(), MEMBERS);
    bencher.bench_local(|| assignor.assign(&cluster, &members));
}

#[divan::bench(args = SUBSCRIPTIONS, max_time = 3)]
fn range(bencher: Bencher<'_, '_>, subscriptions: Subscriptions) {
    bench(bencher, RangeAssignor, (subscriptions, Event::Start), 0);
}

#[divan::bench(args = SUBSCRIPTIONS, max_time = 3)]
fn range_in_racks(bencher: Bencher<'_, '_>, subscriptions: Subscriptions) {
    bench(bencher, RangeAssignor, (subscriptions, Event::Start), 3);
}

#[divan::bench(args = SUBSCRIPTIONS, max_time = 3)]
fn round_robin(bencher: Bencher<'_, '_>, subscriptions: Subscriptions) {
    bench(bencher, RoundRobinAssignor, (subscriptions, Event::Start), 0);
}

#[divan::bench_group(max_time = 3)]
mod cooperative_sticky {
    use super::*;

    fn sticky(bencher: Bencher<'_, '_>, subscriptions: Subscriptions, event: Event, racks: usize) {
        bench(
            bencher,
            CooperativeStickyAssignor::default(),
            (subscriptions, event),
            racks,
        );
    }

    #[divan::bench(args = SUBSCRIPTIONS)]
    fn start(bencher: Bencher<'_, '_>, subscriptions: Subscriptions) {
        sticky(bencher, subscriptions, Event::Start, 0);
    }

    #[divan::bench(args = SUBSCRIPTIONS)]
    fn leave(bencher: Bencher<'_, '_>, subscriptions: Subscriptions) {
        sticky(bencher, subscriptions, Event::Leave, 0);
    }

    #[divan::bench(args = SUBSCRIPTIONS)]
    fn join(bencher: Bencher<'_, '_>, subscriptions: Subscriptions) {
        sticky(bencher, subscriptions, Event::Join, 0);
    }

    #[divan::bench(args = SUBSCRIPTIONS)]
    fn flood(bencher: Bencher<'_, '_>, subscriptions: Subscriptions) {
        sticky(bencher, subscriptions, Event::Flood, 0);
    }

    #[divan::bench(args = SUBSCRIPTIONS)]
    fn join_in_racks(bencher: Bencher<'_, '_>, subscriptions: Subscriptions) {
        sticky(bencher, subscriptions, Event::Join, 3);
    }

    #[divan::bench(args = SUBSCRIPTIONS)]
    fn start_in_racks(bencher: Bencher<'_, '_>, subscriptions: Subscriptions) {
        sticky(bencher, subscriptions, Event::Start, 3);
    }
}
