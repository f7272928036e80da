//! Commands of the scheduler for consumers.

use std::{collections::BTreeMap, sync::Arc};

use milena_client::consumer::{
    CommitError, ErrorCode, OffsetAndMetadata, OffsetError, RebalanceConsumer, TopicPartition,
};
use milena_machines::app::{CommitOffset, CommitResult, PartitionId, SourceId};

use super::{Engine, State, stored_offsets::copy};

pub(super) enum SourceCommand {
    Pause(TopicPartition),
    Resume(TopicPartition),
    Commit(Vec<CommitOffset>),
    /// Copy offsets to Kafka that the offset store has.
    Copy(Vec<CommitOffset>),
    /// Read a partition again from the end of the last committed transaction.
    Rewind(TopicPartition),
}

impl State {
    /// Queues a command for the source of a partition.
    pub(super) fn command(&mut self, id: PartitionId, command: impl FnOnce(TopicPartition) -> SourceCommand) {
        let Some(partition) = self.scheduler.partition(id).cloned() else {
            return;
        };
        let Some(owned) = self.owned.get(&partition).filter(|owned| owned.id == id) else {
            return;
        };
        let source = owned.source;
        self.command_to(source, command(partition));
    }

    pub(super) fn command_to(&mut self, source: SourceId, command: SourceCommand) {
        if let Some(commands) = self.commands.get_mut(usize::from(source.0)) {
            commands.push(command);
        }
    }
}

impl Engine {
    /// Performs the commands for a source. Its consumer may be in the middle of a rebalance.
    pub(super) fn perform_commands(self: &Arc<Self>, source: SourceId, consumer: &mut RebalanceConsumer) {
        loop {
            let commands = {
                let mut state = self.state();
                let commands = state.commands.get_mut(usize::from(source.0));
                commands.map(std::mem::take).unwrap_or_default()
            };
            if commands.is_empty() {
                return;
            }
            for command in commands {
                match command {
                    // A partition that was revoked meanwhile needs no pause.
                    SourceCommand::Pause(partition) => drop(consumer.pause([&partition])),
                    SourceCommand::Resume(partition) => drop(consumer.resume([&partition])),
                    SourceCommand::Commit(offsets) => self.commit(source, consumer, offsets),
                    SourceCommand::Copy(offsets) => copy(consumer, offsets),
                    SourceCommand::Rewind(partition) => self.rewind(source, consumer, &partition),
                }
            }
        }
    }

    fn rewind(&self, source: SourceId, consumer: &mut RebalanceConsumer, partition: &TopicPartition) {
        // Pauses of the previous assignment are over; the scheduler pauses again if it must.
        let _ = consumer.resume([partition]);
        let Some(begin) = self.begin_again(source, partition) else {
            return;
        };
        if let Err(error) = consumer.seek(partition, begin) {
            // It was revoked, and the next owner begins at the committed offset.
            tracing::debug!(event = "rewind_failed", %error, "partition {partition} was revoked before it could be read again: {error}");
        }
    }

    fn commit(self: &Arc<Self>, source: SourceId, consumer: &mut RebalanceConsumer, offsets: Vec<CommitOffset>) {
        if let Some(store) = &self.offset_store {
            return self.commit_to_store(store, source, offsets);
        }
        let offsets = self.state().marked(offsets);
        let offsets: BTreeMap<TopicPartition, OffsetAndMetadata> = offsets.into_iter().map(committable).collect();
        let began = self.clock.instant();
        match consumer.commit_offsets_async(offsets) {
            Ok(commit) => {
                let engine = Arc::clone(self);
                tokio::spawn(async move {
                    let result = commit.await;
                    if let Some(times) = engine.times(source) {
                        times.committed(engine.clock.instant() - began);
                    }
                    engine.committed(source, &result);
                });
            }
            Err(error) => self.committed(source, &Err(error)),
        }
    }

    fn committed(&self, source: SourceId, result: &Result<(), CommitError>) {
        let committed = commit_result(result);
        if let Err(error) = result {
            tracing::debug!(event = "commit_failed", %error, result = ?committed, "commit failed: {error}");
        }
        self.act(None, |state, now_ms| {
            state.scheduler.handle_committed(now_ms, source, committed)
        });
    }
}

pub(super) fn committable(offset: CommitOffset) -> (TopicPartition, OffsetAndMetadata) {
    let committed = OffsetAndMetadata {
        offset: offset.offset,
        leader_epoch: offset.leader_epoch,
        metadata: offset.metadata.into(),
    };
    (offset.partition, committed)
}

fn commit_result(result: &Result<(), CommitError>) -> CommitResult {
    let failed = match result {
        Ok(()) => return CommitResult::Ok,
        Err(CommitError::Partitions(failed)) => failed,
        Err(CommitError::Closed | CommitError::NoGroup | CommitError::NegativeOffset { .. }) => {
            return CommitResult::Lost;
        }
        // The offsets stay; the next poll reports the failed log-in, and that ends the application.
        Err(CommitError::Authentication(_)) => return CommitResult::Failed,
    };
    let any = |is: fn(&OffsetError) -> bool| failed.values().any(is);
    if any(|error| *error == OffsetError::Refused(ErrorCode::OffsetMetadataTooLarge)) {
        CommitResult::MetadataTooLarge
    } else if any(|error| matches!(error, OffsetError::CommitFailed | OffsetError::FencedInstance)) {
        CommitResult::Lost
    } else if any(|error| !is_gone(error)) {
        CommitResult::Failed
    } else {
        // The topic was deleted, so its offset is not needed.
        CommitResult::Ok
    }
}

fn is_gone(error: &OffsetError) -> bool {
    matches!(
        error,
        OffsetError::Refused(ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId)
    )
}
