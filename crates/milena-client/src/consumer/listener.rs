//! What an application hears of its group.

use std::{error::Error, future::Future, pin::Pin};

use milena_machines::TopicPartition;

use super::RebalanceConsumer;

/// What a callback may fail with. It comes out of the `poll`, `unsubscribe` or `close` that ran it.
pub type ListenerError = Box<dyn Error + Send + Sync>;

/// Hears when partitions come and go. All calls are made inside `poll`, `unsubscribe` or `close`, in the application's own
/// task, and are awaited: nothing of the partitions concerned is read or handed out meanwhile.
///
/// If the future of that `poll` is dropped while a callback runs, the callback is run again from the beginning by the next
/// one. So it should not mind being called twice.
///
/// The consumer that a callback gets can commit, seek, pause and ask; it cannot poll or subscribe. A listener that is to
/// work with other consumers too, such as one that stands in for this in tests, is written for every
/// [`RebalanceApi`](super::RebalanceApi).
pub trait RebalanceListener<C: Send = RebalanceConsumer>: Send {
    /// These partitions are ours from now on, added to those we had. The place to seek, or to open what they need.
    fn assigned(
        &mut self,
        consumer: &mut C,
        partitions: &[TopicPartition],
    ) -> impl Future<Output = Result<(), ListenerError>> + Send {
        let _ = (consumer, partitions);
        async { Ok(()) }
    }

    /// These partitions are about to go to somebody else. They are still ours: what has been done can be committed here.
    fn revoked(
        &mut self,
        consumer: &mut C,
        partitions: &[TopicPartition],
    ) -> impl Future<Output = Result<(), ListenerError>> + Send {
        let _ = (consumer, partitions);
        async { Ok(()) }
    }

    /// These partitions are gone already, and may have a new owner: nothing can be committed. As in Kafka, what is done
    /// for revoked ones is done here too unless this says otherwise.
    fn lost(
        &mut self,
        consumer: &mut C,
        partitions: &[TopicPartition],
    ) -> impl Future<Output = Result<(), ListenerError>> + Send {
        self.revoked(consumer, partitions)
    }
}

type ListenerFuture<'a> = Pin<Box<dyn Future<Output = Result<(), ListenerError>> + Send + 'a>>;

/// [`RebalanceListener`] behind a pointer.
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

/// For those who do not care.
pub(crate) struct NoListener;

impl RebalanceListener for NoListener {}
