//! The task of one consumer: it reads, and does what the machine wants of it.

use std::{
    fmt,
    sync::Arc,
    time::{Duration, Instant},
};

use milena_client::consumer::{
    CloseOptions, Consumer, ConsumerRecords, GroupError, ListenerError, MemberError, PollError, RebalanceConsumer,
    RebalanceListener, SubscribeError, TopicPartition,
};
use milena_machines::app::{CommittedOffset, Role, SourceId};

use super::{Engine, Setup, accept::Begin, frozen::Standing};
use crate::{error::AppError, handler::States, route::Delivery, routing::Routing, times::Waiting};

/// How long a poll waits. It is woken when there is something to do, so this is only a precaution.
const POLL: Duration = Duration::from_secs(5);
/// After an error that passes.
const PAUSE: Duration = Duration::from_millis(100);
/// How often it is tried to learn where a partition begins.
const BEGIN_TRIES: u32 = 5;

/// What a source reads.
pub(super) enum Reads {
    Topics(Vec<String>),
    /// Topics that the engine of this delivery reads in this role.
    Matching {
        names: Vec<String>,
        routing: Arc<Routing>,
        delivery: Delivery,
        role: Role,
    },
}

impl fmt::Display for Reads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Topics(topics) | Self::Matching { names: topics, .. } => f.write_str(&topics.join(", ")),
        }
    }
}

/// Hears of the group for the machine.
pub(super) struct Listener {
    pub(super) engine: Arc<Engine>,
    pub(super) source: SourceId,
    pub(super) states: States,
    pub(super) setup: Arc<Setup>,
}

pub(super) fn subscribe(consumer: &mut Consumer, reads: Reads, listener: Listener) -> Result<(), SubscribeError> {
    let link = listener.engine.sources.get(usize::from(listener.source.0));
    if let Some(link) = link {
        // It is set once, before anything can happen.
        let _ = link.wakeup.set(consumer.wakeup_handle());
        let _ = link.metrics.set(consumer.metrics_handle());
    }
    match reads {
        Reads::Topics(topics) => consumer.subscribe_with(topics, listener),
        Reads::Matching {
            routing,
            delivery,
            role,
            ..
        } => {
            let is_read = move |topic: &str| {
                let found = routing.find(topic);
                found.is_some_and(|found| found.delivery == delivery && is_same(found.role, role))
            };
            consumer.subscribe_matching_with(is_read, listener)
        }
    }
}

/// Whether a source reads both. The same delay may have another place in each policy.
fn is_same(one: Role, other: Role) -> bool {
    match (one, other) {
        (Role::RetryTopic { delay_ms: one, .. }, Role::RetryTopic { delay_ms: other, .. }) => one == other,
        _ => one == other,
    }
}

/// Reads until the engine has ended; then leaves the group.
pub(super) async fn run(engine: Arc<Engine>, source: SourceId, mut consumer: Consumer, close_timeout: Duration) {
    let mut standing = Standing::default();
    while !engine.is_closed() && engine.failure().is_none() {
        engine.obey(source, &mut consumer);
        let waiting = standing.look(&engine, source, &mut consumer);
        match engine.poll(source, waiting, &mut consumer).await {
            Ok(records) => engine.accept(source, consumer.group_metadata(), &records),
            Err(PollError::Wakeup) => {}
            Err(error) if passes(&error) => pause_after(&error).await,
            Err(error) => {
                tracing::error!(%error, "a consumer cannot go on");
                engine.fail(AppError::from(&error));
            }
        }
    }
    engine.obey(source, &mut consumer);
    let options = CloseOptions {
        timeout: close_timeout,
        ..CloseOptions::default()
    };
    if let Err(error) = consumer.close_with(options).await {
        tracing::warn!(%error, "a consumer did not close in peace");
    }
}

impl Engine {
    /// Polls, and counts what the time went to.
    async fn poll(
        &self,
        source: SourceId,
        waiting: Waiting,
        consumer: &mut Consumer,
    ) -> Result<ConsumerRecords, PollError> {
        let Some(times) = self.times(source) else {
            return consumer.poll(POLL).await;
        };
        let (began, rebalanced) = (self.clock.instant(), times.rebalance());
        let polled = consumer.poll(POLL).await;
        times.polled(waiting, self.clock.instant() - began, times.rebalance() - rebalanced);
        polled
    }
}

/// After an error that passes.
pub(super) async fn pause_after(error: &PollError) {
    tracing::warn!(%error, "a consumer could not read; it tries again");
    tokio::time::sleep(PAUSE).await;
}

