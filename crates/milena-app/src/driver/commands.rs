//! What the machine wants of a consumer.

use std::{collections::BTreeMap, sync::Arc};

use milena_client::consumer::{
    CommitError, ErrorCode, OffsetAndMetadata, OffsetError, RebalanceConsumer, TopicPartition,
};
use milena_machines::app::{CommitOffset, CommitResult, PartitionId, SourceId};

use super::{Engine, State};

pub(super) enum SourceCommand {
    Pause(TopicPartition),
    Resume(TopicPartition),
    Commit(Vec<CommitOffset>),
    /// Read it again from where the last transaction ended.
    Rewind(TopicPartition),
}

impl State {
    /// A command about a partition, to the source that has it.
    pub(super) fn command(&mut self, id: PartitionId, command: impl FnOnce(TopicPartition) -> SourceCommand) {
        let Some(partition) = self.work.partition(id).cloned() else {
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
    /// Does what the machine wants of this consumer. It may be in the middle of a rebalance.
    pub(super) fn obey(self: &Arc<Self>, source: SourceId, consumer: &mut RebalanceConsumer) {
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
                    // Those that have gone meanwhile need no pause.
                    SourceCommand::Pause(partition) => drop(consumer.pause([&partition])),
                    SourceCommand::Resume(partition) => drop(consumer.resume([&partition])),
                    SourceCommand::Commit(offsets) => self.commit(source, consumer, offsets),
                    SourceCommand::Rewind(partition) => self.rewind(source, consumer, &partition),
                }
            }
        }
    }

    fn rewind(&self, source: SourceId, consumer: &mut RebalanceConsumer, partition: &TopicPartition) {
        // A pause of the life before is over; the machine asks again for what it wants.
        let _ = consumer.resume([partition]);
        let Some(begin) = self.begin_again(source, partition) else {
            return;
        };
        if let Err(error) = consumer.seek(partition, begin) {
            // It is not ours any more, and whoever has it begins there.
            tracing::debug!(%error, "a partition was gone when it should be read again");
        }
    }

    fn commit(self: &Arc<Self>, source: SourceId, consumer: &mut RebalanceConsumer, offsets: Vec<CommitOffset>) {
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
        let verdict = verdict(result);
        if let Err(error) = result {
            tracing::debug!(%error, ?verdict, "a commit failed");
        }
        self.act(None, |state, now_ms| {
            state.work.handle_committed(now_ms, source, verdict)
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

fn verdict(result: &Result<(), CommitError>) -> CommitResult {
    let failed = match result {
        Ok(()) => return CommitResult::Ok,
        Err(CommitError::Partitions(failed)) => failed,
        Err(CommitError::Closed | CommitError::NoGroup | CommitError::NegativeOffset { .. }) => {
            return CommitResult::Lost;
        }
    };
    let any = |is: fn(&OffsetError) -> bool| failed.values().any(is);
    if any(|error| *error == OffsetError::Refused(ErrorCode::OffsetMetadataTooLarge)) {
        CommitResult::MetadataTooLarge
    } else if any(|error| matches!(error, OffsetError::CommitFailed | OffsetError::FencedInstance)) {
        CommitResult::Lost
    } else if any(|error| !is_gone(error)) {
        CommitResult::Failed
    } else {
        // The topic was deleted: nobody will read its offset.
        CommitResult::Ok
    }
}

fn is_gone(error: &OffsetError) -> bool {
    matches!(
        error,
        OffsetError::Refused(ErrorCode::UnknownTopicOrPartition | ErrorCode::UnknownTopicId)
    )
}
