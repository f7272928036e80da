//! Offsets in a store: partitions are claimed when they are assigned, and offsets go to the store before Kafka.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::{Duration, Instant},
};

use milena_client::consumer::{ListenerError, OffsetAndMetadata, Position, RebalanceConsumer, TopicPartition};
use milena_machines::app::{CommitOffset, CommitResult, CommittedOffset, RecordId, SourceId};

use super::{
    Engine, Setup, State,
    accept::Begin,
    commands::{SourceCommand, committable},
};
use crate::{
    handler::{Fault, States},
    offset_store::{Claim, Fenced, OffsetStore, OffsetToStore, PartitionOwner, PartitionToClaim},
};

/// The attempts to claim assigned partitions: about a minute with the backoffs, so that a database can restart.
const CLAIM_TRIES: u32 = 18;
const CLAIM_BACKOFF: Duration = Duration::from_millis(100);
const CLAIM_BACKOFF_MAX: Duration = Duration::from_secs(5);
/// The backoff before a partition that has a newer owner is claimed again, if the group says that it is ours.
const RECLAIM_FIRST: Duration = Duration::from_secs(1);
const RECLAIM_MAX: Duration = Duration::from_secs(30);
/// The timeout of the commit that proves the membership of this process.
const PROOF_TIMEOUT: Duration = Duration::from_secs(5);

/// A partition that is assigned to this process, but has a newer owner in the store.
pub(super) struct FencedPartition {
    source: SourceId,
    /// The offset where this process began.
    begin: i64,
    tries: u32,
    due: Instant,
}

/// Whether the transaction of a record was refused because a partition has a newer owner.
pub(super) enum FencedCall {
    No,
    /// Its own partition: the record is gone.
    Own,
    /// The partition of another record in its batch: it is handled again.
    Other,
}

impl FencedPartition {
    fn backoff(&self) -> Duration {
        RECLAIM_FIRST.saturating_mul(1 << self.tries.min(5)).min(RECLAIM_MAX)
    }
}

impl Engine {
    /// Drops a partition whose epoch is not the highest in the store any more. Returns its source, which may claim it
    /// again; `None` if it is not owned with this epoch.
    fn fence(&self, state: &mut State, now_ms: i64, fenced: &Fenced) -> Option<SourceId> {
        let owned = state.owned.get(&fenced.partition)?;
        if owned.owner.as_ref().is_none_or(|owner| owner.epoch != fenced.epoch) {
            return None;
        }
        let (id, source, begin) = (owned.id, owned.source, owned.begin);
        if let Some(metrics) = self.metrics.get(usize::from(owned.topic.handler.0)) {
            metrics.fenced.fetch_add(1, Ordering::Relaxed);
        }
        tracing::warn!(
            event = "partition_fenced",
            partition = %fenced.partition,
            epoch = fenced.epoch,
            "{} has a newer owner in the offset store; its records are left to that owner",
            fenced.partition
        );
        state.owned.remove(&fenced.partition);
        state.scheduler.handle_lost(now_ms, &[id]);
        let tries = state.fenced.get(&fenced.partition).map_or(0, |earlier| earlier.tries);
        let mut entry = FencedPartition {
            source,
            begin,
            tries,
            due: self.clock.instant(),
        };
        entry.due += entry.backoff();
        state.fenced.insert(fenced.partition.clone(), entry);
        Some(source)
    }

    /// Takes the result of a call whose transaction was refused because a partition has a newer owner.
    pub(super) fn take_fenced(&self, state: &mut State, now_ms: i64, record: RecordId, fault: &Fault) -> FencedCall {
        let Some(fenced) = fault.error().downcast_ref::<Fenced>() else {
            return FencedCall::No;
        };
        let own = state.scheduler.payload(record).map(|payload| payload.first());
        if let Some(source) = self.fence(state, now_ms, fenced) {
            self.wake_source(usize::from(source.0));
        }
        if own.is_none_or(|own| *own.topic_partition() == fenced.partition) {
            FencedCall::Own
        } else {
            FencedCall::Other
        }
    }

