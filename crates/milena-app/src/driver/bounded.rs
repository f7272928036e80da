//! A source that reads partitions assigned by hand, from one offset to another, and then is done.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::Duration,
};

use milena_client::consumer::{Consumer, OffsetAndMetadata, OffsetsError, TopicPartition};
use milena_machines::app::{Committed, SourceId};

use super::{Engine, accept::Begin};
use crate::{
    error::{AppError, StartError},
    handler::States,
    replay::{Replay, ReplayFrom, ReplayTo},
};

const SOURCE: SourceId = SourceId(0);
/// How long a poll waits. It is woken when there is something to do, so this is only a precaution.
const POLL: Duration = Duration::from_secs(5);

/// From where to where each partition is read.
pub(crate) type Stretches = BTreeMap<TopicPartition, Stretch>;

#[derive(Debug, Clone)]
pub(crate) struct Stretch {
    pub(crate) begin: i64,
    pub(crate) end: i64,
    /// What an earlier run has left.
    committed: Option<OffsetAndMetadata>,
}

/// Finds out from where to where. Those where nothing is left are not in it.
pub(super) async fn stretches(
    consumer: &mut Consumer,
    topics: &BTreeSet<String>,
    replay: &Replay,
) -> Result<Stretches, StartError> {
    let mut partitions = vec![];
    for topic in topics {
        let found = consumer
            .partitions_for(topic)
            .await
            .map_err(|error| StartError::Replay(error.to_string()))?;
        partitions.extend(found.into_iter().map(|info| info.partition));
    }
    let found = find(consumer, &partitions, replay).await;
    found.map_err(|error| StartError::Replay(error.to_string()))
}

async fn find(
    consumer: &mut Consumer,
    partitions: &[TopicPartition],
    replay: &Replay,
) -> Result<Stretches, OffsetsError> {
    let mut ends = consumer.end_offsets(partitions).await?;
    match &replay.to {
        ReplayTo::End => {}
        ReplayTo::Time(ms) => {
            let times = partitions.iter().map(|partition| (partition.clone(), *ms));
            for (partition, found) in consumer.offsets_for_times(times).await? {
                ends.insert(partition, found.offset);
            }
        }
        ReplayTo::Offsets(offsets) => {
            for (partition, end) in &mut ends {
                *end = offsets.get(partition).map_or(*end, |wanted| (*end).min(*wanted));
            }
        }
    }
    let begins: BTreeMap<TopicPartition, i64> = match &replay.from {
        ReplayFrom::Beginning => consumer.beginning_offsets(partitions).await?,
        ReplayFrom::Offsets(offsets) => offsets.clone(),
        ReplayFrom::Time(ms) => {
            let times = partitions.iter().map(|partition| (partition.clone(), *ms));
            let found = consumer.offsets_for_times(times).await?;
            found
                .into_iter()
                .map(|(partition, found)| (partition, found.offset))
                .collect()
        }
    };
    let mut committed = consumer.committed(partitions).await?;
    let mut stretches = Stretches::new();
    for (partition, begin) in begins {
        let committed = committed.remove(&partition);
        let begin = committed
            .as_ref()
            .map_or(begin, |committed| committed.offset.max(begin));
        let Some(end) = ends.get(&partition).copied().filter(|end| begin < *end) else {
            continue;
        };
        let stretch = Stretch { begin, end, committed };
        stretches.insert(partition, stretch);
    }
    Ok(stretches)
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
    consumer.assign(stretches.keys().cloned())?;
    let mut begins = vec![];
    for (partition, stretch) in stretches {
        let sought = consumer.seek(partition, stretch.begin);
        sought.map_err(|error| StartError::Replay(error.to_string()))?;
        let committed = stretch.committed.as_ref().map(|committed| Committed {
            offset: committed.offset,
            metadata: committed.metadata.to_string(),
        });
        begins.push(Begin {
            partition: partition.clone(),
            position: stretch.begin,
            leader_epoch: None,
            committed: committed.filter(|committed| committed.offset == stretch.begin),
            held: None,
        });
    }
    engine.assigned(SOURCE, states, begins);
    let ends = stretches
        .iter()
        .map(|(partition, stretch)| (partition.clone(), stretch.end));
    engine.state().ends = ends.collect();
    Ok(())
}

/// Reads until all is done, then until the engine has ended.
pub(super) async fn run(engine: Arc<Engine>, mut consumer: Consumer) {
    let mut is_ending = false;
    while !engine.is_closed() && engine.failure().is_none() {
        engine.obey(SOURCE, &mut consumer);
        if !is_ending && engine.is_read() {
            is_ending = true;
            engine.shut_down();
            continue;
        }
        match consumer.poll(POLL).await {
            Ok(records) => {
                engine.accept(SOURCE, None, &records);
                let done = engine.read_to_their_end();
                // What lies behind is not read.
                drop(consumer.pause(&done));
            }
            Err(milena_client::consumer::PollError::Wakeup) => {}
            Err(error) => {
                tracing::error!(%error, "a replay cannot go on");
                engine.fail(AppError::from(&error));
            }
        }
    }
    engine.obey(SOURCE, &mut consumer);
    if let Err(error) = consumer.close().await {
        tracing::warn!(%error, "a consumer did not close in peace");
    }
}

impl Engine {
    /// Whether all that was to be read is done.
    fn is_read(&self) -> bool {
        let state = self.state();
        state.ends.iter().all(|(partition, end)| {
            let owned = state.owned.get(partition);
            let status = owned.and_then(|owned| state.work.partition_status(owned.id));
            status.is_none_or(|status| status.frontier >= *end)
        })
    }

    fn read_to_their_end(&self) -> Vec<TopicPartition> {
        let state = self.state();
        let at_end = state.ends.iter().filter(|(partition, end)| {
            let owned = state.owned.get(*partition);
            let status = owned.and_then(|owned| state.work.partition_status(owned.id));
            status.is_none_or(|status| status.end >= **end)
        });
        at_end.map(|(partition, _)| partition.clone()).collect()
    }
}
