//! Flushing and the end.

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
    metrics::{Metrics, ProducerCall, ProducerNow},
};

/// How long [`Producer::close`] waits for what is under way.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(30);

impl Producer {
    /// Sends all that was taken before this call, without lingering, and waits until it is acknowledged or has failed.
    ///
    /// # Cancel safety
    ///
    /// The records are sent although this is dropped.
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
        self.shared().core().metrics.spent(call, nanos(began));
        match first {
            Some(first) => Err(FlushError::Failed { failed, first }),
            None => Ok(()),
        }
    }

    /// Sends what was taken, waits for it up to half a minute, and ends. A transaction that is open is not committed.
    pub async fn close(self) -> Result<(), FlushError> {
        self.close_within(CLOSE_TIMEOUT).await
    }

    /// The same with another patience; none at all means that what has not left is not sent.
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
    /// All metrics at this moment, under Kafka's names.
    pub fn metrics(&self) -> Metrics {
        let (shared, now_ms) = (self.shared(), io::now_ms());
        let nodes = shared.connections.node_numbers();
        let now = ProducerNow {
            requests_in_flight: shared.connections.in_flight(),
            metadata_age_ms: shared.metadata.age_ms(),
            waiting_sends: shared.waiting_sends.load(Relaxed),
            buffer_total_bytes: shared.limits.memory.total(),
            buffer_available_bytes: shared.limits.memory.free(),
            partitioner: shared.partitioner.numbers(),
        };
        let mut core = shared.core();
        core.metrics.network(now_ms, shared.connections.numbers());
        core.metrics.snapshot(now_ms, &now, &nodes)
    }
}

impl ProducerShared {
    /// Lets all that was taken leave now. Gives the fates of what is not decided.
    pub(super) fn send_all(self: &Arc<Self>) -> Vec<Arc<BatchDelivery>> {
        let mut core = self.core();
        let deliveries = self.hand_over(&mut core);
        let next_ms = self.drive_locked(&mut core, io::now_ms());
        drop(core);
        self.wake_at(next_ms);
        deliveries
    }

    /// Ends everything at once. Whoever waits for what has not been acknowledged hears that the producer is closed.
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
