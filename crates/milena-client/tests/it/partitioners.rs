//! Partitioners, compared with Kafka's (`golden/partitions`) and librdkafka's (`golden/librdkafka_partitions.py`).

use std::{collections::BTreeSet, time::Duration};

use milena_client::{
    config::{PartitionerName, ProducerConfig},
    producer::partition::{
        BuiltIn, ByEntity, ByRegion, ByTenant, Choice, Composite, Field, HotKeys, Librdkafka, Own, PartitionInput,
        Partitioner, Partitions, RoundRobin, TimeBucket, configured, murmur2,
    },
};
use milena_wire::records::Header;

/// The partition counts in the golden files.
const COUNTS: [i32; 9] = [1, 2, 3, 6, 7, 12, 50, 100, 1000];

fn record(key: Option<&[u8]>) -> PartitionInput<'_> {
    PartitionInput {
        topic: "t",
        key,
        value: None,
        headers: &[],
        timestamp_ms: 0,
    }
}

fn all(count: i32) -> Partitions<'static> {
    Partitions {
        count,
        available: &[],
        loads: &[],
    }
}

fn keyed(partitioner: &dyn Partitioner, key: &str, count: i32) -> Choice {
    partitioner.partition(&record(Some(key.as_bytes())), &all(count))
}

/// The partition that Kafka chooses for a key.
fn kafkas(key: &str, count: i32) -> Choice {
    keyed(&BuiltIn::default(), key, count)
}

fn numbers(text: &str) -> Vec<i32> {
    let numbers = text.split(' ').filter(|number| !number.is_empty());
    numbers.map(|number| number.parse().unwrap()).collect()
}

fn from_hex(text: &str) -> Vec<u8> {
    let digits = text.as_bytes().chunks(2).map(|pair| std::str::from_utf8(pair).unwrap());
    digits.map(|pair| u8::from_str_radix(pair, 16).unwrap()).collect()
}

#[test]
fn keys_go_where_kafka_puts_them() {
    let rows = include_str!("../golden/partitions.txt").lines();
    let rows: Vec<_> = rows.filter_map(|line| line.strip_prefix("murmur2\t")).collect();
    assert!(rows.len() > 100);
    for row in rows {
        let [key, hash, partitions] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let key = from_hex(key);
        assert_eq!(murmur2(&key).cast_signed(), hash.parse::<i32>().unwrap(), "{row}");
        for (count, partition) in std::iter::zip(COUNTS, numbers(partitions)) {
            let choice = BuiltIn::default().partition(&record(Some(&key)), &all(count));
            assert_eq!(choice, Choice::Partition(partition), "{row}");
            // A key in two fields is joined.
            let headers = [Header::new("id", &key)];
            let two = Composite::new([Field::header("id"), Field::Key]);
            let joined = [&key[..], b":", &key[..]].concat();
            let in_two = PartitionInput {
                headers: &headers,
                ..record(Some(&key))
            };
            assert_eq!(
                two.partition(&in_two, &all(count)),
                BuiltIn::default().partition(&record(Some(&joined)), &all(count)),
                "{row}"
            );
        }
    }
}

#[test]
fn without_keys_or_with_keys_that_do_not_count_records_stick() {
    assert_eq!(BuiltIn::default().partition(&record(None), &all(3)), Choice::Sticky);
    let ignoring = BuiltIn { ignore_keys: true };
    assert_eq!(keyed(&ignoring, "a", 3), Choice::Sticky);
}

#[test]
fn turns_are_taken_as_kafka_does() {
    let rows = include_str!("../golden/partitions.txt").lines();
    let rows: Vec<_> = rows.filter_map(|line| line.strip_prefix("round-robin\t")).collect();
    assert!(rows.len() > 4);
    for row in rows {
        let [count, available, expected] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let partitions = Partitions {
            count: count.parse().unwrap(),
            available: &numbers(available),
            loads: &[],
        };
        let round_robin = RoundRobin::new();
        for partition in numbers(expected) {
            let choice = round_robin.partition(&record(Some(b"k")), &partitions);
            assert_eq!(choice, Choice::Partition(partition), "{row}");
            let other = PartitionInput {
                topic: "other",
                ..record(None)
            };
            round_robin.partition(&other, &partitions);
        }
    }
}

