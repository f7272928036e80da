//! The source of a replay: reads assigned partitions from one offset to another. Each partition ends when it is done or has
//! failed, independently of the others. The engine ends when all have.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use milena_client::consumer::{Consumer, FetchError, PollError, TopicPartition};
use milena_machines::app::{CommitOffset, PartitionId, SourceId};

use super::{
    Engine, State,
    accept::Begin,
    replay_ranges::{ReplayRanges, mark},
    source,
};
use crate::{
    error::{AppError, StartError},
    handler::States,
    replay::{UnfinishedPartition, UnfinishedReason},
};

const SOURCE: SourceId = SourceId(0);
/// The longest poll. Commands interrupt it, so this is only a safeguard.
const POLL: Duration = Duration::from_secs(5);

/// A partition of a replay.
#[derive(Debug)]
pub(super) struct ReplayPart {
    /// `None` if it cannot be read.
    id: Option<PartitionId>,
    pub(super) end: i64,
    /// No more of its records are handed out.
    is_over: bool,
    /// Why it is over before its end.
    why: Option<UnfinishedReason>,
    /// The committed offset after the replay.
    reached: i64,
}

/// Assigns the partitions to the consumer and the scheduler.
pub(super) fn assign(
    engine: &Engine,
    consumer: &mut Consumer,
    states: &States,
    ranges: &ReplayRanges,
) -> Result<(), StartError> {
    if let Some(link) = engine.sources.first() {
        // The handle is set once, before the first poll.
        let _ = link.wakeup.set(consumer.wakeup_handle());
    }
    let readable = || ranges.iter().filter(|(_, range)| range.error.is_none());
    consumer.assign(readable().map(|(partition, _)| partition.clone()))?;
    let mut begins = vec![];
    for (partition, range) in readable() {
        let sought = consumer.seek(partition, range.begin);
        sought.map_err(|error| StartError::Replay(error.to_string()))?;
        begins.push(Begin {
            partition: partition.clone(),
            position: range.begin,
            leader_epoch: None,
            committed: range.committed.clone(),
            held: None,
            owner: None,
        });
    }
    engine.assigned(SOURCE, states, begins);
    let mut state = engine.state();
    for (partition, range) in ranges {
        let part = ReplayPart {
            id: state.owned.get(partition).map(|owned| owned.id),
            end: range.end,
            is_over: range.error.is_some(),
            why: range.error.clone(),
            reached: range.begin,
        };
        state.parts.insert(partition.clone(), part);
    }
    Ok(())
}

/// Polls until all partitions have ended, then until the engine has.
pub(super) async fn run(engine: Arc<Engine>, mut consumer: Consumer) {
    let mut reading = engine.being_read();
    while !engine.is_closed() && engine.failure().is_none() {
        engine.perform_commands(SOURCE, &mut consumer);
        let left = engine.being_read();
        if left != reading {
            // Records behind an end are not fetched. The other partitions keep their positions.
            if let Err(error) = consumer.assign(left.iter().cloned()) {
                engine.fail(AppError::Consumer(error.to_string()));
            }
            reading = left;
        }
        if engine.are_parts_released() {
            engine.shut_down();
        } else if reading.is_empty() {
            engine.commands_for(SOURCE).await;
        } else {
            poll(&engine, &mut consumer).await;
        }
    }
    engine.perform_commands(SOURCE, &mut consumer);
    if engine.failure().is_none() {
        engine.read_reached(&mut consumer).await;
    }
    if let Err(error) = consumer.close().await {
        tracing::warn!(event = "consumer_close_failed", %error, "consumer close failed: {error}");
    }
}

async fn poll(engine: &Engine, consumer: &mut Consumer) {
    match consumer.poll(POLL).await {
        Ok(records) => engine.accept(SOURCE, None, &records),
        Err(PollError::Wakeup) => {}
        Err(error) if source::is_transient(&error) => source::back_off(&error).await,
        Err(error) => {
            let concerned = engine.concerned(&error);
            if concerned.is_empty() {
                tracing::error!(event = "replay_failed", %error, "replay failed: {error}");
                engine.fail(AppError::from(&error));
            }
            for partition in concerned {
                let why = UnfinishedReason::Unreadable(error.to_string());
                engine.act(Some(SOURCE), |state, now_ms| state.give_up(now_ms, &partition, why));
            }
        }
    }
}

