//! OffsetCommit and TxnOffsetCommit.

use bytestring::ByteString;
use milena_wire::{
    Uuid,
    api::versions,
    errors::ErrorCode,
    messages::{
        OffsetCommitRequest, OffsetCommitResponse, OffsetCommitValue, TxnOffsetCommitRequest, TxnOffsetCommitResponse,
        offset_commit_request::OffsetCommitRequestTopic,
        offset_commit_response::{OffsetCommitResponsePartition, OffsetCommitResponseTopic},
        txn_offset_commit_request::TxnOffsetCommitRequestTopic,
        txn_offset_commit_response::{TxnOffsetCommitResponsePartition, TxnOffsetCommitResponseTopic},
    },
};

use crate::{
    group::{
        Group, GroupContext, GroupCoordinator, GroupEffects, GroupRecord, GroupReply, OffsetKey,
        classic::{ClassicGroup, State},
    },
    transaction::ProducerEpoch,
};

/// The committer, as both requests name it.
#[derive(Clone, Copy)]
struct Committer<'a> {
    group_id: &'a ByteString,
    member_id: &'a ByteString,
    instance_id: Option<&'a ByteString>,
    generation_or_epoch: i32,
    is_transactional: bool,
}

impl GroupCoordinator {
    pub(in crate::group) fn commit_offsets(
        &mut self,
        context: &GroupContext,
        request: OffsetCommitRequest,
        effects: &mut GroupEffects,
    ) -> GroupReply {
        let committer = Committer {
            group_id: &request.group_id,
            member_id: &request.member_id,
            instance_id: request.group_instance_id.as_ref(),
            generation_or_epoch: request.generation_id_or_member_epoch,
            is_transactional: false,
        };
        let partitions = request.topics.iter().flat_map(|topic| {
            let partitions = topic.partitions.iter();
            partitions.map(|partition| (&topic.name, partition.partition_index))
        });
        if let Err(error) = self.validate_commit(context, committer, partitions) {
            let topics = request.topics.iter().map(|topic| commit_response(topic, |_| error));
            return GroupReply::OffsetCommit(OffsetCommitResponse {
                topics: topics.collect(),
                ..Default::default()
            });
        }
        self.keep_committer_alive(context, committer);
        let expire_timestamp = match request.retention_time_ms {
            -1 => -1,
            retention_ms => context.now_ms.saturating_add(retention_ms),
        };
        let metadata_max = self.config.offset_metadata_max_bytes;
        let mut topics = Vec::with_capacity(request.topics.len());
        for topic in request.topics {
            topics.push(commit_response(&topic, |metadata| {
                check_metadata(metadata, metadata_max)
            }));
            // A record with an expiry of its own is of an old version, which has no field for the topic id.
            let topic_id = if expire_timestamp == -1 {
                self.topic_id(&topic)
            } else {
                Uuid::default()
            };
            for partition in topic.partitions {
                if check_metadata(partition.committed_metadata.as_ref(), metadata_max) != ErrorCode::None {
                    continue;
                }
                let value = OffsetCommitValue {
                    offset: partition.committed_offset,
                    leader_epoch: partition.committed_leader_epoch,
                    metadata: partition.committed_metadata.unwrap_or_default(),
                    commit_timestamp: context.now_ms,
                    expire_timestamp,
                    topic_id,
                    ..Default::default()
                };
                let key = OffsetKey {
                    group_id: request.group_id.clone(),
                    topic: topic.name.clone(),
                    partition: partition.partition_index,
                };
                self.write(
                    GroupRecord::Offset {
                        key,
                        value: Some(value),
                    },
                    effects,
                );
            }
        }
        GroupReply::OffsetCommit(OffsetCommitResponse {
            topics,
            ..Default::default()
        })
    }

