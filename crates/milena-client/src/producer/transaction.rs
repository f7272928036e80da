//! Transactions: records and offsets that count together, or not at all.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use milena_machines::{
    TopicPartition,
    member::{GroupMetadata, OffsetAndMetadata},
    produce::{Operation, OperationId, TransactionCause, TransactionError},
};
use tokio::sync::oneshot;
use tracing::Instrument;

use super::{
    Delivery, Producer, ProducerRecord, RecordMetadata,
    batch_delivery::BatchOutcome,
    error::{SendError, TransactionCallError},
    send::nanos,
    shared::{ProducerCore, ProducerShared},
};
use crate::{io, metrics::ProducerCall};

impl Producer {
    /// Makes this the only producer with its `transactional.id`: others are fenced, and a transaction that one of them
    /// left open is aborted. To be called once, before the first [`begin`](Self::begin).
    ///
    /// It waits up to `max.block.ms`; after that it may be called again.
    pub async fn init_transactions(&self) -> Result<(), TransactionCallError> {
        self.shared()
            .operate(ProducerCall::TransactionInit, |core, now_ms| {
                core.sender.init_transactions(now_ms)
            })
            .await
    }

    /// Begins a transaction. It is aborted unless [`Transaction::commit`] is called. If one that was dropped is still being
    /// aborted, this waits for that.
    pub async fn begin(&self) -> Result<Transaction<'_>, TransactionCallError> {
        let shared = self.shared();
        let begun = match shared.try_begin() {
            Err(TransactionError::UnderWay(Operation::Abort)) => {
                shared
                    .operate(ProducerCall::TransactionBegin, |core, now_ms| core.sender.abort(now_ms))
                    .await?;
                shared.try_begin()
            }
            begun => begun,
        };
        begun?;
        Ok(Transaction::new(self))
    }
}

/// An open transaction. What is sent in it is seen by readers of committed records when it is committed, all of it at once
/// for each partition. When this is dropped before that, it is aborted in the background.
#[derive(Debug)]
#[must_use = "a transaction that is dropped is aborted"]
pub struct Transaction<'a> {
    producer: &'a Producer,
    is_open: bool,
}

impl<'a> Transaction<'a> {
    fn new(producer: &'a Producer) -> Self {
        Self {
            producer,
            is_open: true,
        }
    }

    /// As [`Producer::send`].
    pub async fn send(&self, record: ProducerRecord<'_>) -> Result<RecordMetadata, SendError> {
        self.producer.send(record).await
    }

    /// As [`Producer::enqueue`]. Committing waits for what is under way; a record that fails makes the commit fail.
    pub async fn enqueue(&self, record: ProducerRecord<'_>) -> Result<Delivery, SendError> {
        self.producer.enqueue(record).await
    }

    /// Why nothing can be sent in it any more, if it is so.
    pub(crate) fn error(&self) -> Option<TransactionError> {
        self.producer.shared().core().sender.check_send().err()
    }

    /// Makes the offsets of a consumer part of the transaction: they are committed with it. `group` is that of
    /// `consumer.group_metadata()`, so that a member that has lost its partitions cannot commit.
    pub async fn send_offsets(
        &self,
        group: &GroupMetadata,
        offsets: impl IntoIterator<Item = (TopicPartition, OffsetAndMetadata)>,
    ) -> Result<(), TransactionCallError> {
        let (group, offsets) = (group.clone(), offsets.into_iter().collect());
        self.producer
            .shared()
            .operate(ProducerCall::TransactionSendOffsets, |core, now_ms| {
                core.sender.send_offsets(now_ms, group, offsets)
            })
            .await
    }

    /// Sends what was taken, waits for it, and commits. After an error [`TransactionCallError::remedy`] says whether to
    /// call it again, to abort, or to close the producer.
    ///
    /// # Cancel safety
    ///
    /// A commit that has begun goes on although this is dropped.
    pub async fn commit(&mut self) -> Result<(), TransactionCallError> {
        let shared = self.producer.shared();
        let result = shared
            .operate(ProducerCall::TransactionCommit, |core, now_ms| {
                shared.hand_over(core);
                core.sender.commit(now_ms)
            })
            .await;
        self.is_open &= result.is_err();
        result
    }

