//! Processes copy records exactly once while brokers and one process are killed. librdkafka sees each copy once, and
//! the copies of a key in order.

use std::{collections::BTreeMap, time::Duration};

use tokio::task::block_in_place;

use crate::{
    environment::{Environment, PARTITIONS, PROTOCOLS, until},
    handled_log::key,
    load::Load,
    programs::read_as,
    worker::{COPY, output},
    workers::Workers,
};

const TOPIC: &str = "exactly-once";
const GAP: Duration = Duration::from_millis(500);
/// The number of committed records that proves progress.
const ENOUGH: i64 = 100;

pub async fn run(env: &Environment) -> String {
    let dir = tempfile::tempdir().unwrap();
    env.create(TOPIC, PARTITIONS).await;
    let mut crews = PROTOCOLS.map(|protocol| Workers::new(env, TOPIC, protocol, dir.path()));
    for protocol in PROTOCOLS {
        env.create(&output(TOPIC, protocol), PARTITIONS).await;
    }
    let load = Load::start(env.address(), TOPIC, 1);
    for workers in &mut crews {
        workers.start("a", COPY);
        workers.start("b", COPY);
    }
    goes_on(env, &crews).await;
    let leader = leader(env, TOPIC).await;
    block_in_place(|| env.cluster.crash(leader, GAP));
    goes_on(env, &crews).await;
    for workers in &mut crews {
        workers.kill("a");
        workers.start("a", COPY);
    }
    let leader = self::leader(env, &output(TOPIC, PROTOCOLS[0])).await;
    block_in_place(|| env.cluster.crash(leader, GAP));
    goes_on(env, &crews).await;
    let counts = load.end().await;
    let total: i64 = counts.iter().sum();
    for (workers, protocol) in crews.iter_mut().zip(PROTOCOLS) {
        until(&format!("{} copies all", workers.group), async || {
            committed(env, &workers.group).await == total
        })
        .await;
        workers.stop_all().await;
        check_copies(env, protocol, &counts);
    }
    format!("{total} records, each copied once and in order, for both groups; 2 kills of brokers, 2 of processes")
}

/// The leader of the first partition of a topic.
async fn leader(env: &Environment, topic: &str) -> u16 {
    let mut found = None;
    until("somebody leads", async || {
        let mut topics = env.admin().describe_topics([topic]).await;
        let topic = topics.remove(topic).unwrap().unwrap();
        found = topic.partitions[0].leader.as_ref().map(|leader| leader.id);
        found.is_some()
    })
    .await;
    // Milena has one broker, whatever its id.
    u16::try_from(found.unwrap()).unwrap().clamp(1, env.cluster.brokers())
}

async fn committed(env: &Environment, group: &str) -> i64 {
    let mut committed = 0;
    for partition in 0..PARTITIONS {
        committed += env.committed(group, TOPIC, partition).await.unwrap_or(0);
    }
    committed
}

async fn goes_on(env: &Environment, crews: &[Workers]) {
    for workers in crews {
        let before = committed(env, &workers.group).await;
        until(&format!("{} goes on", workers.group), async || {
            committed(env, &workers.group).await >= before + ENOUGH
        })
        .await;
    }
}

fn check_copies(env: &Environment, protocol: &str, counts: &[i64]) {
    let mut expected: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (partition, count) in (0..).zip(counts) {
        for number in 0..*count {
            expected.entry(key(partition, number)).or_default().push(number);
        }
    }
    let output = output(TOPIC, protocol);
    let mut copies: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for partition in 0..usize::try_from(PARTITIONS).unwrap() {
        for line in read_as(env.address(), &output, partition, "read_committed", "%k %s\\n") {
            let (key, number) = line.split_once(' ').unwrap();
            copies.entry(key.to_owned()).or_default().push(number.parse().unwrap());
        }
    }
    for (key, numbers) in expected {
        assert_eq!(copies.remove(&key), Some(numbers), "{output}: the copies of key {key}");
    }
    assert!(copies.is_empty(), "{output}: {copies:?}");
}
