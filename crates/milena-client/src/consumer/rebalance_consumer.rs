//! What the application and its listeners can do alike.

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
    config::ConsumerConfig,
    io,
    metrics::{Metrics, PartitionNow},
    reachability::{self, BootstrapError, UnreachableBroker},
};

/// A consumer as a rebalance listener gets it: it can commit, seek, pause and ask, but neither poll nor subscribe.
/// [`Consumer`](super::Consumer) has all of this too.
pub struct RebalanceConsumer {
    pub(super) shared: Arc<ConsumerShared>,
}

/// Reads the metrics of a consumer from another task.
#[derive(Clone)]
pub struct MetricsHandle {
    shared: Weak<ConsumerShared>,
}

impl MetricsHandle {
    /// All metrics at this moment; none when the consumer is gone.
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
    /// What the consumer was made with.
    pub fn config(&self) -> &ConsumerConfig {
        &self.shared.config
    }

    /// Waits until one bootstrap server has answered, but not longer than `within`. The error has the reason of each
    /// address: refused, name unknown, timed out, and so on. Without this call a client tries for ever, and logs why.
    pub async fn connect(&self, within: Duration) -> Result<(), BootstrapError> {
        reachability::connect(&self.shared.metadata, within).await
    }

    /// The brokers and bootstrap servers whose last connection attempt failed, and why. Empty if all is well.
    pub fn unreachable_brokers(&self) -> Vec<UnreachableBroker> {
        self.shared.connections.unreachable()
    }

    /// The partitions that the application has now. It changes only inside `poll`, `assign`, `unsubscribe` and `close`.
    pub fn assignment(&self) -> BTreeSet<TopicPartition> {
        self.shared.core().positions.assignment().cloned().collect()
    }

    /// Hands out nothing more of these partitions, until [`resume`](Self::resume). What is buffered of them stays. Poll must
    /// still be called, or the group takes the consumer for dead.
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

    /// Reads on from `offset`. Nothing is asked of a broker: if there is no such offset, the next `poll` resets it as
    /// `auto.offset.reset` says.
    pub fn seek(&mut self, partition: &TopicPartition, offset: i64) -> Result<(), SeekError> {
        self.seek_position(partition, Position::at(offset))
    }

    /// Reads on from here. If it has an epoch, the broker notices when what came before was cut off.
    pub fn seek_position(&mut self, partition: &TopicPartition, position: Position) -> Result<(), SeekError> {
        if position.offset < 0 {
            let (partition, offset) = (partition.clone(), position.offset);
            return Err(SeekError::NegativeOffset { partition, offset });
        }
        self.change_position(partition, |positions| positions.seek(partition, position))
    }

    /// Reads on from the first record of each. It is found out when it is needed; a later seek wins.
    pub fn seek_to_beginning<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> Result<(), SeekError> {
        self.seek_to(partitions, ResetTo::Earliest)
    }

    /// Reads on after the last record of each; with `read_committed`, before the first transaction that is still open.
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

    /// Who we are in the group, for a transaction that commits our offsets. Ask anew for each: it changes. Without a group
    /// there is none.
    pub fn group_metadata(&self) -> Option<GroupMetadata> {
        self.shared.core().group.as_ref().map(|group| group.member.identity())
    }

    /// Records of a partition that are there and have not been handed out, as far as the last fetch told.
    pub fn current_lag(&self, partition: &TopicPartition) -> Result<Option<i64>, SeekError> {
        let core = self.shared.core();
        if !core.positions.contains(partition) {
            return Err(SeekError::NotAssigned(partition.clone()));
        }
        Ok(core.positions.lag(partition, self.shared.reads_committed()))
    }

    /// All metrics at this moment, under Kafka's names.
    pub fn metrics(&self) -> Metrics {
        let now_ms = io::now_ms();
        let reads_committed = self.shared.reads_committed();
        let nodes = self.shared.connections.node_numbers();
        let mut core = self.shared.core();
        core.metrics.network(now_ms, self.shared.connections.numbers());
        let positions = &core.positions;
        let partitions = positions.assignment().map(|partition| PartitionNow {
            lag: positions.lag(partition, reads_committed),
            lead: positions.lead(partition),
            preferred_replica: positions.preferred_replica(partition),
            partition: partition.clone(),
        });
        let partitions: Vec<PartitionNow> = partitions.collect();
        core.metrics.snapshot(now_ms, &partitions, &nodes)
    }

    /// A handle that reads the metrics while another task has the consumer.
    pub fn metrics_handle(&self) -> MetricsHandle {
        let shared = Arc::downgrade(&self.shared);
        MetricsHandle { shared }
    }

    /// Waits until something happens; `false` if `deadline` came first.
    pub(super) async fn notified_before(&self, deadline: Option<Instant>) -> bool {
        let notified = self.shared.signal().notified();
        let Some(deadline) = deadline else {
            notified.await;
            return true;
        };
        // A timer of the runtime we are in wakes nobody else. Without one, the io thread has timers too.
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