    /// Aborts: what was sent is not seen by readers of committed records, and what has not left is not sent.
    pub async fn abort(&mut self) -> Result<(), TransactionCallError> {
        let shared = self.producer.shared();
        let result = shared
            .operate(ProducerCall::TransactionAbort, |core, now_ms| {
                shared.drop_unsent(core);
                core.sender.abort(now_ms)
            })
            .await;
        self.is_open &= result.is_err();
        result
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.is_open {
            return;
        }
        let shared = self.producer.shared();
        let mut core = shared.core();
        shared.drop_unsent(&mut core);
        match core.sender.abort(io::now_ms()) {
            // Nobody waits for it; the next to begin may.
            Ok(_) => {}
            // It is being ended already, or never can be.
            Err(error) => {
                tracing::debug!(event = "abort_on_drop_failed", %error, "a dropped transaction cannot be aborted")
            }
        }
        drop(core);
        shared.wake();
    }
}

impl ProducerShared {
    /// Starts something and waits for its end, up to `max.block.ms`.
    async fn operate(
        self: &Arc<Self>,
        call: ProducerCall,
        start: impl FnOnce(&mut ProducerCore, i64) -> Result<OperationId, TransactionError>,
    ) -> Result<(), TransactionCallError> {
        let began = Instant::now();
        let (done, result) = oneshot::channel();
        let operation = {
            let mut core = self.core();
            let operation = start(&mut core, io::now_ms())?;
            core.operations.entry(operation).or_default().push(done);
            operation
        };
        // Whoever stops waiting lets the machine know, so that it keeps the result for the next call.
        let waiting = WaitingOperation {
            shared: Arc::clone(self),
            operation,
        };
        self.wake();
        let deadline = self
            .io
            .sleep_until(io::now_ms().saturating_add(self.config.max_block_ms));
        let outcome = async {
            tokio::select! {
                biased;
                result = result => result.unwrap_or(Err(TransactionCallError::Closed)),
                () = deadline => Err(TransactionCallError::TimedOut {
                    waited: Duration::from_millis(u64::try_from(self.config.max_block_ms).unwrap_or(0)),
                }),
            }
        };
        let span = tracing::debug_span!("transaction", client = %self.config.client_id, ?call);
        let result = outcome.instrument(span).await;
        drop(waiting);
        self.core().metrics.spent(call, nanos(began));
        result
    }

    fn try_begin(&self) -> Result<(), TransactionError> {
        let mut core = self.core();
        self.update_features(&mut core);
        core.sender.begin()
    }

    /// What has not left yet does not.
    fn drop_unsent(&self, core: &mut ProducerCore) {
        self.take_unlisted(core);
        for slot in std::mem::take(&mut core.listed) {
            let Some(partition) = core.partitions.get(slot.index()) else {
                continue;
            };
            let mut buffer = partition.buffer();
            for delivery in buffer.drop_all() {
                let aborted = TransactionError::Abortable(TransactionCause::Aborted);
                delivery.decide(BatchOutcome::Failed(SendError::Transaction(aborted)));
            }
            buffer.is_listed = false;
            partition.queued.store(0, std::sync::atomic::Ordering::Relaxed);
        }
    }
}

struct WaitingOperation {
    shared: Arc<ProducerShared>,
    operation: OperationId,
}

impl Drop for WaitingOperation {
    fn drop(&mut self) {
        let mut guard = self.shared.core();
        let core = &mut *guard;
        let Some(waiting) = core.operations.get_mut(&self.operation) else {
            return;
        };
        waiting.retain(|done| !done.is_closed());
        if waiting.is_empty() {
            core.operations.remove(&self.operation);
            core.sender.stop_waiting(self.operation);
        }
    }
}
