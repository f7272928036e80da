//! Exactly once: the task that commits outputs and offsets in one transaction after the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use milena_client::{
    consumer::{GroupMetadata, OffsetAndMetadata, TopicPartition},
    producer::{Producer, Remedy, SendError, Transaction, TransactionCallError},
};
use milena_machines::app::{CommitOffset, CommittedOffset, PartitionId, RecordId, SourceId, TransactionPhase};
use tokio::sync::{Notify, watch};

use super::{
    Engine,
    commands::{SourceCommand, committable},
};
use crate::error::AppError;

/// How a transaction has ended.
enum End {
    Committed,
    Aborted,
}

/// The transaction link between the task, the scheduler and those who write outputs.
pub(super) struct TransactionLink {
    /// Notified when the phase of the transaction has changed.
    phase_changed: Notify,
    /// Whether outputs can be written now; without transactions they always can.
    open: watch::Sender<bool>,
    /// The number of writers that write into the open transaction.
    writers: AtomicUsize,
    /// Notified when a writer is done.
    written: Notify,
}

impl TransactionLink {
    pub(super) fn new(is_open: bool) -> Self {
        Self {
            phase_changed: Notify::new(),
            open: watch::channel(is_open).0,
            writers: AtomicUsize::new(0),
            written: Notify::new(),
        }
    }

    pub(super) fn notify(&self) {
        self.phase_changed.notify_one();
    }
}

/// The task. It ends when it is aborted, or when the producer cannot begin transactions any more.
pub(super) async fn run(engine: Arc<Engine>, producer: Producer, window: Duration) {
    if let Err(error) = transact(&engine, &producer, window).await {
        tracing::error!(event = "transactions_failed", %error, "transactions cannot go on: {error}");
        engine.fail(AppError::Transactions(error.to_string()));
    }
}

async fn transact(engine: &Engine, producer: &Producer, window: Duration) -> Result<(), TransactionCallError> {
    loop {
        let mut transaction = producer.begin().await?;
        engine.transaction.open.send_replace(true);
        let offsets = engine.next_offsets(window).await;
        let began = engine.clock.instant();
        engine.close_transaction().await;
        let (end, offsets) = match offsets {
            Some(offsets) => (commit(engine, &mut transaction, &offsets).await?, offsets),
            None => (abort(&mut transaction).await?, vec![]),
        };
        drop(transaction);
        match end {
            End::Committed => {
                engine.count_transaction(&offsets, engine.clock.instant() - began);
                engine.end_committed(&offsets);
            }
            End::Aborted => engine.end_aborted(),
        }
    }
}

async fn commit(
    engine: &Engine,
    transaction: &mut Transaction<'_>,
    offsets: &[CommitOffset],
) -> Result<End, TransactionCallError> {
    let committed = match send_offsets(engine, transaction, offsets).await {
        Ok(true) => loop {
            match transaction.commit().await {
                Err(error) if error.remedy() == Remedy::Retry => {}
                committed => break committed,
            }
        },
        // This member is not in the group any more.
        Ok(false) => return abort(transaction).await,
        Err(error) => Err(error),
    };
    match committed {
        Ok(()) => Ok(End::Committed),
        Err(error) if error.remedy() == Remedy::GiveUp => Err(error),
        Err(error) => {
            tracing::warn!(event = "transaction_aborted", %error, "transaction aborted, its records are handled again: {error}");
            abort(transaction).await
        }
    }
}

/// Sends the offsets of each group; `false` if a source is not a member of its group.
async fn send_offsets(
    engine: &Engine,
    transaction: &Transaction<'_>,
    offsets: &[CommitOffset],
) -> Result<bool, TransactionCallError> {
    for (group, offsets) in engine.by_group(offsets) {
        let Some(group) = group.filter(|group| !group.member_id.is_empty()) else {
            return Ok(false);
        };
        loop {
            match transaction.send_offsets(&group, offsets.clone()).await {
                Err(error) if error.remedy() == Remedy::Retry => {}
                sent => break sent?,
            }
        }
    }
    Ok(true)
}

async fn abort(transaction: &mut Transaction<'_>) -> Result<End, TransactionCallError> {
    loop {
        match transaction.abort().await {
            Err(error) if error.remedy() == Remedy::Retry => {}
            Err(error) => return Err(error),
            Ok(()) => return Ok(End::Aborted),
        }
    }
}

/// A writer of outputs. The open transaction does not end as long as it lives.
pub(super) struct Writer<'a>(&'a TransactionLink);

impl<'a> Writer<'a> {
    fn new(link: &'a TransactionLink) -> Self {
        link.writers.fetch_add(1, Ordering::SeqCst);
        Self(link)
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        self.0.writers.fetch_sub(1, Ordering::SeqCst);
        self.0.written.notify_one();
    }
}

/// Whether the outputs of several records may be written now. While this lives, their transaction stays open.
pub(super) enum Writing<'a> {
    /// No transaction is needed.
    Free,
    Open {
        _writer: Writer<'a>,
        /// Whether each record is still pending; the output of a cancelled one is not written.
        pending: Vec<bool>,
    },
    Closed,
}

impl Writing<'_> {
    /// Whether the output of the record at `index` may be written.
    pub(super) fn allows(&self, index: usize) -> bool {
        match self {
            Self::Free => true,
            Self::Open { pending, .. } => pending.get(index).copied().unwrap_or(false),
            Self::Closed => false,
        }
    }
}

