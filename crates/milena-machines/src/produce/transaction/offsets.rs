//! Offsets that are committed with a transaction.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    messages::{
        TxnOffsetCommitRequest, TxnOffsetCommitResponse,
        txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic},
    },
};

use super::{
    Misuse, OperationId, PendingRequest, Phase, Sender, SenderEvent, TransactionCause, TransactionError, Version,
    init::as_fenced,
};
use crate::{
    TopicPartition,
    member::{GroupMetadata, OffsetAndMetadata, code},
    produce::{
        ControlRequest, Target,
        control::{ControlKind, ErrorAction, action_for},
    },
};

/// Offsets of one call that the group's coordinator does not have yet.
#[derive(Debug)]
pub(super) struct OffsetsToSend {
    pub(super) id: OperationId,
    pub(super) is_awaited: bool,
    pub(super) group: GroupMetadata,
    offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
}

impl Sender {
    /// Commits offsets with the transaction, in the name of a member of the group. Done when the group's coordinator
    /// has them; they count when the transaction is committed. A call that timed out can be repeated.
    pub fn send_offsets(
        &mut self,
        now_ms: i64,
        group: GroupMetadata,
        offsets: Vec<(TopicPartition, OffsetAndMetadata)>,
    ) -> Result<OperationId, TransactionError> {
        self.note_time(now_ms);
        let transaction = self.usable(None)?;
        if transaction.phase != Phase::Open {
            return Err(TransactionError::Misuse(Misuse::NoTransaction));
        }
        if let Some(cause) = &transaction.error {
            return Err(TransactionError::Abortable(cause.clone()));
        }
        let id = OperationId(self.next_id());
        if offsets.is_empty() {
            self.emit(SenderEvent::Done {
                operation: id,
                result: Ok(()),
            });
        } else if let Some(transaction) = &mut self.transaction {
            transaction.offsets.push_back(OffsetsToSend {
                id,
                is_awaited: true,
                group,
                offsets: offsets.into_iter().collect(),
            });
        }
        Ok(id)
    }

    pub(super) fn offsets_request(&self) -> Option<PendingRequest> {
        let transaction = self.transaction.as_ref()?;
        let first = transaction.offsets.front()?;
        let group_id = first.group.group_id.clone();
        if transaction.version == Version::One && !transaction.groups.contains(&group_id) {
            return self.add_group_request(group_id);
        }
        let producer = self.identity.producer?;
        let request = TxnOffsetCommitRequest {
            transactional_id: transaction.config.transactional_id.clone(),
            group_id: group_id.clone(),
            producer_id: producer.producer_id,
            producer_epoch: producer.epoch,
            generation_id: first.group.generation,
            member_id: first.group.member_id.clone(),
            group_instance_id: first.group.instance_id.clone(),
            topics: topics(&first.offsets),
            ..TxnOffsetCommitRequest::default()
        };
        // Older versions have no fields for the member.
        let is_member = first.group.generation >= 0 || !first.group.member_id.is_empty();
        let versions = match transaction.version {
            Version::One => (if is_member { 3 } else { 0 }, Some(4)),
            Version::Two => (5, None),
        };
        Some(PendingRequest {
            kind: ControlKind::CommitOffsets,
            target: Target::GroupCoordinator(group_id),
            request: ControlRequest::TxnOffsetCommit(request),
            versions,
        })
    }

    pub(in crate::produce) fn handle_offsets_response(&mut self, now_ms: i64, response: &TxnOffsetCommitResponse) {
        let Some(transaction) = &mut self.transaction else {
            violated!("only_a_transaction_commits_offsets");
            return;
        };
        // Stale: given up meanwhile.
        let Some(first) = transaction.offsets.front_mut() else {
            return;
        };
        let target = Target::GroupCoordinator(first.group.group_id.clone());
        let (mut again, mut worst) = (None, None);
        for topic in &response.topics {
            for partition in &topic.partitions {
                let error = code(partition.error_code);
                match action_for(error) {
                    ErrorAction::Done => {
                        let partition = TopicPartition::new(topic.name.clone(), partition.partition_index);
                        first.offsets.remove(&partition);
                    }
                    ErrorAction::Retry => again = Some(error),
                    action => worst = worst.or(Some((action, error))),
                }
            }
        }
        if let Some((action, error)) = worst {
            return self.offsets_refused(action, error);
        }
        if first.offsets.is_empty() {
            let (operation, is_awaited) = (first.id, first.is_awaited);
            transaction.offsets.pop_front();
            self.reset_control_backoff();
            if is_awaited {
                self.emit(SenderEvent::Done {
                    operation,
                    result: Ok(()),
                });
            }
            return;
        }
        if let Some(error) = again {
            self.check_coordinator(&target, error);
            if error == ErrorCode::RequestTimedOut {
                self.coordinator_moved(&target);
            }
        }
        self.retry_control(now_ms, again);
    }

    fn offsets_refused(&mut self, action: ErrorAction, error: ErrorCode) {
        let cause = TransactionCause::Refused {
            api: ApiKey::TxnOffsetCommit,
            error: as_fenced(error),
        };
        match action {
            ErrorAction::Fatal => self.give_up(TransactionError::Fatal(cause)),
            action => {
                if let Some(transaction) = &mut self.transaction {
                    transaction.is_unknown |= action == ErrorAction::AbortUnknown;
                }
                self.abortable(cause);
            }
        }
    }

    /// Ends all offsets that are not sent.
    pub(super) fn end_offsets(&mut self, error: &TransactionError) {
        let Some(transaction) = &mut self.transaction else {
            return; // A sender without transactions.
        };
        for offsets in std::mem::take(&mut transaction.offsets) {
            if offsets.is_awaited {
                self.events.push_back(SenderEvent::Done {
                    operation: offsets.id,
                    result: Err(error.clone()),
                });
            }
        }
    }
}

fn topics(offsets: &BTreeMap<TopicPartition, OffsetAndMetadata>) -> Vec<TxnOffsetCommitRequestTopic> {
    let mut topics: BTreeMap<ByteString, Vec<TxnOffsetCommitRequestPartition>> = BTreeMap::new();
    for (topic_partition, offset) in offsets {
        let partition = TxnOffsetCommitRequestPartition {
            partition_index: topic_partition.partition,
            committed_offset: offset.offset,
            committed_leader_epoch: offset.leader_epoch.unwrap_or(-1),
            committed_metadata: Some(offset.metadata.clone()),
            ..TxnOffsetCommitRequestPartition::default()
        };
        topics.entry(topic_partition.topic.clone()).or_default().push(partition);
    }
    let topics = topics
        .into_iter()
        .map(|(name, partitions)| TxnOffsetCommitRequestTopic {
            name,
            partitions,
            ..TxnOffsetCommitRequestTopic::default()
        });
    topics.collect()
}
