//! Transactions, seen from the producer.
//!
//! Version 1 says before the first batch of a partition that it becomes part of the transaction, and keeps its epoch from
//! one transaction to the next. In version 2 (KIP-890) writing does both, and each end gives the next epoch, so that
//! nothing of an old transaction can come late.

mod add;
mod end;
mod init;
mod offsets;

use std::collections::{BTreeSet, VecDeque};

use bytestring::ByteString;
use milena_wire::errors::ErrorCode;

use super::{
    BatchCause, Misuse, Operation, Sender, SenderEvent, Slot, TransactionCause, TransactionConfig, TransactionError,
    batch::Batch,
    control::{What, Wish},
    identity::Init,
};
use crate::TopicPartition;

use add::Start;
use offsets::OffsetsToSend;

/// What the application waits for. Each comes back in one [`SenderEvent::Done`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct OperationId(u64);

#[derive(Debug)]
pub(super) struct Transaction {
    config: TransactionConfig,
    phase: Phase,
    /// What the brokers say they can do, and what this transaction does.
    features: i16,
    version: Version,
    /// Why it can only be aborted.
    error: Option<TransactionCause>,
    running: Option<Running>,
    to_add: BTreeSet<Slot>,
    added: BTreeSet<Slot>,
    groups: BTreeSet<ByteString>,
    offsets: VecDeque<OffsetsToSend>,
    start: Start,
    /// Numbers are missing: the next transaction needs another epoch.
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
    /// Aborted; the next epoch is asked for.
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
    /// How it ended, if nobody has waited for it.
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

    /// Nothing that has not been acknowledged is of use.
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
    /// The finalized feature `transaction.version`; 0 if there is none. It counts from the next transaction on.
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
        // What was written in version 1 could come late in this epoch.
        let is_upgrade = version == Version::Two && transaction.version == Version::One;
        transaction.version = version;
        if is_upgrade {
            self.identity.wanted = Some(Init::Next);
        }
        Ok(())
    }

    /// Whether records may be sent now: always, unless the sender has given up, or has a transactional id and no
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

    /// Nobody waits for this operation any more. It goes on; how it ends is kept for the next call of the same kind, and
    /// until then no other is allowed.
    pub fn stop_waiting(&mut self, operation: OperationId) {
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        if let Some(running) = transaction.running.as_mut().filter(|running| running.id == operation) {
            running.is_awaited = false;
        }
        for offsets in &mut transaction.offsets {
            offsets.is_awaited &= offsets.id != operation;
        }
    }

    /// The transaction, if this call is allowed at all: `same` may go on while one of its kind runs.
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
            // How it ended was not heard: it must be, once.
            Some(fatal) if transaction.running.is_none() => Err(fatal.clone()),
            _ => Ok(transaction),
        }
    }

    /// Goes on waiting for an operation of this kind, if one runs or has ended unheard.
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

    /// What runs is over.
    fn finish(&mut self, result: Result<(), TransactionError>) {
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        let Some(running) = &mut transaction.running else {
            return;
        };
        if running.is_awaited {
            let operation = running.id;
            transaction.running = None;
            self.tell(SenderEvent::Done { operation, result });
        } else {
            running.result = Some(result);
        }
    }

    /// The transaction can only be aborted. What has not left is dropped.
    pub(super) fn abortable(&mut self, cause: TransactionCause) {
        let Some(transaction) = &mut self.transaction else {
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

    /// A batch was not written, or may not have been.
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

    /// A batch that had numbers is not sent again: they are missing.
    pub(super) fn note_dropped(&mut self, batch: &Batch) {
        if let Some(transaction) = self.transaction.as_mut().filter(|_| batch.stamp.is_some()) {
            transaction.needs_epoch = true;
        }
    }

    /// Whether what comes back unacknowledged is to be given up.
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

    /// For all who wait: there is nothing to wait for any more.
    pub(super) fn end_operations(&mut self, error: &TransactionError) {
        self.end_offsets(error);
        self.finish(Err(error.clone()));
    }

    /// What the transaction has to ask for next.
    pub(super) fn transaction_wish(&mut self) -> Option<Wish> {
        let transaction = self.transaction.as_ref()?;
        let is_quiet = self.calls.is_empty() && self.busy.is_empty();
        match transaction.phase {
            Phase::Open | Phase::Committing if transaction.error.is_none() => {
                let add = self.add_wish().or_else(|| self.offsets_wish());
                add.or_else(|| (transaction.phase == Phase::Committing && is_quiet).then(|| self.end_wish(true))?)
            }
            Phase::Aborting if is_quiet => match &transaction.start {
                Start::Unsure(request) => Some(self.repeat_add(request.clone())),
                _ => self.end_wish(false),
            },
            _ => None,
        }
    }

    pub(super) fn note_asked(&mut self, wish: &Wish) {
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        match wish.what {
            What::AddPartitions(_) | What::AddOffsets => transaction.start.note_asked(&wish.request),
            What::CommitOffsets => transaction.start = Start::Yes,
            What::Init | What::End => {}
        }
    }

    /// Nobody has seen it.
    pub(super) fn note_unsent(&mut self, what: &What) {
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        if matches!(what, What::AddPartitions(_) | What::AddOffsets) {
            transaction.start.note_refused();
        }
    }

    pub(super) fn note_unanswered(&mut self, what: &What) {
        let Some(transaction) = &mut self.transaction else {
            return;
        };
        if matches!(what, What::AddPartitions(_) | What::AddOffsets) {
            transaction.start.note_unanswered();
        }
    }
}
