//! Projections: state built from events, kept in memory and in snapshots outside of Kafka.
//!
//! A [`Projection`] reads topics in order and applies each record to the state of its partition. It periodically stores
//! a snapshot: the state together with its offset. The next owner of the partition starts with the last snapshot and
//! continues there. No offsets are committed to Kafka, because the snapshot has them.

mod files;

use std::{
    collections::BTreeMap,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

pub use files::{BadSnapshot, FileSnapshots};
use milena_client::{
    config::ConsumerConfig,
    consumer::{
        CloseError, Consumer, ConsumerRecords, ListenerError, NewConsumerError, PollError, RebalanceConsumer,
        RebalanceListener, RecordRef, SubscribeError, TopicPartition,
    },
};
use serde::{Serialize, de::DeserializeOwned};

use crate::{
    clock::{Clock, millis},
    handler::BoxError,
};

/// State of a partition, and the offset of the first record that is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub offset: i64,
    pub state: Vec<u8>,
}

/// Storage of snapshots. State and offset must be stored atomically, and never replace a newer snapshot.
pub trait Snapshots: Send + Sync + 'static {
    fn load(&self, partition: &TopicPartition) -> impl Future<Output = Result<Option<Snapshot>, BoxError>> + Send;

    fn save(&self, partition: &TopicPartition, snapshot: Snapshot)
    -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// Reason why a projection ended.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ProjectionError {
    #[error(transparent)]
    Consumer(#[from] NewConsumerError),
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
    #[error(transparent)]
    Poll(#[from] PollError),
    #[error(transparent)]
    Close(#[from] CloseError),
    #[error("storing the snapshot of {partition} failed: {error}")]
    Save { partition: TopicPartition, error: BoxError },
    #[error("applying the record at {partition}, offset {offset}, failed: {error}")]
    Apply {
        partition: TopicPartition,
        offset: i64,
        error: BoxError,
    },
}

/// State of an assigned partition.
#[derive(Debug)]
struct Part<S> {
    state: S,
    /// Offset of the first record that is not in the state.
    next: i64,
    /// Number of records since the last snapshot.
    unsaved: u64,
}

type Parts<S> = Arc<Mutex<BTreeMap<TopicPartition, Part<S>>>>;

/// Reads topics into a state per partition.
///
/// [`Projection::view`] gives queries access to the states. An instance has only the states of its own partitions.
#[derive(Debug)]
pub struct Projection<S, T> {
    consumer: Consumer,
    parts: Parts<S>,
    snapshots: Arc<T>,
    every: Duration,
    every_records: u64,
    clock: Clock,
}

impl<S, T> Projection<S, T>
where
    S: Serialize + DeserializeOwned + Default + Send + 'static,
    T: Snapshots,
{
    /// Reads these topics as a member of the configured group. By default a snapshot is stored after an hour or 100,000
    /// records, when a partition is revoked, and at the end.
    pub fn new<N: Into<String>>(
        config: ConsumerConfig,
        topics: impl IntoIterator<Item = N>,
        snapshots: T,
    ) -> Result<Self, ProjectionError> {
        let mut consumer = Consumer::new(config)?;
        let (parts, snapshots) = (Parts::<S>::default(), Arc::new(snapshots));
        let listener = Restore {
            parts: Arc::clone(&parts),
            snapshots: Arc::clone(&snapshots),
        };
        consumer.subscribe_with(topics, listener)?;
        Ok(Self {
            consumer,
            parts,
            snapshots,
            every: Duration::from_secs(3600),
            every_records: 100_000,
            clock: Clock::real(),
        })
    }

    /// Sets the time, and the number of records of a partition, after which a snapshot is stored.
    #[must_use]
    pub fn snapshot_every(mut self, time: Duration, records: u64) -> Self {
        (self.every, self.every_records) = (time, records.max(1));
        self
    }

    /// Replaces the clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// Access to the states while the projection runs.
    pub fn view(&self) -> View<S> {
        View {
            parts: Arc::clone(&self.parts),
        }
    }

    /// Reads until `stop` is ready, then stores snapshots. An error of `apply` ends the projection; the record is not
    /// in the state.
    pub async fn run_until(
        mut self,
        mut apply: impl FnMut(&mut S, RecordRef<'_>) -> Result<(), BoxError>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ProjectionError> {
        let mut stop = pin!(stop);
        let mut due_ms = self.clock.now_ms().saturating_add(millis(self.every));
        loop {
            // Dropping a poll's future loses no records.
            let records = tokio::select! {
                biased;
                () = &mut stop => break,
                () = self.clock.sleep_until(due_ms) => ConsumerRecords::default(),
                records = self.consumer.poll(Duration::from_secs(1)) => records?,
            };
            apply_all(&self.parts, &records, &mut apply)?;
            let is_due = self.clock.now_ms() >= due_ms;
            if is_due {
                due_ms = self.clock.now_ms().saturating_add(millis(self.every));
            }
            let least = if is_due { 1 } else { self.every_records };
            save(&self.parts, &*self.snapshots, |_, part| part.unsaved >= least).await?;
        }
        save(&self.parts, &*self.snapshots, |_, part| part.unsaved > 0).await?;
        self.consumer.close().await?;
        Ok(())
    }
}

fn lock<S>(parts: &Parts<S>) -> MutexGuard<'_, BTreeMap<TopicPartition, Part<S>>> {
    parts.lock().unwrap_or_else(PoisonError::into_inner)
}

fn apply_all<S>(
    parts: &Parts<S>,
    records: &ConsumerRecords,
    apply: &mut impl FnMut(&mut S, RecordRef<'_>) -> Result<(), BoxError>,
) -> Result<(), ProjectionError> {
    let mut parts = lock(parts);
    for record in records {
        let partition = record.topic_partition();
        let Some(part) = parts.get_mut(partition).filter(|part| record.offset() >= part.next) else {
            continue;
        };
        apply(&mut part.state, record).map_err(|error| ProjectionError::Apply {
            partition: partition.clone(),
            offset: record.offset(),
            error,
        })?;
        part.next = record.offset().saturating_add(1);
        part.unsaved += 1;
    }
    Ok(())
}

/// Stores snapshots of the chosen partitions.
async fn save<S: Serialize, T: Snapshots>(
    parts: &Parts<S>,
    snapshots: &T,
    is_chosen: impl Fn(&TopicPartition, &Part<S>) -> bool,
) -> Result<(), ProjectionError> {
    let failed = |partition: &TopicPartition, error| ProjectionError::Save {
        partition: partition.clone(),
        error,
    };
    let mut chosen = vec![];
    for (partition, part) in lock(parts)
        .iter_mut()
        .filter(|(partition, part)| is_chosen(partition, part))
    {
        let state = serde_json::to_vec(&part.state).map_err(|error| failed(partition, error.into()))?;
        part.unsaved = 0;
        let offset = part.next;
        chosen.push((partition.clone(), Snapshot { offset, state }));
    }
    for (partition, snapshot) in chosen {
        let saved = snapshots.save(&partition, snapshot).await;
        saved.map_err(|error| failed(&partition, error))?;
    }
    Ok(())
}

/// Loads snapshots of assigned partitions, and stores those of revoked ones.
struct Restore<S, T> {
    parts: Parts<S>,
    snapshots: Arc<T>,
}

impl<S, T> RebalanceListener for Restore<S, T>
where
    S: Serialize + DeserializeOwned + Default + Send,
    T: Snapshots,
{
    async fn assigned(
        &mut self,
        consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        for partition in partitions {
            let first = consumer
                .beginning_offsets([partition])
                .await?
                .get(partition)
                .copied()
                .unwrap_or(0);
            let snapshot = self.snapshots.load(partition).await?;
            if let Some(snapshot) = &snapshot {
                check_end(consumer, partition, snapshot.offset).await?;
            }
            // Records between an old snapshot and the log start are lost, so the snapshot is useless.
            let usable = snapshot.filter(|snapshot| snapshot.offset >= first);
            let (state, next) = match usable {
                Some(snapshot) => (serde_json::from_slice(&snapshot.state)?, snapshot.offset),
                None => (S::default(), first),
            };
            consumer.seek(partition, next)?;
            let part = Part {
                state,
                next,
                unsaved: 0,
            };
            lock(&self.parts).insert(partition.clone(), part);
        }
        Ok(())
    }

    async fn revoked(
        &mut self,
        _consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        let goes = |partition: &TopicPartition, part: &Part<S>| part.unsaved > 0 && partitions.contains(partition);
        save(&self.parts, &*self.snapshots, goes).await?;
        lock(&self.parts).retain(|partition, _| !partitions.contains(partition));
        Ok(())
    }

    async fn lost(
        &mut self,
        _consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        // Another instance may have stored a newer snapshot already.
        lock(&self.parts).retain(|partition, _| !partitions.contains(partition));
        Ok(())
    }
}

/// A snapshot has records that the log does not have: the topic was deleted and created again, or truncated. Snapshots are
/// never replaced by older ones, so the projection could not continue.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "the snapshot of {partition} is at offset {offset}, behind the end {end} of the log; if the topic was created again, \
     delete the snapshot"
)]
pub struct SnapshotBehindEnd {
    pub partition: TopicPartition,
    pub offset: i64,
    pub end: i64,
}

async fn check_end(
    consumer: &mut RebalanceConsumer,
    partition: &TopicPartition,
    offset: i64,
) -> Result<(), ListenerError> {
    let ends = consumer.end_offsets([partition]).await?;
    match ends.get(partition).copied() {
        Some(end) if offset > end => Err(SnapshotBehindEnd {
            partition: partition.clone(),
            offset,
            end,
        }
        .into()),
        _ => Ok(()),
    }
}

/// Access to the states of a projection.
#[derive(Debug)]
pub struct View<S> {
    parts: Parts<S>,
}

impl<S> Clone for View<S> {
    fn clone(&self) -> Self {
        Self {
            parts: Arc::clone(&self.parts),
        }
    }
}

impl<S> View<S> {
    /// Calls `look` with the state of a partition and the offset of the first record that is not in it. Returns `None`
    /// if another instance has the partition. Blocks the projection meanwhile.
    pub fn with<R>(&self, partition: &TopicPartition, look: impl FnOnce(&S, i64) -> R) -> Option<R> {
        let parts = lock(&self.parts);
        let part = parts.get(partition)?;
        Some(look(&part.state, part.next))
    }

    /// Partitions whose states are here.
    pub fn partitions(&self) -> Vec<TopicPartition> {
        lock(&self.parts).keys().cloned().collect()
    }
}
