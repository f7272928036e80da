//! The loop that most people write: one record after the other, and a commit now and then.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};
use milena_client::{config::ConsumerConfig, consumer::Consumer};

use super::{Job, Task};

const POLL: Duration = Duration::from_secs(10);
const COMMIT: Duration = Duration::from_secs(1);

pub async fn handle(job: &Job) -> Result<()> {
    if job.task != Task::Work {
        bail!("the plain loop only works");
    }
    let config = ConsumerConfig::builder(&job.address)
        .group_id(format!("plain-{}", std::process::id()))
        .set("auto.offset.reset", "earliest")
        .set("enable.auto.commit", false)
        .set("max.poll.records", 10_000);
    let mut consumer = Consumer::new(config)?;
    consumer.subscribe([job.topic.as_str()])?;
    let (mut done, mut bytes, mut began) = (0, 0, None);
    let mut committed = Instant::now();
    'all: loop {
        let polled = consumer.poll(POLL).await?;
        began = began.or_else(|| (!polled.is_empty()).then(Instant::now));
        for record in &polled {
            if job.work_ms > 0 {
                tokio::time::sleep(Duration::from_millis(job.work_ms)).await;
            }
            bytes += record.value().map_or(0, <[u8]>::len);
            done += 1;
            if done == job.records {
                break 'all;
            }
        }
        if committed.elapsed() >= COMMIT {
            consumer.commit_sync().await?;
            committed = Instant::now();
        }
    }
    let took = began.map_or(Duration::ZERO, |began| began.elapsed());
    println!("{done} {bytes} {} 0", took.as_secs_f64());
    Ok(consumer.close().await?)
}
