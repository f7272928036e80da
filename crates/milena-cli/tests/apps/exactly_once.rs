//! Processes copy records exactly once while brokers and one of them are killed. librdkafka sees each copy once, and those
//! of a key in order.

use std::{collections::BTreeMap, time::Duration};

use tokio::task::block_in_place;

use crate::{
    crew::Crew,
    ledger::key,
    load::Load,
    programs::read_as,
    stage::{PARTITIONS, PROTOCOLS, Stage, until},
    worker::{COPY, output},
};

const TOPIC: &str = "exactly-once";
const GAP: Duration = Duration::from_millis(500);
/// How many committed records show that it goes on.
const ENOUGH: i64 = 300;

pub async fn run(stage: &Stage) -> String {
    let dir = tempfile::tempdir().unwrap();
    stage.create(TOPIC, PARTITIONS).await;
    let mut crews = PROTOCOLS.map(|protocol| Crew::new(stage, TOPIC, protocol, dir.path()));
    for protocol in PROTOCOLS {
        stage.create(&output(TOPIC, protocol), PARTITIONS).await;
    }
    let load = Load::start(stage.address(), TOPIC, 2);
    for crew in &mut crews {
        crew.start("a", COPY);
        crew.start("b", COPY);
    }
    goes_on(stage, &crews).await;
    let leader = leader(stage, TOPIC).await;
    block_in_place(|| stage.world.crash(leader, GAP));
    goes_on(stage, &crews).await;
    for crew in &mut crews {
        crew.kill("a");
        crew.start("a", COPY);
    }
    let leader = self::leader(stage, &output(TOPIC, PROTOCOLS[0])).await;
    block_in_place(|| stage.world.crash(leader, GAP));
    goes_on(stage, &crews).await;
    let counts = load.end().await;
    let total: i64 = counts.iter().sum();
    for (crew, protocol) in crews.iter_mut().zip(PROTOCOLS) {
        until(&format!("{} copies all", crew.group), async || {
            committed(stage, &crew.group).await == total
        })
        .await;
        crew.stop_all().await;
        judge(stage, protocol, &counts);
    }
    format!("{total} records, each copied once and in order, for both groups; 2 kills of brokers, 2 of processes")
}

/// Who leads the first partition of a topic.
async fn leader(stage: &Stage, topic: &str) -> u16 {
    let mut found = None;
    until("somebody leads", async || {
        let mut topics = stage.admin().describe_topics([topic]).await;
        let topic = topics.remove(topic).unwrap().unwrap();
        found = topic.partitions[0].leader.as_ref().map(|leader| leader.id);
        found.is_some()
    })
    .await;
    // Ours is the only one, whatever its number is.
    u16::try_from(found.unwrap()).unwrap().clamp(1, stage.world.brokers())
}

async fn committed(stage: &Stage, group: &str) -> i64 {
    let mut committed = 0;
    for partition in 0..PARTITIONS {
        committed += stage.committed(group, TOPIC, partition).await.unwrap_or(0);
    }
    committed
}

async fn goes_on(stage: &Stage, crews: &[Crew]) {
    for crew in crews {
        let before = committed(stage, &crew.group).await;
        until(&format!("{} goes on", crew.group), async || {
            committed(stage, &crew.group).await >= before + ENOUGH
        })
        .await;
    }
}

fn judge(stage: &Stage, protocol: &str, counts: &[i64]) {
    let mut expected: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for (partition, count) in (0..).zip(counts) {
        for number in 0..*count {
            expected.entry(key(partition, number)).or_default().push(number);
        }
    }
    let output = output(TOPIC, protocol);
    let mut copies: BTreeMap<String, Vec<i64>> = BTreeMap::new();
    for partition in 0..usize::try_from(PARTITIONS).unwrap() {
        for line in read_as(stage.address(), &output, partition, "read_committed", "%k %s\\n") {
            let (key, number) = line.split_once(' ').unwrap();
            copies.entry(key.to_owned()).or_default().push(number.parse().unwrap());
        }
    }
    for (key, numbers) in expected {
        assert_eq!(copies.remove(&key), Some(numbers), "{output}: the copies of key {key}");
    }
    assert!(copies.is_empty(), "{output}: {copies:?}");
}