impl Engine {
    /// The partitions with records left to read.
    fn being_read(&self) -> BTreeSet<TopicPartition> {
        let state = self.state();
        let is_read = |part: &ReplayPart| {
            let status = part.id.and_then(|id| state.scheduler.partition_status(id));
            !part.is_over && status.is_some_and(|status| status.end < part.end)
        };
        let parts = state.parts.iter().filter(|(_, part)| is_read(part));
        parts.map(|(partition, _)| partition.clone()).collect()
    }

    /// Whether the scheduler has released all partitions.
    fn are_parts_released(&self) -> bool {
        self.state().owned.is_empty()
    }

    /// Waits for commands of a source that does not poll.
    async fn commands_for(&self, source: SourceId) {
        if let Some(link) = self.sources.get(usize::from(source.0)) {
            // After a timeout the caller checks again.
            let _ = tokio::time::timeout(POLL, link.commands.notified()).await;
        }
    }

    /// The partitions that a poll error concerns; none if it concerns all.
    fn concerned(&self, error: &PollError) -> Vec<TopicPartition> {
        match error {
            PollError::Unreadable { partition, .. }
            | PollError::Fetch(
                FetchError::NoOffset { partition }
                | FetchError::OffsetOutOfRange { partition, .. }
                | FetchError::LogTruncation { partition, .. }
                | FetchError::Broker { partition, .. },
            ) => vec![partition.clone()],
            PollError::Topic { topic, .. } | PollError::Fetch(FetchError::TopicAuthorization { topic }) => {
                let state = self.state();
                let parts = state.parts.keys().filter(|partition| *partition.topic == **topic);
                parts.cloned().collect()
            }
            _ => vec![],
        }
    }

    /// Reads the committed offsets, where the next run begins.
    async fn read_reached(&self, consumer: &mut Consumer) {
        let partitions: Vec<TopicPartition> = self.state().parts.keys().cloned().collect();
        if partitions.is_empty() {
            return;
        }
        match consumer.committed(&partitions).await {
            Ok(committed) => {
                let mut state = self.state();
                for (partition, committed) in committed {
                    if let Some(part) = state.parts.get_mut(&partition) {
                        part.reached = committed.offset;
                    }
                }
            }
            Err(error) => self.fail(AppError::Consumer(error.to_string())),
        }
    }

    /// The partitions that have not reached their end, after the engine has ended.
    pub(crate) fn unfinished(&self) -> BTreeMap<TopicPartition, UnfinishedPartition> {
        let state = self.state();
        let is_unfinished = |part: &ReplayPart| {
            let is_shorter = matches!(part.why, Some(UnfinishedReason::Shorter { .. }));
            part.reached < part.end || is_shorter
        };
        let unfinished = state.parts.iter().filter(|(_, part)| is_unfinished(part));
        let unfinished = unfinished.map(|(partition, part)| {
            let unfinished = UnfinishedPartition {
                reached: part.reached,
                end: part.end,
                why: part.why.clone().unwrap_or(UnfinishedReason::NotCommitted),
            };
            (partition.clone(), unfinished)
        });
        unfinished.collect()
    }
}

impl State {
    /// Adds the ends of partitions to the metadata of a commit.
    pub(super) fn marked(&self, mut offsets: Vec<CommitOffset>) -> Vec<CommitOffset> {
        for offset in &mut offsets {
            if let Some(part) = self.parts.get(&offset.partition) {
                offset.metadata = mark(part.end, &offset.metadata);
            }
        }
        offsets
    }

    /// Gives back partitions that are done up to their end; `false` if there are none.
    pub(super) fn give_back_done(&mut self, now_ms: i64) -> bool {
        let mut done = vec![];
        for part in self.parts.values_mut().filter(|part| !part.is_over) {
            let status = part.id.and_then(|id| self.scheduler.partition_status(id));
            if status.is_some_and(|status| status.frontier >= part.end) {
                part.is_over = true;
                done.extend(part.id);
            }
        }
        self.scheduler.handle_revoking(now_ms, &done);
        !done.is_empty()
    }

    /// Ends a partition of a replay early: records in handlers are finished, and its progress is committed. `false` if it
    /// is not part of a replay.
    pub(super) fn give_up(&mut self, now_ms: i64, partition: &TopicPartition, why: UnfinishedReason) -> bool {
        let Some(part) = self.parts.get_mut(partition) else {
            return false;
        };
        if !part.is_over {
            tracing::error!(event = "replay_partition_failed", %partition, %why,
                "replay of {partition} stopped early, other partitions go on: {why}");
        }
        part.is_over = true;
        part.why.get_or_insert(why);
        if let Some(id) = part.id {
            self.scheduler.handle_revoking(now_ms, &[id]);
        }
        true
    }
}
