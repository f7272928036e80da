//! The operations of both the application and its rebalance listeners.

use std::{
    collections::BTreeSet,
    fmt,
    sync::{Arc, Weak},
    time::Duration,
};

use milena_machines::{
    TopicPartition,
    fetch::{Position, ResetTo},
    member::GroupMetadata,
};
use tokio::{
    runtime::Handle,
    time::{Instant, timeout_at},
};

use super::{error::SeekError, shared::ConsumerShared};
use crate::{
    config::{ConsumerConfig, ReloadError},
    io,
    metrics::{Metrics, PartitionSnapshot},
    reachability::{self, BootstrapError, UnreachableBroker},
};

/// The consumer as passed to a rebalance listener: commit, seek, pause and query offsets, but neither poll nor
/// subscribe. [`Consumer`](super::Consumer) dereferences to it.
pub struct RebalanceConsumer {
    pub(super) shared: Arc<ConsumerShared>,
}

/// Reads the metrics of a consumer from another task.
#[derive(Clone)]
pub struct MetricsHandle {
    shared: Weak<ConsumerShared>,
}

impl MetricsHandle {
    /// All current metrics; empty after the consumer is gone.
    pub fn metrics(&self) -> Metrics {
        let shared = self.shared.upgrade();
        shared
            .map(|shared| RebalanceConsumer { shared }.metrics())
            .unwrap_or_default()
    }
}

impl fmt::Debug for MetricsHandle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MetricsHandle").finish_non_exhaustive()
    }
}

impl RebalanceConsumer {
    /// The configuration of the consumer.
    pub fn config(&self) -> &ConsumerConfig {
        &self.shared.config
    }

    /// Waits until one bootstrap server has responded, up to `within`. The error has the reason of each address:
    /// refused, name unknown, timed out, and so on. Without this call a client retries without end, and logs the
    /// reasons.
    pub async fn connect(&self, within: Duration) -> Result<(), BootstrapError> {
        reachability::connect(&self.shared.metadata, within).await
    }

    /// Reads the certificates of `ssl.*` again, for the connections from now on. Clients look at the files every ten seconds
    /// by themselves.
    ///
    /// Returns whether anything changed. The present certificates stay if a file cannot be used.
    pub fn reload_certificates(&self) -> Result<bool, ReloadError> {
        self.shared.config.security.reload()
    }

    /// The brokers and bootstrap servers whose last connection attempt failed.
    pub fn unreachable_brokers(&self) -> Vec<UnreachableBroker> {
        self.shared.connections.unreachable()
    }

    /// The assigned partitions. The assignment changes only inside `poll`, `assign`, `unsubscribe` and `close`.
    pub fn assignment(&self) -> BTreeSet<TopicPartition> {
        self.shared.core().positions.assignment().cloned().collect()
    }