    /// Old versions name topics only. With the id, an offset cannot be mistaken for one of a later topic with that
    /// name.
    fn topic_id(&self, topic: &OffsetCommitRequestTopic) -> Uuid {
        if topic.topic_id == Uuid::default() {
            self.topics
                .by_name(&topic.name)
                .map(|topic| topic.id)
                .unwrap_or_default()
        } else {
            topic.topic_id
        }
    }

    pub(in crate::group) fn commit_txn_offsets(
        &mut self,
        context: &GroupContext,
        request: TxnOffsetCommitRequest,
        effects: &mut GroupEffects,
    ) -> GroupReply {
        let committer = Committer {
            group_id: &request.group_id,
            member_id: &request.member_id,
            instance_id: request.group_instance_id.as_ref(),
            generation_or_epoch: request.generation_id,
            is_transactional: true,
        };
        let validity = if request.group_id.is_empty() {
            Err(ErrorCode::InvalidGroupId)
        } else {
            let partitions = request.topics.iter().flat_map(|topic| {
                let partitions = topic.partitions.iter();
                partitions.map(|partition| (&topic.name, partition.partition_index))
            });
            self.validate_commit(context, committer, partitions)
        };
        if let Err(error) = validity {
            let topics = request.topics.iter().map(|topic| txn_commit_response(topic, |_| error));
            return GroupReply::TxnOffsetCommit(TxnOffsetCommitResponse {
                topics: topics.collect(),
                ..Default::default()
            });
        }
        let producer = ProducerEpoch {
            producer_id: request.producer_id,
            epoch: request.producer_epoch,
        };
        let metadata_max = self.config.offset_metadata_max_bytes;
        let mut topics = Vec::with_capacity(request.topics.len());
        for topic in request.topics {
            topics.push(txn_commit_response(&topic, |metadata| {
                check_metadata(metadata, metadata_max)
            }));
            for partition in topic.partitions {
                if check_metadata(partition.committed_metadata.as_ref(), metadata_max) != ErrorCode::None {
                    continue;
                }
                let value = OffsetCommitValue {
                    offset: partition.committed_offset,
                    leader_epoch: partition.committed_leader_epoch,
                    metadata: partition.committed_metadata.unwrap_or_default(),
                    commit_timestamp: context.now_ms,
                    ..Default::default()
                };
                let key = OffsetKey {
                    group_id: request.group_id.clone(),
                    topic: topic.name.clone(),
                    partition: partition.partition_index,
                };
                self.write_in_transaction(
                    producer,
                    GroupRecord::Offset {
                        key,
                        value: Some(value),
                    },
                    effects,
                );
            }
        }
        GroupReply::TxnOffsetCommit(TxnOffsetCommitResponse {
            topics,
            ..Default::default()
        })
    }

    fn write_in_transaction(&mut self, producer: ProducerEpoch, record: GroupRecord, effects: &mut GroupEffects) {
        self.replay(Some(producer), record.clone());
        effects.producer = Some(producer);
        effects.records.push(record);
    }

    /// `partitions` are those of the commit: in the consumer protocol each has an epoch of its own.
    fn validate_commit<'a>(
        &self,
        context: &GroupContext,
        committer: Committer<'_>,
        partitions: impl Iterator<Item = (&'a ByteString, i32)>,
    ) -> Result<(), ErrorCode> {
        let Committer {
            member_id,
            instance_id,
            generation_or_epoch,
            is_transactional,
            ..
        } = committer;
        match self.groups.get(committer.group_id) {
            Some(Group::Classic(group)) => group.validate_commit(committer),
            Some(Group::Consumer(group)) => {
                let instance_id = instance_id.map(|instance_id| &**instance_id);
                let version = context.version;
                let validity = group.validate_offset_commit(
                    member_id,
                    instance_id,
                    generation_or_epoch,
                    is_transactional,
                    version,
                );
                let partitions = partitions.map(|(topic, partition)| {
                    let topic = self.topics.by_name(topic).map(|topic| topic.id).unwrap_or_default();
                    (topic, partition)
                });
                let validity = validity
                    .and_then(|()| group.validate_partition_commits(member_id, generation_or_epoch, partitions));
                validity.map_err(|error| match error {
                    // Transactional commits know generations only.
                    ErrorCode::StaleMemberEpoch if is_transactional => ErrorCode::IllegalGeneration,
                    error => error,
                })
            }
            None if generation_or_epoch < 0 => Ok(()),
            None if self.offsets.has_group(committer.group_id) => Err(ErrorCode::UnknownMemberId),
            None if !is_transactional && context.version >= versions::offset_commit::CONSUMER_PROTOCOL => {
                Err(ErrorCode::GroupIdNotFound)
            }
            None => Err(ErrorCode::IllegalGeneration),
        }
    }

