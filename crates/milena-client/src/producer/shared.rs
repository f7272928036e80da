//! State shared between the application's side of a producer and the io thread.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering},
    },
};

use bytestring::ByteString;
use milena_machines::produce::{BatchId, OperationId, Sender, Slot};
use milena_wire::{errors::ErrorCode, records::ClosedBatch};
use tokio::sync::{Notify, oneshot};

use super::{
    batch_delivery::BatchDelivery,
    buffer::{Limits, Partition},
    error::TransactionCallError,
    interceptor::Interceptors,
    memory::Reservation,
    partition::Partitioner,
    topics::Topics,
};
use crate::{
    config::{ProducerConfig, RecordsIo},
    coordinator::Coordinator,
    io::{self, Io},
    metadata::Metadata,
    metrics::ProducerMetrics,
    net::Connections,
};

/// One producer. Application threads append records to the accumulators of partitions; a task on the io thread takes
/// the batches and executes the decisions of the [`Sender`].
#[derive(Debug)]
pub(super) struct ProducerShared {
    pub(super) config: ProducerConfig,
    pub(super) io: Io,
    pub(super) connections: Connections,
    pub(super) metadata: Metadata,
    pub(super) topics: Topics,
    pub(super) limits: Limits,
    pub(super) partitioner: Arc<dyn Partitioner>,
    pub(super) interceptors: Arc<Interceptors>,
    core: Mutex<ProducerCore>,
    /// Partitions that the driver must add to its list.
    unlisted: Mutex<Vec<Slot>>,
    wake: Notify,
    /// Whether the driver was woken and has not run since.
    is_woken: AtomicBool,
    /// Whether the calling thread must drive after it has appended a record.
    is_nudged: AtomicBool,
    /// Whether the next call must yield to other tasks first.
    owes_yield: AtomicBool,
    /// The time of the next drive by the driver's timer.
    wakes_at_ms: AtomicI64,
    /// Whether a send waits for memory: open batches are sent without lingering.
    pub(super) is_pressed: AtomicBool,
    pub(super) is_closed: AtomicBool,
    /// Sends that wait for memory.
    pub(super) waiting_sends: AtomicUsize,
}

/// The state of the driver. Nothing is awaited while its lock is held.
#[derive(Debug)]
pub(super) struct ProducerCore {
    pub(super) sender: Sender,
    /// Indexed by slot.
    pub(super) partitions: Vec<Arc<Partition>>,
    /// Partitions with records that the sender does not have yet.
    pub(super) listed: Vec<Slot>,
    /// The batches that the sender has.
    pub(super) batches: HashMap<BatchId, PendingBatch>,
    pub(super) next_batch: u64,
    /// Topics to keep metadata of.
    pub(super) topics_in_use: BTreeSet<ByteString>,
    pub(super) transactions: Option<Coordinator>,
    pub(super) groups: BTreeMap<ByteString, Coordinator>,
    /// Refused coordinator look-ups: of groups by their id, of the transactional id under `None`.
    pub(super) refused_lookups: BTreeMap<Option<ByteString>, ErrorCode>,
    /// The number of batches of each slot that the sender has.
    pub(super) under_way: Vec<u32>,
    pub(super) metrics: ProducerMetrics,
    pub(super) operations: BTreeMap<OperationId, Vec<oneshot::Sender<Result<(), TransactionCallError>>>>,
}

/// The connections of a producer, and the metadata that comes over them.
#[derive(Debug)]
pub(super) struct Network {
    pub(super) io: Io,
    pub(super) connections: Connections,
    pub(super) metadata: Metadata,
}

/// A batch that the sender has, queued or in flight.
#[derive(Debug)]
pub(super) struct PendingBatch {
    pub(super) slot: Slot,
    pub(super) batch: ClosedBatch,
    pub(super) delivery: Arc<BatchDelivery>,
    pub(super) reservation: Reservation,
    pub(super) created_ms: i64,
    pub(super) uncompressed: usize,
    pub(super) largest_record: usize,
    /// The number of attempts.
    pub(super) tries: u32,
}

impl PendingBatch {
    pub(super) fn records(&self) -> usize {
        usize::try_from(self.batch.record_count()).unwrap_or(0)
    }
}

impl ProducerCore {
    pub(super) fn new(sender: Sender, transactions: Option<Coordinator>, metrics: ProducerMetrics) -> Self {
        Self {
            metrics,
            sender,
            partitions: vec![],
            listed: vec![],
            batches: HashMap::new(),
            next_batch: 0,
            topics_in_use: BTreeSet::new(),
            transactions,
            groups: BTreeMap::new(),
            refused_lookups: BTreeMap::new(),
            under_way: vec![],
            operations: BTreeMap::new(),
        }
    }

