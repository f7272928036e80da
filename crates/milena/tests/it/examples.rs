//! Examples against a broker in this process.

use milena::prelude::*;
use tokio::sync::Notify;

use crate::{consume, embedded::Embedded, manual_assignment};

fn text(record: RecordRef<'_>) -> String {
    String::from_utf8(record.value().unwrap().to_vec()).unwrap()
}

/// Runs the example until it has seen `count` records.
async fn consume(broker: &Embedded, count: usize) -> Vec<String> {
    let enough = Notify::new();
    let mut seen = vec![];
    let handle = |record: RecordRef<'_>| {
        seen.push(text(record));
        if seen.len() == count {
            enough.notify_one();
        }
    };
    consume::run(&broker.address(), enough.notified(), handle)
        .await
        .unwrap();
    seen.sort_unstable();
    seen
}

#[tokio::test]
async fn the_loop_to_copy_reads_all_and_commits_it() {
    let broker = Embedded::start().await;
    broker.create_topic("letters", 2).await;
    broker.produce("letters", 0, 0, &["a", "b"]).await;
    broker.produce("letters", 1, 0, &["c"]).await;
    assert_eq!(consume(&broker, 3).await, ["a", "b", "c"]);
    broker.produce("letters", 1, 0, &["d"]).await;
    // The others were committed, so this is the only one.
    assert_eq!(consume(&broker, 1).await, ["d"]);
}

#[tokio::test]
async fn a_replay_begins_at_its_time_and_ends_at_the_end() {
    let broker = Embedded::start().await;
    broker.create_topic("letters", 3).await;
    broker.produce("letters", 0, 1000, &["old"]).await;
    broker.produce("letters", 0, 2000, &["in time"]).await;
    broker.produce("letters", 1, 1999, &["too old"]).await;
    broker.produce("letters", 2, 3000, &["late"]).await;
    let mut seen = vec![];
    let handle = |record: RecordRef<'_>| seen.push(text(record));
    manual_assignment::run(&broker.address(), 2000, handle).await.unwrap();
    seen.sort_unstable();
    assert_eq!(seen, ["in time", "late"]);
}
