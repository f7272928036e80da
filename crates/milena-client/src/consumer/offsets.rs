//! Offset queries of the application.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::{Duration, Instant},
};

use milena_machines::{
    TopicPartition,
    fetch::{Position, ResetTo},
    member::OffsetAndMetadata,
};

use super::{error::OffsetsError, offset_queries::ends, rebalance_consumer::RebalanceConsumer};
use crate::io;

/// The first record at or after a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetAndTimestamp {
    pub offset: i64,
    /// The timestamp of that record, in milliseconds since 1970.
    pub timestamp: i64,
    pub leader_epoch: Option<i32>,
}

impl RebalanceConsumer {
    /// Returns the offset of the next record that `poll` would return. Without a position, this waits for the committed
    /// offset or the `auto.offset.reset`.
    ///
    /// All queries here time out after `default.api.timeout.ms`. Dropping the future has no effect.
    pub async fn position(&mut self, partition: &TopicPartition) -> Result<Position, OffsetsError> {
        let deadline = tokio::time::Instant::now() + self.api_timeout();
        let refusals = self.shared.connections.authentication().last();
        loop {
            if let Some((_, error)) = self.shared.connections.authentication().after(refusals) {
                return Err(OffsetsError::Authentication(error));
            }
            {
                let mut core = self.shared.core();
                if core.closed {
                    return Err(OffsetsError::Closed);
                }
                if !core.positions.contains(partition) {
                    return Err(OffsetsError::NotAssigned(partition.clone()));
                }
                if let Some(position) = core.positions.position(partition) {
                    return Ok(position);
                }
                if let Some(error) = core.positions.stuck_at(partition) {
                    return Err(error.clone().into());
                }
                core.positions.request_position(partition);
                self.shared.drive_locked(&mut core, io::now_ms());
            }
            if !self.notified_before(Some(deadline)).await {
                let metadata_error = self.shared.metadata.last_error().map(|error| error.to_string());
                return Err(OffsetsError::timed_out(std::iter::once(partition), metadata_error));
            }
        }
    }

    /// Returns the committed offsets of these partitions; those without one are left out. They need not be assigned.
    pub async fn committed<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, OffsetAndMetadata>, OffsetsError> {
        let partitions: BTreeSet<TopicPartition> = partitions.into_iter().cloned().collect();
        if partitions.is_empty() {
            return Ok(BTreeMap::new());
        }
        let began = Instant::now();
        let refusals = self.shared.connections.authentication().last();
        let deadline_ms = io::now_ms() + i64::from(self.shared.config.default_api_timeout_ms);
        let results = {
            let mut core = self.shared.core();
            let group = core.group.as_mut().ok_or(OffsetsError::NoGroup)?;
            let results = group.fetch_committed(partitions, deadline_ms);
            self.shared.drive_locked(&mut core, io::now_ms());
            results
        };
        let results = tokio::select! {
            biased;
            results = results => results.map_err(|_| OffsetsError::Closed)?,
            error = self.shared.connections.authentication().refused_after(refusals) => {
                return Err(OffsetsError::Authentication(error));
            }
        };
        let took_ns = u64::try_from(began.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.shared.core().metrics.committed_ns += took_ns;
        let mut committed = BTreeMap::new();
        for (partition, result) in results {
            match result {
                Ok(Some(offset)) => {
                    committed.insert(partition, offset);
                }
                Ok(None) => {}
                Err(error) => return Err(OffsetsError::Committed { partition, error }),
            }
        }
        Ok(committed)
    }

    /// Returns the first offset of each partition. They need not be assigned.
    pub async fn beginning_offsets<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, i64>, OffsetsError> {
        self.find_ends(partitions, ResetTo::Earliest).await
    }

    /// Returns the offset after the last record of each partition; with `read_committed`, the last stable offset. They
    /// need not be assigned.
    pub async fn end_offsets<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
    ) -> Result<BTreeMap<TopicPartition, i64>, OffsetsError> {
        self.find_ends(partitions, ResetTo::Latest).await
    }

    async fn find_ends<'a>(
        &mut self,
        partitions: impl IntoIterator<Item = &'a TopicPartition>,
        to: ResetTo,
    ) -> Result<BTreeMap<TopicPartition, i64>, OffsetsError> {
        let found = self
            .shared
            .list_offsets(ends(partitions, to), self.api_timeout())
            .await?;
        let found = found.into_iter();
        Ok(found
            .filter_map(|(partition, found)| Some((partition, found?.offset)))
            .collect())
    }

    /// Returns the first record at or after a time (milliseconds since 1970) of each partition. Partitions without one
    /// are left out. They need not be assigned.
    pub async fn offsets_for_times(
        &mut self,
        times: impl IntoIterator<Item = (TopicPartition, i64)>,
    ) -> Result<BTreeMap<TopicPartition, OffsetAndTimestamp>, OffsetsError> {
        let times: BTreeMap<TopicPartition, i64> = times.into_iter().collect();
        if let Some(timestamp) = times.values().copied().find(|timestamp| *timestamp < 0) {
            return Err(OffsetsError::NegativeTime { timestamp });
        }
        let found = self.shared.list_offsets(times, self.api_timeout()).await?;
        let found = found
            .into_iter()
            .filter_map(|(partition, found)| Some((partition, found?)));
        let found = found.map(|(partition, found)| {
            let found = OffsetAndTimestamp {
                offset: found.offset,
                timestamp: found.timestamp,
                leader_epoch: found.epoch,
            };
            (partition, found)
        });
        Ok(found.collect())
    }

    pub(super) fn api_timeout(&self) -> Duration {
        Duration::from_millis(u64::try_from(self.shared.config.default_api_timeout_ms).unwrap_or(0))
    }
}
