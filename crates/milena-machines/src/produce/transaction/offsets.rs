//! Offsets that are committed with a transaction.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    messages::{
        TxnOffsetCommitRequest, TxnOffsetCommitResponse,
        txn_offset_commit_request::{TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic},
    },
};

use super::{
    Misuse, OperationId, Phase, Sender, SenderEvent, TransactionCause, TransactionError, Version, Wish, init::as_fenced,
};
use crate::{
    TopicPartition,
    member::{GroupMetadata, OffsetAndMetadata, code},
    produce::{
        ControlRequest, Target,
        control::{Verdict, What, verdict},
    },
};

/// Offsets of one call that are not yet with the group's coordinator.
#[derive(Debug)]
pub(super) struct OffsetsToSend {
    pub(super) id: OperationId,
    pub(super) is_awaited: bool,
    pub(super) group: GroupMetadata,
    offsets: BTreeMap<TopicPartition, OffsetAndMetadata>,
}

impl Sender {
    /// Commits these offsets with the transaction, in the name of a member of the group. Done when the group's coordinator
    /// has them; they count when the transaction is committed. A call that timed out can be made again.
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
            self.tell(SenderEvent::Done {
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

    pub(super) fn offsets_wish(&self) -> Option<Wish> {
        let transaction = self.transaction.as_ref()?;
        let first = transaction.offsets.front()?;
        let group_id = first.group.group_id.clone();
        if transaction.version == Version::One && !transaction.groups.contains(&group_id) {
            return self.add_group_wish(group_id);
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
        // Older ones cannot say which member it is.
        let is_member = first.group.generation >= 0 || !first.group.member_id.is_empty();
        let versions = match transaction.version {
            Version::One => (if is_member { 3 } else { 0 }, Some(4)),
            Version::Two => (5, None),
        };
        Some(Wish {
            what: What::CommitOffsets,
            target: Target::GroupCoordinator(group_id),
            request: ControlRequest::TxnOffsetCommit(request),
            versions,
        })
    }

    pub(in crate::produce) fn offsets_answered(&mut self, now_ms: i64, response: &TxnOffsetCommitResponse) {
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        // Given up meanwhile.
        let Some(first) = transaction.offsets.front_mut() else {
            return;
        };
        let target = Target::GroupCoordinator(first.group.group_id.clone());
        let (mut again, mut worst) = (None, None);
        for topic in &response.topics {
            for partition in &topic.partitions {
                let error = code(partition.error_code);
                match verdict(error) {
                    Verdict::Done => {
                        let place = TopicPartition::new(topic.name.clone(), partition.partition_index);
                        first.offsets.remove(&place);
                    }
                    Verdict::Again => again = Some(error),
                    verdict => worst = worst.or(Some((verdict, error))),
                }
            }
        }
        if let Some((verdict, error)) = worst {
            return self.offsets_refused(verdict, error);
        }
        if first.offsets.is_empty() {
            let (operation, is_awaited) = (first.id, first.is_awaited);
            transaction.offsets.pop_front();
            self.ask_on();
            if is_awaited {
                self.tell(SenderEvent::Done {
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
        self.ask_again(now_ms, again);
    }

    fn offsets_refused(&mut self, verdict: Verdict, error: ErrorCode) {
        let cause = TransactionCause::Refused {
            api: ApiKey::TxnOffsetCommit,
            error: as_fenced(error),
        };
        match verdict {
            Verdict::GiveUp => self.give_up(TransactionError::Fatal(cause)),
            verdict => {
                if let Some(transaction) = &mut self.transaction {
                    transaction.is_unknown |= verdict == Verdict::AbortUnknown;
                }
                self.abortable(cause);
            }
        }
    }

    /// Nothing more of these is sent.
    pub(super) fn end_offsets(&mut self, error: &TransactionError) {
        let Some(transaction) = &mut self.transaction else {
            return;
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
    for (place, offset) in offsets {
        let partition = TxnOffsetCommitRequestPartition {
            partition_index: place.partition,
            committed_offset: offset.offset,
            committed_leader_epoch: offset.leader_epoch.unwrap_or(-1),
            committed_metadata: Some(offset.metadata.clone()),
            ..TxnOffsetCommitRequestPartition::default()
        };
        topics.entry(place.topic.clone()).or_default().push(partition);
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
