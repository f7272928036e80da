//! What the application's side of a consumer and the io thread share.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
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
    wakeup::{Bell, WakeupHandle},
};
use crate::{
    config::ConsumerConfig,
    io::{self, Io},
    metadata::Metadata,
    metrics::{ConsumerMetrics, Window},
    net::Connections,
};

/// One consumer. Whoever changes its state also starts what follows from that: see [`Shared::drive`].
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) config: ConsumerConfig,
    pub(crate) io: Io,
    pub(crate) connections: Connections,
    pub(crate) metadata: Metadata,
    pub(crate) wakeup: WakeupHandle,
    core: Mutex<Core>,
    /// A deadline has come nearer.
    timer: Notify,
    /// The application waits in `poll`, so it lives.
    polling: AtomicBool,
}

/// As long as it lives, the application is in `poll`.
pub(crate) struct PollingGuard(Arc<Shared>);

impl Drop for PollingGuard {
    fn drop(&mut self) {
        self.0.polling.store(false, Ordering::Relaxed);
    }
}

/// The state. Nobody waits for anything while holding its lock.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) subscription: Subscription,
    pub(crate) positions: Positions,
    pub(crate) buffer: Buffer,
    pub(crate) nodes: BTreeMap<i32, NodeFetch>,
    pub(crate) group: Option<Group>,
    /// Topics that somebody has asked about and that are not subscribed to.
    pub(crate) asked_topics: BTreeSet<ByteString>,
    /// The ids of topics that are read, to notice when one is made anew.
    pub(crate) topic_ids: BTreeMap<ByteString, Uuid>,
    pub(crate) metrics: ConsumerMetrics,
    network_noted_ms: i64,
    /// Something has changed since the last [`Shared::drive`].
    pub(crate) is_dirty: bool,
    driven_ms: i64,
    /// When the timer looks again.
    armed_ms: i64,
    pub(crate) closed: bool,
}

/// How long `poll` may go on without looking whether something is due.
const LOOK_AGAIN_MS: i64 = 5;

/// How often the numbers of the connections are looked at.
const NETWORK_NOTED_MS: i64 = 1_000;
/// How soon to look again at what is due and cannot be done.
const WAITING_MS: i64 = 10;

impl Core {
    pub(crate) fn new(config: &ConsumerConfig, positions: Positions, group: Option<Group>) -> Self {
        Self {
            subscription: Subscription::None,
            positions,
            buffer: Buffer::new(config.fetch_buffer_bytes),
            nodes: BTreeMap::new(),
            group,
            asked_topics: BTreeSet::new(),
            topic_ids: BTreeMap::new(),
            metrics: new_metrics(config),
            network_noted_ms: i64::MIN,
            is_dirty: false,
            driven_ms: i64::MIN,
            armed_ms: i64::MAX,
            closed: false,
        }
    }

    /// What to commit of these partitions.
    pub(crate) fn consumed_of(&self, partitions: Option<&[TopicPartition]>) -> BTreeMap<TopicPartition, Position> {
        let asked = |partition: &TopicPartition| partitions.is_none_or(|partitions| partitions.contains(partition));
        let consumed = self.positions.consumed();
        consumed
            .filter(|(partition, _)| asked(partition))
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

impl Shared {
    pub(crate) fn new(
        config: ConsumerConfig,
        io: Io,
        connections: Connections,
        metadata: Metadata,
        core: Core,
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
        });
        let weak = Arc::downgrade(&shared);
        shared.metadata.on_update(move |_| {
            if let Some(shared) = weak.upgrade() {
                shared.handle_metadata();
            }
        });
        let weak = Arc::downgrade(&shared);
        shared.io.spawn(async move {
            // A consumer that is gone needs no timer. It is not kept alive by having one.
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

    pub(crate) fn core(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn enter_poll(self: &Arc<Self>) -> PollingGuard {
        self.polling.store(true, Ordering::Relaxed);
        PollingGuard(Arc::clone(self))
    }

    pub(crate) fn is_polling(&self) -> bool {
        self.polling.load(Ordering::Relaxed)
    }

    pub(crate) fn bell(&self) -> &Bell {
        self.wakeup.bell()
    }

    /// Starts what can be started now: calls to the coordinator, questions about offsets, fetches.
    pub(crate) fn drive(self: &Arc<Self>) {
        self.drive_locked(&mut self.core(), io::now_ms());
    }

    /// The same, if something has changed or may be due.
    pub(crate) fn drive_if_needed(self: &Arc<Self>, core: &mut Core, now_ms: i64) {
        if core.is_dirty || now_ms >= core.driven_ms.saturating_add(LOOK_AGAIN_MS) {
            self.drive_locked(core, now_ms);
        }
    }

    pub(crate) fn drive_locked(self: &Arc<Self>, core: &mut Core, now_ms: i64) {
        core.is_dirty = false;
        core.driven_ms = now_ms;
        if core.closed {
            return;
        }
        self.note_network(core, now_ms);
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

    /// Connections count for themselves. Rates need a look at what they have counted from time to time.
    fn note_network(&self, core: &mut Core, now_ms: i64) {
        if now_ms >= core.network_noted_ms.saturating_add(NETWORK_NOTED_MS) {
            core.network_noted_ms = now_ms;
            core.metrics.network(now_ms, self.connections.numbers());
        }
    }

    /// Asks for the places where partitions begin that have none.
    fn find_positions(self: &Arc<Self>, core: &mut Core, now_ms: i64) {
        if core.positions.is_settled() {
            return;
        }
        self.ask_committed(core, now_ms);
        let needed = core.positions.poll_resets(now_ms);
        if !needed.is_empty() {
            self.start_resets(needed);
        }
    }

    fn next_deadline(core: &Core, now_ms: i64) -> Option<i64> {
        // What is due now waits for something else than time: it is looked at again when that happens, or soon.
        let group = core.group.as_ref().and_then(Group::next_deadline);
        let group = group.map(|deadline_ms| deadline_ms.max(now_ms + WAITING_MS));
        let nodes = core.nodes.values().filter_map(|node| node.next_retry(now_ms)).min();
        let positions = core.positions.poll_timeout(now_ms);
        [group, nodes, positions].into_iter().flatten().min()
    }

    /// Ends everything at once: connections, timers, tasks. What has not been answered fails.
    pub(crate) fn shut_down(&self) {
        self.core().closed = true;
        self.timer.notify_one();
        self.metadata.close();
        self.connections.close();
    }
}
