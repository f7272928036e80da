//! Periodic work: retention, compaction, checkpoints, expiry of idle producers.

use std::{sync::Arc, time::Duration};

use milena_log::{CompactionLimits, StorageError};
use tokio::time::interval;

use crate::{node::Node, partition::Partition};

/// Runs until it is aborted. One task at a time, so that they never compete for the disk.
pub(crate) async fn run(node: Arc<Node>) {
    let config = node.config();
    let every = |ms: i64| interval(Duration::from_millis(u64::try_from(ms).unwrap_or(0).max(1)));
    let mut retention = every(config.log_retention_check_interval_ms);
    let mut compaction = every(config.cleaner.backoff_ms);
    let mut checkpoints = every(i64::from(config.log_flush_offset_checkpoint_interval_ms));
    let mut producers = every(i64::from(config.producer_id_expiration_check_interval_ms));
    // The first tick of each comes at once, with nothing to do yet.
    for chore in [&mut retention, &mut compaction, &mut checkpoints, &mut producers] {
        chore.tick().await;
    }
    loop {
        let chore: fn(&Node) = tokio::select! {
            _ = retention.tick() => apply_retention,
            _ = compaction.tick() => compact,
            _ = checkpoints.tick() => write_checkpoints,
            _ = producers.tick() => expire_producers,
        };
        let node = Arc::clone(&node);
        let _ = tokio::task::spawn_blocking(move || chore(&node)).await;
    }
}

fn apply_retention(node: &Node) {
    let now_ms = node.now_ms();
    for partition in partitions(node) {
        if let Err(error) = partition.log.apply_retention(now_ms) {
            log_failure(&partition, &error, "cannot apply retention");
        }
    }
    write_checkpoints(node);
}

/// Compacts every log that has become dirty enough, the dirtiest first.
fn compact(node: &Node) {
    let config = node.config();
    if !config.cleaner.enable {
        return;
    }
    let now_ms = node.now_ms();
    let limits = CompactionLimits {
        map_bytes_max: usize::try_from(config.cleaner.dedupe_buffer_size).unwrap_or(usize::MAX),
    };
    let compacted = partitions(node)
        .into_iter()
        .filter(|partition| partition.log.config().compact);
    let mut due: Vec<_> = compacted
        .filter_map(|partition| {
            let dirtiness = partition.log.dirtiness(now_ms);
            dirtiness.due.then_some((dirtiness.ratio, partition))
        })
        .collect();
    due.sort_by(|(a, _), (b, _)| b.total_cmp(a));
    for (_, partition) in &due {
        match partition.log.compact(now_ms, limits) {
            Ok(Some(stats)) => {
                tracing::debug!(
                    event = "log_compacted",
                    topic = %partition.topic,
                    partition = partition.index,
                    ?stats,
                    "log compacted"
                );
            }
            Ok(None) => {}
            Err(error) => log_failure(partition, &error, "cannot compact"),
        }
    }
    if !due.is_empty() {
        write_checkpoints(node);
    }
}

/// Logs a failure, unless the topic was deleted meanwhile.
fn log_failure(partition: &Partition, error: &StorageError, problem: &str) {
    if !matches!(error, StorageError::Retired { .. } | StorageError::Offline { .. }) {
        tracing::error!(
            event = "maintenance_failed",
            topic = %partition.topic,
            partition = partition.index,
            %error,
            "{problem}"
        );
    }
}

fn expire_producers(node: &Node) {
    let (now_ms, expiration_ms) = (node.now_ms(), i64::from(node.config().producer_id_expiration_ms));
    for partition in partitions(node) {
        partition.log.expire_producers(now_ms, expiration_ms);
    }
}

/// Writes the checkpoints.
pub(crate) fn write_checkpoints(node: &Node) {
    if let Err(error) = node.write_checkpoints() {
        tracing::error!(event = "checkpoints_not_written", %error, "cannot write the checkpoints");
    }
}

/// All partitions at this moment; the lock of the topics is not held afterwards.
fn partitions(node: &Node) -> Vec<Arc<Partition>> {
    node.topics()
        .iter()
        .flat_map(|topic| topic.partitions.clone())
        .collect()
}
