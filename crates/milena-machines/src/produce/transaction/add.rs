//! Adding partitions and offsets to a transaction.

use std::collections::{BTreeMap, BTreeSet};

use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        AddOffsetsToTxnRequest, AddOffsetsToTxnResponse, AddPartitionsToTxnRequest, AddPartitionsToTxnResponse,
        add_partitions_to_txn_request::AddPartitionsToTxnTopic,
    },
};

use super::{
    PendingRequest, Phase, Sender, Slot, Transaction, TransactionCause, TransactionError, Version, init::as_fenced,
};
use crate::{
    member::code,
    produce::{
        ControlRequest, Target,
        control::{ControlKind, ErrorAction, action_for},
    },
};

/// Whether the coordinator knows of the transaction.
#[derive(Debug, Clone, PartialEq)]
pub(super) enum Start {
    /// It does not: there is nothing to end.
    No,
    /// It was requested to begin it, and has not responded yet.
    Requested(ControlRequest),
    /// It did not respond to this. Before the end it must: ending nothing is an error in version 1.
    Unsure(ControlRequest),
    Yes,
}

impl Start {
    pub(super) fn note_requested(&mut self, request: &ControlRequest) {
        if *self == Self::No {
            *self = Self::Requested(request.clone());
        }
    }

    pub(super) fn note_no_response(&mut self) {
        if let Self::Requested(request) = self {
            *self = Self::Unsure(request.clone());
        }
    }

    pub(super) fn note_refused(&mut self) {
        if matches!(self, Self::Requested(_)) {
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

    /// Handles that a `Produce` request is sent. Returns the versions of it that have the right meaning.
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
    pub(super) fn add_request(&self) -> Option<PendingRequest> {
        let transaction = self
            .transaction
            .as_ref()
            .filter(|transaction| !transaction.to_add.is_empty())?;
        let producer = self.identity.producer?;
        let mut topics: BTreeMap<ByteString, Vec<i32>> = BTreeMap::new();
        for slot in &transaction.to_add {
            let partition = self.partition(*slot)?;
            topics
                .entry(partition.topic.clone())
                .or_default()
                .push(partition.partition);
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
        Some(PendingRequest {
            kind: ControlKind::AddPartitions(transaction.to_add.clone()),
            target: Target::TransactionCoordinator,
            request: ControlRequest::AddPartitionsToTxn(request),
            versions: (0, Some(3)),
        })
    }

    pub(super) fn add_group_request(&self, group_id: ByteString) -> Option<PendingRequest> {
        let producer = self.identity.producer?;
        let request = AddOffsetsToTxnRequest {
            transactional_id: self.transaction.as_ref()?.config.transactional_id.clone(),
            producer_id: producer.producer_id,
            producer_epoch: producer.epoch,
            group_id,
            ..AddOffsetsToTxnRequest::default()
        };
        Some(PendingRequest {
            kind: ControlKind::AddOffsets,
            target: Target::TransactionCoordinator,
            request: ControlRequest::AddOffsetsToTxn(request),
            versions: (0, None),
        })
    }

    /// Repeats a request without a response, so that it is known whether there is anything to abort.
    pub(super) fn retry_add(&self, request: ControlRequest) -> PendingRequest {
        let kind = match &request {
            ControlRequest::AddOffsetsToTxn(_) => ControlKind::AddOffsets,
            _ => ControlKind::AddPartitions(BTreeSet::new()),
        };
        PendingRequest {
            versions: (0, (kind != ControlKind::AddOffsets).then_some(3)),
            kind,
            target: Target::TransactionCoordinator,
            request,
        }
    }

    pub(in crate::produce) fn handle_add_partitions_response(
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
        self.handle_add_result(now_ms, error, &ControlKind::AddPartitions(BTreeSet::new()));
    }

    pub(in crate::produce) fn handle_add_offsets_response(&mut self, now_ms: i64, response: &AddOffsetsToTxnResponse) {
        let error = code(response.error_code);
        if error == ErrorCode::None
            && let Some(transaction) = &mut self.transaction
            && let Some(first) = transaction.offsets.front()
        {
            transaction.groups.insert(first.group.group_id.clone());
        }
        self.handle_add_result(now_ms, error, &ControlKind::AddOffsets);
    }

    fn handle_add_result(&mut self, now_ms: i64, error: ErrorCode, kind: &ControlKind) {
        let Some(transaction) = &mut self.transaction else {
            violated!("only_a_transaction_is_added_to");
            return;
        };
        let is_aborting = transaction.phase == Phase::Aborting;
        let api = kind.api();
        let action = match action_for(error) {
            // Kafka's client takes unexpected errors here as the fault of the partition.
            ErrorAction::Fatal if *kind != ControlKind::AddOffsets && !is_fatal(error) => ErrorAction::Abort,
            action => action,
        };
        let error = as_fenced(error);
        let cause = TransactionCause::Refused { api, error };
        match action {
            ErrorAction::Done => {
                transaction.start = Start::Yes;
                self.reset_control_backoff();
            }
            ErrorAction::Retry => {
                transaction.start.note_refused();
                self.check_coordinator(&Target::TransactionCoordinator, error);
                self.retry_control(now_ms, Some(error));
            }
            ErrorAction::Abort | ErrorAction::AbortUnknown => {
                transaction.start.note_refused();
                transaction.is_unknown |= action == ErrorAction::AbortUnknown;
                if is_aborting {
                    // This is refused whenever it is requested: it was refused the time before, too.
                    transaction.start = Start::No;
                }
                self.abortable(cause);
            }
            ErrorAction::Fatal => self.give_up(TransactionError::Fatal(cause)),
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
