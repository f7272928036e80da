//! The consumer as traits, so that tests can replace it.

use std::{
    collections::{BTreeMap, BTreeSet},
    future::Future,
    ops::DerefMut,
    time::Duration,
};

use milena_machines::{
    TopicPartition,
    fetch::Position,
    member::{GroupMetadata, OffsetAndMetadata},
};

use super::{
    CloseError, CloseOptions, CommitError, CommitFuture, Consumer, ConsumerRecords, OffsetAndTimestamp, OffsetsError,
    PollError, RebalanceConsumer, RebalanceListener, SeekError, SubscribeError, WakeupHandle,
};

/// Offsets to commit, or committed offsets, by partition.
pub type Offsets = BTreeMap<TopicPartition, OffsetAndMetadata>;

/// The operations of both applications and rebalance listeners. [`RebalanceConsumer`] documents the methods.
pub trait RebalanceApi: Send {
    fn assignment(&self) -> BTreeSet<TopicPartition>;
    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), SeekError>;
    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), SeekError>;
    fn paused(&self) -> BTreeSet<TopicPartition>;
    fn seek(&mut self, partition: &TopicPartition, offset: i64) -> Result<(), SeekError> {
        self.seek_position(partition, Position::at(offset))
    }
    fn seek_position(&mut self, partition: &TopicPartition, position: Position) -> Result<(), SeekError>;
    fn seek_to_beginning(&mut self, partitions: &[TopicPartition]) -> Result<(), SeekError>;
    fn seek_to_end(&mut self, partitions: &[TopicPartition]) -> Result<(), SeekError>;
    fn current_lag(&self, partition: &TopicPartition) -> Result<Option<i64>, SeekError>;
    fn group_metadata(&self) -> Option<GroupMetadata>;
    fn commit_sync(&mut self) -> impl Future<Output = Result<(), CommitError>> + Send;
    fn commit_offsets(&mut self, offsets: Offsets) -> impl Future<Output = Result<(), CommitError>> + Send;
    fn commit_async(&mut self) -> Result<CommitFuture, CommitError>;
    fn commit_offsets_async(&mut self, offsets: Offsets) -> Result<CommitFuture, CommitError>;
    fn position(&mut self, partition: &TopicPartition) -> impl Future<Output = Result<Position, OffsetsError>> + Send;
    fn committed(
        &mut self,
        partitions: &[TopicPartition],
    ) -> impl Future<Output = Result<Offsets, OffsetsError>> + Send;
    fn beginning_offsets(
        &mut self,
        partitions: &[TopicPartition],
    ) -> impl Future<Output = Result<BTreeMap<TopicPartition, i64>, OffsetsError>> + Send;
    fn end_offsets(
        &mut self,
        partitions: &[TopicPartition],
    ) -> impl Future<Output = Result<BTreeMap<TopicPartition, i64>, OffsetsError>> + Send;
    fn offsets_for_times(
        &mut self,
        times: BTreeMap<TopicPartition, i64>,
    ) -> impl Future<Output = Result<BTreeMap<TopicPartition, OffsetAndTimestamp>, OffsetsError>> + Send;
}

/// A consumer. Code that takes any `C: ConsumerApi` can be tested without a broker.
///
/// It dereferences to a [`RebalanceApi`]. [`Consumer`] documents the methods.
///
/// ```
/// use std::time::Duration;
///
/// use milena_client::consumer::{ConsumerApi, PollError, RebalanceApi};
///
/// async fn count<C: ConsumerApi>(consumer: &mut C) -> Result<usize, Box<dyn std::error::Error>> {
///     let records = consumer.poll(Duration::from_secs(1)).await?;
///     consumer.commit_sync().await?;
///     Ok(records.len())
/// }
/// ```
pub trait ConsumerApi: Send + DerefMut<Target = Self::Rebalancing> {
    /// The type that listeners receive.
    type Rebalancing: RebalanceApi;

    fn subscribe<T: Into<String>>(&mut self, topics: impl IntoIterator<Item = T>) -> Result<(), SubscribeError>;
    fn subscribe_with<T: Into<String>>(
        &mut self,
        topics: impl IntoIterator<Item = T>,
        listener: impl RebalanceListener<Self::Rebalancing> + 'static,
    ) -> Result<(), SubscribeError>;
    fn subscribe_pattern(&mut self, pattern: &str) -> Result<(), SubscribeError>;
    fn subscribe_pattern_with(
        &mut self,
        pattern: &str,
        listener: impl RebalanceListener<Self::Rebalancing> + 'static,
    ) -> Result<(), SubscribeError>;
    fn assign(&mut self, partitions: impl IntoIterator<Item = TopicPartition>) -> Result<(), SubscribeError>;
    fn subscription(&self) -> BTreeSet<String>;
    fn unsubscribe(&mut self) -> impl Future<Output = Result<(), PollError>> + Send;
    fn poll(&mut self, timeout: Duration) -> impl Future<Output = Result<ConsumerRecords, PollError>> + Send;
    fn wakeup_handle(&self) -> WakeupHandle;
    fn close_with(self, options: CloseOptions) -> impl Future<Output = Result<(), CloseError>> + Send;
    fn close(self) -> impl Future<Output = Result<(), CloseError>> + Send
    where
        Self: Sized,
    {
        self.close_with(CloseOptions::default())
    }
}

