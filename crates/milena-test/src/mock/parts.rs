//! Operations that the application and its listeners share.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use milena_client::consumer::{
    CommitError, CommitFuture, GroupMetadata, OffsetAndTimestamp, Offsets, OffsetsError, Position, RebalanceApi,
    SeekError, TopicPartition,
};
use milena_machines::fetch::ResetTo;

use super::{Call, MockScript, state::State};

/// A [`MockConsumer`](super::MockConsumer) as a rebalance listener gets it.
pub struct MockRebalanceConsumer {
    pub(super) script: MockScript,
}

impl MockRebalanceConsumer {
    fn set_paused(&mut self, partitions: &[TopicPartition], paused: bool) -> Result<(), SeekError> {
        let mut state = self.script.state();
        for partition in partitions {
            if !state.positions.pause(partition, paused) {
                return Err(SeekError::NotAssigned(partition.clone()));
            }
        }
        Ok(())
    }

    fn seek_to(&mut self, partitions: &[TopicPartition], to: ResetTo) -> Result<(), SeekError> {
        let mut state = self.script.state();
        for partition in partitions {
            if !state.positions.seek_to(partition, to) {
                return Err(SeekError::NotAssigned(partition.clone()));
            }
        }
        Ok(())
    }

    fn note(&self, call: Call) {
        self.script.state().calls.push(call);
    }

    fn find<T>(
        &self,
        partitions: &[TopicPartition],
        find: impl Fn(&State, &TopicPartition) -> T,
    ) -> BTreeMap<TopicPartition, T> {
        let state = self.script.state();
        partitions
            .iter()
            .map(|partition| (partition.clone(), find(&state, partition)))
            .collect()
    }
}

impl RebalanceApi for MockRebalanceConsumer {
    fn assignment(&self) -> BTreeSet<TopicPartition> {
        self.script.state().positions.assignment().cloned().collect()
    }

    fn pause(&mut self, partitions: &[TopicPartition]) -> Result<(), SeekError> {
        self.note(Call::Pause(partitions.to_vec()));
        self.set_paused(partitions, true)
    }

    fn resume(&mut self, partitions: &[TopicPartition]) -> Result<(), SeekError> {
        self.note(Call::Resume(partitions.to_vec()));
        self.set_paused(partitions, false)
    }

    fn paused(&self) -> BTreeSet<TopicPartition> {
        self.script.state().positions.paused().cloned().collect()
    }

    fn seek_position(&mut self, partition: &TopicPartition, position: Position) -> Result<(), SeekError> {
        if position.offset < 0 {
            let (partition, offset) = (partition.clone(), position.offset);
            return Err(SeekError::NegativeOffset { partition, offset });
        }
        self.note(Call::Seek(partition.clone(), position.offset));
        let is_assigned = self.script.state().positions.seek(partition, position);
        is_assigned
            .then_some(())
            .ok_or_else(|| SeekError::NotAssigned(partition.clone()))
    }

    fn seek_to_beginning(&mut self, partitions: &[TopicPartition]) -> Result<(), SeekError> {
        self.note(Call::SeekToBeginning(partitions.to_vec()));
        self.seek_to(partitions, ResetTo::Earliest)
    }

    fn seek_to_end(&mut self, partitions: &[TopicPartition]) -> Result<(), SeekError> {
        self.note(Call::SeekToEnd(partitions.to_vec()));
        self.seek_to(partitions, ResetTo::Latest)
    }

    fn current_lag(&self, partition: &TopicPartition) -> Result<Option<i64>, SeekError> {
        let state = self.script.state();
        if !state.positions.contains(partition) {
            return Err(SeekError::NotAssigned(partition.clone()));
        }
        Ok(state.positions.lag(partition, false))
    }

    fn group_metadata(&self) -> Option<GroupMetadata> {
        let state = self.script.state();
        state.config.group_id.as_deref().map(|group_id| GroupMetadata {
            group_id: group_id.into(),
            generation: 1,
            member_id: "mock".into(),
            instance_id: state.config.group_instance_id.as_deref().map(Into::into),
        })
    }

    async fn commit_sync(&mut self) -> Result<(), CommitError> {
        let offsets = self.script.state().consumed(None);
        self.commit_offsets(offsets).await
    }

    async fn commit_offsets(&mut self, offsets: Offsets) -> Result<(), CommitError> {
        self.note(Call::CommitSync(offsets.clone()));
        self.script.state().commit(offsets)
    }

    fn commit_async(&mut self) -> Result<CommitFuture, CommitError> {
        let offsets = self.script.state().consumed(None);
        self.commit_offsets_async(offsets)
    }

    fn commit_offsets_async(&mut self, offsets: Offsets) -> Result<CommitFuture, CommitError> {
        self.note(Call::CommitAsync(offsets.clone()));
        match self.script.state().commit(offsets) {
            // Errors that the real consumer returns at once.
            Err(error @ (CommitError::NoGroup | CommitError::NegativeOffset { .. })) => Err(error),
            result => Ok(CommitFuture::ready(result)),
        }
    }

    async fn position(&mut self, partition: &TopicPartition) -> Result<Position, OffsetsError> {
        let mut state = self.script.state();
        if !state.positions.contains(partition) {
            return Err(OffsetsError::NotAssigned(partition.clone()));
        }
        state.positions.request_position(partition);
        state.settle();
        if let Some(error) = state.positions.stuck_at(partition) {
            return Err(error.clone().into());
        }
        let position = state.positions.position(partition);
        position.ok_or_else(|| OffsetsError::TimedOut {
            partitions: partition.to_string(),
            cause: None,
        })
    }

    async fn committed(&mut self, partitions: &[TopicPartition]) -> Result<Offsets, OffsetsError> {
        let state = self.script.state();
        if state.config.group_id.is_none() {
            return Err(OffsetsError::NoGroup);
        }
        let committed = state
            .committed
            .iter()
            .filter(|(partition, _)| partitions.contains(partition));
        Ok(committed
            .map(|(partition, committed)| (partition.clone(), committed.clone()))
            .collect())
    }

    async fn beginning_offsets(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, i64>, OffsetsError> {
        Ok(self.find(partitions, |state, partition| state.ends(partition).0))
    }

    async fn end_offsets(
        &mut self,
        partitions: &[TopicPartition],
    ) -> Result<BTreeMap<TopicPartition, i64>, OffsetsError> {
        Ok(self.find(partitions, |state, partition| state.ends(partition).1))
    }

    async fn offsets_for_times(
        &mut self,
        times: BTreeMap<TopicPartition, i64>,
    ) -> Result<BTreeMap<TopicPartition, OffsetAndTimestamp>, OffsetsError> {
        if let Some(timestamp) = times.values().copied().find(|timestamp| *timestamp < 0) {
            return Err(OffsetsError::NegativeTime { timestamp });
        }
        let state = self.script.state();
        let found = times.into_iter().filter_map(|(partition, time)| {
            let found = state.logs.get(&partition)?.at_time(time)?;
            Some((partition, found))
        });
        Ok(found.collect())
    }
}

impl fmt::Debug for MockRebalanceConsumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MockRebalanceConsumer").finish_non_exhaustive()
    }
}