    /// A commit counts as a heartbeat, but not while a member should send SyncGroup.
    fn keep_committer_alive(&mut self, context: &GroupContext, committer: Committer<'_>) {
        let Some(Group::Classic(group)) = self.groups.get_mut(committer.group_id) else {
            return; // The consumer protocol has its own heartbeats; a group without members has no sessions.
        };
        if matches!(group.state, State::Stable | State::PreparingRebalance)
            && let Some(member) = group.members.get_mut(committer.member_id)
        {
            let timeout_ms = member.session_timeout_ms;
            let session = (committer.member_id, member);
            crate::group::classic::keep_alive(
                &mut self.timers,
                committer.group_id,
                session,
                context.now_ms,
                timeout_ms,
            );
        }
    }
}

impl ClassicGroup {
    fn validate_commit(&self, committer: Committer<'_>) -> Result<(), ErrorCode> {
        let generation_id = committer.generation_or_epoch;
        if generation_id < 0 && self.is_empty() {
            return Ok(());
        }
        let names_member = !committer.member_id.is_empty() || committer.instance_id.is_some();
        if generation_id >= 0 || names_member {
            self.validate_member(committer.member_id, committer.instance_id)?;
            if generation_id != self.generation_id {
                return Err(ErrorCode::IllegalGeneration);
            }
        } else if !committer.is_transactional {
            return Err(ErrorCode::UnknownMemberId);
        }
        if !committer.is_transactional && self.state == State::CompletingRebalance {
            return Err(ErrorCode::RebalanceInProgress);
        }
        Ok(())
    }
}

/// Kafka counts UTF-16 units; there are never more of them than bytes.
fn check_metadata(metadata: Option<&ByteString>, units_max: usize) -> ErrorCode {
    let is_too_large =
        metadata.is_some_and(|metadata| metadata.len() > units_max && metadata.encode_utf16().nth(units_max).is_some());
    if is_too_large {
        ErrorCode::OffsetMetadataTooLarge
    } else {
        ErrorCode::None
    }
}

fn commit_response(
    topic: &OffsetCommitRequestTopic,
    error: impl Fn(Option<&ByteString>) -> ErrorCode,
) -> OffsetCommitResponseTopic {
    let partitions = topic.partitions.iter().map(|partition| OffsetCommitResponsePartition {
        partition_index: partition.partition_index,
        error_code: error(partition.committed_metadata.as_ref()).code(),
        ..Default::default()
    });
    OffsetCommitResponseTopic {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partitions: partitions.collect(),
        ..Default::default()
    }
}

fn txn_commit_response(
    topic: &TxnOffsetCommitRequestTopic,
    error: impl Fn(Option<&ByteString>) -> ErrorCode,
) -> TxnOffsetCommitResponseTopic {
    let partitions = topic
        .partitions
        .iter()
        .map(|partition| TxnOffsetCommitResponsePartition {
            partition_index: partition.partition_index,
            error_code: error(partition.committed_metadata.as_ref()).code(),
            ..Default::default()
        });
    TxnOffsetCommitResponseTopic {
        name: topic.name.clone(),
        partitions: partitions.collect(),
        ..Default::default()
    }
}
