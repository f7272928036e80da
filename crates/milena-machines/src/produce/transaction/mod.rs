//! Transactions, on the producer's side.
//!
//! Version 1 adds a partition to the transaction before its first batch, and keeps its epoch from one transaction to
//! the next. In version 2 (KIP-890) `Produce` does both, and each end bumps the epoch, so that no write of an old
//! transaction can come late.

mod add;
mod end;
mod init;
mod offsets;

use std::collections::{BTreeSet, VecDeque};

use bytestring::ByteString;
use milena_invariant::violated;
use milena_wire::errors::ErrorCode;

use super::{
    BatchCause, Misuse, Operation, Sender, SenderEvent, Slot, TransactionCause, TransactionConfig, TransactionError,
    batch::Batch,
    control::{ControlKind, PendingRequest},
    identity::Init,
};
use crate::TopicPartition;

use add::Start;
use offsets::OffsetsToSend;

/// Id of an operation of the application. Each ends with one [`SenderEvent::Done`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(u64);

#[derive(Debug)]
pub(super) struct Transaction {
    config: TransactionConfig,
    phase: Phase,
    /// The transaction version that the brokers support, and the one of this transaction.
    features: i16,
    version: Version,
    /// The error because of which it can only be aborted.
    error: Option<TransactionCause>,
    running: Option<Running>,
    to_add: BTreeSet<Slot>,
    added: BTreeSet<Slot>,
    groups: BTreeSet<ByteString>,
    offsets: VecDeque<OffsetsToSend>,
    start: Start,
    /// Sequence numbers are missing: the next transaction needs another epoch.
    needs_epoch: bool,
    /// The coordinator does not know this producer: it cannot end anything.
    is_unknown: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Phase {
    Uninitialized,
    Initializing,
    Ready,
    /// Begun. With an error it waits for the abort.
    Open,
    Committing,
    Aborting,
    /// Aborted; the next epoch is requested.
    Renewing,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// Init, commit or abort: there is one at a time.
#[derive(Debug)]
struct Running {
    id: OperationId,
    operation: Operation,
    is_awaited: bool,
    /// Its result, if the caller stopped waiting.
    result: Option<Result<(), TransactionError>>,
}

impl Transaction {
    pub(super) fn new(config: TransactionConfig) -> Self {
        Self {
            config,
            phase: Phase::Uninitialized,
            features: 0,
            version: Version::One,
            error: None,
            running: None,
            to_add: BTreeSet::new(),
            added: BTreeSet::new(),
            groups: BTreeSet::new(),
            offsets: VecDeque::new(),
            start: Start::No,
            needs_epoch: false,
            is_unknown: false,
        }
    }

    pub(super) fn can_produce(&self) -> bool {
        matches!(self.phase, Phase::Open | Phase::Committing) && self.error.is_none()
    }

    /// Unacknowledged batches are of no use any more.
    pub(super) fn is_failing(&self) -> bool {
        !self.can_produce()
    }

    fn reset(&mut self) {
        self.error = None;
        self.to_add.clear();
        self.added.clear();
        self.groups.clear();
        self.start = Start::No;
        self.is_unknown = false;
    }
}

impl Sender {
    /// Handles the finalized feature `transaction.version`; 0 if there is none. It counts from the next transaction on.
    pub fn handle_features(&mut self, transaction_version: i16) {
        if let Some(transaction) = &mut self.transaction {
            transaction.features = transaction_version;
        }
    }

    /// Begins a transaction. Nothing is sent before there is something to write.
    pub fn begin(&mut self) -> Result<(), TransactionError> {
        let transaction = self.usable(None)?;
        match transaction.phase {
            Phase::Ready => {}
            Phase::Uninitialized | Phase::Initializing => {
                return Err(TransactionError::Misuse(Misuse::NotInitialized));
            }
            _ => return Err(TransactionError::Misuse(Misuse::InTransaction)),
        }
        transaction.reset();
        transaction.phase = Phase::Open;
        let version = if transaction.features >= 2 {
            Version::Two
        } else {
            Version::One
        };
        // Late writes of version 1 could have the same epoch.
        let is_upgrade = version == Version::Two && transaction.version == Version::One;
        transaction.version = version;
        if is_upgrade {
            self.identity.wanted = Some(Init::Next);
        }
        Ok(())
    }

    /// Checks that records may be sent now: an error if the sender is ended, or has a transactional id and no
    /// transaction that can still be committed.
    pub fn check_send(&self) -> Result<(), TransactionError> {
        if let Some(fatal) = &self.fatal {
            return Err(fatal.clone());
        }
        let Some(transaction) = &self.transaction else {
            return Ok(());
        };
        match (transaction.phase, &transaction.error) {
            (Phase::Open, None) => Ok(()),
            (Phase::Open, Some(cause)) => Err(TransactionError::Abortable(cause.clone())),
            (Phase::Uninitialized | Phase::Initializing, _) => Err(TransactionError::Misuse(Misuse::NotInitialized)),
            (Phase::Ready, _) => Err(TransactionError::Misuse(Misuse::NoTransaction)),
            _ => Err(TransactionError::Misuse(Misuse::Ending)),
        }
    }

    /// Detaches the caller from an operation. It goes on; its result is kept for the next call of the same kind, and
    /// until then no other is allowed.
    pub fn stop_waiting(&mut self, operation: OperationId) {
        let Some(transaction) = &mut self.transaction else {
            violated!("operations_belong_to_a_transactional_sender");
            return;
        };
        if let Some(running) = transaction.running.as_mut().filter(|running| running.id == operation) {
            running.is_awaited = false;
        }
        for offsets in &mut transaction.offsets {
            offsets.is_awaited &= offsets.id != operation;
        }
    }

    /// The transaction, if this call is allowed at all: `same` may be called again while it runs.
    fn usable(&mut self, same: Option<Operation>) -> Result<&mut Transaction, TransactionError> {
        let Some(transaction) = &mut self.transaction else {
            return Err(TransactionError::Misuse(Misuse::NotTransactional));
        };
        if let Some(running) = &transaction.running
            && Some(running.operation) != same
        {
            return Err(TransactionError::InProgress(running.operation));
        }
        match &self.fatal {
            // The result of the operation was not taken yet: it must be, once.
            Some(fatal) if transaction.running.is_none() => Err(fatal.clone()),
            _ => Ok(transaction),
        }
    }

    /// Continues to wait for an operation of this kind, if one runs or its result was not taken.
    fn rejoin(&mut self) -> Option<OperationId> {
        let running = self.transaction.as_mut()?.running.as_mut()?;
        running.is_awaited = true;
        let id = running.id;
        if let Some(result) = running.result.take() {
            self.finish(result);
        }
        Some(id)
    }

    fn run(&mut self, operation: Operation, phase: Phase) -> OperationId {
        let id = OperationId(self.next_id());
        if let Some(transaction) = &mut self.transaction {
            transaction.phase = phase;
            transaction.running = Some(Running {
                id,
                operation,
                is_awaited: true,
                result: None,
            });
        }
        id
    }

    /// Ends the running operation.
    fn finish(&mut self, result: Result<(), TransactionError>) {
        let Some(transaction) = &mut self.transaction else {
            return; // A sender without transactions has no operations.
        };
        let Some(running) = &mut transaction.running else {
            return; // No call waits for the end.
        };
        if running.is_awaited {
            let operation = running.id;
            transaction.running = None;
            self.emit(SenderEvent::Done { operation, result });
        } else {
            running.result = Some(result);
        }
    }

    /// Marks the transaction as abort-only. Batches that were not sent are dropped.
    pub(super) fn abortable(&mut self, cause: TransactionCause) {
        let Some(transaction) = &mut self.transaction else {
            violated!("only_a_transaction_is_aborted");
            return;
        };
        transaction.needs_epoch = true;
        let was_committing = transaction.phase == Phase::Committing;
        if !transaction.can_produce() {
            return;
        }
        transaction.phase = Phase::Open;
        transaction.error = Some(cause.clone());
        let error = TransactionError::Abortable(cause);
        self.end_offsets(&error);
        if was_committing {
            self.finish(Err(error));
        }
        self.drop_waiting(&BatchCause::Aborted);
    }

    /// Handles a batch that was not written, or may not have been.
    pub(super) fn batch_failed(&mut self, partition: TopicPartition, cause: BatchCause) {
        let is_unknown = cause == BatchCause::Refused(ErrorCode::InvalidProducerIdMapping);
        let is_fatal = matches!(
            cause,
            BatchCause::Refused(
                ErrorCode::ProducerFenced
                    | ErrorCode::ClusterAuthorizationFailed
                    | ErrorCode::TransactionalIdAuthorizationFailed
                    | ErrorCode::UnsupportedVersion
            )
        );
        let cause = Box::new(cause);
        let cause = TransactionCause::Batch { partition, cause };
        if is_fatal {
            return self.give_up(TransactionError::Fatal(cause));
        }
        if let Some(transaction) = self.transaction.as_mut().filter(|_| is_unknown) {
            transaction.is_unknown = true;
        }
        self.abortable(cause);
    }

    /// Handles the drop of a batch: its sequence numbers are missing.
    pub(super) fn note_dropped(&mut self, batch: &Batch) {
        if let Some(transaction) = self.transaction.as_mut().filter(|_| batch.stamp.is_some()) {
            transaction.needs_epoch = true;
        }
    }

    /// Whether unacknowledged batches are given up instead of retried.
    pub(super) fn is_stopped(&self) -> bool {
        self.fatal.is_some() || self.transaction.as_ref().is_some_and(Transaction::is_failing)
    }

    pub(super) fn drop_if_aborting(&mut self) {
        if let Some(fatal) = self.fatal.clone() {
            self.drop_waiting(&BatchCause::Stopped(Box::new(fatal)));
        } else if self.is_stopped() {
            self.drop_waiting(&BatchCause::Aborted);
        }
    }

    /// Ends all operations with an error.
    pub(super) fn end_operations(&mut self, error: &TransactionError) {
        self.end_offsets(error);
        self.finish(Err(error.clone()));
    }

    /// The next request of the transaction.
    pub(super) fn transaction_request(&mut self) -> Option<PendingRequest> {
        let transaction = self.transaction.as_ref()?;
        let is_quiet = self.calls.is_empty() && self.busy.is_empty();
        match transaction.phase {
            Phase::Open | Phase::Committing if transaction.error.is_none() => {
                let add = self.add_request().or_else(|| self.offsets_request());
                add.or_else(|| (transaction.phase == Phase::Committing && is_quiet).then(|| self.end_request(true))?)
            }
            Phase::Aborting if is_quiet => match &transaction.start {
                Start::Unsure(request) => Some(self.retry_add(request.clone())),
                _ => self.end_request(false),
            },
            _ => None,
        }
    }

    pub(super) fn note_requested(&mut self, next: &PendingRequest) {
        let Some(transaction) = &mut self.transaction else {
            return; // The producer id of a sender without transactions.
        };
        match next.kind {
            ControlKind::AddPartitions(_) | ControlKind::AddOffsets => transaction.start.note_requested(&next.request),
            ControlKind::CommitOffsets => transaction.start = Start::Yes,
            ControlKind::Init | ControlKind::End => {}
        }
    }

    /// Handles a request that was never sent.
    pub(super) fn note_unsent(&mut self, kind: &ControlKind) {
        let Some(transaction) = &mut self.transaction else {
            return; // The producer id of a sender without transactions.
        };
        if matches!(kind, ControlKind::AddPartitions(_) | ControlKind::AddOffsets) {
            transaction.start.note_refused();
        }
    }

    pub(super) fn note_no_response(&mut self, kind: &ControlKind) {
        let Some(transaction) = &mut self.transaction else {
            return; // The producer id of a sender without transactions.
        };
        if matches!(kind, ControlKind::AddPartitions(_) | ControlKind::AddOffsets) {
            transaction.start.note_no_response();
        }
    }
}
