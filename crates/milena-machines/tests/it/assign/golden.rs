//! The same groups lead to the same decisions; or, where ours may differ from Kafka's, to decisions that are no worse.

use std::collections::BTreeSet;

use milena_machines::assign::{
    Assignor, CooperativeStickyAssignor, MemberSubscription, RangeAssignor, RoundRobinAssignor, StickyAssignor,
    in_transfer,
};

use super::{
    facts::{facts, racks_matter, unevenness, with_user_data},
    vectors::{self, Vector},
};

#[test]
fn range_decides_as_kafka_does() {
    for (number, vector) in vectors::read().iter().enumerate() {
        let decided = RangeAssignor.assign(&vector.cluster, &vector.members);
        assert_eq!(decided, vector.range, "group {number}: {vector:#?}");
    }
}

#[test]
fn round_robin_decides_as_kafka_does() {
    for (number, vector) in vectors::read().iter().enumerate() {
        let decided = RoundRobinAssignor.assign(&vector.cluster, &vector.members);
        assert_eq!(decided, vector.round_robin, "group {number}: {vector:#?}");
    }
}

/// Kafka does not always find the best balance. Where it does, ours moves no more partitions; where racks matter too,
/// as far as it does not bring more of them near, which Kafka puts above not moving them.
#[test]
fn sticky_is_never_less_even_than_kafka_and_for_the_same_balance_moves_no_more() {
    let vectors = vectors::read();
    let mut worse_in_kafka = 0;
    let (mut moved, mut moved_by_kafka) = (0, 0);
    for (number, vector) in vectors.iter().enumerate() {
        let Vector { cluster, members, .. } = vector;
        let decided = StickyAssignor::default().assign(cluster, &with_user_data(members));
        let (ours, kafkas) = (facts(cluster, members, &decided), &vector.sticky);
        let even = (unevenness(&ours.counts), unevenness(&kafkas.counts));
        assert!(even.0 <= even.1, "group {number}: {ours:?} {vector:#?}");
        if even.0 == even.1 && racks_matter(cluster, members) {
            let price = |moved: usize, far: usize| 2 * moved + 3 * far;
            let no_dearer = price(ours.moved, ours.far) <= price(kafkas.moved, kafkas.far);
            assert!(no_dearer, "group {number}: {ours:?} {vector:#?}");
        } else if even.0 == even.1 {
            assert!(ours.moved <= kafkas.moved, "group {number}: {ours:?} {vector:#?}");
        }
        worse_in_kafka += usize::from(even.0 < even.1);
        moved += ours.moved;
        moved_by_kafka += kafkas.moved;
    }
    assert!(
        moved < moved_by_kafka,
        "{moved} moves in all, {moved_by_kafka} by Kafka"
    );
    let same = vectors.len() - worse_in_kafka;
    assert!(same > worse_in_kafka, "only {same} groups could be compared");
}

#[test]
fn cooperative_decides_as_sticky_and_withholds_what_moves() {
    for (number, vector) in vectors::read().iter().enumerate() {
        let Vector { cluster, members, .. } = vector;
        let decided = CooperativeStickyAssignor::default().assign(cluster, members);
        let mut wanted = StickyAssignor::default().assign(cluster, &with_user_data(members));
        let moving = in_transfer(members, &wanted);
        for assignment in wanted.values_mut() {
            assignment.partitions.retain(|partition| !moving.contains(partition));
        }
        assert_eq!(decided, wanted, "group {number}: {vector:#?}");
        let (ours, kafkas) = (facts(cluster, members, &decided), &vector.cooperative);
        assert_eq!(ours.moved, 0, "group {number}: {vector:#?}");
        // A leader in Java assigns a partition that two members claim to one of them at once.
        let is_comparable = unevenness(&vector.sticky.counts) == even(vector) && !is_disputed(members);
        if is_comparable && !racks_matter(cluster, members) {
            let given = |counts: &[usize]| counts.iter().sum::<usize>();
            assert!(
                given(&ours.counts) >= given(&kafkas.counts),
                "group {number}: {ours:?} {vector:#?}"
            );
        }
    }
}

/// The imbalance of our decision.
fn even(vector: &Vector) -> usize {
    let Vector { cluster, members, .. } = vector;
    let decided = StickyAssignor::default().assign(cluster, &with_user_data(members));
    unevenness(&facts(cluster, members, &decided).counts)
}

fn is_disputed(members: &[MemberSubscription]) -> bool {
    let mut claimed = BTreeSet::new();
    let mut claims = members.iter().flat_map(|member| &member.owned);
    claims.any(|partition| !claimed.insert(partition))
}