#[test]
fn keys_go_where_librdkafka_puts_them() {
    let rows: Vec<_> = include_str!("../golden/librdkafka_partitions.txt").lines().collect();
    assert!(rows.len() > 400);
    for row in rows {
        let [name, key, partitions] = row.split('\t').collect::<Vec<_>>()[..] else {
            panic!("{row}")
        };
        let config = ProducerConfig::builder("a:1").set("partitioner", name).build().unwrap();
        let partitioner = configured(&config);
        let bytes = from_hex(key.trim_matches('-'));
        let key = (key != "-").then_some(&bytes[..]);
        for (count, partition) in std::iter::zip(COUNTS, numbers(partitions)) {
            let choice = partitioner.partition(&record(key), &all(count));
            assert_eq!(choice, Choice::Partition(partition), "{row}");
        }
    }
}

/// Where librdkafka chooses at random, the choice is sticky.
#[test]
fn what_librdkafka_leaves_to_chance_sticks() {
    for (partitioner, key, sticks) in [
        (Librdkafka::ConsistentRandom, None, true),
        (Librdkafka::ConsistentRandom, Some(""), true),
        (Librdkafka::Murmur2Random, None, true),
        (Librdkafka::Murmur2Random, Some(""), false),
        (Librdkafka::Fnv1aRandom, None, true),
        (Librdkafka::Fnv1aRandom, Some(""), false),
        (Librdkafka::Consistent, None, false),
        (Librdkafka::Murmur2, None, false),
        (Librdkafka::Fnv1a, None, false),
        (Librdkafka::random(1), None, true),
        (Librdkafka::random(1), Some("k"), false),
    ] {
        let choice = partitioner.partition(&record(key.map(str::as_bytes)), &all(7));
        assert_eq!(choice == Choice::Sticky, sticks, "{partitioner:?} {key:?}");
    }
}

#[test]
fn chance_takes_all_partitions_that_have_a_leader() {
    let random = Librdkafka::random(7);
    let partitions = Partitions {
        count: 6,
        available: &[1, 2, 5],
        loads: &[],
    };
    let mut counts = [0; 6];
    for _ in 0..3000 {
        match random.partition(&record(Some(b"k")), &partitions) {
            Choice::Partition(partition) => counts[usize::try_from(partition).unwrap()] += 1,
            Choice::Sticky => panic!("it has a key"),
        }
    }
    assert_eq!([counts[0], counts[3], counts[4]], [0; 3]);
    assert!([1, 2, 5].iter().all(|partition| counts[*partition] > 800), "{counts:?}");
}

#[test]
fn entities_stay_together_whatever_the_key() {
    let headers = [
        Header::new("customer", b"old"),
        Header::new("other", b"x"),
        Header::new("customer", b"c1"),
    ];
    let by_customer = ByEntity::new(Field::header("customer"));
    for key in ["o1", "o2", "o3"] {
        let order = PartitionInput {
            headers: &headers,
            ..record(Some(key.as_bytes()))
        };
        assert_eq!(by_customer.partition(&order, &all(50)), kafkas("c1", 50));
    }
    assert_eq!(keyed(&by_customer, "o1", 50), Choice::Sticky);
    let null = [Header {
        key: b"customer",
        value: None,
    }];
    let order = PartitionInput {
        headers: &null,
        ..record(None)
    };
    assert_eq!(by_customer.partition(&order, &all(50)), Choice::Sticky);
    let second = ByEntity::new(Field::KeyPart {
        separator: b'/',
        index: 1,
    });
    assert_eq!(keyed(&second, "eu/c1/7", 50), kafkas("c1", 50));
    assert_eq!(keyed(&second, "eu", 50), Choice::Sticky);
}

#[test]
fn tenants_have_their_partitions() {
    let one = ByTenant::new();
    for entity in ["a", "b", "c"] {
        assert_eq!(keyed(&one, &format!("acme:{entity}"), 12), kafkas("acme", 12));
    }
    assert_eq!(keyed(&one, "acme", 12), kafkas("acme", 12));
    assert_eq!(one.partition(&record(None), &all(12)), Choice::Sticky);

    let Choice::Partition(first) = kafkas("acme", 12) else {
        panic!("it has a key")
    };
    let three = ByTenant::new().spread(3).separator(b'/');
    let taken = |count| -> BTreeSet<i32> {
        let placed = (0..200).map(|entity| keyed(&three, &format!("acme/{entity}"), count));
        placed
            .map(|choice| match choice {
                Choice::Partition(partition) => partition,
                Choice::Sticky => panic!("it has a key"),
            })
            .collect()
    };
    assert_eq!(
        taken(12),
        BTreeSet::from([first, first + 1, first + 2].map(|one| one % 12))
    );
    assert_eq!(keyed(&three, "acme/7", 12), keyed(&three, "acme/7", 12));
    assert_eq!(taken(2), BTreeSet::from([0, 1]), "there are only two");
}

