//! State that is made of events, kept in memory and in snapshots outside of Kafka.
//!
//! A [`Projection`] reads topics in order, partition by partition, and lets a function change the state of the partition
//! with each record. Now and then it stores a snapshot: the state and the offset up to which it holds, together. Whoever
//! gets the partition next begins with the last snapshot and reads on from there. Nothing is committed to Kafka: the
//! snapshot says where to go on.

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

/// The state of a partition, and the offset of the first record that is not in it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Snapshot {
    pub offset: i64,
    pub state: Vec<u8>,
}

/// Where snapshots are kept. Both parts of one must be stored together or not at all, and never over a newer one.
pub trait Snapshots: Send + Sync + 'static {
    fn load(&self, partition: &TopicPartition) -> impl Future<Output = Result<Option<Snapshot>, BoxError>> + Send;

    fn save(&self, partition: &TopicPartition, snapshot: Snapshot)
    -> impl Future<Output = Result<(), BoxError>> + Send;
}

/// Why a projection ended.
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
    #[error("the snapshot of {partition} cannot be stored: {error}")]
    Save { partition: TopicPartition, error: BoxError },
    #[error("the state of {partition} cannot be changed by the record at offset {offset}: {error}")]
    Apply {
        partition: TopicPartition,
        offset: i64,
        error: BoxError,
    },
}

/// What is known of a partition.
#[derive(Debug)]
struct Part<S> {
    state: S,
    /// The first record that is not in it.
    next: i64,
    /// How many records are in it and not in the last snapshot.
    unsaved: u64,
}

type Parts<S> = Arc<Mutex<BTreeMap<TopicPartition, Part<S>>>>;

/// Reads topics into states of your own, one for each partition.
///
/// Give states to queries with [`Projection::view`]. One instance has the states of its own partitions only.
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
    /// Reads these topics as a member of the configuration's group. By default a snapshot is stored after an hour or
    /// 100,000 records, when a partition goes, and at the end.
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

    /// When a snapshot is stored: after this time, or after so many records of a partition.
    #[must_use]
    pub fn snapshot_every(mut self, time: Duration, records: u64) -> Self {
        (self.every, self.every_records) = (time, records.max(1));
        self
    }

    /// Another clock, for tests.
    #[must_use]
    pub fn clock(mut self, clock: Clock) -> Self {
        self.clock = clock;
        self
    }

    /// A way to look at the states while it runs.
    pub fn view(&self) -> View<S> {
        View {
            parts: Arc::clone(&self.parts),
        }
    }

    /// Reads until `stop` is ready, then stores what there is. If `apply` fails, so does this, and the record is not in
    /// the state.
    pub async fn run_until(
        mut self,
        mut apply: impl FnMut(&mut S, RecordRef<'_>) -> Result<(), BoxError>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ProjectionError> {
        let mut stop = pin!(stop);
        let mut due_ms = self.clock.now_ms().saturating_add(millis(self.every));
        loop {
            // Dropping the future of a poll loses nothing.
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

/// Stores snapshots of those that are chosen.
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

/// Begins partitions with their snapshots, and stores those that go.
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
            // What is missing between an old snapshot and the first record that there is, nobody can make up for.
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
        // Somebody else may have stored a newer one by now.
        lock(&self.parts).retain(|partition, _| !partitions.contains(partition));
        Ok(())
    }
}

/// A way to look at the states of a projection.
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
    /// Looks at the state of a partition, and at the offset of the first record that is not in it; `None` if another
    /// instance has it. The projection waits meanwhile.
    pub fn with<R>(&self, partition: &TopicPartition, look: impl FnOnce(&S, i64) -> R) -> Option<R> {
        let parts = lock(&self.parts);
        let part = parts.get(partition)?;
        Some(look(&part.state, part.next))
    }

    /// The partitions whose states are here.
    pub fn partitions(&self) -> Vec<TopicPartition> {
        lock(&self.parts).keys().cloned().collect()
    }
}