    /// Stops the delivery of these partitions until [`resume`](Self::resume). Buffered records are kept. `poll` must
    /// still be called within `max.poll.interval.ms`.
    pub fn pause<'a>(&mut self, partitions: impl IntoIterator<Item = &'a TopicPartition>) -> Result<(), SeekError> {
        self.set_paused(partitions, true)
    }

    pub fn resume<'a>(&mut self, partitions: impl IntoIterator<Item = &'a TopicPartition>) -> Result<(), SeekError> {
        self.set_paused(partitions, false)
    }

    fn set_paused<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
        paused: bool,
    ) -> Result<(), SeekError> {
        let mut core = self.shared.core();
        for partition in partitions {
            if !core.positions.pause(partition, paused) {
                return Err(SeekError::NotAssigned(partition.clone()));
            }
        }
        self.shared.drive_locked(&mut core, io::now_ms());
        Ok(())
    }

    pub fn paused(&self) -> BTreeSet<TopicPartition> {
        self.shared.core().positions.paused().cloned().collect()
    }

    /// Continues at `offset`. No broker is contacted: if the offset does not exist, the next `poll` applies
    /// `auto.offset.reset`.
    pub fn seek(&mut self, partition: &TopicPartition, offset: i64) -> Result<(), SeekError> {
        self.seek_position(partition, Position::at(offset))
    }

    /// Continues at this position. With an epoch, the broker detects a truncation of the log before it.
    pub fn seek_position(&mut self, partition: &TopicPartition, position: Position) -> Result<(), SeekError> {
        if position.offset < 0 {
            let (partition, offset) = (partition.clone(), position.offset);
            return Err(SeekError::NegativeOffset { partition, offset });
        }
        self.change_position(partition, |positions| positions.seek(partition, position))
    }

    /// Continues at the first record of each partition. The offset is looked up when needed; a later seek wins.
    pub fn seek_to_beginning<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> Result<(), SeekError> {
        self.seek_to(partitions, ResetTo::Earliest)
    }

    /// Continues after the last record of each partition; with `read_committed`, at the last stable offset.
    pub fn seek_to_end<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> Result<(), SeekError> {
        self.seek_to(partitions, ResetTo::Latest)
    }

    fn seek_to<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
        to: ResetTo,
    ) -> Result<(), SeekError> {
        for partition in partitions {
            self.change_position(partition, |positions| positions.seek_to(partition, to))?;
        }
        Ok(())
    }

    fn change_position(
        &mut self,
        partition: &TopicPartition,
        change: impl FnOnce(&mut milena_machines::fetch::Positions) -> bool,
    ) -> Result<(), SeekError> {
        let mut guard = self.shared.core();
        let core = &mut *guard;
        if !change(&mut core.positions) {
            return Err(SeekError::NotAssigned(partition.clone()));
        }
        core.buffer.retain_current(&core.positions);
        self.shared.drive_locked(core, io::now_ms());
        Ok(())
    }

    /// The group metadata for a transaction that commits offsets. Call it for each transaction, because it changes.
    /// `None` without a group.
    pub fn group_metadata(&self) -> Option<GroupMetadata> {
        self.shared.core().group.as_ref().map(|group| group.member.identity())
    }

    /// The number of records after the position, as of the last fetch.
    pub fn current_lag(&self, partition: &TopicPartition) -> Result<Option<i64>, SeekError> {
        let core = self.shared.core();
        if !core.positions.contains(partition) {
            return Err(SeekError::NotAssigned(partition.clone()));
        }
        Ok(core.positions.lag(partition, self.shared.reads_committed()))
    }

    /// All current metrics, under Kafka's names.
    pub fn metrics(&self) -> Metrics {
        let now_ms = io::now_ms();
        let reads_committed = self.shared.reads_committed();
        let nodes = self.shared.connections.node_numbers();
        let mut core = self.shared.core();
        core.metrics.record_network(now_ms, self.shared.connections.numbers());
        let positions = &core.positions;
        let partitions = positions.assignment().map(|partition| PartitionSnapshot {
            lag: positions.lag(partition, reads_committed),
            lead: positions.lead(partition),
            preferred_replica: positions.preferred_replica(partition),
            partition: partition.clone(),
        });
        let partitions: Vec<PartitionSnapshot> = partitions.collect();
        core.metrics.snapshot(now_ms, &partitions, &nodes)
    }

    /// A handle to the metrics, for other tasks.
    pub fn metrics_handle(&self) -> MetricsHandle {
        let shared = Arc::downgrade(&self.shared);
        MetricsHandle { shared }
    }

    /// Waits for the wakeup signal. Returns `false` if `deadline` came first.
    pub(super) async fn notified_before(&self, deadline: Option<Instant>) -> bool {
        let notified = self.shared.signal().notified();
        let Some(deadline) = deadline else {
            notified.await;
            return true;
        };
        // A timer of the current runtime wakes no other thread. Without a runtime, the io thread has timers too.
        if Handle::try_current().is_ok() {
            return timeout_at(deadline, notified).await.is_ok();
        }
        let left = deadline.saturating_duration_since(Instant::now());
        let deadline_ms = io::now_ms().saturating_add(i64::try_from(left.as_millis()).unwrap_or(i64::MAX));
        let sleep = self.shared.io.sleep_until(deadline_ms);
        tokio::select! {
            () = notified => true,
            () = sleep => false,
        }
    }
}

impl fmt::Debug for RebalanceConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RebalanceConsumer")
            .field("client_id", &self.shared.config.client_id)
            .field("group_id", &self.shared.config.group_id)
            .finish_non_exhaustive()
    }
}
