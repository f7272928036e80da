//! Our consumer, reading the same partitions again and again, and telling how it goes.

use std::{
    io::BufRead,
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use anyhow::Result;
use milena_client::{
    config::ConsumerConfig,
    consumer::{Consumer, TopicPartition},
};

/// Reads forever. Each half second it prints the rate of records from all partitions but those set apart; `pause`
/// and `resume` on standard input are for the latter.
#[derive(clap::Args)]
pub struct Watch {
    addresses: String,
    topic: String,
    partitions: i32,
    /// The partitions that are not counted.
    #[arg(value_delimiter = ',')]
    apart: Vec<i32>,
}

const INTERVAL: Duration = Duration::from_millis(500);

pub fn watch(watch: &Watch) -> Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let words = words();
    runtime.block_on(async {
        let config = ConsumerConfig::builder(&watch.addresses).set("auto.offset.reset", "earliest");
        let mut consumer = Consumer::new(config)?;
        let partition = |partition| TopicPartition::new(watch.topic.as_str(), partition);
        let all: Vec<TopicPartition> = (0..watch.partitions).map(partition).collect();
        let apart: Vec<TopicPartition> = watch.apart.iter().copied().map(partition).collect();
        consumer.assign(all.iter().cloned())?;
        let ends: Vec<i64> = {
            let ends = consumer.end_offsets(&all).await?;
            all.iter()
                .map(|partition| ends.get(partition).copied().unwrap_or(0))
                .collect()
        };
        let (mut count, mut began) = (0_u64, Instant::now());
        loop {
            for word in words.try_iter() {
                match word.as_str() {
                    "pause" => consumer.pause(&apart)?,
                    _ => consumer.resume(&apart)?,
                }
            }
            let records = consumer.poll(INTERVAL).await?;
            for place in records.partitions() {
                if !watch.apart.contains(&place.partition) {
                    count += records.partition(place).count() as u64;
                }
            }
            let next: Vec<_> = records.next_offsets().collect();
            for (place, position) in next {
                if position.offset >= ends[place.partition as usize] {
                    consumer.seek(place, 0)?;
                }
            }
            if began.elapsed() >= INTERVAL {
                println!("{:.0}", count as f64 / began.elapsed().as_secs_f64());
                (count, began) = (0, Instant::now());
            }
        }
    })
}

/// Commands from standard input.
fn words() -> Receiver<String> {
    let (sender, receiver) = mpsc::channel();
    thread::spawn(move || {
        let lines = std::io::stdin().lock().lines().map_while(Result::ok);
        lines.for_each(|line| drop(sender.send(line)));
    });
    receiver
}
