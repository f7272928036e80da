//! Exactly once: the transaction that carries outputs and offsets.
//!
//! A transaction collects the outputs of records. It is committed at a *barrier*: a moment when no record is in a handler
//! or being published, so that the outputs of exactly those records below the committed offsets are in it.
//!
//! ```text
//! Idle ──► Open ──► Due ──► Draining ──► AtBarrier ──► Ending ──► Idle
//!              (window over)         (none in flight)  (offsets taken)
//! any ──► MustAbort ──► Idle
//! ```

use super::progress::commits::Snapshot;

/// How far the open transaction is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TransactionPhase {
    /// No record has finished since the last transaction ended.
    Idle,
    /// Records have finished: the transaction is to be committed when its window is over.
    Open,
    /// A partition waits for its commit: the transaction is to be committed now.
    Due,
    /// Nothing is handed out until the records in flight have ended.
    Draining,
    /// Nothing is in flight: offsets can be taken.
    AtBarrier,
    /// Its offsets are taken, and it is being committed.
    Ending,
    /// An output could not be written. The transaction must be aborted, whatever else happens.
    MustAbort,
}

#[derive(Debug)]
pub(crate) struct Transaction {
    phase: TransactionPhase,
    /// The offsets in it, once they are taken.
    snapshots: Option<Vec<Snapshot>>,
    /// It has outputs of a partition that was lost, so it must be aborted at its barrier.
    is_spoiled: bool,
}

impl Transaction {
    pub(crate) fn new() -> Self {
        Self {
            phase: TransactionPhase::Idle,
            snapshots: None,
            is_spoiled: false,
        }
    }

    pub(crate) fn phase(&self) -> TransactionPhase {
        self.phase
    }

    /// Whether records may be handed out.
    #[inline]
    pub(crate) fn hands_out(&self) -> bool {
        matches!(
            self.phase,
            TransactionPhase::Idle | TransactionPhase::Open | TransactionPhase::Due
        )
    }

    /// Notes that a record has finished.
    #[inline]
    pub(crate) fn note_finished(&mut self) {
        if self.phase == TransactionPhase::Idle {
            self.phase = TransactionPhase::Open;
        }
    }

    /// Asks for a commit as soon as possible. Returns whether that is news for the driver.
    pub(crate) fn request_commit(&mut self) -> bool {
        let is_open = self.hands_out();
        if is_open {
            self.phase = TransactionPhase::Due;
        }
        is_open
    }

    pub(crate) fn begin_barrier(&mut self) {
        if self.hands_out() {
            self.phase = TransactionPhase::Draining;
        }
    }

    /// Notes the number of records in flight. Returns whether the barrier is reached with that.
    #[inline]
    pub(crate) fn check_barrier(&mut self, in_flight: u64) -> bool {
        let is_reached = self.phase == TransactionPhase::Draining && in_flight == 0;
        if is_reached {
            self.phase = TransactionPhase::AtBarrier;
        }
        is_reached
    }

    /// Whether offsets can be sent to the transaction.
    pub(crate) fn can_commit(&self) -> bool {
        let is_quiet = matches!(self.phase, TransactionPhase::AtBarrier | TransactionPhase::Ending);
        is_quiet && !self.is_spoiled
    }

    pub(crate) fn offsets_taken(&mut self, snapshots: Vec<Snapshot>) {
        self.phase = TransactionPhase::Ending;
        self.snapshots = Some(snapshots);
    }

    /// Notes that a partition with outputs in the transaction is gone.
    pub(crate) fn spoil(&mut self) {
        self.is_spoiled = true;
    }

    pub(crate) fn must_abort(&mut self) {
        self.phase = TransactionPhase::MustAbort;
    }

    /// Ends the transaction. Returns the offsets that were in it.
    pub(crate) fn end(&mut self) -> Option<Vec<Snapshot>> {
        self.phase = TransactionPhase::Idle;
        self.is_spoiled = false;
        self.snapshots.take()
    }
}
