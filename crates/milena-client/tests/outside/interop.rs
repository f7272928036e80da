//! Our producer together with Kafka's and librdkafka's in one topic, and Kafka's tools on our groups and transactions.

use std::collections::{BTreeMap, BTreeSet};

use milena_client::{
    config::ProducerConfig,
    consumer::{Consumer, OffsetAndMetadata, TopicPartition},
    producer::{Deliveries, Producer, ProducerRecord},
};
use tokio::task::block_in_place;

use crate::{
    bed::{self, Bed},
    patience::{SHORT, in_time, poll_until},
    programs::{kafka_tool, kcat},
};

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_where_others_put_them_in_kafka() {
    keys_go_where_others_put_them(bed::kafka()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn keys_go_where_others_put_them_in_our_broker() {
    keys_go_where_others_put_them(bed::ours()).await;
}

/// Short and long keys, with multi-byte characters.
fn keys() -> Vec<String> {
    let letters = ["k", "milena", "Ž", "漢", "-", "0"];
    (0..300)
        .map(|number| format!("{}{number}", letters[number % letters.len()].repeat(1 + number % 17)))
        .collect()
}

/// One topic per partitioner, written by all clients that have it.
async fn keys_go_where_others_put_them(bed: &Bed) {
    // Java's default partitioner.
    for (partitioner, is_javas) in [
        ("murmur2_random", true),
        ("murmur2", false),
        ("consistent_random", false),
        ("consistent", false),
        ("fnv1a", false),
        ("fnv1a_random", false),
    ] {
        let topic = bed.topic(&format!("keys-{partitioner}"), 7, "").await;
        write_ours(bed, &topic, &[("partitioner", partitioner)], "ours").await;
        let lines: Vec<String> = keys().into_iter().map(|key| format!("{key};librdkafka\n")).collect();
        let chosen = format!("topic.partitioner={partitioner}");
        block_in_place(|| {
            kcat(
                &bed.address,
                &["-P", "-t", &topic, "-K", ";", "-X", &chosen],
                &lines.concat(),
            )
        });
        let mut writers = vec!["librdkafka", "ours"];
        if is_javas {
            bed.peer.call(&format!("keyed {topic} {}", keys().join(" "))).await;
            write_ours(bed, &topic, &[], "ours by default").await;
            writers = vec!["java", "librdkafka", "ours", "ours by default"];
        }
        let placed = block_in_place(|| placed(bed, &topic));
        assert_eq!(placed.len(), keys().len());
        let used: BTreeSet<i32> = placed.values().flatten().map(|(_, partition)| *partition).collect();
        assert_eq!(used.len(), 7, "{partitioner} uses {used:?}");
        for (key, mut placed) in placed {
            placed.sort_unstable();
            let partition = placed[0].1;
            let expected: Vec<_> = writers.iter().map(|writer| ((*writer).to_owned(), partition)).collect();
            assert_eq!(placed, expected, "{partitioner} of {key}");
        }
    }
}

async fn write_ours(bed: &Bed, topic: &str, settings: &[(&str, &str)], value: &str) {
    let config = ProducerConfig::builder(&bed.address);
    let config = settings
        .iter()
        .fold(config, |config, (key, value)| config.set(*key, *value));
    let producer = Producer::new(config).unwrap();
    let mut deliveries = Deliveries::default();
    for key in keys() {
        let record = ProducerRecord::new(topic).key(&key).value(value);
        deliveries.push(producer.enqueue(record).await.unwrap());
    }
    producer.close().await.unwrap();
    deliveries.all().await.unwrap();
}

/// The partition of each key, by client.
fn placed(bed: &Bed, topic: &str) -> BTreeMap<String, Vec<(String, i32)>> {
    let options = ["-C", "-t", topic, "-o", "beginning", "-e", "-q", "-f", "%p;%k;%s\n"];
    let mut placed: BTreeMap<String, Vec<(String, i32)>> = BTreeMap::new();
    for line in kcat(&bed.address, &options, "").lines() {
        let words: Vec<&str> = line.split(';').collect();
        let (partition, key, writer) = (words[0].parse().unwrap(), words[1].to_owned(), words[2].to_owned());
        placed.entry(key).or_default().push((writer, partition));
    }
    placed
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_java_lie_between_ours_in_kafka() {
    transactions_of_java_lie_between_ours(bed::kafka()).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn transactions_of_java_lie_between_ours_in_our_broker() {
    transactions_of_java_lie_between_ours(bed::ours()).await;
}

/// Both write to one partition at once, and commit or abort in turn.
async fn transactions_of_java_lie_between_ours(bed: &Bed) {
    let topic = bed.topic("mixed", 1, "").await;
    let partition = TopicPartition::new(&*topic, 0);
    let config = ProducerConfig::builder(&bed.address).set("transactional.id", format!("ours-{topic}"));
    let producer = Producer::new(config).unwrap();
    producer.init_transactions().await.unwrap();
    let javas = format!("java-{topic}");
    let mut committed = vec![];
    for round in 0..12_usize {
        let mut ours = producer.begin().await.unwrap();
        bed.peer.call(&format!("begin {javas}")).await;
        let (is_ours_kept, is_javas_kept) = (round % 3 != 2, round % 2 == 0);
        for part in 0..2 {
            let value = format!("ours {round} {part}");
            let written = ours.send(ProducerRecord::new(&topic).value(&value)).await.unwrap();
            // The number determines the value; this one has no value of five.
            let number = 10 * round + part + 1;
            let offset = bed.peer.call(&format!("write {javas} {partition} {number} 1")).await;
            let offset = offset.split(' ').next().unwrap().to_owned();
            if is_ours_kept {
                committed.push((written.offset.unwrap(), value.replace(' ', "_")));
            }
            if is_javas_kept {
                let value = crate::records::content(number).value.unwrap();
                committed.push((offset.parse().unwrap(), value.replace(' ', "_")));
            }
        }
        let end = format!("{} {javas}", if is_javas_kept { "commit" } else { "abort" });
        if round % 4 < 2 {
            bed.peer.call(&end).await;
        }
        match is_ours_kept {
            true => ours.commit().await.unwrap(),
            false => ours.abort().await.unwrap(),
        }
        if round % 4 >= 2 {
            bed.peer.call(&end).await;
        }
    }
    producer.close().await.unwrap();
    let expected: BTreeSet<String> = committed
        .iter()
        .map(|(offset, value)| format!("{offset}={value}"))
        .collect();
    // Kafka reports the end of a transaction before its markers are written: two per round.
    in_time("the markers are written", all_is_stable(bed, &partition, 12 * (4 + 2))).await;
    for level in ["read_committed", "read_uncommitted"] {
        let javas = bed.peer.call(&format!("read {partition} {level}")).await;
        let javas: Vec<String> = javas.split(' ').map(str::to_owned).collect();
        let ours = read_ours(bed, &partition, level).await;
        assert_eq!(ours, javas, "{level}");
        let count = if level == "read_committed" {
            expected.len()
        } else {
            12 * 4
        };
        assert_eq!(ours.len(), count);
        assert!(expected.is_subset(&ours.into_iter().collect()), "{level}");
    }
}

/// Waits until no transaction is open before this offset.
async fn all_is_stable(bed: &Bed, partition: &TopicPartition, end: i64) {
    let mut consumer = Consumer::new(bed.config().set("isolation.level", "read_committed")).unwrap();
    while consumer.end_offsets([partition]).await.unwrap()[partition] != end {
        tokio::time::sleep(SHORT).await;
    }
}

async fn read_ours(bed: &Bed, partition: &TopicPartition, level: &str) -> Vec<String> {
    let mut consumer = bed.reader(std::slice::from_ref(partition), &[("isolation.level", level)]);
    let end = consumer.end_offsets([partition]).await.unwrap()[partition];
    let mut read = vec![];
    while consumer.position(partition).await.unwrap().offset < end {
        for record in &in_time("records", consumer.poll(SHORT)).await.unwrap() {
            let value = String::from_utf8_lossy(record.value().unwrap_or_default()).replace(' ', "_");
            read.push(format!("{}={value}", record.offset()));
        }
    }
    read
}

#[tokio::test(flavor = "multi_thread")]
async fn kafkas_tools_describe_groups_and_transactions_of_ours() {
    for protocol in ["classic", "consumer"] {
        tools_describe_what_is_ours(bed::kafka(), protocol).await;
        tools_describe_what_is_ours(bed::ours(), protocol).await;
    }
}

async fn tools_describe_what_is_ours(bed: &Bed, protocol: &str) {
    let input = bed.topic("described", 2, "").await;
    let output = bed.topic("transformed", 1, "").await;
    let (group, id) = (format!("ours-{input}"), format!("transformer-{input}"));
    let first = TopicPartition::new(&*input, 0);
    bed.send(&input, 0, "none", 0, 10).await;
    let config = bed.config().group_id(&group).set("group.protocol", protocol);
    let config = config.set("client.id", "our-member").set("enable.auto.commit", false);
    let mut consumer = Consumer::new(config).unwrap();
    consumer.subscribe([&*input]).unwrap();
    poll_until(&mut consumer, "it has both partitions", |consumer| {
        consumer.assignment().len() == 2
    })
    .await;
    let config = ProducerConfig::builder(&bed.address).set("transactional.id", &id);
    let producer = Producer::new(config).unwrap();
    producer.init_transactions().await.unwrap();
    let mut transaction = producer.begin().await.unwrap();
    transaction
        .send(ProducerRecord::new(&output).value("six"))
        .await
        .unwrap();
    let member = consumer.group_metadata().unwrap();
    let offsets = [(first.clone(), OffsetAndMetadata::new(6))];
    transaction.send_offsets(&member, offsets).await.unwrap();

    let tool = |name: &str, words: &[&str]| block_in_place(|| kafka_tool(&bed.address, name, words, ""));
    let printed = tool("transactions", &["describe", "--transactional-id", &id]);
    for part in ["Ongoing", &format!("{output}-0"), "__consumer_offsets-"] {
        assert!(printed.contains(part), "{part} is not in: {printed}");
    }
    transaction.commit().await.unwrap();
    drop(transaction);
    let output = tool("transactions", &["describe", "--transactional-id", &id]);
    assert!(!output.contains("Ongoing"), "{output}");

    let described = ["--describe", "--group", &group];
    let output = in_time("the offset is committed", async {
        loop {
            let output = tool("consumer-groups", &described);
            if row(&output, "0").get(3).is_some_and(|offset| offset == "6") {
                return output;
            }
            consumer.poll(SHORT).await.unwrap();
        }
    })
    .await;
    // Group, topic, partition, current offset, end, lag.
    assert_eq!(
        row(&output, "0")[..6],
        [&*group, &*input, "0", "6", "10", "4"],
        "{output}"
    );
    assert!(row(&output, "1").contains(&"our-member".to_owned()), "{output}");
    let output = tool("consumer-groups", &[&described[..], &["--state"]].concat());
    assert!(output.contains("Stable"), "{output}");
    let output = tool(
        "consumer-groups",
        &[&described[..], &["--members", "--verbose"]].concat(),
    );
    assert!(output.contains(&*member.member_id), "{output}");
    consumer.close().await.unwrap();
    producer.close().await.unwrap();
    tool("consumer-groups", &["--delete", "--group", &group]);
    let output = tool("consumer-groups", &["--list"]);
    assert!(!output.lines().any(|name| name == group), "{output}");
}

/// The columns of the line about this partition.
fn row(output: &str, partition: &str) -> Vec<String> {
    let rows = output
        .lines()
        .map(|line| line.split_whitespace().map(str::to_owned).collect());
    let mut rows = rows.filter(|row: &Vec<String>| row.get(2).is_some_and(|word| word == partition));
    rows.next().unwrap_or_default()
}