/// Whether the consumer gets over it by itself.
pub(super) fn passes(error: &PollError) -> bool {
    match error {
        PollError::Group(GroupError::Coordinator(_)) | PollError::Wakeup => true,
        PollError::Group(GroupError::Member(error)) => match error {
            MemberError::UnreleasedInstance { .. } => true,
            MemberError::Refused { error, .. } => error.is_retriable(),
            _ => false,
        },
        _ => false,
    }
}

impl RebalanceListener for Listener {
    async fn assigned(
        &mut self,
        consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        let _listening = self.listening();
        let topics = partitions.iter().map(|partition| &*partition.topic);
        self.setup.letter_topics(topics).await?;
        let mut tries = 0;
        let mut begins = loop {
            match begins(consumer, partitions).await {
                Ok(begins) => break begins,
                Err(error) if tries < BEGIN_TRIES => {
                    tries += 1;
                    tracing::warn!(%error, "where partitions begin is not known; it is asked again");
                }
                Err(error) => return Err(error),
            }
        };
        self.add_held(partitions, &mut begins).await?;
        // What it was paused for in an earlier life is over.
        consumer.resume(partitions)?;
        self.engine.assigned(self.source, &self.states, begins);
        self.engine.obey(self.source, consumer);
        Ok(())
    }

    async fn revoked(
        &mut self,
        consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        let _listening = self.listening();
        let ids = self.engine.ids(partitions);
        if ids.is_empty() {
            return Ok(());
        }
        self.engine.revoking(self.source, &ids);
        let Some(link) = self.engine.sources.get(usize::from(self.source.0)) else {
            return Ok(());
        };
        // The machine has its own bounds for this, and says so when they are reached.
        loop {
            self.engine.obey(self.source, consumer);
            if self.engine.are_released(&ids) {
                break;
            }
            link.commands.notified().await;
        }
        self.engine.forget(&ids);
        // What began again meanwhile, because a transaction did not count, goes too.
        let left = self.engine.ids(partitions);
        self.engine.lost(self.source, &left);
        Ok(())
    }

    async fn lost(
        &mut self,
        _consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<(), ListenerError> {
        let ids = self.engine.ids(partitions);
        self.engine.lost(self.source, &ids);
        Ok(())
    }
}

/// Counts how long a listener takes, even if it is dropped on the way.
struct Listening {
    engine: Arc<Engine>,
    source: SourceId,
    began: Instant,
}

impl Drop for Listening {
    fn drop(&mut self) {
        if let Some(times) = self.engine.times(self.source) {
            times.rebalanced(self.engine.clock.instant() - self.began);
        }
    }
}

impl Listener {
    fn listening(&self) -> Listening {
        Listening {
            engine: Arc::clone(&self.engine),
            source: self.source,
            began: self.engine.clock.instant(),
        }
    }

    /// Finds out which keys have records that are held, before anything is handled.
    async fn add_held(&self, partitions: &[TopicPartition], begins: &mut [Begin]) -> Result<(), ListenerError> {
        let mut tries = 0;
        let all = loop {
            match self.engine.read_held(partitions).await {
                Ok(all) => break all,
                Err(error) if tries < BEGIN_TRIES => {
                    tries += 1;
                    tracing::warn!(%error, "what is held of keys is not known; it is read again");
                    tokio::time::sleep(PAUSE).await;
                }
                Err(error) => return Err(error),
            }
        };
        for (partition, held) in all {
            if let Some(begin) = begins.iter_mut().find(|begin| begin.partition == partition) {
                begin.held = Some(held);
            }
        }
        Ok(())
    }
}

async fn begins(consumer: &mut RebalanceConsumer, partitions: &[TopicPartition]) -> Result<Vec<Begin>, ListenerError> {
    let mut committed = consumer.committed(partitions).await?;
    let mut begins = Vec::with_capacity(partitions.len());
    for partition in partitions {
        let committed = committed.remove(partition);
        let position = match &committed {
            Some(committed) => committed.offset,
            None => consumer.position(partition).await?.offset,
        };
        begins.push(Begin {
            partition: partition.clone(),
            position,
            leader_epoch: committed.as_ref().and_then(|committed| committed.leader_epoch),
            committed: committed.map(|committed| CommittedOffset {
                offset: committed.offset,
                metadata: committed.metadata.to_string(),
            }),
            held: None,
        });
    }
    Ok(begins)
}
