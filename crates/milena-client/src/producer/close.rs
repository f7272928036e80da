//! Flush and close.

use std::{
    sync::{
        Arc,
        atomic::Ordering::{Relaxed, SeqCst},
    },
    time::{Duration, Instant},
};

use super::{
    Producer,
    batch_delivery::{BatchDelivery, BatchOutcome},
    delivery::wait_for_batch,
    error::{FlushError, SendError},
    send::nanos,
    shared::ProducerShared,
};
use crate::{
    io,
    metrics::{Metrics, ProducerCall, ProducerSnapshot},
};

/// Default limit of [`Producer::close`].
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

impl Producer {
    /// Sends all enqueued records without lingering, and waits until they are acknowledged or have failed.
    ///
    /// # Cancel safety
    ///
    /// Dropping the future does not cancel the records.
    pub async fn flush(&self) -> Result<(), FlushError> {
        let began = Instant::now();
        let deliveries = self.shared().send_all();
        let (mut failed, mut first) = (0, None);
        for delivery in deliveries {
            if let Err(error) = wait_for_batch(delivery, u32::MAX).await {
                failed += 1;
                first.get_or_insert(error);
            }
        }
        let call = ProducerCall::Flush;
        self.shared().core().metrics.record_call_time(call, nanos(began));
        match first {
            Some(first) => Err(FlushError::Failed { failed, first }),
            None => Ok(()),
        }
    }

    /// Flushes for up to 30 seconds and closes the producer. An open transaction is not committed.
    pub async fn close(self) -> Result<(), FlushError> {
        self.close_within(CLOSE_TIMEOUT).await
    }

    /// As [`close`](Self::close), with a limit. With a limit of zero, unsent records are dropped.
    pub async fn close_within(self, timeout: Duration) -> Result<(), FlushError> {
        let shared = Arc::clone(self.shared());
        let millis = i64::try_from(timeout.as_millis()).unwrap_or(i64::MAX);
        let mut deadline = std::pin::pin!(shared.io.sleep_until(io::now_ms().saturating_add(millis)));
        let outcome = tokio::select! {
            biased;
            outcome = self.flush() => outcome,
            () = &mut deadline => Err(FlushError::TimedOut { left: shared.core().batches.len() }),
        };
        shared.shut_down();
        tokio::select! {
            biased;
            () = shared.interceptors.all_notified() => {}
            () = &mut deadline => {}
        }
        outcome
    }
}

impl Producer {
    /// All current metrics, under Kafka's names.
    pub fn metrics(&self) -> Metrics {
        let (shared, now_ms) = (self.shared(), io::now_ms());
        let nodes = shared.connections.node_numbers();
        let now = ProducerSnapshot {
            requests_in_flight: shared.connections.in_flight(),
            metadata_age_ms: shared.metadata.age_ms(),
            waiting_sends: shared.waiting_sends.load(Relaxed),
            buffer_total_bytes: shared.limits.memory.total(),
            buffer_available_bytes: shared.limits.memory.free(),
            partitioner: shared.partitioner.numbers(),
        };
        let mut core = shared.core();
        core.metrics.record_network(now_ms, shared.connections.numbers());
        core.metrics.snapshot(now_ms, &now, &nodes)
    }
}

impl ProducerShared {
    /// Hands all batches to the sender and sends them. Returns the deliveries without an outcome.
    pub(super) fn send_all(self: &Arc<Self>) -> Vec<Arc<BatchDelivery>> {
        let mut core = self.core();
        let deliveries = self.hand_over(&mut core);
        let next_ms = self.drive_locked(&mut core, io::now_ms());
        drop(core);
        self.wake_at(next_ms);
        deliveries
    }

    /// Closes the producer at once. Deliveries without an outcome fail with [`SendError::Closed`].
    pub(super) fn shut_down(&self) {
        if self.is_closed.swap(true, SeqCst) {
            return;
        }
        self.limits.memory.close();
        self.metadata.close();
        self.connections.close();
        let mut core = self.core();
        core.operations.clear();
        let mut deliveries: Vec<Arc<BatchDelivery>> =
            core.batches.drain().map(|(_, pending)| pending.delivery).collect();
        for partition in &core.partitions {
            deliveries.extend(partition.buffer().drop_all());
        }
        drop(core);
        for delivery in deliveries {
            delivery.decide(BatchOutcome::Failed(SendError::Closed));
        }
        self.wake();
    }
}
