//! Records that are read again: some fail and go back to their own topic after a delay; then all are replayed, but for a
//! partition that cannot go on and does so in the next run.

use std::{
    collections::BTreeMap,
    sync::{
        Arc, Mutex,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use milena_app::{Replay, RunError, prelude::*};
use milena_client::{
    config::ProducerConfig,
    consumer::TopicPartition,
    producer::{Producer, ProducerRecord},
};

use crate::stage::{PARTITIONS, Stage, until};

const TOPIC: &str = "again";

/// The attempts of each event, and what the replay has handled.
#[derive(Default)]
struct Book {
    attempts: Mutex<BTreeMap<String, Vec<u32>>>,
    replayed: Mutex<Vec<String>>,
    /// Whether the second partition can go on.
    is_mended: AtomicBool,
}

async fn at_first(Value(value): Value<String>, cx: Cx, State(book): State<Arc<Book>>) -> Result<(), Fault> {
    let mut attempts = book.attempts.lock().unwrap();
    attempts.entry(cx.event_id()).or_default().push(cx.attempt());
    if value.ends_with("later") && cx.attempt() == 1 {
        return Err(Fault::retry("not now"));
    }
    Ok(())
}

async fn once_more(Value(value): Value<String>, State(book): State<Arc<Book>>) -> Result<(), Fault> {
    if value == "1 later" && !book.is_mended.load(Ordering::SeqCst) {
        return Err(Fault::fatal("the books are closed"));
    }
    book.replayed.lock().unwrap().push(value);
    Ok(())
}

pub async fn run(stage: &Stage) -> String {
    stage.create(TOPIC, PARTITIONS).await;
    let book = Arc::new(Book::default());
    let app = || App::new(stage.address()).group(TOPIC).state(Arc::clone(&book));
    let running = app().on(TOPIC, at_first, |policy| {
        let policy = policy.retry(Retry::none()).then_topics([Duration::from_secs(1)]);
        policy.return_to_origin()
    });
    let running = running.start().await.unwrap();
    write(stage, &["now", "later"]).await;
    // What came back is a third record, and is known as what it was.
    until("all that came back is done", async || {
        let mut done = true;
        for partition in 0..PARTITIONS {
            done &= stage.committed(TOPIC, TOPIC, partition).await == Some(3);
        }
        done
    })
    .await;
    running.stop().await.unwrap();
    let attempts = std::mem::take(&mut *book.attempts.lock().unwrap());
    for partition in 0..PARTITIONS {
        assert_eq!(attempts[&format!("{TOPIC}-{partition}-0")], [1], "{attempts:?}");
        assert_eq!(attempts[&format!("{TOPIC}-{partition}-1")], [1, 2], "{attempts:?}");
    }
    assert_eq!(attempts.len(), 2 * PARTITIONS as usize, "{attempts:?}");

    let replay = || app().on(TOPIC, once_more, |policy| policy.order(Order::Partition));
    let Err(RunError::Unfinished(unfinished)) = replay().replay(Replay::new("repair")).await else {
        panic!("a partition cannot go on")
    };
    let left: Vec<&TopicPartition> = unfinished.report.unfinished.keys().collect();
    assert_eq!(left, [&TopicPartition::new(TOPIC, 1)], "{unfinished}");
    write(stage, &["too late"]).await;
    book.is_mended.store(true, Ordering::SeqCst);
    replay().replay(Replay::new("repair")).await.unwrap();
    let mut replayed = std::mem::take(&mut *book.replayed.lock().unwrap());
    replayed.sort_unstable();
    let of = |partition: i32| ["later", "later", "now"].map(|word| format!("{partition} {word}"));
    let all: Vec<String> = (0..PARTITIONS).flat_map(of).collect();
    assert_eq!(replayed, all, "each once, and nothing that was written since");
    "records went back to their topic and were replayed, each once".to_owned()
}

/// Writes these words to each partition.
async fn write(stage: &Stage, words: &[&str]) {
    let producer = Producer::new(ProducerConfig::builder(stage.address())).unwrap();
    for partition in 0..PARTITIONS {
        for word in words {
            let value = format!("{partition} {word}");
            let record = ProducerRecord::new(TOPIC).partition(partition).value(&value);
            producer.send(record).await.unwrap();
        }
    }
    producer.close().await.unwrap();
}
