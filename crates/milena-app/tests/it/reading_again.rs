//! Replays and projections.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex},
    time::Duration,
};

use milena_app::{
    Replay, ReplayFrom, ReplayTo,
    prelude::*,
    projection::{FileSnapshots, Projection},
};
use milena_client::{config::ConsumerConfig, consumer::TopicPartition};
use milena_test::{TestBroker, TestRecord};
use tokio::sync::Notify;

use crate::rig::{GROUP, app, until, within};

type Seen = Arc<Mutex<Vec<String>>>;

async fn note(Value(value): Value<String>, State(seen): State<Seen>) {
    seen.lock().unwrap().push(value);
}

fn take(seen: &Seen) -> Vec<String> {
    let mut seen = std::mem::take(&mut *seen.lock().unwrap());
    seen.sort();
    seen
}

#[tokio::test]
async fn a_replay_handles_its_range_again_and_leaves_the_group_alone() {
    let broker = TestBroker::start();
    broker.create_topic("orders", 2);
    for partition in 0..2 {
        let records = (0..10).map(|number: i64| {
            TestRecord::new(format!("{partition}-{number}")).timestamp(1_700_000_000_000 + number * 1000)
        });
        broker.produce("orders", partition, records);
    }
    broker.commit(GROUP, "orders", 0, 9);
    let seen = Seen::default();
    let app = app(&broker).state(seen.clone()).on("orders", note, |policy| policy);
    let range = Replay::new("repair")
        .from(ReplayFrom::Time(1_700_000_003_000))
        .to(ReplayTo::Time(1_700_000_005_000));
    let report = within("the replay", app.clone().replay(range.clone())).await.unwrap();
    assert_eq!(take(&seen), ["0-3", "0-4", "1-3", "1-4"]);
    assert_eq!(report.partitions.get(&TopicPartition::new("orders", 1)), Some(&(3, 5)));
    assert_eq!(report.counts[0].success, 4);
    assert_eq!(broker.committed(GROUP, "orders", 0), Some(9));
    assert_eq!(broker.committed("billing.repair", "orders", 0), Some(5));
    // A finished replay has nothing left.
    let again = within("the replay", app.clone().replay(range)).await.unwrap();
    assert_eq!((take(&seen), again.partitions.len()), (vec![], 0));
    let from = BTreeMap::from([(TopicPartition::new("orders", 0), 8)]);
    let rest = Replay::new("rest").from(ReplayFrom::Offsets(from));
    within("the replay", app.replay(rest)).await.unwrap();
    assert_eq!(take(&seen), ["0-8", "0-9"]);
}

type Totals = BTreeMap<String, u64>;

#[tokio::test]
async fn a_state_begins_with_its_snapshot_and_reads_on_from_there() {
    let broker = TestBroker::start();
    broker.create_topic("sales", 1);
    let directory = std::env::temp_dir().join(format!("milena-snapshots-{}", std::process::id()));
    let read = Arc::new(Mutex::new(0));
    let run = |expected: u64| {
        let config = ConsumerConfig::builder(broker.bootstrap_servers()).group_id("views");
        let config = config.enable_auto_commit(false).build().unwrap();
        let snapshots = FileSnapshots::new(&directory).unwrap();
        let projection = Projection::<Totals, _>::new(config, ["sales"], snapshots).unwrap();
        let projection = projection.snapshot_every(Duration::from_secs(3600), 4);
        let (view, stop, read) = (projection.view(), Arc::new(Notify::new()), read.clone());
        async move {
            let stopped = stop.clone();
            let running = tokio::spawn(projection.run_until(
                move |totals, record| {
                    *read.lock().unwrap() += 1;
                    let country = String::from_utf8(record.key().unwrap_or_default().to_vec())?;
                    *totals.entry(country).or_default() += 1;
                    Ok(())
                },
                async move { stopped.notified().await },
            ));
            let partition = TopicPartition::new("sales", 0);
            until("the state", || {
                view.with(&partition, |totals, _| totals.values().sum::<u64>()) == Some(expected)
            })
            .await;
            stop.notify_one();
            within("the end", running).await.unwrap().unwrap();
        }
    };
    broker.produce("sales", 0, [("fr", "1"), ("ca", "1"), ("fr", "1")]);
    run(3).await;
    broker.produce("sales", 0, [("fr", "1"), ("ca", "1")]);
    run(5).await;
    assert_eq!(
        *read.lock().unwrap(),
        5,
        "the second run began with the snapshot of the first"
    );
    std::fs::remove_dir_all(directory).unwrap();
}
