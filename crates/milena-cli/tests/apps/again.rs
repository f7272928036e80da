//! Records that are handled again: some fail and return to their own topic after a delay; then all are replayed, except
//! for a blocked partition, which continues in the next run.

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

use crate::environment::{Environment, PARTITIONS, until};

const TOPIC: &str = "again";

/// The attempts per event, and the events that the replay has handled.
#[derive(Default)]
struct Attempts {
    attempts: Mutex<BTreeMap<String, Vec<u32>>>,
    replayed: Mutex<Vec<String>>,
    /// Whether the second partition may continue.
    is_mended: AtomicBool,
}

async fn at_first(Value(value): Value<String>, cx: Cx, State(book): State<Arc<Attempts>>) -> Result<(), Fault> {
    let mut attempts = book.attempts.lock().unwrap();
    attempts.entry(cx.event_id()).or_default().push(cx.attempt());
    if value.ends_with("later") && cx.attempt() == 1 {
        return Err(Fault::retry("not now"));
    }
    Ok(())
}

async fn once_more(Value(value): Value<String>, State(book): State<Arc<Attempts>>) -> Result<(), Fault> {
    if value == "1 later" && !book.is_mended.load(Ordering::SeqCst) {
        return Err(Fault::fatal("the books are closed"));
    }
    book.replayed.lock().unwrap().push(value);
    Ok(())
}

pub async fn run(env: &Environment) -> String {
    env.create(TOPIC, PARTITIONS).await;
    let book = Arc::new(Attempts::default());
    let app = || App::new(env.address()).group(TOPIC).state(Arc::clone(&book));
    let running = app().on(TOPIC, at_first, |policy| {
        let policy = policy.retry(Retry::none()).then_topics([Duration::from_secs(1)]);
        policy.return_to_origin()
    });
    let running = running.start().await.unwrap();
    write(env, &["now", "later"]).await;
    // The returned record is a third record with the identity of the original.
    until("all that came back is done", async || {
        let mut done = true;
        for partition in 0..PARTITIONS {
            done &= env.committed(TOPIC, TOPIC, partition).await == Some(3);
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
    write(env, &["too late"]).await;
    book.is_mended.store(true, Ordering::SeqCst);
    replay().replay(Replay::new("repair")).await.unwrap();
    let mut replayed = std::mem::take(&mut *book.replayed.lock().unwrap());
    replayed.sort_unstable();
    let of = |partition: i32| ["later", "later", "now"].map(|word| format!("{partition} {word}"));
    let all: Vec<String> = (0..PARTITIONS).flat_map(of).collect();
    assert_eq!(replayed, all, "each once, and nothing that was written since");
    "records went back to their topic and were replayed, each once".to_owned()
}

/// Writes these values to each partition.
async fn write(env: &Environment, words: &[&str]) {
    let producer = Producer::new(ProducerConfig::builder(env.address())).unwrap();
    for partition in 0..PARTITIONS {
        for word in words {
            let value = format!("{partition} {word}");
            let record = ProducerRecord::new(TOPIC).partition(partition).value(&value);
            producer.send(record).await.unwrap();
        }
    }
    producer.close().await.unwrap();
}
