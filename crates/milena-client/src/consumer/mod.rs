//! The consumer.
//!
//! [`Consumer`] is the application's side: it is polled, and group events are handled inside `poll`. Its state is
//! shared with the io thread (`shared.rs`), which fetches ahead, sends heartbeats and keeps deadlines.

mod aborted;
mod api;
pub mod assignor;
mod buffer;
mod close;
mod commit;
mod commit_retry;
mod completed_fetch;
pub mod deserialize;
mod error;
mod fetching;
mod group;
mod interceptor;
mod listener;
mod new;
mod notices;
mod offset_queries;
mod offsets;
mod poll;
mod rebalance_consumer;
mod records;
mod shared;
mod stream;
mod subscribe;
mod subscription;
#[cfg(test)]
mod tests;
mod topics;
mod typed;
mod wakeup;

pub use api::{ConsumerApi, Offsets, RebalanceApi};
#[doc(no_inline)]
pub use assignor::Assignor;
pub use close::{CloseError, CloseOptions};
pub use commit::CommitFuture;
pub use error::{
    CommitError, GroupError, NewConsumerError, OffsetsError, PollError, SeekError, SubscribeError, TopicsError,
};
pub use interceptor::ConsumerInterceptor;
pub use listener::{ListenerError, RebalanceListener};
pub use milena_machines::{
    TopicPartition,
    fetch::{FetchError, Position},
    member::{GroupMetadata, Leave, MemberError, OffsetAndMetadata, OffsetError},
};
pub use milena_wire::{
    errors::ErrorCode,
    records::{Header, Headers, TimestampType},
};
pub use offsets::OffsetAndTimestamp;
pub use rebalance_consumer::{MetricsHandle, RebalanceConsumer};
pub use records::{ConsumerRecord, ConsumerRecords, RecordRef, RecordRun};
pub use stream::RecordStream;
pub use subscription::TopicPattern;
pub use topics::{Node, PartitionInfo};
pub use typed::TypedRecord;
pub use wakeup::WakeupHandle;

use std::ops::{Deref, DerefMut};

use completed_fetch::BatchReader;
use listener::AnyListener;

/// A Kafka consumer.
///
/// It has one owner at a time: `&mut` enforces at compile time the check that the Java client makes at run time. Other
/// tasks can only [wake it up](Consumer::wakeup_handle). It dereferences to [`RebalanceConsumer`], whose methods
/// listeners can use too: commit, seek, pause, query offsets.
///
/// ```no_run
/// use std::time::Duration;
///
/// use milena_client::{config::ConsumerConfig, consumer::Consumer};
///
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// let config = ConsumerConfig::builder("localhost:9092").group_id("billing");
/// let mut consumer = Consumer::new(config)?;
/// consumer.subscribe(["orders"])?;
/// loop {
///     let records = consumer.poll(Duration::from_secs(1)).await?;
///     for record in &records {
///         println!("{} @ {}: {:?}", record.topic_partition(), record.offset(), record.value());
///     }
///     consumer.commit_sync().await?;
/// }
/// # }
/// ```
///
/// # Dropping
///
/// A drop does not block. The steps of [`Consumer::close`] then run in the background, without the listener, and are
/// cut off by the end of the process. Prefer [`close`](Consumer::close).
pub struct Consumer {
    inner: RebalanceConsumer,
    reader: BatchReader,
    listener: Box<dyn AnyListener>,
    interceptors: Vec<Box<dyn ConsumerInterceptor>>,
}

impl Deref for Consumer {
    type Target = RebalanceConsumer;

    fn deref(&self) -> &RebalanceConsumer {
        &self.inner
    }
}

impl DerefMut for Consumer {
    fn deref_mut(&mut self) -> &mut RebalanceConsumer {
        &mut self.inner
    }
}

impl std::fmt::Debug for Consumer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Consumer")
            .field("inner", &self.inner)
            .finish_non_exhaustive()
    }
}
