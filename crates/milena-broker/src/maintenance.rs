//! What must happen from time to time: retention, compaction, checkpoints, forgetting idle producers.

use std::{sync::Arc, time::Duration};

use milena_log::{CompactionLimits, StorageError};
use tokio::time::interval;

use crate::{node::Node, partition::Partition};

/// Runs until it is aborted. One chore at a time, so that they never compete for the disk.
pub(crate) async fn run(node: Arc<Node>) {
    let config = node.config();
    let every = |ms: i64| interval(Duration::from_millis(u64::try_from(ms).unwrap_or(0).max(1)));
    let mut retention = every(config.log_retention_check_interval_ms);
    let mut compaction = every(config.cleaner.backoff_ms);
    let mut checkpoints = every(i64::from(config.log_flush_offset_checkpoint_interval_ms));
    let mut producers = every(i64::from(config.producer_id_expiration_check_interval_ms));
    // The first tick of each comes at once, when there is nothing to do yet.
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
            tell(&partition, &error, "cannot apply retention");
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
                tracing::debug!(topic = %partition.topic, partition = partition.index, ?stats, "compacted");
            }
            Ok(None) => {}
            Err(error) => tell(partition, &error, "cannot compact"),
        }
    }
    if !due.is_empty() {
        write_checkpoints(node);
    }
}

/// Tells people what could not be done. If the topic was deleted meanwhile, nothing had to be.
fn tell(partition: &Partition, error: &StorageError, problem: &str) {
    if !matches!(error, StorageError::Retired { .. } | StorageError::Offline { .. }) {
        tracing::error!(topic = %partition.topic, partition = partition.index, %error, "{problem}");
    }
}

fn expire_producers(node: &Node) {
    let (now_ms, expiration_ms) = (node.now_ms(), i64::from(node.config().producer_id_expiration_ms));
    for partition in partitions(node) {
        partition.log.expire_producers(now_ms, expiration_ms);
    }
}

/// Writes down where recovery, reading and compaction would begin.
pub(crate) fn write_checkpoints(node: &Node) {
    if let Err(error) = node.write_checkpoints() {
        tracing::error!(%error, "cannot write the checkpoints");
    }
}

/// All partitions there are now; the list of topics is not held meanwhile.
fn partitions(node: &Node) -> Vec<Arc<Partition>> {
    node.topics()
        .iter()
        .flat_map(|topic| topic.partitions.clone())
        .collect()
}
