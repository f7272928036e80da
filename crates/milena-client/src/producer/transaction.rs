//! Transactions: records and offsets that are committed or aborted together.

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
    /// Registers the `transactional.id`: other producers with the same id are fenced, and their open transaction is
    /// aborted. Call it once, before the first [`begin`](Self::begin).
    ///
    /// Waits up to `max.block.ms`; after a timeout it may be called again.
    pub async fn init_transactions(&self) -> Result<(), TransactionCallError> {
        self.shared()
            .operate(ProducerCall::TransactionInit, |core, now_ms| {
                core.sender.init_transactions(now_ms)
            })
            .await
    }

    /// Begins a transaction. It is aborted unless [`Transaction::commit`] is called. Waits if a dropped transaction is
    /// still being aborted.
    pub async fn begin(&self) -> Result<Transaction<'_>, TransactionCallError> {
        let shared = self.shared();
        let begun = match shared.try_begin() {
            Err(TransactionError::InProgress(Operation::Abort)) => {
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

/// An open transaction. Readers with `read_committed` see its records after the commit, all records of a partition at
/// once. Dropping it aborts it in the background.
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

    /// As [`Producer::enqueue`]. The commit waits for these records, and fails if one of them fails.
    pub async fn enqueue(&self, record: ProducerRecord<'_>) -> Result<Delivery, SendError> {
        self.producer.enqueue(record).await
    }

    /// The error of the transaction, if it has failed.
    pub(crate) fn error(&self) -> Option<TransactionError> {
        self.producer.shared().core().sender.check_send().err()
    }

    /// Adds consumed offsets to the transaction. `group` is the result of `consumer.group_metadata()`, so that a member
    /// that has lost its partitions cannot commit.
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

    /// Sends and awaits all enqueued records, and commits. After an error, [`TransactionCallError::remedy`] tells
    /// whether to retry, to abort, or to close the producer.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not cancel a commit that has started.
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

    /// Aborts the transaction. Readers with `read_committed` never see its records; unsent records are dropped.
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
            // The next `begin` waits for it.
            Ok(_) => {}
            // It is ending already, or has failed fatally.
            Err(error) => {
                tracing::debug!(event = "abort_on_drop_failed", %error, "a dropped transaction cannot be aborted")
            }
        }
        drop(core);
        shared.wake();
    }
}

impl ProducerShared {
    /// Starts an operation and waits for its end, up to `max.block.ms`.
    async fn operate(
        self: &Arc<Self>,
        call: ProducerCall,
        start: impl FnOnce(&mut ProducerCore, i64) -> Result<OperationId, TransactionError>,
    ) -> Result<(), TransactionCallError> {
        let began = Instant::now();
        let refusals = self.connections.authentication().last();
        let (done, result) = oneshot::channel();
        let operation = {
            let mut core = self.core();
            let operation = start(&mut core, io::now_ms())?;
            core.operations.entry(operation).or_default().push(done);
            operation
        };
        // When the wait ends early, the machine keeps the result for the next call.
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
                error = self.connections.authentication().refused_after(refusals) => {
                    Err(TransactionCallError::Authentication(error))
                }
                () = deadline => Err(TransactionCallError::TimedOut {
                    waited: Duration::from_millis(u64::try_from(self.config.max_block_ms).unwrap_or(0)),
                }),
            }
        };
        let span = tracing::debug_span!("transaction", client = %self.config.client_id, ?call);
        let result = outcome.instrument(span).await;
        drop(waiting);
        self.core().metrics.record_call_time(call, nanos(began));
        result
    }

    fn try_begin(&self) -> Result<(), TransactionError> {
        let mut core = self.core();
        self.update_features(&mut core);
        core.sender.begin()
    }

    /// Drops batches that were not sent.
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
