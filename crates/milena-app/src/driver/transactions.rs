//! Exactly once: what handlers emit and how far was read count together, in one transaction after the other.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use milena_client::{
    consumer::{GroupMetadata, OffsetAndMetadata, TopicPartition},
    producer::{Producer, Remedy, SendError, Transaction, TransactionCallError},
};
use milena_machines::app::{CommitOffset, CommittedOffset, PartitionId, RecordId, SourceId};

use super::{
    Engine, State,
    commands::{SourceCommand, committable},
};
use crate::error::AppError;

/// Whether a transaction counts.
enum End {
    Committed,
    Aborted,
}

/// The task. It ends when it is aborted, or when no transaction can be made any more.
pub(super) async fn run(engine: Arc<Engine>, producer: Producer, window: Duration) {
    if let Err(error) = transact(&engine, &producer, window).await {
        tracing::error!(%error, "no transaction can be made any more");
        engine.fail(AppError::Transactions(error.to_string()));
    }
}

async fn transact(engine: &Engine, producer: &Producer, window: Duration) -> Result<(), TransactionCallError> {
    loop {
        let mut transaction = producer.begin().await?;
        engine.transaction_open.send_replace(true);
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
        // The group does not know us any more.
        Ok(false) => return abort(transaction).await,
        Err(error) => Err(error),
    };
    match committed {
        Ok(()) => Ok(End::Committed),
        Err(error) if error.remedy() == Remedy::GiveUp => Err(error),
        Err(error) => {
            tracing::warn!(%error, "a transaction does not count; its records are handled again");
            abort(transaction).await
        }
    }
}

/// `false` if we are nobody in a group whose offsets are to be sent.
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

/// Somebody who writes into the transaction that is open.
pub(super) struct Writing<'a>(&'a Engine);

impl<'a> Writing<'a> {
    fn new(engine: &'a Engine) -> Self {
        engine.writing.fetch_add(1, Ordering::SeqCst);
        Self(engine)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.writing.fetch_sub(1, Ordering::SeqCst);
        self.0.written.notify_one();
    }
}

impl Engine {
    /// Waits for a window with something in it, then for the machine to stand still. `None` if the transaction cannot
    /// count any more: then nothing of it comes to an end before it is aborted.
    async fn next_offsets(&self, window: Duration) -> Option<Vec<CommitOffset>> {
        loop {
            self.until(|state| state.has_news || state.is_barrier_wanted).await?;
            if !self.state().is_barrier_wanted {
                tokio::select! {
                    () = self.clock.sleep(window) => {}
                    wanted = self.until(|state| state.is_barrier_wanted) => wanted?,
                }
            }
            self.act(None, |state, now_ms| {
                (state.has_news, state.is_barrier_wanted, state.is_ending) = (false, false, true);
                state.work.begin_barrier(now_ms);
            });
            self.until(|state| state.is_barrier).await?;
            // Without any, a partition is gone of which the transaction has records.
            let offsets = self.act(None, |state, now_ms| {
                state.is_barrier = false;
                state.work.barrier_offsets(now_ms)
            })?;
            if !offsets.is_empty() {
                return Some(offsets);
            }
            self.act(None, |state, now_ms| {
                state.is_ending = false;
                state.work.end_barrier(now_ms, true);
            });
        }
    }

    /// Waits until something holds; `None` if the transaction cannot count any more.
    async fn until(&self, is_so: impl Fn(&State) -> bool) -> Option<()> {
        loop {
            {
                let state = self.state();
                if state.must_abort {
                    return None;
                }
                if is_so(&state) {
                    return Some(());
                }
            }
            self.transactions.notified().await;
        }
    }

    /// From now on nothing is written. Returns when nobody is about to: what is written late would count in the next
    /// transaction, and its record is handled again there.
    async fn close_transaction(&self) {
        self.transaction_open.send_replace(false);
        while self.writing.load(Ordering::SeqCst) > 0 {
            self.written.notified().await;
        }
    }

    /// Waits until a transaction is open, if one is needed, and keeps it open. An error if nobody waits for the record any
    /// more.
    pub(super) async fn begin_writing(&self, record: RecordId) -> Result<Option<Writing<'_>>, SendError> {
        if !self.is_transactional {
            return Ok(None);
        }
        let mut open = self.transaction_open.subscribe();
        loop {
            // Who closes it looks after that who is here, so one of the two is seen.
            let writing = Writing::new(self);
            if *open.borrow_and_update() {
                return self.is_wanted(record).then_some(Some(writing)).ok_or(SendError::Closed);
            }
            drop(writing);
            // It is closed only with the engine.
            let _ = open.wait_for(|is_open| *is_open).await;
        }
    }

    /// As [`begin_writing`](Self::begin_writing), if nothing has to be waited for.
    pub(super) fn try_begin_writing(&self, record: RecordId) -> Option<Option<Writing<'_>>> {
        if !self.is_transactional {
            return Some(None);
        }
        let writing = Writing::new(self);
        let is_open = *self.transaction_open.borrow();
        (is_open && self.is_wanted(record)).then_some(Some(writing))
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

    /// For each source that has offsets in it.
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
            state.forget_refused(offsets);
            state.is_ending = false;
            state.work.end_barrier(now_ms, true);
        });
    }

    /// All that was read since the last transaction that counted is read again.
    fn end_aborted(&self) {
        self.act(None, |state, now_ms| {
            let ids: Vec<PartitionId> = state.owned.values().map(|owned| owned.id).collect();
            state.work.handle_lost(now_ms, &ids);
            state.work.end_barrier(now_ms, false);
            // What failed with it is nobody's any more.
            (state.must_abort, state.is_barrier, state.is_ending) = (false, false, false);
            let places: Vec<(TopicPartition, SourceId)> = state
                .owned
                .iter()
                .map(|(partition, owned)| (partition.clone(), owned.source))
                .collect();
            for (partition, source) in places {
                state.command_to(source, SourceCommand::Rewind(partition));
            }
        });
    }
}
