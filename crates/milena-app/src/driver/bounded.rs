//! A source that reads partitions assigned by hand, from one offset to another. Each is a piece of work of its own: it ends
//! when it is done or cannot go on, whatever becomes of the others. When all have ended, so does the engine.

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
    source,
    stretches::{Stretches, mark},
};
use crate::{
    error::{AppError, StartError},
    handler::States,
    replay::{UnfinishedPartition, UnfinishedReason},
};

const SOURCE: SourceId = SourceId(0);
/// How long a poll waits. It is woken when there is something to do, so this is only a precaution.
const POLL: Duration = Duration::from_secs(5);

/// A partition that is read up to an end.
#[derive(Debug)]
pub(super) struct Part {
    /// `None` if it could not even be begun.
    id: Option<PartitionId>,
    pub(super) end: i64,
    /// Nothing more of it is begun.
    is_over: bool,
    /// Why it is over before its end.
    why: Option<UnfinishedReason>,
    /// What the group says of it after all is over.
    reached: i64,
}

/// Takes the partitions for the machine.
pub(super) fn assign(
    engine: &Engine,
    consumer: &mut Consumer,
    states: &States,
    stretches: &Stretches,
) -> Result<(), StartError> {
    if let Some(link) = engine.sources.first() {
        // It is set once, before anything can happen.
        let _ = link.wakeup.set(consumer.wakeup_handle());
    }
    let readable = || stretches.iter().filter(|(_, stretch)| stretch.trouble.is_none());
    consumer.assign(readable().map(|(partition, _)| partition.clone()))?;
    let mut begins = vec![];
    for (partition, stretch) in readable() {
        let sought = consumer.seek(partition, stretch.begin);
        sought.map_err(|error| StartError::Replay(error.to_string()))?;
        begins.push(Begin {
            partition: partition.clone(),
            position: stretch.begin,
            leader_epoch: None,
            committed: stretch.committed.clone(),
            held: None,
        });
    }
    engine.assigned(SOURCE, states, begins);
    let mut state = engine.state();
    for (partition, stretch) in stretches {
        let part = Part {
            id: state.owned.get(partition).map(|owned| owned.id),
            end: stretch.end,
            is_over: stretch.trouble.is_some(),
            why: stretch.trouble.clone(),
            reached: stretch.begin,
        };
        state.parts.insert(partition.clone(), part);
    }
    Ok(())
}

/// Reads until all has ended, then until the engine has.
pub(super) async fn run(engine: Arc<Engine>, mut consumer: Consumer) {
    let mut reading = engine.being_read();
    while !engine.is_closed() && engine.failure().is_none() {
        engine.obey(SOURCE, &mut consumer);
        let left = engine.being_read();
        if left != reading {
            // What lies behind an end is not fetched. Partitions that stay keep their positions.
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
    engine.obey(SOURCE, &mut consumer);
    if engine.failure().is_none() {
        engine.ask_reached(&mut consumer).await;
    }
    if let Err(error) = consumer.close().await {
        tracing::warn!(%error, "a consumer did not close in peace");
    }
}

async fn poll(engine: &Engine, consumer: &mut Consumer) {
    match consumer.poll(POLL).await {
        Ok(records) => engine.accept(SOURCE, None, &records),
        Err(PollError::Wakeup) => {}
        Err(error) if source::passes(&error) => source::pause_after(&error).await,
        Err(error) => {
            let concerned = engine.concerned(&error);
            if concerned.is_empty() {
                tracing::error!(%error, "a replay cannot go on");
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
    /// Those of which something is still to be read.
    fn being_read(&self) -> BTreeSet<TopicPartition> {
        let state = self.state();
        let is_read = |part: &Part| {
            let status = part.id.and_then(|id| state.work.partition_status(id));
            !part.is_over && status.is_some_and(|status| status.end < part.end)
        };
        let parts = state.parts.iter().filter(|(_, part)| is_read(part));
        parts.map(|(partition, _)| partition.clone()).collect()
    }

    /// Whether the machine has nothing more to do for any of them.
    fn are_parts_released(&self) -> bool {
        self.state().owned.is_empty()
    }

    /// Waits until the machine wants something of a source that does not poll.
    async fn commands_for(&self, source: SourceId) {
        if let Some(link) = self.sources.get(usize::from(source.0)) {
            // That it took so long is no matter: whoever calls looks again.
            let _ = tokio::time::timeout(POLL, link.commands.notified()).await;
        }
    }

    /// Whom an error keeps from being read; none if it is all of them.
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

    /// What counts is what the group knows: there the next run begins.
    async fn ask_reached(&self, consumer: &mut Consumer) {
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

    /// Those that have not come to their end. Asked for when the engine has ended.
    pub(crate) fn unfinished(&self) -> BTreeMap<TopicPartition, UnfinishedPartition> {
        let state = self.state();
        let is_unfinished = |part: &Part| {
            let is_shorter = matches!(part.why, Some(UnfinishedReason::Shorter { .. }));
            part.reached < part.end || is_shorter
        };
        let unfinished = state.parts.iter().filter(|(_, part)| is_unfinished(part));
        let told = unfinished.map(|(partition, part)| {
            let unfinished = UnfinishedPartition {
                reached: part.reached,
                end: part.end,
                why: part.why.clone().unwrap_or(UnfinishedReason::NotCommitted),
            };
            (partition.clone(), unfinished)
        });
        told.collect()
    }
}

impl State {
    /// The same offsets, with where their partitions end.
    pub(super) fn marked(&self, mut offsets: Vec<CommitOffset>) -> Vec<CommitOffset> {
        for offset in &mut offsets {
            if let Some(part) = self.parts.get(&offset.partition) {
                offset.metadata = mark(part.end, &offset.metadata);
            }
        }
        offsets
    }

    /// Gives back what is done up to its end; `false` if that is nothing.
    pub(super) fn give_back_done(&mut self, now_ms: i64) -> bool {
        let mut done = vec![];
        for part in self.parts.values_mut().filter(|part| !part.is_over) {
            let status = part.id.and_then(|id| self.work.partition_status(id));
            if status.is_some_and(|status| status.frontier >= part.end) {
                part.is_over = true;
                done.extend(part.id);
            }
        }
        self.work.handle_revoking(now_ms, &done);
        !done.is_empty()
    }

    /// Ends a partition before its end: what is in handlers may end, what is done is committed. `false` if it has none.
    pub(super) fn give_up(&mut self, now_ms: i64, partition: &TopicPartition, why: UnfinishedReason) -> bool {
        let Some(part) = self.parts.get_mut(partition) else {
            return false;
        };
        if !part.is_over {
            tracing::error!(%partition, %why, "a replay gives a partition up; others go on");
        }
        part.is_over = true;
        part.why.get_or_insert(why);
        if let Some(id) = part.id {
            self.work.handle_revoking(now_ms, &[id]);
        }
        true
    }
}
