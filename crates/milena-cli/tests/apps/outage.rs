//! The dead letter topic is missing for a while. The partition that needs it stops and reports why; others continue,
//! nothing is lost, and the partition resumes by itself.

use std::collections::BTreeMap;

use milena_app::{prelude::*, status::StallReason};
use milena_client::{
    config::ProducerConfig,
    producer::{Producer, ProducerRecord},
};

use crate::{
    environment::{Environment, until},
    programs::read_as,
};

const TOPIC: &str = "outage";
const DEAD_LETTERS: &str = "outage.dlq";

pub async fn run(env: &Environment) -> String {
    env.create(TOPIC, 2).await;
    let app = app(env);
    let running = app.start().await.unwrap();
    until("it reads", async || running.status().partitions.len() == 2).await;
    let deleted = env.admin().delete_topics([DEAD_LETTERS]).await;
    deleted.into_values().for_each(|deleted| deleted.unwrap());
    until("the dead letters are gone", async || {
        !env.admin().list_topics().await.unwrap().contains_key(DEAD_LETTERS)
    })
    .await;
    write(env, 0, &["good", "bad", "good", "bad too"]).await;
    write(env, 1, &["good"; 10]).await;

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
    assert!(
        line.unwrap().contains("writing its output, retry or dead letter fails"),
        "{status:?}"
    );
    until("the other partition is done", async || {
        env.committed(TOPIC, TOPIC, 1).await == Some(10)
    })
    .await;
    until("it commits what came before", async || {
        env.committed(TOPIC, TOPIC, 0).await == Some(1)
    })
    .await;

    // Records are still read, and the committed offset stays.
    write(env, 1, &["good"; 10]).await;
    until("the other partition goes on", async || {
        env.committed(TOPIC, TOPIC, 1).await == Some(20)
    })
    .await;
    assert_eq!(env.committed(TOPIC, TOPIC, 0).await, Some(1));
    assert!(!running.status().is_healthy());

    env.create(DEAD_LETTERS, 2).await;
    until("it goes on by itself", async || {
        env.committed(TOPIC, TOPIC, 0).await == Some(4)
    })
    .await;
    assert!(running.status().is_healthy(), "{:?}", running.status());
    running.stop().await.unwrap();
    let mut letters = read_as(env.address(), DEAD_LETTERS, 0, "read_committed", "%s\\n");
    letters.sort_unstable();
    assert_eq!(letters, ["bad", "bad too"]);
    "one partition stopped and went on, nothing was lost".to_owned()
}

/// The application: records that begin with `bad` become dead letters.
fn app(env: &Environment) -> App {
    let handler = |Value(value): Value<String>| async move {
        if value.starts_with("bad") {
            return Err(Fault::poison("it is bad"));
        }
        Ok(())
    };
    // A short delivery timeout, so that the failure is reported soon.
    App::new(env.address())
        .group(TOPIC)
        .producer("max.block.ms", 2_000)
        .producer("request.timeout.ms", 1_000)
        .producer("delivery.timeout.ms", 2_000)
        .on(TOPIC, handler, |policy| policy)
}

async fn write(env: &Environment, partition: i32, values: &[&str]) {
    let producer = Producer::new(ProducerConfig::builder(env.address())).unwrap();
    for value in values {
        let record = ProducerRecord::new(TOPIC).partition(partition).value(*value);
        producer.send(record).await.unwrap();
    }
    producer.close().await.unwrap();
}
