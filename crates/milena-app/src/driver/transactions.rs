//! Exactly once: what handlers emit and how far was read count together, in one transaction after the other.

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use milena_client::{
    consumer::{GroupMetadata, OffsetAndMetadata, TopicPartition},
    producer::{Producer, Remedy, Transaction, TransactionCallError},
};
use milena_machines::app::{CommitOffset, Committed, PartitionId, SourceId};

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
        engine.open_transaction(true);
        let (end, offsets) = match engine.next_offsets(window).await {
            Some(offsets) => (commit(engine, &mut transaction, &offsets).await?, offsets),
            None => (abort(&mut transaction).await?, vec![]),
        };
        drop(transaction);
        engine.open_transaction(false);
        match end {
            End::Committed => engine.end_committed(&offsets),
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

    /// Whether records can be written.
    fn open_transaction(&self, is_open: bool) {
        self.transaction_open.send_replace(is_open);
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

    fn end_committed(&self, offsets: &[CommitOffset]) {
        self.act(None, |state, now_ms| {
            for offset in offsets {
                if let Some(owned) = state.owned.get_mut(&offset.partition) {
                    owned.begin = offset.offset;
                    owned.committed = Some(Committed {
                        offset: offset.offset,
                        metadata: offset.metadata.clone(),
                    });
                }
            }
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
