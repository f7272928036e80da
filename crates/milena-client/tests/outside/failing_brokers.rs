//! Three brokers that are killed one after the other while consumers read.

use std::{sync::Arc, time::Instant};

use milena_client::consumer::{Leave, TopicPartition};
use tokio::task::{JoinHandle, block_in_place};

use crate::{
    bed::{self, Bed},
    cluster::Cluster,
    ledger::Ledger,
    members::{KINDS, Ours, tell},
    patience::{PATIENCE, SHORT, read},
};

const PARTITIONS: usize = 3;
/// Records that prove progress.
const ENOUGH: usize = 100;

/// One test, because the tests break their shared cluster.
#[tokio::test(flavor = "multi_thread")]
async fn reading_goes_on_when_brokers_die() {
    let (bed, _turn) = bed::three_brokers().await;
    records_come_from_the_nearest_replica(bed).await;
    leaders_and_coordinators_die(bed).await;
}

fn cluster(bed: &Bed) -> &Cluster {
    bed.cluster.as_ref().unwrap()
}

async fn number(bed: &Bed, question: &str) -> u16 {
    bed.peer.call(question).await.parse().unwrap()
}

/// Kafka's own metrics tell which broker has sent the records.
async fn records_come_from_the_nearest_replica(bed: &Bed) {
    let topic = bed.topic("near", 1, "").await;
    bed.send(&topic, 0, "none", 0, 5000).await;
    let partition = TopicPartition::new(&*topic, 0);
    let leader = number(bed, &format!("leader {partition}")).await;
    let follower = leader % 3 + 1;
    let rack = format!("rack-{follower}");
    let mut consumer = bed.reader(
        std::slice::from_ref(&partition),
        &[("client.rack", &rack), ("max.partition.fetch.bytes", "20000")],
    );
    let deadline = Instant::now() + PATIENCE;
    let mut offsets = vec![];
    while offsets.len() < 5000 {
        assert!(Instant::now() < deadline, "{}", offsets.len());
        let records = consumer.poll(SHORT).await.unwrap();
        offsets.extend(records.iter().map(|record| record.offset()));
    }
    assert_eq!(offsets, (0..5000).collect::<Vec<_>>());
    let mut sent = vec![];
    for broker in [leader, follower] {
        let process = cluster(bed).process_of(broker);
        let bytes: u64 = bed
            .peer
            .call(&format!("bytes-out {process} {topic}"))
            .await
            .parse()
            .unwrap();
        sent.push(bytes);
    }
    assert!(
        sent[0] * 10 < sent[1],
        "the leader sent {} bytes, the follower {}",
        sent[0],
        sent[1]
    );

    // It dies: the leader serves again.
    block_in_place(|| cluster(bed).kill(follower));
    bed.send(&topic, 0, "none", 5000, 100).await;
    let found = read(&mut consumer, 100, |record| record.offset()).await;
    assert_eq!(found, (5000..5100).collect::<Vec<_>>());
    block_in_place(|| cluster(bed).start_again(follower));
}

async fn leaders_and_coordinators_die(bed: &'static Bed) {
    let topic = bed.topic("survives", PARTITIONS, "").await;
    let first = TopicPartition::new(&*topic, 0);
    let mut groups = vec![];
    for kind in KINDS {
        let ledger = Arc::new(Ledger::default());
        let config = bed.member(kind, &topic).group_id(format!("{topic}-{}", kind.name()));
        let member = Ours::join(kind.name(), config, &topic, &ledger);
        groups.push((kind.name(), ledger, member));
    }
    for (name, ledger, _) in &groups {
        ledger.settle(name, &[(name, PARTITIONS)]).await;
    }
    bed.peer.call(&format!("flow {topic} {PARTITIONS}")).await;
    let alone = Arc::new(Ledger::default());
    let reading = read_alone(bed, &topic, &alone);
    let ledgers: Vec<Arc<Ledger>> = groups
        .iter()
        .map(|(_, ledger, _)| Arc::clone(ledger))
        .chain([alone])
        .collect();
    more_is_read(&ledgers, &topic).await;

    let leader = number(bed, &format!("leader {first}")).await;
    block_in_place(|| cluster(bed).kill(leader));
    more_is_read(&ledgers, &topic).await;
    block_in_place(|| cluster(bed).start_again(leader));
    more_is_read(&ledgers, &topic).await;

    let coordinator = number(bed, &format!("coordinator {topic}-range")).await;
    block_in_place(|| cluster(bed).kill(coordinator));
    more_is_read(&ledgers, &topic).await;
    block_in_place(|| cluster(bed).start_again(coordinator));
    let end: i64 = bed.peer.call(&format!("still {topic}")).await.parse().unwrap();
    for ledger in &ledgers {
        ledger.wait_for_all(&topic, PARTITIONS, end).await;
        ledger.assert_none_twice(&[]);
    }
    reading.abort();
    for (name, _, member) in groups {
        member.end(Leave::Default).await;
        let committed = bed.peer.call(&format!("offsets {topic}-{name}")).await;
        let expected: Vec<String> = (0..PARTITIONS)
            .map(|partition| format!("{topic}-{partition}={end}:"))
            .collect();
        assert_eq!(committed, expected.join(" "), "{name}");
    }
}

/// Waits for progress in every partition, for all readers.
async fn more_is_read(ledgers: &[Arc<Ledger>], topic: &str) {
    for ledger in ledgers {
        let partitions = (0..PARTITIONS).map(|place| TopicPartition::new(topic, i32::try_from(place).unwrap()));
        let wanted: Vec<(TopicPartition, usize)> = partitions
            .map(|partition| {
                let count = ledger.count(&partition) + ENOUGH;
                (partition, count)
            })
            .collect();
        ledger
            .wait("more is read", |book| {
                wanted.iter().all(|(partition, count)| book.count(partition) >= *count)
            })
            .await;
    }
}

/// Reads all partitions without a group.
fn read_alone(bed: &'static Bed, topic: &str, ledger: &Arc<Ledger>) -> JoinHandle<()> {
    let partitions: Vec<TopicPartition> = (0..PARTITIONS)
        .map(|place| TopicPartition::new(topic, i32::try_from(place).unwrap()))
        .collect();
    let ledger = Arc::clone(ledger);
    ledger.change("alone", "assigned", &partitions);
    tokio::spawn(async move {
        let mut consumer = bed.reader(&partitions, &[]);
        loop {
            match consumer.poll(SHORT).await {
                Ok(records) => tell(&ledger, "alone", &records),
                Err(error) => ledger.fail("alone", &format!("{error:?}")),
            }
        }
    })
}
