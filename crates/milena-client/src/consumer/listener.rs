//! Rebalance listeners.

use std::{error::Error, future::Future, pin::Pin};

use milena_machines::TopicPartition;

use super::RebalanceConsumer;

/// The error of a callback. The `poll`, `unsubscribe` or `close` that ran the callback returns it.
pub type ListenerError = Box<dyn Error + Send + Sync>;

/// Callbacks for changes of the assignment. They run inside `poll`, `unsubscribe` or `close`, in the application's
/// task, and are awaited. Meanwhile the affected partitions are neither fetched nor delivered.
///
/// If the future of that `poll` is dropped during a callback, the next `poll` runs the callback again from its start. A
/// callback should therefore be idempotent.
///
/// The consumer passed to a callback can commit, seek, pause and query offsets; it cannot poll or subscribe. A listener
/// that also works with test doubles is generic over [`RebalanceApi`](super::RebalanceApi).
pub trait RebalanceListener<C: Send = RebalanceConsumer>: Send {
    /// Called after these partitions were added to the assignment. The place to seek or to load state.
    fn assigned(
        &mut self,
        consumer: &mut C,
        partitions: &[TopicPartition],
    ) -> impl Future<Output = Result<(), ListenerError>> + Send {
        let _ = (consumer, partitions);
        async { Ok(()) }
    }

    /// Called before these partitions are revoked. Offsets can still be committed here.
    fn revoked(
        &mut self,
        consumer: &mut C,
        partitions: &[TopicPartition],
    ) -> impl Future<Output = Result<(), ListenerError>> + Send {
        let _ = (consumer, partitions);
        async { Ok(()) }
    }

    /// Called after these partitions were lost, possibly to a new owner; offsets cannot be committed. By default it
    /// calls [`revoked`](Self::revoked), as in Kafka.
    fn lost(
        &mut self,
        consumer: &mut C,
        partitions: &[TopicPartition],
    ) -> impl Future<Output = Result<(), ListenerError>> + Send {
        self.revoked(consumer, partitions)
    }
}

type ListenerFuture<'a> = Pin<Box<dyn Future<Output = Result<(), ListenerError>> + Send + 'a>>;

/// [`RebalanceListener`] as a trait object.
pub(crate) trait AnyListener: Send {
    fn assigned<'a>(
        &'a mut self,
        consumer: &'a mut RebalanceConsumer,
        partitions: &'a [TopicPartition],
    ) -> ListenerFuture<'a>;
    fn revoked<'a>(
        &'a mut self,
        consumer: &'a mut RebalanceConsumer,
        partitions: &'a [TopicPartition],
    ) -> ListenerFuture<'a>;
    fn lost<'a>(
        &'a mut self,
        consumer: &'a mut RebalanceConsumer,
        partitions: &'a [TopicPartition],
    ) -> ListenerFuture<'a>;
}

impl<L: RebalanceListener> AnyListener for L {
    fn assigned<'a>(
        &'a mut self,
        consumer: &'a mut RebalanceConsumer,
        partitions: &'a [TopicPartition],
    ) -> ListenerFuture<'a> {
        Box::pin(RebalanceListener::assigned(self, consumer, partitions))
    }

    fn revoked<'a>(
        &'a mut self,
        consumer: &'a mut RebalanceConsumer,
        partitions: &'a [TopicPartition],
    ) -> ListenerFuture<'a> {
        Box::pin(RebalanceListener::revoked(self, consumer, partitions))
    }

    fn lost<'a>(
        &'a mut self,
        consumer: &'a mut RebalanceConsumer,
        partitions: &'a [TopicPartition],
    ) -> ListenerFuture<'a> {
        Box::pin(RebalanceListener::lost(self, consumer, partitions))
    }
}

/// The default listener.
pub(crate) struct NoListener;

impl RebalanceListener for NoListener {}