impl Engine {
    /// Waits until the window of a transaction with finished records is over, then for its barrier. `None` if the
    /// transaction must be aborted.
    async fn next_offsets(&self, window: Duration) -> Option<Vec<CommitOffset>> {
        loop {
            if self.until(|phase| phase != TransactionPhase::Idle).await? == TransactionPhase::Open {
                tokio::select! {
                    () = self.clock.sleep(window) => {}
                    due = self.until(|phase| phase == TransactionPhase::Due) => drop(due?),
                }
            }
            self.act(None, |state, now_ms| state.scheduler.begin_barrier(now_ms));
            self.until(|phase| phase == TransactionPhase::AtBarrier).await?;
            // Without offsets, a partition was lost of which the transaction has outputs.
            let offsets = self.act(None, |state, now_ms| state.scheduler.barrier_offsets(now_ms))?;
            if !offsets.is_empty() {
                return Some(offsets);
            }
            self.act(None, |state, now_ms| drop(state.scheduler.end_barrier(now_ms, true)));
        }
    }

    /// Waits for a phase of the transaction and returns it; `None` if the transaction must be aborted.
    async fn until(&self, is_reached: impl Fn(TransactionPhase) -> bool) -> Option<TransactionPhase> {
        loop {
            let phase = self.state().scheduler.transaction_phase();
            if phase == TransactionPhase::MustAbort {
                return None;
            }
            if is_reached(phase) {
                return Some(phase);
            }
            self.transaction.phase_changed.notified().await;
        }
    }

    /// Lets no more outputs be written, and waits for the writers. An output that is written later would be in the next
    /// transaction, where its record is handled again.
    async fn close_transaction(&self) {
        self.transaction.open.send_replace(false);
        while self.transaction.writers.load(Ordering::SeqCst) > 0 {
            self.transaction.written.notified().await;
        }
    }

    /// Waits until a transaction is open, if one is needed, and keeps it open. An error if the record was cancelled.
    pub(super) async fn begin_writing(&self, record: RecordId) -> Result<Option<Writer<'_>>, SendError> {
        if !self.is_transactional() {
            return Ok(None);
        }
        let mut open = self.transaction.open.subscribe();
        loop {
            // The task closes the transaction first and counts the writers then, so one of the two sees the other.
            let writer = Writer::new(&self.transaction);
            if *open.borrow_and_update() {
                return self.is_pending(record).then_some(Some(writer)).ok_or(SendError::Closed);
            }
            drop(writer);
            // The sender lives as long as the engine.
            let _ = open.wait_for(|is_open| *is_open).await;
        }
    }

    /// As [`begin_writing`](Self::begin_writing) for several records, if that is possible without waiting.
    ///
    /// It locks the state once, because a lock for each output would be a good part of the output's cost.
    pub(super) fn try_begin_writing(&self, records: impl Iterator<Item = RecordId>) -> Writing<'_> {
        if !self.is_transactional() {
            return Writing::Free;
        }
        let writer = Writer::new(&self.transaction);
        if !*self.transaction.open.borrow() {
            return Writing::Closed;
        }
        let state = self.state();
        let pending = records
            .map(|record| state.scheduler.payload(record).is_some())
            .collect();
        Writing::Open {
            _writer: writer,
            pending,
        }
    }

    fn by_group(
        &self,
        offsets: &[CommitOffset],
    ) -> Vec<(Option<GroupMetadata>, BTreeMap<TopicPartition, OffsetAndMetadata>)> {
        let state = self.state();
        let mut by_source: BTreeMap<SourceId, BTreeMap<TopicPartition, OffsetAndMetadata>> = BTreeMap::new();
        for offset in offsets {
            if let Some(owned) = state.owned.get(&offset.partition) {
                let (partition, committed) = committable(offset.clone());
                by_source.entry(owned.source).or_default().insert(partition, committed);
            }
        }
        let with_group = by_source.into_iter().map(|(source, offsets)| {
            let group = state.groups.get(usize::from(source.0)).cloned().flatten();
            (group, offsets)
        });
        with_group.collect()
    }

    /// Counts the time of a transaction for each source that has offsets in it.
    fn count_transaction(&self, offsets: &[CommitOffset], took: Duration) {
        let state = self.state();
        let owned = offsets.iter().filter_map(|offset| state.owned.get(&offset.partition));
        let sources: BTreeSet<SourceId> = owned.map(|owned| owned.source).collect();
        for times in sources.into_iter().filter_map(|source| self.times(source)) {
            times.committed(took);
        }
    }

    fn end_committed(&self, offsets: &[CommitOffset]) {
        self.act(None, |state, now_ms| {
            for offset in offsets {
                if let Some(owned) = state.owned.get_mut(&offset.partition) {
                    owned.begin = offset.offset;
                    owned.committed = Some(CommittedOffset {
                        offset: offset.offset,
                        metadata: offset.metadata.clone(),
                    });
                }
            }
            state.refusals.forget_committed(offsets);
            state.scheduler.end_barrier(now_ms, true);
        });
    }

    /// Reads all records since the last committed transaction again.
    fn end_aborted(&self) {
        self.act(None, |state, now_ms| {
            let ids: Vec<PartitionId> = state.owned.values().map(|owned| owned.id).collect();
            state.scheduler.handle_lost(now_ms, &ids);
            state.scheduler.end_barrier(now_ms, false);
            let partitions: Vec<(TopicPartition, SourceId)> = state
                .owned
                .iter()
                .map(|(partition, owned)| (partition.clone(), owned.source))
                .collect();
            for (partition, source) in partitions {
                state.command_to(source, SourceCommand::Rewind(partition));
            }
        });
    }
}