    /// Commits to the store, then to Kafka.
    pub(super) fn commit_to_store(
        self: &Arc<Self>,
        store: &Arc<dyn OffsetStore>,
        source: SourceId,
        offsets: Vec<CommitOffset>,
    ) {
        let (engine, store, began) = (Arc::clone(self), Arc::clone(store), self.clock.instant());
        let to_store = self.state().owned_offsets(&offsets);
        tokio::spawn(async move {
            let group = engine.group_of(source);
            let result = store.commit(&group, &to_store).await;
            if let Some(times) = engine.times(source) {
                times.committed(engine.clock.instant() - began);
            }
            engine.stored(source, offsets, &to_store, result);
        });
    }

    fn stored(
        &self,
        source: SourceId,
        mut offsets: Vec<CommitOffset>,
        to_store: &[OffsetToStore],
        result: Result<Vec<TopicPartition>, ListenerError>,
    ) {
        let result = result.inspect_err(
            |error| tracing::warn!(event = "offsets_not_stored", %error, "storing offsets failed, retrying: {error}"),
        );
        let has_fenced = result.as_ref().is_ok_and(|fenced| !fenced.is_empty());
        self.act(None, |state, now_ms| {
            let Ok(fenced) = result else {
                return state.scheduler.handle_committed(now_ms, source, CommitResult::Failed);
            };
            let epochs = to_store.iter().filter(|stored| fenced.contains(&stored.partition));
            for stored in epochs {
                let fenced = Fenced {
                    partition: stored.partition.clone(),
                    epoch: stored.epoch,
                };
                self.fence(state, now_ms, &fenced);
            }
            offsets.retain(|offset| !fenced.contains(&offset.partition));
            // Before the partitions are released, so that Kafka has the offsets when the next owner joins.
            state.command_to(source, SourceCommand::Copy(offsets));
            state.scheduler.handle_committed(now_ms, source, CommitResult::Ok);
        });
        if has_fenced {
            self.wake_source(usize::from(source.0));
        }
    }

    fn group_of(&self, source: SourceId) -> Arc<str> {
        let link = self.sources.get(usize::from(source.0));
        link.map_or_else(|| Arc::clone(&self.group), |link| Arc::clone(&link.group))
    }

    /// The longest poll of a source that has fenced partitions.
    pub(super) fn poll_timeout(&self, source: SourceId, max: Duration) -> Duration {
        if self.offset_store.is_none() {
            return max;
        }
        let now = self.clock.instant();
        let state = self.state();
        let is_waiting = |partition: &TopicPartition, fenced: &FencedPartition| {
            fenced.source == source && !state.owned.contains_key(partition)
        };
        let waiting = state.fenced.iter();
        let waiting = waiting.filter(|(partition, fenced)| is_waiting(partition, fenced));
        let next = waiting
            .map(|(_, fenced)| fenced.due.saturating_duration_since(now))
            .min();
        next.map_or(max, |next| next.clamp(Duration::from_millis(1), max))
    }

    /// Claims fenced partitions again that are due, if the group still says that they are assigned to this process.
    ///
    /// A claim may come late: a process that was assigned a partition, and lost it before it claimed it, fences the process
    /// that has it now. That one must get it back. The proof of its membership is a commit, which Kafka refuses from a
    /// process that is not in the group any more.
    pub(super) async fn reclaim(
        self: &Arc<Self>,
        source: SourceId,
        consumer: &mut RebalanceConsumer,
        (states, setup): (&States, &Setup),
    ) {
        if self.offset_store.is_none() || self.state().fenced.is_empty() {
            return;
        }
        let due = self.take_due(source, &consumer.assignment());
        for (partition, begin) in due {
            let position = BTreeMap::from([(partition.clone(), OffsetAndMetadata::new(begin))]);
            let partitions = [partition];
            let claimed = match consumer.commit_offsets_within(position, PROOF_TIMEOUT).await {
                Ok(()) => self.claim(source, consumer, &partitions, setup).await,
                Err(error) => Err(error.into()),
            };
            let [partition] = partitions;
            match claimed {
                Ok(begins) => {
                    tracing::info!(event = "partition_reclaimed", %partition, "{partition} is claimed again in the offset store");
                    self.assigned(source, states, begins);
                }
                Err(error) => {
                    tracing::warn!(event = "reclaim_failed", %partition, %error, "{partition} is not claimed again yet: {error}");
                }
            }
        }
    }