impl RebalanceApi for RebalanceConsumer {
    fn assignment(&self) -> BTreeSet<TopicPartition> {
        self.assignment()
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), SeekError> {
        self.pause(partitions)
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), SeekError> {
        self.resume(partitions)
    }

    fn paused(&self) -> BTreeSet<TopicPartition> {
        self.paused()
    }

    fn seek_position(&mut self, partition: &TopicPartition, position: Position) -> Result<(), SeekError> {
        self.seek_position(partition, position)
    }

    fn seek_to_beginning(&mut self, partitions: &[TopicPartition]) -> Result<(), SeekError> {
        self.seek_to_beginning(partitions)
    }

    fn seek_to_end(&mut self, partitions: &[TopicPartition]) -> Result<(), SeekError> {
        self.seek_to_end(partitions)
    }

    fn current_lag(&self, partition: &TopicPartition) -> Result<Option<i64>, SeekError> {
        self.current_lag(partition)
    }

    fn group_metadata(&self) -> Option<GroupMetadata> {
        self.group_metadata()
    }

    async fn commit_sync(&mut self) -> Result<(), CommitError> {
        self.commit_sync().await
    }

    async fn commit_offsets(&mut self, offsets: Offsets) -> Result<(), CommitError> {
        self.commit_offsets(offsets).await
    }

    fn commit_async(&mut self) -> Result<CommitFuture, CommitError> {
        self.commit_async()
    }

    fn commit_offsets_async(&mut self, offsets: Offsets) -> Result<CommitFuture, CommitError> {
        self.commit_offsets_async(offsets)
    }

    async fn position(&mut self, partition: &TopicPartition) -> Result<Position, OffsetsError> {
        self.position(partition).await
    }

    async fn committed(&mut self, partitions: &[TopicPartition]) -> Result<Offsets, OffsetsError> {
        self.committed(partitions).await
    }

    async fn beginning_offsets(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, i64>, OffsetsError> {
        self.beginning_offsets(partitions).await
    }

    async fn end_offsets(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, i64>, OffsetsError> {
        self.end_offsets(partitions).await
    }

    async fn offsets_for_times(
        &mut self,
        times: BTreeMap<TopicPartition, i64>,
    ) -> Result<BTreeMap<TopicPartition, OffsetAndTimestamp>, OffsetsError> {
        self.offsets_for_times(times).await
    }
}

impl ConsumerApi for Consumer {
    type Rebalancing = RebalanceConsumer;

    fn subscribe<T: Into<String>>(&mut self, topics: impl IntoIterator<Item = T>) -> Result<(), SubscribeError> {
        self.subscribe(topics)
    }

    fn subscribe_with<T: Into<String>>(
        &mut self,
        topics: impl IntoIterator<Item = T>,
        listener: impl RebalanceListener + 'static,
    ) -> Result<(), SubscribeError> {
        self.subscribe_with(topics, listener)
    }

    fn subscribe_pattern(&mut self, pattern: &str) -> Result<(), SubscribeError> {
        self.subscribe_pattern(pattern)
    }

    fn subscribe_pattern_with(
        &mut self,
        pattern: &str,
        listener: impl RebalanceListener + 'static,
    ) -> Result<(), SubscribeError> {
        self.subscribe_pattern_with(pattern, listener)
    }

    fn assign(&mut self, partitions: impl IntoIterator<Item = TopicPartition>) -> Result<(), SubscribeError> {
        self.assign(partitions)
    }

    fn subscription(&self) -> BTreeSet<String> {
        self.subscription()
    }

    async fn unsubscribe(&mut self) -> Result<(), PollError> {
        self.unsubscribe().await
    }

    async fn poll(&mut self, timeout: Duration) -> Result<ConsumerRecords, PollError> {
        self.poll(timeout).await
    }

    fn wakeup_handle(&self) -> WakeupHandle {
        self.wakeup_handle()
    }

    async fn close_with(self, options: CloseOptions) -> Result<(), CloseError> {
        self.close_with(options).await
    }
}