#[test]
fn regions_keep_apart() {
    let regions = ByRegion::new([("eu", 0..4), ("us", 4..6)]);
    let place = |region: Option<&'static str>, key: Option<&str>, count| {
        let headers: Vec<Header<'_>> = region
            .map(|name| Header::new("region", name.as_bytes()))
            .into_iter()
            .collect();
        let in_region = PartitionInput {
            headers: &headers,
            ..record(key.map(str::as_bytes))
        };
        match regions.partition(&in_region, &all(count)) {
            Choice::Partition(partition) => partition,
            Choice::Sticky => panic!("regions do not stick"),
        }
    };
    let keys: Vec<String> = (0..100).map(|key| format!("k{key}")).collect();
    let taken = |region, count| -> BTreeSet<i32> { keys.iter().map(|key| place(region, Some(key), count)).collect() };
    assert_eq!(taken(Some("eu"), 8), BTreeSet::from([0, 1, 2, 3]));
    assert_eq!(taken(Some("us"), 8), BTreeSet::from([4, 5]));
    assert_eq!(taken(Some("asia"), 8), BTreeSet::from([6, 7]));
    assert_eq!(taken(None, 8), BTreeSet::from([6, 7]));
    // No partition is free, or some of a region's do not exist.
    assert_eq!(taken(None, 6), BTreeSet::from([0, 1, 2, 3, 4, 5]));
    assert_eq!(taken(Some("us"), 5), BTreeSet::from([4]));
    assert_eq!(taken(Some("us"), 3), BTreeSet::from([0, 1, 2]));
    assert_eq!(place(Some("eu"), Some("k"), 8), place(Some("eu"), Some("k"), 8));
    let turns: BTreeSet<i32> = (0..4).map(|_| place(Some("eu"), None, 8)).collect();
    assert_eq!(turns, BTreeSet::from([0, 1, 2, 3]));
}

#[test]
fn each_stretch_of_time_has_the_next_partition() {
    let hour_ms = 3_600_000;
    let hours = TimeBucket::new(Duration::from_secs(3600));
    let place = |partitioner: &TimeBucket, timestamp_ms, key: &[u8]| {
        let at = PartitionInput {
            timestamp_ms,
            ..record(Some(key))
        };
        match partitioner.partition(&at, &all(5)) {
            Choice::Partition(partition) => partition,
            Choice::Sticky => panic!("time does not stick"),
        }
    };
    for (timestamp_ms, partition) in [
        (0, 0),
        (hour_ms - 1, 0),
        (hour_ms, 1),
        (5 * hour_ms, 0),
        (-1, 4),
        (-hour_ms - 1, 3),
    ] {
        assert_eq!(place(&hours, timestamp_ms, b"k"), partition, "{timestamp_ms}");
        assert_eq!(place(&hours, timestamp_ms, b"other"), partition, "{timestamp_ms}");
    }
    place(&hours, i64::MIN, b"k");
    place(&hours, i64::MAX, b"k");

    let two = TimeBucket::new(Duration::from_secs(3600)).spread(2);
    let keys: Vec<String> = (0..50).map(|key| format!("k{key}")).collect();
    let taken = |timestamp_ms| -> BTreeSet<i32> {
        keys.iter()
            .map(|key| place(&two, timestamp_ms, key.as_bytes()))
            .collect()
    };
    assert_eq!(
        (taken(0), taken(hour_ms)),
        (BTreeSet::from([0, 1]), BTreeSet::from([2, 3]))
    );
    assert_eq!(place(&two, 0, b"k"), place(&two, 1, b"k"));
}

