//! State shared between the application's side of a consumer and the io thread.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
};

use bytestring::ByteString;
use milena_machines::{
    TopicPartition,
    fetch::{Position, Positions},
};
use milena_wire::Uuid;
use tokio::sync::Notify;

use super::{
    buffer::Buffer,
    fetching::NodeFetch,
    group::Group,
    subscription::Subscription,
    wakeup::{WakeupHandle, WakeupSignal},
};
use crate::{
    auth::AuthenticationError,
    config::ConsumerConfig,
    io::{self, Io},
    metadata::Metadata,
    metrics::{ConsumerMetrics, Window},
    net::Connections,
};

/// One consumer. Every change of its state must be followed by [`ConsumerShared::drive`].
#[derive(Debug)]
pub(crate) struct ConsumerShared {
    pub(crate) config: ConsumerConfig,
    pub(crate) io: Io,
    pub(crate) connections: Connections,
    pub(crate) metadata: Metadata,
    pub(crate) wakeup: WakeupHandle,
    core: Mutex<ConsumerCore>,
    /// Notified when a deadline has moved forward.
    timer: Notify,
    /// Whether the application is inside `poll`, which counts as alive.
    polling: AtomicBool,
    /// The number of the last refused log-in that `poll` has returned.
    refusals_seen: AtomicU64,
}

/// Marks the application as inside `poll`.
pub(crate) struct PollingGuard(Arc<ConsumerShared>);

impl Drop for PollingGuard {
    fn drop(&mut self) {
        self.0.polling.store(false, Ordering::Relaxed);
    }
}

/// The mutable state. Nothing is awaited while its lock is held.
#[derive(Debug)]
pub(crate) struct ConsumerCore {
    pub(crate) subscription: Subscription,
    pub(crate) positions: Positions,
    pub(crate) buffer: Buffer,
    pub(crate) nodes: BTreeMap<i32, NodeFetch>,
    pub(crate) group: Option<Group>,
    /// Topics of offset queries that are not subscribed to.
    pub(crate) queried_topics: BTreeSet<ByteString>,
    /// The ids of assigned topics, to detect that a topic was recreated.
    pub(crate) topic_ids: BTreeMap<ByteString, Uuid>,
    pub(crate) metrics: ConsumerMetrics,
    network_sampled_ms: i64,
    /// Whether the state has changed since the last [`ConsumerShared::drive`].
    pub(crate) is_dirty: bool,
    pub(super) driven_ms: i64,
    /// The deadline of the timer.
    armed_ms: i64,
    pub(crate) closed: bool,
}

/// The maximum interval between two drives during `poll`.
const DRIVE_INTERVAL_MS: i64 = 5;

/// The interval of network samples for the metrics.
const NETWORK_SAMPLE_MS: i64 = 1_000;
/// The delay for a deadline that has passed but waits for something else than time.
const WAITING_MS: i64 = 10;

impl ConsumerCore {
    pub(crate) fn new(config: &ConsumerConfig, positions: Positions, group: Option<Group>) -> Self {
        Self {
            subscription: Subscription::None,
            positions,
            buffer: Buffer::new(config.fetch_buffer_bytes),
            nodes: BTreeMap::new(),
            group,
            queried_topics: BTreeSet::new(),
            topic_ids: BTreeMap::new(),
            metrics: new_metrics(config),
            network_sampled_ms: i64::MIN,
            is_dirty: false,
            driven_ms: i64::MIN,
            armed_ms: i64::MAX,
            closed: false,
        }
    }

    /// The positions to commit of these partitions.
    pub(crate) fn consumed_of(&self, partitions: Option<&[TopicPartition]>) -> BTreeMap<TopicPartition, Position> {
        let requested = |partition: &TopicPartition| partitions.is_none_or(|partitions| partitions.contains(partition));
        let consumed = self.positions.consumed();
        consumed
            .filter(|(partition, _)| requested(partition))
            .map(|(partition, position)| (partition.clone(), position))
            .collect()
    }
}

fn new_metrics(config: &ConsumerConfig) -> ConsumerMetrics {
    let window = Window {
        samples: usize::try_from(config.metrics_num_samples).unwrap_or(1),
        length_ms: config.metrics_sample_window_ms,
    };
    ConsumerMetrics::new(window, config.client_id.clone(), config.group_id.clone())
}

