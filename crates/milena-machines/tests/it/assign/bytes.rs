//! Encoded subscriptions and assignments, compared with those of Kafka's own consumer.

use bytes::{BufMut, Bytes, BytesMut};
use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    assign::{
        Assignor, CooperativeStickyAssignor, MemberAssignment, MemberSubscription, StickyAssignor, decode_assignment,
        decode_subscription, encode_assignment, encode_subscription,
    },
};

use super::vectors::{self, Vector};

/// The subscriptions of members that use an assignor.
fn subscriptions<A: Assignor + Default>(members: &[MemberSubscription]) -> Vec<MemberSubscription> {
    let members = members.iter().map(|member| {
        let mut assignor = A::default();
        if member.generation >= 0 {
            let partitions = member.owned.clone();
            let user_data = None;
            assignor.on_assignment(&MemberAssignment { partitions, user_data }, member.generation);
        }
        MemberSubscription {
            user_data: assignor.user_data(&member.topics),
            ..member.clone()
        }
    });
    members.collect()
}

/// The decoded subscriptions in the leader.
fn decode(members: &[MemberSubscription], bytes: &[Bytes]) -> Vec<MemberSubscription> {
    let read = |(member, bytes): (&MemberSubscription, &Bytes)| {
        decode_subscription(member.member_id.clone(), member.instance_id.clone(), bytes).unwrap()
    };
    members.iter().zip(bytes).map(read).collect()
}

fn with_bytes() -> Vec<Vector> {
    let mut vectors = vectors::read();
    vectors.retain(|vector| !vector.sticky_bytes.is_empty());
    assert!(vectors.len() >= 40);
    vectors
}

#[test]
fn cooperative_members_write_what_members_in_java_write() {
    for vector in with_bytes() {
        let members = subscriptions::<CooperativeStickyAssignor>(&vector.members);
        let written: Vec<Bytes> = members
            .iter()
            .map(|member| encode_subscription(member).unwrap())
            .collect();
        assert_eq!(written, vector.cooperative_bytes, "{members:#?}");
        assert_eq!(decode(&members, &vector.cooperative_bytes), members);
    }
}

/// Java writes topics into the user data in the order of a hash map. The bytes are the same only with one topic;
/// otherwise there are as many, and the leader decodes them.
#[test]
fn sticky_members_write_what_members_in_java_write() {
    for vector in with_bytes() {
        let members = subscriptions::<StickyAssignor>(&vector.members);
        for (member, theirs) in members.iter().zip(&vector.sticky_bytes) {
            let ours = encode_subscription(member).unwrap();
            let has_many_topics = member.owned.iter().any(|owned| owned.topic != member.owned[0].topic);
            if has_many_topics {
                assert_eq!(ours.len(), theirs.len(), "{member:#?}");
            } else {
                assert_eq!(&ours, theirs, "{member:#?}");
            }
        }
        let from_java = decode(&members, &vector.sticky_bytes);
        let decided = StickyAssignor::default().assign(&vector.cluster, &from_java);
        assert_eq!(decided, StickyAssignor::default().assign(&vector.cluster, &members));
    }
}

#[test]
fn leaders_write_what_leaders_in_java_write() {
    for vector in with_bytes() {
        for (member, bytes) in vector.members.iter().zip(&vector.range_bytes) {
            let assignment = &vector.range[&member.member_id];
            assert_eq!(encode_assignment(assignment).unwrap(), bytes);
            assert_eq!(decode_assignment(bytes).unwrap(), *assignment);
        }
    }
}

fn one(name: &'static str, owned: &[i32], generation: i32) -> MemberSubscription {
    MemberSubscription {
        owned: owned.iter().map(|number| TopicPartition::new("t", *number)).collect(),
        generation,
        ..MemberSubscription::new(name, vec![ByteString::from_static("t")])
    }
}

#[test]
fn what_is_not_sorted_is_written_sorted() {
    let mut member = one("m", &[2, 0], 3);
    member.topics = ["b", "t", "a"].map(ByteString::from_static).to_vec();
    member.owned.push(TopicPartition::new("a", 1));
    let read = decode_subscription("m".into(), None, &encode_subscription(&member).unwrap()).unwrap();
    member.topics.sort();
    member.owned.sort();
    assert_eq!(read, member);
}

#[test]
fn old_versions_are_read_with_what_they_lack_left_out_and_newer_ones_as_the_newest_we_know() {
    let member = one("m", &[1], 3);
    let newest = encode_subscription(&member).unwrap();
    let read = |version: u8, length: usize| {
        let mut bytes = BytesMut::from(&newest[..length]);
        bytes[1] = version;
        decode_subscription("m".into(), None, &bytes.freeze()).unwrap()
    };
    let without_owned = MemberSubscription {
        owned: vec![],
        generation: -1,
        ..member.clone()
    };
    let without_generation = MemberSubscription {
        generation: -1,
        ..member.clone()
    };
    // Version, topics and user data; then owned partitions; then the generation; then the rack.
    assert_eq!(read(0, 13), without_owned);
    assert_eq!(read(1, 28), without_generation);
    assert_eq!(read(2, 32), member);
    assert_eq!(read(9, newest.len()), member);
}

