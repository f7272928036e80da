//! The task of a source: it polls a consumer and performs the commands of the scheduler.

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

use super::{Engine, Setup, accept::Begin, fetch_stalls::FetchWatch};
use crate::{error::AppError, handler::States, route::Delivery, routing::Routing, times::Waiting};

/// The longest poll. Commands interrupt it, so this is only a safeguard.
const POLL: Duration = Duration::from_secs(5);
/// The backoff after a transient error.
const BACKOFF: Duration = Duration::from_millis(100);
/// The attempts to find where a partition begins.
const BEGIN_TRIES: u32 = 5;

/// The subscription of a source.
pub(super) enum Reads {
    Topics(Vec<String>),
    /// Topics that the engine of this delivery reads in this role, found by a filter.
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

/// The rebalance listener of a source.
pub(super) struct Listener {
    pub(super) engine: Arc<Engine>,
    pub(super) source: SourceId,
    pub(super) states: States,
    pub(super) setup: Arc<Setup>,
}

pub(super) fn subscribe(consumer: &mut Consumer, reads: Reads, listener: Listener) -> Result<(), SubscribeError> {
    let link = listener.engine.sources.get(usize::from(listener.source.0));
    if let Some(link) = link {
        // The handles are set once, before the first poll.
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

/// Whether one source reads both roles. The same delay may have another index in each policy.
fn is_same(one: Role, other: Role) -> bool {
    match (one, other) {
        (Role::RetryTopic { delay_ms: one, .. }, Role::RetryTopic { delay_ms: other, .. }) => one == other,
        _ => one == other,
    }
}

/// The parts of a source's task, beside its consumer.
pub(super) struct SourceTask {
    pub(super) engine: Arc<Engine>,
    pub(super) source: SourceId,
    pub(super) states: States,
    pub(super) close_timeout: Duration,
}

/// Polls until the engine has ended; then leaves the group.
pub(super) async fn run(task: SourceTask, mut consumer: Consumer) {
    let SourceTask {
        engine,
        source,
        states,
        close_timeout,
    } = task;
    let mut watch = FetchWatch::default();
    while !engine.is_closed() && engine.failure().is_none() {
        engine.perform_commands(source, &mut consumer);
        engine.reclaim(source, &mut consumer, (&states, &engine.setup)).await;
        let waiting = watch.check(&engine, source, &mut consumer);
        match engine.poll(source, waiting, &mut consumer).await {
            Ok(records) => engine.accept(source, consumer.group_metadata(), &records),
            Err(PollError::Wakeup) => {}
            Err(error) if is_transient(&error) => back_off(&error).await,
            Err(error) => {
                tracing::error!(event = "consumer_failed", %error, "consumer failed: {error}");
                engine.fail(AppError::from(&error));
            }
        }
    }
    engine.perform_commands(source, &mut consumer);
    let options = CloseOptions {
        timeout: close_timeout,
        ..CloseOptions::default()
    };
    if let Err(error) = consumer.close_with(options).await {
        tracing::warn!(event = "consumer_close_failed", %error, "consumer close failed: {error}");
    }
}

impl Engine {
    /// Polls and counts the time.
    async fn poll(
        &self,
        source: SourceId,
        waiting: Waiting,
        consumer: &mut Consumer,
    ) -> Result<ConsumerRecords, PollError> {
        let timeout = self.poll_timeout(source, POLL);
        let Some(times) = self.times(source) else {
            return consumer.poll(timeout).await;
        };
        let (began, rebalanced) = (self.clock.instant(), times.rebalance());
        let polled = consumer.poll(timeout).await;
        times.polled(waiting, self.clock.instant() - began, times.rebalance() - rebalanced);
        polled
    }
}

/// Waits after a transient error.
pub(super) async fn back_off(error: &PollError) {
    tracing::warn!(event = "poll_failed", %error, "poll failed, retrying: {error}");
    tokio::time::sleep(BACKOFF).await;
}

/// Whether the consumer recovers from an error by itself.
pub(super) fn is_transient(error: &PollError) -> bool {
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
        self.setup.failure_topics(topics).await?;
        let mut begins = self.begins(consumer, partitions).await?;
        self.add_held(partitions, &mut begins).await?;
        // Pauses of an earlier assignment are over.
        consumer.resume(partitions)?;
        self.engine.assigned(self.source, &self.states, begins);
        self.engine.perform_commands(self.source, consumer);
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
        // The scheduler bounds this wait by its drain and final commit timeouts.
        loop {
            self.engine.perform_commands(self.source, consumer);
            if self.engine.are_released(&ids) {
                break;
            }
            link.commands.notified().await;
        }
        self.engine.forget(&ids);
        // Partitions that were assigned again meanwhile, because a transaction was aborted, are lost too.
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

/// Counts the time of a listener call, also if it is dropped before its end.
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

    /// Finds where new partitions begin.
    async fn begins(
        &self,
        consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
    ) -> Result<Vec<Begin>, ListenerError> {
        if self.engine.offset_store.is_some() {
            let claimed = self
                .engine
                .claim_assigned(self.source, consumer, partitions, &self.setup);
            return claimed.await;
        }
        let mut tries = 0;
        loop {
            match begins(consumer, partitions).await {
                Ok(begins) => return Ok(begins),
                Err(error) if tries < BEGIN_TRIES => {
                    tries += 1;
                    tracing::warn!(event = "positions_unknown", %error, "reading committed offsets failed, retrying: {error}");
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Finds the held keys of new partitions, before a record is handled.
    async fn add_held(&self, partitions: &[TopicPartition], begins: &mut [Begin]) -> Result<(), ListenerError> {
        let mut tries = 0;
        let all = loop {
            match self.engine.read_held(partitions).await {
                Ok(all) => break all,
                Err(error) if tries < BEGIN_TRIES => {
                    tries += 1;
                    tracing::warn!(event = "held_keys_unknown", %error, "reading the held-keys topic failed, retrying: {error}");
                    tokio::time::sleep(BACKOFF).await;
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
            owner: None,
        });
    }
    Ok(begins)
}
