//! The topic of dead letters is gone for a while. The partition that needs it stops and says why, others go on, nothing is
//! lost, and it goes on by itself.

use std::collections::BTreeMap;

use milena_app::{prelude::*, status::StallReason};
use milena_client::{
    config::ProducerConfig,
    producer::{Producer, ProducerRecord},
};

use crate::{
    programs::read_as,
    stage::{Stage, until},
};

const TOPIC: &str = "outage";
const LETTERS: &str = "outage.dlq";

pub async fn run(stage: &Stage) -> String {
    stage.create(TOPIC, 2).await;
    let handler = |Value(value): Value<String>| async move {
        if value.starts_with("bad") {
            return Err(Fault::poison("it is bad"));
        }
        Ok(())
    };
    // A producer that gives up soon says so soon.
    let app = App::new(stage.address())
        .group(TOPIC)
        .producer("max.block.ms", 2_000)
        .producer("request.timeout.ms", 1_000)
        .producer("delivery.timeout.ms", 2_000)
        .on(TOPIC, handler, |policy| policy);
    let running = app.start().await.unwrap();
    until("it reads", async || running.status().partitions.len() == 2).await;
    let deleted = stage.admin().delete_topics([LETTERS]).await;
    deleted.into_values().for_each(|deleted| deleted.unwrap());
    until("the dead letters are gone", async || {
        !stage.admin().list_topics().await.unwrap().contains_key(LETTERS)
    })
    .await;
    write(stage, 0, &["good", "bad", "good", "bad too"]).await;
    write(stage, 1, &["good"; 10]).await;

    let mut status = running.status();
    until("a partition says why it stands still", async || {
        status = running.status();
        let whys: BTreeMap<i32, StallReason> = status
            .partitions
            .iter()
            .map(|partition| (partition.partition.partition, partition.why))
            .collect();
        whys[&0] == StallReason::Publishing { failing: true } && whys[&1] == StallReason::Idle
    })
    .await;
    assert!(!status.is_healthy(), "{status:?}");
    let line = status
        .partitions
        .iter()
        .map(ToString::to_string)
        .find(|line| line.starts_with("outage-0"));
    assert!(line.unwrap().contains("what it needs is not written"), "{status:?}");
    until("the other partition is done", async || {
        stage.committed(TOPIC, TOPIC, 1).await == Some(10)
    })
    .await;
    until("it commits what came before", async || {
        stage.committed(TOPIC, TOPIC, 0).await == Some(1)
    })
    .await;

    // More is read meanwhile, and the commit stays.
    write(stage, 1, &["good"; 10]).await;
    until("the other partition goes on", async || {
        stage.committed(TOPIC, TOPIC, 1).await == Some(20)
    })
    .await;
    assert_eq!(stage.committed(TOPIC, TOPIC, 0).await, Some(1));
    assert!(!running.status().is_healthy());

    stage.create(LETTERS, 2).await;
    until("it goes on by itself", async || {
        stage.committed(TOPIC, TOPIC, 0).await == Some(4)
    })
    .await;
    assert!(running.status().is_healthy(), "{:?}", running.status());
    running.stop().await.unwrap();
    let mut letters = read_as(stage.address(), LETTERS, 0, "read_committed", "%s\\n");
    letters.sort_unstable();
    assert_eq!(letters, ["bad", "bad too"]);
    "one partition stopped and went on, nothing was lost".to_owned()
}

async fn write(stage: &Stage, partition: i32, values: &[&str]) {
    let producer = Producer::new(ProducerConfig::builder(stage.address())).unwrap();
    for value in values {
        let record = ProducerRecord::new(TOPIC).partition(partition).value(*value);
        producer.send(record).await.unwrap();
    }
    producer.close().await.unwrap();
}
