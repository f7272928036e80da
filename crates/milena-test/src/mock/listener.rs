//! Listeners of a mock, behind a pointer.

use std::{future::Future, pin::Pin};

use milena_client::consumer::{ListenerError, RebalanceListener, TopicPartition};

use super::MockRebalanceConsumer as Parts;

type Ran<'a> = Pin<Box<dyn Future<Output = Result<(), ListenerError>> + Send + 'a>>;

pub(super) trait AnyListener: Send {
    fn assigned<'a>(&'a mut self, consumer: &'a mut Parts, partitions: &'a [TopicPartition]) -> Ran<'a>;
    fn revoked<'a>(&'a mut self, consumer: &'a mut Parts, partitions: &'a [TopicPartition]) -> Ran<'a>;
    fn lost<'a>(&'a mut self, consumer: &'a mut Parts, partitions: &'a [TopicPartition]) -> Ran<'a>;
}

impl<L: RebalanceListener<Parts>> AnyListener for L {
    fn assigned<'a>(&'a mut self, consumer: &'a mut Parts, partitions: &'a [TopicPartition]) -> Ran<'a> {
        Box::pin(RebalanceListener::assigned(self, consumer, partitions))
    }

    fn revoked<'a>(&'a mut self, consumer: &'a mut Parts, partitions: &'a [TopicPartition]) -> Ran<'a> {
        Box::pin(RebalanceListener::revoked(self, consumer, partitions))
    }

    fn lost<'a>(&'a mut self, consumer: &'a mut Parts, partitions: &'a [TopicPartition]) -> Ran<'a> {
        Box::pin(RebalanceListener::lost(self, consumer, partitions))
    }
}

/// The listener of a consumer without one.
pub(super) struct NoListener;

impl RebalanceListener<Parts> for NoListener {}