    /// The fenced partitions that are due, with the offsets where they began. Each is due again later, until it is
    /// assigned or gone.
    fn take_due(&self, source: SourceId, assignment: &BTreeSet<TopicPartition>) -> Vec<(TopicPartition, i64)> {
        let now = self.clock.instant();
        let mut state = self.state();
        let State { fenced, owned, .. } = &mut *state;
        fenced.retain(|partition, entry| {
            let is_over = entry.source == source && !assignment.contains(partition);
            // A partition that works for long enough begins with the shortest backoff again.
            let is_quiet = now.saturating_duration_since(entry.due) > RECLAIM_MAX * 2;
            !is_over && !(owned.contains_key(partition) && is_quiet)
        });
        let mut due = vec![];
        for (partition, entry) in fenced.iter_mut() {
            if entry.source == source && entry.due <= now && !owned.contains_key(partition) {
                entry.tries += 1;
                entry.due = now + entry.backoff();
                due.push((partition.clone(), entry.begin));
            }
        }
        due
    }

    /// Claims assigned partitions in the store, with retries, and seeks where they begin.
    pub(super) async fn claim_assigned(
        &self,
        source: SourceId,
        consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
        setup: &Setup,
    ) -> Result<Vec<Begin>, ListenerError> {
        let mut tries = 0;
        loop {
            match self.claim(source, consumer, partitions, setup).await {
                Ok(begins) => return Ok(begins),
                Err(error) if tries < CLAIM_TRIES => {
                    let backoff = CLAIM_BACKOFF.saturating_mul(1 << tries.min(6)).min(CLAIM_BACKOFF_MAX);
                    tries += 1;
                    tracing::warn!(event = "offsets_not_claimed", %error, "claiming stored offsets failed, retrying: {error}");
                    tokio::time::sleep(backoff).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn claim(
        &self,
        source: SourceId,
        consumer: &mut RebalanceConsumer,
        partitions: &[TopicPartition],
        setup: &Setup,
    ) -> Result<Vec<Begin>, ListenerError> {
        let Some(store) = &self.offset_store else {
            return Ok(vec![]);
        };
        let group = self.group_of(source);
        let wanted = with_topic_ids(setup, partitions).await?;
        let claims = store.claim(&group, &self.instance, &wanted).await?;
        if claims.len() != partitions.len() {
            return Err(format!("{} claims for {} partitions", claims.len(), partitions.len()).into());
        }
        let firsts = consumer.beginning_offsets(partitions).await?;
        let mut begins = vec![];
        let mut new = vec![];
        for (partition, claim) in partitions.iter().zip(claims) {
            let first = firsts.get(partition).copied().unwrap_or(0);
            let (is_stored, owner) = (claim.stored.is_some(), claim.owner(&group));
            let begin = begin(consumer, partition, claim, first).await?;
            let position = Position {
                offset: begin.position,
                epoch: begin.leader_epoch,
            };
            consumer.seek_position(partition, position)?;
            let begin = Begin {
                owner: Some(owner),
                ..begin
            };
            if !is_stored {
                new.push(begin.to_store());
            }
            begins.push(begin);
        }
        if !new.is_empty() {
            store.commit(&group, &new).await?;
        }
        Ok(begins)
    }
}

impl Claim {
    fn owner(&self, group: &Arc<str>) -> PartitionOwner {
        PartitionOwner {
            group: Arc::clone(group),
            epoch: self.epoch,
        }
    }
}

impl Begin {
    /// The first offset of a partition, for the store: with `latest`, a crash must not move it.
    fn to_store(&self) -> OffsetToStore {
        let committed = self.committed.as_ref();
        let metadata = committed.filter(|committed| committed.offset == self.position);
        OffsetToStore {
            partition: self.partition.clone(),
            epoch: self.owner.as_ref().map_or(0, |owner| owner.epoch),
            offset: self.position,
            leader_epoch: self.leader_epoch,
            metadata: metadata.map_or_else(String::new, |committed| committed.metadata.clone()),
        }
    }
}

impl State {
    /// Offsets of a commit with the epochs of their partitions.
    fn owned_offsets(&self, offsets: &[CommitOffset]) -> Vec<OffsetToStore> {
        let owned = offsets.iter().filter_map(|offset| {
            let owned = self.owned.get(&offset.partition)?;
            let owner = owned.owner.as_ref().filter(|_| owned.id == offset.id)?;
            Some(OffsetToStore {
                partition: offset.partition.clone(),
                epoch: owner.epoch,
                offset: offset.offset,
                leader_epoch: offset.leader_epoch,
                metadata: offset.metadata.clone(),
            })
        });
        owned.collect()
    }
}

/// Copies stored offsets to Kafka, for tools that show the lag. Only the store is asked for the metadata.
pub(super) fn copy(consumer: &mut RebalanceConsumer, offsets: Vec<CommitOffset>) {
    let offsets = offsets.into_iter().map(|offset| {
        committable(CommitOffset {
            metadata: String::new(),
            ..offset
        })
    });
    let offsets: BTreeMap<TopicPartition, OffsetAndMetadata> = offsets.collect();
    if !offsets.is_empty()
        && let Err(error) = consumer.commit_offsets_async(offsets)
    {
        tracing::debug!(event = "offset_copy_failed", %error, "stored offsets were not copied to Kafka: {error}");
    }
}

async fn with_topic_ids(setup: &Setup, partitions: &[TopicPartition]) -> Result<Vec<PartitionToClaim>, ListenerError> {
    let topics: BTreeSet<_> = partitions.iter().map(|partition| partition.topic.clone()).collect();
    let described = setup.admin().describe_topics(topics).await;
    let mut ids = BTreeMap::new();
    for (topic, description) in described {
        ids.insert(topic, description?.id.map(|id| id.to_string()));
    }
    let claimed = partitions.iter().map(|partition| PartitionToClaim {
        partition: partition.clone(),
        topic_id: ids.get(&*partition.topic).cloned().flatten(),
    });
    Ok(claimed.collect())
}

/// Where a claimed partition begins: at the stored offset, else at the offset that the group has committed to Kafka, else
/// where `auto.offset.reset` says.
async fn begin(
    consumer: &mut RebalanceConsumer,
    partition: &TopicPartition,
    claim: Claim,
    first: i64,
) -> Result<Begin, ListenerError> {
    let begin = |position, leader_epoch, committed| Begin {
        partition: partition.clone(),
        position,
        committed,
        leader_epoch,
        held: None,
        owner: None,
    };
    if let Some(stored) = claim.stored {
        warn_of_expired(partition, stored.offset, first);
        // The leader may have changed since the last commit: with its epoch, later offsets would look truncated.
        let is_of_commit = stored.offset == stored.metadata_offset && stored.offset >= first;
        let leader_epoch = stored.leader_epoch.filter(|_| is_of_commit);
        let committed = CommittedOffset {
            offset: stored.metadata_offset,
            metadata: stored.metadata,
        };
        return Ok(begin(stored.offset.max(first), leader_epoch, Some(committed)));
    }
    if claim.is_recreated {
        tracing::warn!(
            event = "topic_recreated",
            %partition,
            "the stored offset of {partition} belongs to a deleted topic of this name; the new one is read from its begin"
        );
        return Ok(begin(first, None, None));
    }
    let committed = consumer.committed([partition]).await?.remove(partition);
    let Some(committed) = committed else {
        let position = consumer.position(partition).await?;
        return Ok(begin(position.offset, None, None));
    };
    warn_of_expired(partition, committed.offset, first);
    let metadata = CommittedOffset {
        offset: committed.offset,
        metadata: committed.metadata.to_string(),
    };
    let leader_epoch = committed.leader_epoch.filter(|_| committed.offset >= first);
    Ok(begin(committed.offset.max(first), leader_epoch, Some(metadata)))
}

fn warn_of_expired(partition: &TopicPartition, offset: i64, first: i64) {
    if offset < first {
        let records = first - offset;
        tracing::warn!(
            event = "records_expired",
            %partition,
            offset,
            log_start = first,
            "retention has deleted up to {records} records of {partition} from offset {offset} on that were not handled"
        );
    }
}