impl ConsumerShared {
    pub(crate) fn new(
        config: ConsumerConfig,
        io: Io,
        connections: Connections,
        metadata: Metadata,
        core: ConsumerCore,
    ) -> Arc<Self> {
        let shared = Arc::new(Self {
            config,
            io,
            connections,
            metadata,
            wakeup: WakeupHandle::default(),
            core: Mutex::new(core),
            timer: Notify::new(),
            polling: AtomicBool::new(false),
            refusals_seen: AtomicU64::new(0),
        });
        let weak = Arc::downgrade(&shared);
        let mut refusals = shared.connections.authentication().subscribe();
        shared.io.spawn(async move {
            // The waiting `poll` returns the error at once.
            while refusals.changed().await.is_ok() {
                let Some(shared) = weak.upgrade() else { return };
                shared.signal().notify();
            }
        });
        let weak = Arc::downgrade(&shared);
        shared.metadata.on_update(move |_| {
            if let Some(shared) = weak.upgrade() {
                shared.handle_metadata();
            }
        });
        let weak = Arc::downgrade(&shared);
        shared.io.spawn(async move {
            // The timer must not keep a dropped consumer alive.
            while let Some(shared) = weak.upgrade() {
                let deadline_ms = shared.core().armed_ms;
                let sleep = shared.io.sleep_until(deadline_ms);
                tokio::select! {
                    () = sleep => {
                        let mut core = shared.core();
                        core.armed_ms = i64::MAX;
                        shared.drive_locked(&mut core, io::now_ms());
                    }
                    () = shared.timer.notified() => {}
                }
                if shared.core().closed {
                    return;
                }
            }
        });
        shared
    }

    pub(crate) fn core(&self) -> MutexGuard<'_, ConsumerCore> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter_poll(self: &Arc<Self>) -> PollingGuard {
        self.polling.store(true, Ordering::Relaxed);
        PollingGuard(Arc::clone(self))
    }

    /// A refused log-in that no earlier call has returned.
    pub(crate) fn take_refusal(&self) -> Option<AuthenticationError> {
        let seen = self.refusals_seen.load(Ordering::Relaxed);
        let (number, error) = self.connections.authentication().after(seen)?;
        self.refusals_seen.store(number, Ordering::Relaxed);
        Some(error)
    }

    pub(crate) fn is_polling(&self) -> bool {
        self.polling.load(Ordering::Relaxed)
    }

    pub(crate) fn signal(&self) -> &WakeupSignal {
        self.wakeup.signal()
    }

    /// Sends all requests that can be sent now: to the coordinator, for offsets, fetches.
    pub(crate) fn drive(self: &Arc<Self>) {
        self.drive_locked(&mut self.core(), io::now_ms());
    }

    /// Drives if the state has changed or a deadline may have passed. Returns whether it did.
    pub(crate) fn drive_if_needed(self: &Arc<Self>, core: &mut ConsumerCore, now_ms: i64) -> bool {
        let is_needed = core.is_dirty || now_ms >= core.driven_ms.saturating_add(DRIVE_INTERVAL_MS);
        if is_needed {
            self.drive_locked(core, now_ms);
        }
        is_needed
    }

    pub(crate) fn drive_locked(self: &Arc<Self>, core: &mut ConsumerCore, now_ms: i64) {
        core.is_dirty = false;
        core.driven_ms = now_ms;
        if core.closed {
            return;
        }
        self.sample_network(core, now_ms);
        self.drive_group(core, now_ms);
        self.find_positions(core, now_ms);
        self.send_fetches(core, now_ms);
        if let Some(deadline_ms) = Self::next_deadline(core, now_ms)
            && deadline_ms < core.armed_ms
        {
            core.armed_ms = deadline_ms;
            self.timer.notify_one();
        }
    }

    /// Samples the connection counters, which rates are computed from.
    fn sample_network(&self, core: &mut ConsumerCore, now_ms: i64) {
        if now_ms >= core.network_sampled_ms.saturating_add(NETWORK_SAMPLE_MS) {
            core.network_sampled_ms = now_ms;
            core.metrics.record_network(now_ms, self.connections.numbers());
        }
    }

    /// Looks up the positions of partitions without one.
    fn find_positions(self: &Arc<Self>, core: &mut ConsumerCore, now_ms: i64) {
        if core.positions.is_settled() {
            return;
        }
        self.request_committed(core, now_ms);
        let needed = core.positions.poll_resets(now_ms);
        if !needed.is_empty() {
            self.start_resets(needed);
        }
    }

    fn next_deadline(core: &ConsumerCore, now_ms: i64) -> Option<i64> {
        // A deadline that has passed waits for something else than time; it is checked again when that happens, or
        // soon.
        let group = core.group.as_ref().and_then(Group::next_deadline);
        let group = group.map(|deadline_ms| deadline_ms.max(now_ms + WAITING_MS));
        let nodes = core.nodes.values().filter_map(|node| node.next_retry(now_ms)).min();
        let positions = core.positions.poll_timeout(now_ms);
        [group, nodes, positions].into_iter().flatten().min()
    }

    /// Closes connections, timers and tasks at once. Requests in flight fail.
    pub(crate) fn shut_down(&self) {
        self.core().closed = true;
        self.timer.notify_one();
        self.metadata.close();
        self.connections.close();
    }
}
