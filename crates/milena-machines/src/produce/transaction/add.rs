//! What becomes part of a transaction.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
        add_partitions_to_txn_request::AddPartitionsToTxnTopic,
    },
};

use super::{Phase, Sender, Slot, Transaction, TransactionCause, TransactionError, Version, Wish, init::as_fenced};
use crate::{
    member::code,
    produce::{
        ControlRequest, Target,
        control::{Verdict, What, verdict},
    },
};

/// Whether the coordinator knows of the transaction.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Start {
    /// It does not: there is nothing to end.
    No,
    /// It has been asked to begin it, and has not answered yet.
    Asked(ControlRequest),
    /// It has not answered to this. Before the end it must: ending nothing is an error in version 1.
    Unsure(ControlRequest),
    Yes,
}

impl Start {
    pub(super) fn note_asked(&mut self, request: &ControlRequest) {
        if *self == Self::No {
            *self = Self::Asked(request.clone());
        }
    }

    pub(super) fn note_unanswered(&mut self) {
        if let Self::Asked(request) = self {
            *self = Self::Unsure(request.clone());
        }
    }

    pub(super) fn note_refused(&mut self) {
        if matches!(self, Self::Asked(_)) {
            *self = Self::No;
        }
    }
}

impl Transaction {
    pub(in crate::produce) fn note_pushed(&mut self, slot: Slot) {
        if self.version == Version::One && !self.added.contains(&slot) {
            self.to_add.insert(slot);
        }
    }

    /// Whether batches of this partition may be sent.
    pub(in crate::produce) fn has(&self, slot: Slot) -> bool {
        self.version == Version::Two || self.added.contains(&slot)
    }

    /// A `Produce` request leaves. Tells which versions of it mean what is meant.
    pub(in crate::produce) fn note_produce(&mut self) -> (i16, Option<i16>) {
        match self.version {
            Version::One => (3, Some(11)),
            Version::Two => {
                self.start = Start::Yes;
                (12, None)
            }
        }
    }
}

impl Sender {
    pub(super) fn add_wish(&self) -> Option<Wish> {
        let transaction = self
            .transaction
            .as_ref()
            .filter(|transaction| !transaction.to_add.is_empty())?;
        let producer = self.identity.producer?;
        let mut topics: BTreeMap<ByteString, Vec<i32>> = BTreeMap::new();
        for slot in &transaction.to_add {
            let place = self.partition(*slot)?;
            topics.entry(place.topic.clone()).or_default().push(place.partition);
        }
        let topics = topics.into_iter().map(|(name, partitions)| AddPartitionsToTxnTopic {
            name,
            partitions,
            ..AddPartitionsToTxnTopic::default()
        });
        let request = AddPartitionsToTxnRequest {
            v3_and_below_transactional_id: transaction.config.transactional_id.clone(),
            v3_and_below_producer_id: producer.producer_id,
            v3_and_below_producer_epoch: producer.epoch,
            v3_and_below_topics: topics.collect(),
            ..AddPartitionsToTxnRequest::default()
        };
        Some(Wish {
            what: What::AddPartitions(transaction.to_add.clone()),
            target: Target::TransactionCoordinator,
            request: ControlRequest::AddPartitionsToTxn(request),
            versions: (0, Some(3)),
        })
    }

    pub(super) fn add_group_wish(&self, group_id: ByteString) -> Option<Wish> {
        let producer = self.identity.producer?;
        let request = AddOffsetsToTxnRequest {
            transactional_id: self.transaction.as_ref()?.config.transactional_id.clone(),
            producer_id: producer.producer_id,
            producer_epoch: producer.epoch,
            group_id,
            ..AddOffsetsToTxnRequest::default()
        };
        Some(Wish {
            what: What::AddOffsets,
            target: Target::TransactionCoordinator,
            request: ControlRequest::AddOffsetsToTxn(request),
            versions: (0, None),
        })
    }

    /// Asks again what was not answered, so that it is known whether there is anything to abort.
    pub(super) fn repeat_add(&self, request: ControlRequest) -> Wish {
        let what = match &request {
            ControlRequest::AddOffsetsToTxn(_) => What::AddOffsets,
            _ => What::AddPartitions(BTreeSet::new()),
        };
        Wish {
            versions: (0, (what != What::AddOffsets).then_some(3)),
            what,
            target: Target::TransactionCoordinator,
            request,
        }
    }

    pub(in crate::produce) fn partitions_answered(
        &mut self,
        now_ms: i64,
        slots: &BTreeSet<Slot>,
        response: &AddPartitionsToTxnResponse,
    ) {
        let topics = response.results_by_topic_v3_and_below.iter();
        let errors = topics.flat_map(|topic| &topic.results_by_partition);
        let errors = errors.map(|partition| code(partition.partition_error_code));
        let errors: Vec<ErrorCode> = errors.filter(|error| *error != ErrorCode::None).collect();
        // The others were only not attempted because of this one.
        let telling = errors.iter().find(|error| **error != ErrorCode::OperationNotAttempted);
        let error = telling.or_else(|| errors.first()).copied().unwrap_or(ErrorCode::None);
        if error == ErrorCode::None
            && let Some(transaction) = &mut self.transaction
        {
            transaction.to_add.retain(|slot| !slots.contains(slot));
            transaction.added.extend(slots);
        }
        self.add_answered(now_ms, error, &What::AddPartitions(BTreeSet::new()));
    }

    pub(in crate::produce) fn group_answered(&mut self, now_ms: i64, response: &AddOffsetsToTxnResponse) {
        let error = code(response.error_code);
        if error == ErrorCode::None
            && let Some(transaction) = &mut self.transaction
            && let Some(first) = transaction.offsets.front()
        {
            transaction.groups.insert(first.group.group_id.clone());
        }
        self.add_answered(now_ms, error, &What::AddOffsets);
    }

    fn add_answered(&mut self, now_ms: i64, error: ErrorCode, what: &What) {
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        let is_aborting = transaction.phase == Phase::Aborting;
        let api = what.api();
        let verdict = match verdict(error) {
            // Kafka's client takes what it does not expect here as the fault of the partition.
            Verdict::GiveUp if *what != What::AddOffsets && !is_fatal(error) => Verdict::Abort,
            verdict => verdict,
        };
        let error = as_fenced(error);
        let cause = TransactionCause::Refused { api, error };
        match verdict {
            Verdict::Done => {
                transaction.start = Start::Yes;
                self.ask_on();
            }
            Verdict::Again => {
                transaction.start.note_refused();
                self.check_coordinator(&Target::TransactionCoordinator, error);
                self.ask_again(now_ms, Some(error));
            }
            Verdict::Abort | Verdict::AbortUnknown => {
                transaction.start.note_refused();
                transaction.is_unknown |= verdict == Verdict::AbortUnknown;
                if is_aborting {
                    // This is refused whenever it is asked: it was the time before, too.
                    transaction.start = Start::No;
                }
                self.abortable(cause);
            }
            Verdict::GiveUp => self.give_up(TransactionError::Fatal(cause)),
        }
    }
}

fn is_fatal(error: ErrorCode) -> bool {
    matches!(
        error,
        ErrorCode::InvalidProducerEpoch
            | ErrorCode::ProducerFenced
            | ErrorCode::TransactionalIdAuthorizationFailed
            | ErrorCode::InvalidTxnState
    )
}