#[test]
fn no_rack_and_a_rack_without_a_name_are_the_same() {
    let mut member = one("m", &[], -1);
    member.rack = Some(ByteString::new());
    let read = decode_subscription("m".into(), None, &encode_subscription(&member).unwrap()).unwrap();
    assert_eq!(read.rack, None);
}

#[test]
fn bytes_that_are_no_assignment_are_refused() {
    assert!(decode_assignment(&Bytes::new()).is_err());
    assert!(decode_assignment(&Bytes::from_static(b"\0\x03\0\0\0\x01")).is_err());
    assert!(decode_assignment(&Bytes::from_static(b"\xff\xff\0\0\0\0")).is_err());
    assert!(decode_subscription("m".into(), None, &Bytes::from_static(b"\0")).is_err());
}

/// The assignment of two members of which one has sent `user_data`.
fn kept(assignor: &mut dyn Assignor, owned: &[i32], user_data: Option<Bytes>) -> Vec<i32> {
    let cluster = [("t".into(), milena_machines::assign::TopicLayout::without_racks(4))].into();
    let mut member = one("b", owned, -1);
    member.user_data = user_data;
    let decided = assignor.assign(&cluster, &[one("a", &[], -1), member]);
    let partitions = decided["b"].partitions.iter();
    partitions.map(|partition| partition.partition).collect()
}

#[test]
fn sticky_reads_user_data_with_and_without_a_generation_and_ignores_what_it_cannot_read() {
    let mut written = BytesMut::new();
    written.put_slice(b"\0\0\0\x01\0\x01t\0\0\0\x02\0\0\0\0\0\0\0\x02");
    let without = written.clone().freeze();
    written.put_i32(7);
    let with = written.freeze();
    let nothing = kept(&mut StickyAssignor::default(), &[], None);
    assert_ne!(nothing, [0, 2], "it takes user data to get these");
    assert_eq!(kept(&mut StickyAssignor::default(), &[], Some(with.clone())), [0, 2]);
    assert_eq!(kept(&mut StickyAssignor::default(), &[], Some(without)), [0, 2]);
    let broken = [
        b"".as_slice(),
        b"\0",
        b"\0\0\0\x01\0\x01t\xff\xff\xff\xff",
        b"\x7f\xff\xff\xff",
    ];
    for broken in broken {
        let user_data = Some(Bytes::copy_from_slice(broken));
        assert_eq!(kept(&mut StickyAssignor::default(), &[], user_data), nothing);
    }
    let mut member = StickyAssignor::default();
    assert_eq!(member.user_data(&[]), None, "before it was assigned anything");
    let partitions = one("b", &[2, 0], 7).owned;
    let user_data = None;
    member.on_assignment(&MemberAssignment { partitions, user_data }, 7);
    assert_eq!(member.user_data(&[]), Some(with));
}

#[test]
fn cooperative_reads_the_generation_from_user_data_only_if_the_subscription_has_none() {
    let cluster = [("t".into(), milena_machines::assign::TopicLayout::without_racks(2))].into();
    let decide = |a: MemberSubscription, b: MemberSubscription| {
        let decided = CooperativeStickyAssignor::default().assign(&cluster, &[a, b]);
        decided
            .values()
            .map(|assignment| assignment.partitions.len())
            .collect::<Vec<_>>()
    };
    let told = |generation: i32| Some(Bytes::copy_from_slice(&generation.to_be_bytes()));
    // Both claim partition 0. The one with the newer generation keeps it.
    let mut older = one("a", &[0], -1);
    older.user_data = told(3);
    let mut newer = one("b", &[0], -1);
    newer.user_data = told(4);
    assert_eq!(decide(older.clone(), newer.clone()), [1, 1]);
    // Of the same generation both may read it: it is not assigned yet.
    newer.user_data = told(3);
    assert_eq!(decide(older.clone(), newer.clone()).iter().sum::<usize>(), 1);
    newer.user_data = Some(Bytes::from_static(b"\0\0"));
    assert_eq!(decide(older.clone(), newer.clone()), [1, 1]);
    // The generation of the subscription takes precedence over that of the user data.
    older.generation = 9;
    newer.user_data = told(10);
    newer.generation = 9;
    assert_eq!(decide(older, newer).iter().sum::<usize>(), 1);
}