    pub(super) fn batch_id(&mut self) -> BatchId {
        self.next_batch += 1;
        BatchId(self.next_batch)
    }
}

impl ProducerShared {
    pub(super) fn start(
        config: ProducerConfig,
        network: Network,
        limits: Limits,
        partitioner: Arc<dyn Partitioner>,
        core: ProducerCore,
    ) -> Arc<Self> {
        let Network {
            io,
            connections,
            metadata,
        } = network;
        let shared = Arc::new(Self {
            config,
            io,
            connections,
            metadata,
            topics: Topics::default(),
            limits,
            partitioner,
            interceptors: Arc::new(Interceptors::new()),
            core: Mutex::new(core),
            unlisted: Mutex::default(),
            wake: Notify::new(),
            is_woken: AtomicBool::new(false),
            is_nudged: AtomicBool::new(false),
            owes_yield: AtomicBool::new(false),
            wakes_at_ms: AtomicI64::new(i64::MAX),
            is_pressed: AtomicBool::new(false),
            is_closed: AtomicBool::new(false),
            waiting_sends: AtomicUsize::new(0),
        });
        let weak = Arc::downgrade(&shared);
        shared.metadata.on_update(move |_| {
            if let Some(shared) = weak.upgrade() {
                shared.handle_metadata();
            }
        });
        let weak = Arc::downgrade(&shared);
        shared.io.spawn(async move {
            // The driver must not keep a dropped producer alive.
            while let Some(shared) = weak.upgrade() {
                shared.is_woken.store(false, Ordering::SeqCst);
                // A record that is appended during this drive may be too late for it.
                shared.wakes_at_ms.store(i64::MAX, Ordering::SeqCst);
                let next_ms = shared.drive();
                shared.wakes_at_ms.store(next_ms, Ordering::SeqCst);
                if shared.is_closed.load(Ordering::SeqCst) {
                    return;
                }
                tokio::select! {
                    biased;
                    () = shared.wake.notified() => {}
                    () = shared.io.sleep_until(next_ms) => {}
                }
            }
        });
        shared
    }

    pub(super) fn core(&self) -> MutexGuard<'_, ProducerCore> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Wakes the driver.
    pub(super) fn wake(&self) {
        if !self.is_woken.swap(true, Ordering::SeqCst) {
            self.wake.notify_one();
        }
    }

    /// Requests a drive: by the driver, or by the calling thread after it has released its locks, if connections run on
    /// its runtime. The latter avoids a switch between two threads.
    pub(super) fn nudge(&self) {
        match self.config.io {
            RecordsIo::Thread => self.wake(),
            RecordsIo::Runtime => self.is_nudged.store(true, Ordering::Relaxed),
        }
    }

    pub(super) fn drive_if_nudged(self: &Arc<Self>) {
        if self.config.io == RecordsIo::Runtime && self.is_nudged.swap(false, Ordering::Relaxed) {
            let next_ms = self.drive();
            self.wake_at(next_ms);
            self.owes_yield.store(true, Ordering::Relaxed);
        }
    }

    /// Yields once if connections on the caller's runtime have requests to write: a task that only enqueues would
    /// starve them.
    pub(super) async fn yield_if_owed(&self) {
        if self.config.io == RecordsIo::Runtime && self.owes_yield.swap(false, Ordering::Relaxed) {
            tokio::task::yield_now().await;
        }
    }

    /// Makes the driver run at that time at the latest.
    pub(super) fn wake_at(&self, at_ms: i64) {
        if at_ms < self.wakes_at_ms.load(Ordering::SeqCst) {
            self.wake();
        }
    }

    pub(super) fn list(&self, slot: Slot) {
        self.unlisted.lock().unwrap_or_else(PoisonError::into_inner).push(slot);
    }

    pub(super) fn take_unlisted(&self, core: &mut ProducerCore) {
        let mut unlisted = self.unlisted.lock().unwrap_or_else(PoisonError::into_inner);
        core.listed.append(&mut unlisted);
    }

    /// Closes all open batches and hands them to the sender. Returns the deliveries without an outcome.
    pub(super) fn hand_over(&self, core: &mut ProducerCore) -> Vec<Arc<BatchDelivery>> {
        self.take_unlisted(core);
        let now_ms = io::now_ms();
        for slot in std::mem::take(&mut core.listed) {
            let Some(partition) = core.partitions.get(slot.index()).cloned() else {
                continue;
            };
            let mut buffer = partition.buffer();
            partition.close_open(&mut buffer, &self.limits);
            self.push_closed(core, &partition, &mut buffer, now_ms);
            buffer.is_listed = false;
        }
        core.batches
            .values()
            .map(|pending| Arc::clone(&pending.delivery))
            .collect()
    }
}
