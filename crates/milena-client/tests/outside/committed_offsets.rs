//! Committed offsets, read and changed with Kafka's tools; and static members.

use std::{collections::BTreeMap, sync::Arc};

use milena_client::consumer::{Consumer, Leave, OffsetAndMetadata, TopicPartition};

use crate::{
    bed::{self, Bed},
    ledger::Ledger,
    members::{Kind, Ours},
    patience::{in_time, poll_until, read},
    programs::kafka_tool,
};

#[tokio::test]
async fn kafkas_tools_see_and_change_what_is_committed_in_kafka() {
    committed_offsets(bed::kafka()).await;
}

#[tokio::test]
async fn kafkas_tools_see_and_change_what_is_committed_in_our_broker() {
    committed_offsets(bed::ours()).await;
}

async fn committed_offsets(bed: &Bed) {
    for kind in [Kind::classic("range"), Kind::CONSUMER] {
        let topic = bed.topic("committed", 1, "").await;
        bed.send(&topic, 0, "none", 0, 30).await;
        let partition = TopicPartition::new(&*topic, 0);
        let config = || {
            bed.member(kind, &topic)
                .set("max.poll.records", 10)
                .set("client.id", "the-reader")
        };
        let mut consumer = Consumer::new(config().set("enable.auto.commit", false)).unwrap();
        consumer.subscribe([topic.as_str()]).unwrap();
        read(&mut consumer, 10, |_| ()).await;
        let offset = OffsetAndMetadata {
            offset: 7,
            leader_epoch: Some(0),
            metadata: "half-way".into(),
        };
        let offsets = BTreeMap::from([(partition.clone(), offset.clone())]);
        consumer.commit_offsets(offsets).await.unwrap();
        assert_eq!(
            bed.peer.call(&format!("offsets {topic}")).await,
            format!("{partition}=7:half-way")
        );
        let committed = in_time("committed", consumer.committed([&partition])).await.unwrap();
        assert_eq!(committed[&partition], offset);

        let described = describe(bed, &topic).await;
        let row = described
            .lines()
            .find(|line| line.contains("the-reader"))
            .unwrap_or_else(|| panic!("{described}"));
        let words: Vec<&str> = row.split_whitespace().collect();
        assert_eq!(
            &words[..6],
            [topic.as_str(), topic.as_str(), "0", "7", "30", "23"],
            "{described}"
        );
        consumer.close().await.unwrap();

        reset(bed, &topic, "21").await;
        let mut consumer = Consumer::new(config()).unwrap();
        consumer.subscribe([topic.as_str()]).unwrap();
        assert_eq!(read(&mut consumer, 9, |record| record.offset()).await[0], 21);
        // Closing commits automatically.
        consumer.close().await.unwrap();
        assert_eq!(
            bed.peer.call(&format!("offsets {topic}")).await,
            format!("{partition}=30:")
        );
    }
}

async fn describe(bed: &Bed, group: &str) -> String {
    tool(bed, &["--describe", "--group", group]).await
}

async fn reset(bed: &Bed, group: &str, offset: &str) {
    let words = [
        "--reset-offsets",
        "--group",
        group,
        "--topic",
        group,
        "--to-offset",
        offset,
        "--execute",
    ];
    tool(bed, &words).await;
}

/// Runs a tool, which is slow, while members continue.
async fn tool(bed: &Bed, words: &[&str]) -> String {
    let address = bed.address.clone();
    let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
    tokio::task::spawn_blocking(move || {
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        kafka_tool(&address, "consumer-groups", &words, "")
    })
    .await
    .unwrap()
}

#[tokio::test]
async fn a_static_member_comes_back_to_its_partitions() {
    for bed in [bed::kafka(), bed::ours()] {
        for kind in [
            Kind::classic("range"),
            Kind::classic("cooperative-sticky"),
            Kind::CONSUMER,
        ] {
            static_member(bed, kind).await;
        }
    }
}

async fn static_member(bed: &Bed, kind: Kind) {
    let topic = bed.topic("static", 4, "").await;
    let ledger = Arc::new(Ledger::default());
    let config = |instance: &str| bed.member(kind, &topic).group_instance_id(instance);
    let stays = Ours::join("stays", config("stays"), &topic, &ledger);
    ledger.settle("one", &[("stays", 4)]).await;
    let mut goes = Consumer::new(config("goes")).unwrap();
    goes.subscribe([topic.as_str()]).unwrap();
    poll_until(&mut goes, "two of four", |consumer| consumer.assignment().len() == 2).await;
    ledger.settle("two", &[("stays", 2)]).await;
    let (before, changes) = (goes.assignment(), ledger.changes("stays"));
    goes.close().await.unwrap();
    let mut goes = Consumer::new(config("goes")).unwrap();
    goes.subscribe([topic.as_str()]).unwrap();
    poll_until(&mut goes, "it is back", |consumer| consumer.assignment() == before).await;
    assert_eq!(ledger.changes("stays"), changes, "{kind:?}: the other heard of it");
    // Another member takes the instance id: the classic protocol fences the older one, the consumer protocol refuses
    // the newer one.
    let mut thief = Consumer::new(config("goes")).unwrap();
    thief.subscribe([topic.as_str()]).unwrap();
    let error = in_time("one of two with one name must go", async {
        loop {
            let polled = [
                goes.poll(crate::patience::SHORT).await,
                thief.poll(crate::patience::SHORT).await,
            ];
            if let Some(error) = polled.into_iter().find_map(Result::err) {
                return error.to_string();
            }
        }
    })
    .await;
    assert!(error.contains("group.instance.id"), "{error}");
    drop((goes, thief));
    stays.end(Leave::Leave).await;
}
