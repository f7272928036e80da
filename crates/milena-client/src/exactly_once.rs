//! Exactly-once processing: consume, transform, produce.
//!
//! [`ExactlyOnce`] reads records as a member of a group, passes them to a function that writes results, and commits the
//! results and the read offsets in one transaction. After a rebalance, an error or a crash the transaction is committed
//! as a whole or not at all, and the next reader continues after the last committed one.
//!
//! This covers records written through the [`Transaction`]. Other effects of the function, such as database writes, may
//! happen again. Readers of the result must use `isolation.level=read_committed`.

mod transform;

use std::{
    collections::BTreeMap,
    future::Future,
    pin::pin,
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use milena_machines::{
    member::GroupMetadata,
    produce::{Remedy, TransactionError},
};
use tokio::time::Instant;

pub use transform::Transform;
use transform::{Apply, Closure, Spawnable};

use crate::{
    config::IsolationLevel,
    consumer::{
        Consumer, ConsumerRecords, ListenerError, OffsetAndMetadata, PollError, RebalanceConsumer, RebalanceListener,
        RecordRef, SeekError, SubscribeError, TopicPartition,
    },
    producer::{Producer, Transaction, TransactionCallError},
};

/// Default duration of a transaction.
const WINDOW: Duration = Duration::from_millis(100);
/// Default maximum of records in a transaction.
const RECORDS_MAX: usize = 10_000;
/// Poll timeout, after which `stop` is checked.
const IDLE_POLL: Duration = Duration::from_secs(1);

/// The reason why a consumer and a producer cannot be paired.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PairError {
    #[error("set group.id: the offsets are committed for a group")]
    NoGroup,
    #[error("set enable.auto.commit to false: offsets are committed in the transaction")]
    AutoCommit,
    #[error("set isolation.level to read_committed: records of aborted transactions must have no effect")]
    ReadsUncommitted,
    #[error("set a transactional.id in the producer, a different one for each instance")]
    NotTransactional,
    #[error(transparent)]
    Subscribe(#[from] SubscribeError),
}

/// The error that ended [`ExactlyOnce::run`]. The open transaction is aborted and its records are read again, so it can
/// be run again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ExactlyOnceError<E> {
    #[error("the transform failed: {0}")]
    Transform(E),
    #[error(transparent)]
    Poll(#[from] PollError),
    #[error(transparent)]
    Seek(#[from] SeekError),
    #[error(transparent)]
    Transaction(#[from] TransactionCallError),
}

/// Consumes, transforms and produces records exactly once.
///
/// ```no_run
/// # async fn demo() -> Result<(), Box<dyn std::error::Error>> {
/// use milena_client::{
///     config::{ConsumerConfig, ProducerConfig},
///     consumer::Consumer,
///     exactly_once::ExactlyOnce,
///     producer::{Producer, ProducerRecord},
/// };
///
/// let consumer = ConsumerConfig::builder("localhost:9092")
///     .group_id("translators")
///     .set("enable.auto.commit", false)
///     .set("isolation.level", "read_committed");
/// let producer = ProducerConfig::builder("localhost:9092").set("transactional.id", "translator-1");
/// let mut translating = ExactlyOnce::new(Consumer::new(consumer)?, Producer::new(producer)?, ["letters"])?;
/// translating
///     .run(
///         async |letter, transaction| {
///             let text = letter.value().unwrap_or_default().to_ascii_uppercase();
///             let record = ProducerRecord::new("loud-letters").value(&text);
///             transaction.enqueue(record).await.map(drop)
///         },
///         std::future::pending(),
///     )
///     .await?;
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct ExactlyOnce {
    consumer: Consumer,
    producer: Producer,
    window: Duration,
    records_max: usize,
    is_initialized: bool,
    gone: RevokedPartitions,
}

/// Partitions that were revoked since the last check.
#[derive(Debug, Clone, Default)]
struct RevokedPartitions(Arc<Mutex<Vec<TopicPartition>>>);

impl RevokedPartitions {
    fn take(&self) -> Vec<TopicPartition> {
        std::mem::take(&mut *self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl RebalanceListener for RevokedPartitions {
    async fn revoked(
        &mut self,
        _consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        let mut gone = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        gone.extend_from_slice(partitions);
        Ok(())
    }
}

/// The input of one transaction so far.
#[derive(Debug, Default)]
struct ReadProgress {
    /// The first offset in each partition: reading restarts there after an abort.
    starts: BTreeMap<TopicPartition, i64>,
    /// The offsets to commit.
    next: BTreeMap<TopicPartition, OffsetAndMetadata>,
    count: usize,
}

impl ReadProgress {
    fn add(&mut self, records: &ConsumerRecords) {
        for (partition, position) in records.next_offsets() {
            if let Some(first) = records.partition(partition).next() {
                self.starts.entry(partition.clone()).or_insert_with(|| first.offset());
            }
            let next = OffsetAndMetadata {
                leader_epoch: position.epoch,
                ..OffsetAndMetadata::new(position.offset)
            };
            self.next.insert(partition.clone(), next);
        }
        self.count += records.len();
    }
}

/// How a transaction ended.
enum TransactionEnd<E> {
    Committed,
    /// Aborted; its input is to be read again.
    Aborted(ReadProgress),
    /// Aborted, and retrying would fail again.
    Failed(ReadProgress, ExactlyOnceError<E>),
}

impl ExactlyOnce {
    /// Pairs a consumer and a producer, and subscribes to these topics.
    pub fn new<T: Into<String>>(
        mut consumer: Consumer,
        producer: Producer,
        topics: impl IntoIterator<Item = T>,
    ) -> Result<Self, PairError> {
        let config = consumer.config();
        if config.group_id.is_none() {
            return Err(PairError::NoGroup);
        }
        if config.enable_auto_commit {
            return Err(PairError::AutoCommit);
        }
        if config.isolation_level != IsolationLevel::ReadCommitted {
            return Err(PairError::ReadsUncommitted);
        }
        if producer.config().transactional_id.is_none() {
            return Err(PairError::NotTransactional);
        }
        let gone = RevokedPartitions::default();
        consumer.subscribe_with(topics, gone.clone())?;
        Ok(Self {
            consumer,
            producer,
            window: WINDOW,
            records_max: RECORDS_MAX,
            is_initialized: false,
            gone,
        })
    }

    /// Sets the size of a transaction: its maximum duration and number of records. Longer transactions cost less and
    /// delay the result. The duration must be below `transaction.timeout.ms` and `max.poll.interval.ms`.
    #[must_use]
    pub fn window(mut self, time: Duration, records: usize) -> Self {
        (self.window, self.records_max) = (time, records.max(1));
        self
    }

    /// Consumes, transforms and produces until `stop` is ready, or until an error that is not transient. The open
    /// transaction is finished when `stop` is ready.
    ///
    /// `transform` receives each record and the transaction to write to. If it fails, the transaction is aborted and
    /// the error is returned. If the transaction had failed before, for a transient reason, it is retried instead.
    ///
    /// The compiler cannot prove that this future is `Send` if the closure captures anything: await it in `main`, in a
    /// `LocalSet` or on a thread of its own, or use [`run_with`](Self::run_with).
    ///
    /// # Cancel safety
    ///
    /// Dropping the future aborts the open transaction in the background. The consumer's position is then behind its
    /// input: create a new consumer.
    pub async fn run<E>(
        &mut self,
        transform: impl AsyncFnMut(RecordRef<'_>, &Transaction<'_>) -> Result<(), E>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ExactlyOnceError<E>> {
        self.apply(&mut Closure(transform), stop).await
    }

    /// As [`run`](Self::run), for a [`Transform`]; the future can be spawned.
    #[allow(
        clippy::manual_async_fn,
        reason = "so that it is promised to be `Send`, whatever the function is"
    )]
    pub fn run_with<T: Transform>(
        &mut self,
        transform: &mut T,
        stop: impl Future<Output = ()> + Send,
    ) -> impl Future<Output = Result<(), ExactlyOnceError<T::Error>>> + Send {
        async move { self.apply(&mut Spawnable(transform), stop).await }
    }

    async fn apply<E>(
        &mut self,
        transform: &mut impl Apply<E>,
        stop: impl Future<Output = ()>,
    ) -> Result<(), ExactlyOnceError<E>> {
        let mut stop = pin!(stop);
        while !self.is_initialized {
            match self.producer.init_transactions().await {
                Ok(()) => self.is_initialized = true,
                Err(error) if error.remedy() == Remedy::Retry => {}
                Err(error) => return Err(error.into()),
            }
        }
        loop {
            let records = tokio::select! {
                biased;
                () = &mut stop => return Ok(()),
                records = self.consumer.poll(IDLE_POLL) => records?,
            };
            self.gone.take();
            if records.is_empty() {
                continue;
            }
            match self.transact(&records, transform).await? {
                TransactionEnd::Committed => {}
                TransactionEnd::Aborted(read) => self.read_again(&read)?,
                TransactionEnd::Failed(read, error) => {
                    self.read_again(&read)?;
                    return Err(error);
                }
            }
        }
    }

    /// Returns the consumer and the producer, for example to close them.
    pub fn into_parts(self) -> (Consumer, Producer) {
        (self.consumer, self.producer)
    }

    /// Runs one transaction.
    async fn transact<E>(
        &mut self,
        first: &ConsumerRecords,
        transform: &mut impl Apply<E>,
    ) -> Result<TransactionEnd<E>, ExactlyOnceError<E>> {
        let mut read = ReadProgress::default();
        read.add(first);
        // The group metadata at the start: if the membership changes, the commit is refused, because another member may
        // own the partitions.
        let Some(group) = self
            .consumer
            .group_metadata()
            .filter(|group| !group.member_id.is_empty())
        else {
            return Ok(TransactionEnd::Aborted(read));
        };
        let mut transaction = self.producer.begin().await?;
        let deadline = Instant::now() + self.window;
        let mut last = None;
        loop {
            let records = last.as_ref().unwrap_or(first);
            for record in records {
                if let Err(error) = transform.apply(record, &transaction).await {
                    return Ok(abort_failed(&mut transaction, read, error).await);
                }
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || read.count >= self.records_max {
                break;
            }
            let records = match self.consumer.poll(left).await {
                Ok(records) => records,
                Err(error) => return Ok(abort(&mut transaction, read, Some(error.into())).await),
            };
            let gone = self.gone.take();
            // Partitions that came back meanwhile start where other members committed.
            read.starts.retain(|partition, _| !gone.contains(partition));
            read.add(&records);
            if gone.iter().any(|partition| read.next.contains_key(partition)) {
                return Ok(abort(&mut transaction, read, None).await);
            }
            last = Some(records);
        }
        Ok(commit(&mut transaction, &group, read).await)
    }

    fn read_again<E>(&mut self, read: &ReadProgress) -> Result<(), ExactlyOnceError<E>> {
        for (partition, offset) in &read.starts {
            match self.consumer.seek(partition, *offset) {
                // The new owner starts there.
                Ok(()) | Err(SeekError::NotAssigned(_)) => {}
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }
}

async fn commit<E>(transaction: &mut Transaction<'_>, group: &GroupMetadata, read: ReadProgress) -> TransactionEnd<E> {
    let sent = transaction.send_offsets(group, read.next.clone()).await;
    let committed = match sent {
        Ok(()) => loop {
            match transaction.commit().await {
                Err(error) if error.remedy() == Remedy::Retry => {}
                committed => break committed,
            }
        },
        sent => sent,
    };
    match committed {
        Ok(()) => TransactionEnd::Committed,
        Err(error) if error.remedy() == Remedy::GiveUp => TransactionEnd::Failed(read, error.into()),
        Err(error) if would_fail_again(&error) => abort(transaction, read, Some(error.into())).await,
        Err(error) => {
            tracing::debug!(event = "transaction_retried", %error, "commit failed; retrying the transaction");
            abort(transaction, read, None).await
        }
    }
}

fn would_fail_again(error: &TransactionCallError) -> bool {
    match error {
        TransactionCallError::Transaction(TransactionError::Abortable(cause)) => cause.is_lasting(),
        _ => false,
    }
}

/// Handles a failure of the function. If the transaction had failed before, for a transient reason such as a timeout,
/// it is retried.
async fn abort_failed<E>(transaction: &mut Transaction<'_>, read: ReadProgress, error: E) -> TransactionEnd<E> {
    match transaction.error() {
        Some(TransactionError::Abortable(cause)) if !cause.is_lasting() => {
            tracing::debug!(event = "transaction_retried", %cause, "transaction failed; retrying it");
            abort(transaction, read, None).await
        }
        _ => abort(transaction, read, Some(ExactlyOnceError::Transform(error))).await,
    }
}

/// Aborts the transaction. With an `error`, processing ends with it.
async fn abort<E>(
    transaction: &mut Transaction<'_>,
    read: ReadProgress,
    error: Option<ExactlyOnceError<E>>,
) -> TransactionEnd<E> {
    let aborted = loop {
        match transaction.abort().await {
            Err(error) if error.remedy() == Remedy::Retry => {}
            aborted => break aborted,
        }
    };
    match (error, aborted) {
        (Some(error), _) => TransactionEnd::Failed(read, error),
        (None, Err(error)) => TransactionEnd::Failed(read, error.into()),
        (None, Ok(())) => TransactionEnd::Aborted(read),
    }
}
