//! A poll loop to copy: reads the topic `letters` as a member of the group `readers`, with explicit commits.
//!
//! `cargo run -p milena --example consume -- 127.0.0.1:9092`; Ctrl-C ends it.

use std::{error::Error, future::Future, pin::pin, time::Duration};

use milena::prelude::*;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let bootstrap = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:9092".to_owned());
    let stop = async {
        // Without a Ctrl-C handler there is no way to stop, which is no reason to stop now.
        if tokio::signal::ctrl_c().await.is_err() {
            std::future::pending::<()>().await;
        }
    };
    let print = |record: RecordRef<'_>| {
        let value = String::from_utf8_lossy(record.value().unwrap_or_default());
        println!("{} @ {}: {value}", record.topic_partition(), record.offset());
    };
    run(&bootstrap, stop, print).await
}

/// Passes every record to `handle` until `stop` is done. An uncommitted record is delivered again after a crash, so
/// `handle` should be idempotent.
pub async fn run(
    bootstrap: &str,
    stop: impl Future<Output = ()>,
    mut handle: impl FnMut(RecordRef<'_>),
) -> Result<(), Box<dyn Error>> {
    let config = ConsumerConfig::builder(bootstrap)
        .group_id("readers")
        .auto_offset_reset(AutoOffsetReset::Earliest)
        .enable_auto_commit(false);
    let mut consumer = Consumer::new(config)?;
    consumer.subscribe_with(["letters"], CommitBeforeRevocation)?;

    let mut stop = pin!(stop);
    loop {
        // Dropping a poll's future loses no records.
        let records = tokio::select! {
            records = consumer.poll(Duration::from_secs(1)) => records?,
            () = &mut stop => break,
        };
        records.iter().for_each(&mut handle);
        if !records.is_empty() {
            // This does not wait. If it fails, the next commit covers it.
            let commit = consumer.commit_async()?;
            tokio::spawn(async move {
                if let Err(error) = commit.await {
                    eprintln!("a commit failed: {error}");
                }
            });
        }
    }
    // There is no next commit, so this one waits and retries.
    consumer.commit_sync().await?;
    consumer.close().await?;
    Ok(())
}

/// Commits before partitions move to other members, so that no record is handled twice.
struct CommitBeforeRevocation;

impl RebalanceListener for CommitBeforeRevocation {
    async fn revoked(
        &mut self,
        consumer: &mut RebalanceConsumer,
        _partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        // Everything that `poll` has returned is handled by now: listeners run inside the next poll.
        Ok(consumer.commit_sync().await?)
    }

    async fn lost(
        &mut self,
        _consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        // The partitions have new owners already, which repeat the uncommitted records.
        eprintln!("lost {} partitions", partitions.len());
        Ok(())
    }
}