#[test]
fn no_partitioner_allocates_for_a_record() {
    let partitioners: [&dyn Partitioner; 9] = [
        &BuiltIn::default(),
        &Librdkafka::ConsistentRandom,
        &Librdkafka::Fnv1a,
        &RoundRobin::new(),
        &ByEntity::new(Field::header("region")),
        &ByTenant::new().spread(2),
        &ByRegion::new([("eu", 0..4), ("us", 4..6)]),
        &Composite::new([Field::header("region"), Field::Key]),
        &HotKeys::default(),
    ];
    let headers = [Header::new("region", b"eu")];
    for partitioner in partitioners {
        let place = |numbers: std::ops::Range<u32>| {
            for number in numbers {
                let key = number.to_be_bytes();
                let placed = PartitionInput {
                    headers: &headers,
                    ..record(Some(&key))
                };
                partitioner.partition(&placed, &all(12));
            }
        };
        // The per-topic state is allocated by these records.
        place(0..5000);
        let allocations = allocation_counter::measure(|| place(5000..10_000));
        assert_eq!(allocations.count_total, 0, "{partitioner:?}");
    }
}

#[test]
fn a_closure_chooses() {
    let last = Own::new("last", |_: &PartitionInput<'_>, partitions: &Partitions<'_>| {
        Choice::Partition(partitions.count - 1)
    });
    assert_eq!(keyed(&last, "k", 9), Choice::Partition(8));
    assert_eq!(format!("{last:?}"), "Own(\"last\")");
}

#[test]
fn records_without_a_key_are_no_hot_key() {
    assert_eq!(HotKeys::default().partition(&record(None), &all(12)), Choice::Sticky);
}

#[test]
fn every_name_of_the_configuration_has_a_partitioner() {
    for (name, expected) in [
        (PartitionerName::BuiltIn, "BuiltIn { ignore_keys: false }"),
        (PartitionerName::Consistent, "Consistent"),
        (PartitionerName::RoundRobin, "RoundRobin"),
        (PartitionerName::Random, "Random"),
    ] {
        let config = ProducerConfig::builder("a:1").partitioner(name).build().unwrap();
        let shown = format!("{:?}", configured(&config));
        assert!(shown.starts_with(expected), "{shown}");
    }
    let ignoring = ProducerConfig::builder("a:1").set("partitioner.ignore.keys", true);
    let shown = format!("{:?}", configured(&ignoring.build().unwrap()));
    assert_eq!(shown, "BuiltIn { ignore_keys: true }");
}

/// The partitioner of a configuration.
fn named(settings: &[(&str, &str)]) -> std::sync::Arc<dyn Partitioner> {
    let builder = ProducerConfig::builder("localhost:9092");
    let builder = settings
        .iter()
        .fold(builder, |builder, (key, value)| builder.set(*key, value));
    configured(&builder.build().unwrap())
}

#[test]
fn settings_name_partitioners_with_parameters() {
    let country = [Header {
        key: b"country",
        value: Some(b"at"),
    }];
    let letter = PartitionInput {
        headers: &country,
        timestamp_ms: 7_200_000,
        ..record(Some(b"acme/17"))
    };
    let choose = |settings: &[(&str, &str)]| named(settings).partition(&letter, &all(12));
    let class = |name| ("partitioner.class", name);
    let by_country = [class("entity"), ("milena.partitioner.field", "header:country")];
    assert_eq!(choose(&by_country), kafkas("at", 12));
    let separator = ("milena.partitioner.separator", "/");
    let by_part = [class("entity"), ("milena.partitioner.field", "key[0]"), separator];
    assert_eq!(choose(&by_part), kafkas("acme", 12));
    assert_eq!(choose(&[class("tenant"), separator]), kafkas("acme", 12));
    let both = [
        class("composite"),
        ("milena.partitioner.fields", "header:country,key[1]"),
        separator,
    ];
    assert_eq!(choose(&both), kafkas("at/17", 12));
    let hours = [class("time_bucket"), ("milena.partitioner.bucket.ms", "3600000")];
    assert_eq!(choose(&hours), Choice::Partition(2));
    let region = [
        class("region"),
        ("milena.partitioner.field", "header:country"),
        ("milena.partitioner.regions", "de=0-9,at=10,at=11"),
    ];
    assert!(matches!(choose(&region), Choice::Partition(10 | 11)));
    let hot = named(&[class("hot_keys"), ("milena.partitioner.hot.records.per.minute", "5")]);
    let chosen: BTreeSet<_> = (0..20)
        .map(|_| format!("{:?}", hot.partition(&letter, &all(12))))
        .collect();
    assert_eq!(chosen.len(), 4, "a hot key is spread over 4 partitions");
}
