//! Snapshots of projections in the database.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use milena_app::projection::{Projection, Snapshot, Snapshots};
use milena_client::{config::ConsumerConfig, consumer::TopicPartition};
use milena_sql::{Database, SqlSnapshots};
use milena_test::TestBroker;
use tokio::sync::Notify;

use crate::databases::Home;

fn sales() -> TopicPartition {
    TopicPartition::new("sales", 0)
}

fn snapshot(offset: i64, state: &[u8]) -> Snapshot {
    Snapshot {
        offset,
        state: state.to_vec(),
    }
}

#[tokio::test]
async fn a_snapshot_is_never_replaced_by_an_older_one() {
    for home in Home::both() {
        let database = home.migrated().await;
        let snapshots = SqlSnapshots::new(database.clone(), "totals");
        assert_eq!(snapshots.load(&sales()).await.unwrap(), None);
        for (offset, state, expected) in [
            (5, "five", "five"),
            (3, "three", "five"),
            (5, "again", "again"),
            (9, "", ""),
        ] {
            snapshots
                .save(&sales(), snapshot(offset, state.as_bytes()))
                .await
                .unwrap();
            let loaded = snapshots.load(&sales()).await.unwrap().unwrap();
            assert_eq!(loaded.state, expected.as_bytes());
        }
        // Names and partitions are apart.
        let other = SqlSnapshots::new(database, "others");
        assert_eq!(other.load(&sales()).await.unwrap(), None);
        assert_eq!(snapshots.load(&TopicPartition::new("sales", 1)).await.unwrap(), None);
        snapshots.delete(&sales()).await.unwrap();
        assert_eq!(snapshots.load(&sales()).await.unwrap(), None);
        snapshots.save(&sales(), snapshot(1, b"anew")).await.unwrap();
        assert_eq!(snapshots.load(&sales()).await.unwrap(), Some(snapshot(1, b"anew")));
    }
}

#[tokio::test]
async fn large_states_are_stored_in_parts() {
    for home in Home::both() {
        let snapshots = SqlSnapshots::new(home.migrated().await, "totals");
        for size in [9 << 20, 4 << 20, (4 << 20) + 1] {
            let state: Vec<u8> = (0..size).map(|index: u32| (index % 251) as u8).collect();
            let stored = snapshot(i64::from(size), &state);
            // The sizes shrink, so each begins anew.
            snapshots.delete(&sales()).await.unwrap();
            snapshots.save(&sales(), stored.clone()).await.unwrap();
            assert!(snapshots.load(&sales()).await.unwrap() == Some(stored));
        }
        let smaller = snapshot(i64::from(10 << 20), b"small");
        snapshots.save(&sales(), smaller.clone()).await.unwrap();
        assert!(snapshots.load(&sales()).await.unwrap() == Some(smaller));
    }
}

#[tokio::test]
async fn readers_see_whole_snapshots_while_owners_replace_them() {
    for home in Home::both() {
        let snapshots = SqlSnapshots::new(home.migrated().await, "totals");
        let writers = (0..2).map(|writer| {
            let snapshots = snapshots.clone();
            tokio::spawn(async move {
                for offset in (writer..30).step_by(2) {
                    let state = vec![u8::try_from(offset).unwrap(); 5 << 20];
                    snapshots.save(&sales(), snapshot(offset, &state)).await.unwrap();
                }
            })
        });
        let writers: Vec<_> = writers.collect();
        let mut last = -1;
        while !writers.iter().all(tokio::task::JoinHandle::is_finished) {
            let Some(loaded) = snapshots.load(&sales()).await.unwrap() else {
                continue;
            };
            assert!(loaded.offset >= last, "{last} was replaced by {}", loaded.offset);
            last = loaded.offset;
            let expected = u8::try_from(loaded.offset).unwrap();
            assert!(loaded.state.iter().all(|byte| *byte == expected));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        assert_eq!(snapshots.load(&sales()).await.unwrap().unwrap().offset, 29);
    }
}

type Totals = BTreeMap<String, u64>;

/// Reads until the state has so many sales. Returns the number of records that were read.
async fn project(broker: &TestBroker, database: &Database, expected: u64) -> u64 {
    let config = ConsumerConfig::builder(broker.bootstrap_servers()).group_id("views");
    let config = config.enable_auto_commit(false).build().unwrap();
    let snapshots = SqlSnapshots::new(database.clone(), "countries");
    let projection = Projection::<Totals, _>::new(config, ["sales"], snapshots).unwrap();
    let projection = projection.snapshot_every(Duration::from_secs(3600), 4);
    let (done, view) = (Arc::new(Notify::new()), projection.view());
    let mut read = 0;
    let apply = |totals: &mut Totals, record: milena_client::consumer::RecordRef<'_>| {
        read += 1;
        let country = String::from_utf8(record.key().unwrap_or_default().to_vec())?;
        *totals.entry(country).or_default() += 1;
        done.notify_one();
        Ok(())
    };
    let stop = async {
        let is_done = || view.with(&sales(), |totals, _| totals.values().sum::<u64>()) == Some(expected);
        while !is_done() {
            let _ = tokio::time::timeout(Duration::from_millis(10), done.notified()).await;
        }
    };
    let running = projection.run_until(apply, stop);
    tokio::time::timeout(Duration::from_secs(60), running)
        .await
        .unwrap()
        .unwrap();
    read
}

#[tokio::test]
async fn a_projection_continues_with_its_snapshot() {
    for home in Home::both() {
        let (broker, database) = (TestBroker::start(), home.migrated().await);
        broker.create_topic("sales", 1);
        broker.produce("sales", 0, [("fr", "1"), ("ca", "1"), ("fr", "1")]);
        assert_eq!(project(&broker, &database, 3).await, 3);
        broker.produce("sales", 0, [("fr", "1"), ("ca", "1")]);
        assert_eq!(project(&broker, &database, 5).await, 2);
    }
}

#[tokio::test]
async fn a_snapshot_behind_the_end_of_the_log_is_refused() {
    let home = Home::sqlite();
    let (broker, database) = (TestBroker::start(), home.migrated().await);
    broker.create_topic("sales", 1);
    let snapshots = SqlSnapshots::new(database, "countries");
    snapshots.save(&sales(), snapshot(7, b"{}")).await.unwrap();
    let config = ConsumerConfig::builder(broker.bootstrap_servers()).group_id("views");
    let config = config.enable_auto_commit(false).build().unwrap();
    let projection = Projection::<Totals, _>::new(config, ["sales"], snapshots).unwrap();
    let running = projection.run_until(|_, _| Ok(()), std::future::pending());
    let ended = tokio::time::timeout(Duration::from_secs(60), running).await.unwrap();
    let error = ended.unwrap_err().to_string();
    assert!(error.contains("offset 7") && error.contains("delete"), "{error}");
}
