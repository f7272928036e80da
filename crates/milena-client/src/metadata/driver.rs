//! The driver of the metadata: sends the requests of the [`Refresher`].

use std::{
    collections::BTreeSet,
    future::Future,
    hash::{BuildHasher, RandomState},
    sync::{Arc, Mutex, MutexGuard, PoisonError, Weak},
};

use milena_machines::{Random, TopicPartition};
use tokio::sync::{Notify, watch};

use super::{
    Broker, LeaderHint, MetadataCache, MetadataError, Refresh, Refresher, TopicSelection,
    choose::{Candidate, all_failing, choose},
    notices::MetadataNotices,
    refresh::MetadataCall,
};
use crate::{
    io::{instant, now_ms},
    net::{CallError, Connection, Connections, Role, SendOptions},
};

/// The metadata of a client, kept up to date on the io thread. Clones share it; it ends with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct Metadata {
    guard: Arc<Guard>,
}

#[derive(Debug)]
struct Guard {
    shared: Arc<MetadataShared>,
}

struct MetadataShared {
    connections: Connections,
    core: Mutex<MetadataCore>,
    wake: Notify,
    signal: watch::Sender<UpdateSignal>,
    observers: Mutex<Vec<Arc<Observer>>>,
    notices: MetadataNotices,
}

/// The state that waiting tasks watch.
#[derive(Debug, Clone, Copy, Default)]
struct UpdateSignal {
    /// The version of the cache after the last response.
    version: u64,
    closed: bool,
}

type Observer = dyn Fn(&Arc<MetadataCache>) + Send + Sync;

#[derive(Debug)]
struct MetadataCore {
    refresher: Refresher,
    random: Random,
    closed: bool,
}

impl Metadata {
    /// Starts to request metadata from the bootstrap servers.
    pub(crate) fn start(connections: Connections) -> Self {
        let seeds = RandomState::new();
        let settings = Arc::clone(connections.settings());
        let io = connections.io().clone();
        let shared = Arc::new(MetadataShared {
            connections,
            core: Mutex::new(MetadataCore {
                refresher: Refresher::new(&settings, seeds.hash_one(0)),
                random: Random::new(seeds.hash_one(1)),
                closed: false,
            }),
            wake: Notify::new(),
            signal: watch::Sender::default(),
            observers: Mutex::default(),
            notices: MetadataNotices::default(),
        });
        let watcher = Arc::downgrade(&shared);
        shared.connections.watch_losses(move |_| {
            // A broker that is gone may have been replaced.
            if let Some(shared) = watcher.upgrade() {
                shared.core().refresher.request_update(Refresh::Stale);
                shared.wake.notify_one();
            }
        });
        io.spawn(run(Arc::clone(&shared)));
        Self {
            guard: Arc::new(Guard { shared }),
        }
    }

    pub(crate) fn cache(&self) -> Arc<MetadataCache> {
        Arc::clone(self.core().refresher.cache())
    }

    /// The time since the last response; `None` before the first.
    pub(crate) fn age_ms(&self) -> Option<i64> {
        self.core().refresher.age_ms(now_ms())
    }

    /// Replaces the topics of interest. New topics are requested at once.
    pub(crate) fn select(&self, selection: TopicSelection) {
        self.core().refresher.select(selection);
        self.guard.shared.wake.notify_one();
    }

    /// Requests an update. Returns the version of the cache before it.
    pub(crate) fn request_update(&self, why: Refresh) -> u64 {
        let version = self.core().refresher.request_update(why);
        self.guard.shared.wake.notify_one();
        version
    }

    /// Waits until a response has made the cache newer than `version`. Returns `false` if the metadata is closed.
    pub(crate) fn updated_past(&self, version: u64) -> impl Future<Output = bool> + Send + use<> {
        let mut signal = self.guard.shared.signal.subscribe();
        async move {
            let last = signal
                .wait_for(|signal| signal.closed || signal.version > version)
                .await;
            last.is_ok_and(|signal| !signal.closed)
        }
    }

    /// Applies newer leaders that another response than Metadata has named. Returns their partitions. Observers are not
    /// called: the caller knows.
    pub(crate) fn handle_leaders(&self, hints: &[LeaderHint], brokers: &[Broker]) -> Vec<TopicPartition> {
        self.core().refresher.handle_leaders(hints, brokers)
    }

    /// Records a leader epoch that was seen elsewhere. A newer one requests an update; until it arrives the leader is
    /// unknown.
    pub(crate) fn handle_epoch(&self, partition: &TopicPartition, epoch: i32) -> bool {
        let newer = self.core().refresher.handle_epoch(partition, epoch);
        if newer {
            self.guard.shared.wake.notify_one();
        }
        newer
    }

    /// Calls `observer` on the io thread after every response that was applied, without holding a lock.
    pub(crate) fn on_update(&self, observer: impl Fn(&Arc<MetadataCache>) + Send + Sync + 'static) {
        self.guard.shared.observers().push(Arc::new(observer));
    }

    /// Returns the broker that is likely to respond first: a known one, or a bootstrap server before any is known.
    /// `None` without bootstrap servers.
    pub(crate) fn any_broker(&self) -> Option<Connection> {
        let mut core = self.core();
        let core = &mut *core;
        best(self.guard.shared.known(&core.refresher), &mut core.random)
    }

    /// The error of the last attempt; `None` if it succeeded.
    pub(crate) fn last_error(&self) -> Option<MetadataError> {
        self.core().refresher.last_error().cloned()
    }

    pub(crate) fn connections(&self) -> &Connections {
        &self.guard.shared.connections
    }

    /// Stops all requests and drops the observers.
    pub(crate) fn close(&self) {
        self.guard.shared.close();
    }

    fn core(&self) -> MutexGuard<'_, MetadataCore> {
        self.guard.shared.core()
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        self.shared.close();
    }
}

async fn run(shared: Arc<MetadataShared>) {
    loop {
        let due_ms = match shared.drive() {
            Drive::Closed => return,
            Drive::Until(due_ms) => due_ms,
        };
        let woken = shared.wake.notified();
        // A wake-up and a timeout are handled alike.
        let _ = tokio::time::timeout_at(instant(due_ms), woken).await;
    }
}

enum Drive {
    Until(i64),
    Closed,
}

impl MetadataShared {
    /// Sends the request that is due.
    fn drive(self: &Arc<Self>) -> Drive {
        loop {
            let mut core = self.core();
            if core.closed {
                return Drive::Closed;
            }
            let Some(call) = core.refresher.poll_request(now_ms()) else {
                return Drive::Until(core.refresher.poll_timeout().unwrap_or(i64::MAX));
            };
            let Some(connection) = self.pick(&mut core) else {
                core.refresher
                    .handle_response(now_ms(), call.id, Err(MetadataError::NoBootstrap));
                continue;
            };
            drop(core);
            self.send(&connection, call);
        }
    }

    fn send(self: &Arc<Self>, connection: &Connection, call: MetadataCall) {
        let options = SendOptions {
            versions: call.versions,
            ..SendOptions::default()
        };
        // A request in flight must not keep this alive.
        let shared = Arc::downgrade(self);
        connection.send(call.request, options, move |result| {
            let Some(shared) = Weak::upgrade(&shared) else { return };
            if matches!(result, Err(CallError::Closed)) {
                // No further connection will be opened.
                shared.close();
                return;
            }
            let result = result.map(|response| (response.version, response.body));
            let mut core = shared.core();
            let changed = core
                .refresher
                .handle_response(now_ms(), call.id, result.map_err(MetadataError::from));
            let cache = Arc::clone(core.refresher.cache());
            let failed = core.refresher.last_error().cloned();
            drop(core);
            shared.wake.notify_one();
            let client = &shared.connections.settings().client_id;
            match failed {
                Some(error) => {
                    tracing::debug!(event = "metadata_failed", %error, "metadata request failed");
                    shared.notices.handle_failure(now_ms(), client, &error);
                }
                None if changed => {
                    shared.notices.handle_success(now_ms(), client, &cache);
                    shared.announce(&cache);
                }
                None => {}
            }
        });
    }

    fn announce(&self, cache: &Arc<MetadataCache>) {
        self.connections
            .retain(&cache.brokers().map(|broker| broker.id).collect::<BTreeSet<_>>());
        let observers = self.observers().clone();
        for observer in observers {
            observer(cache);
        }
        self.signal.send_modify(|signal| signal.version = cache.version);
    }

    /// Chooses the broker for a Metadata request. If no broker can be reached, the refresher may fall back to the
    /// bootstrap servers.
    fn pick(&self, core: &mut MetadataCore) -> Option<Connection> {
        let mut known = self.known(&core.refresher);
        let candidates: Vec<_> = known.iter().map(candidate).collect();
        if all_failing(&candidates) && core.refresher.handle_unreachable() {
            known = self.known(&core.refresher);
        }
        best(known, &mut core.random)
    }

    /// All known brokers, or the bootstrap servers before any is known.
    fn known(&self, refresher: &Refresher) -> Vec<Connection> {
        let brokers = refresher.cache().brokers();
        if brokers.len() == 0 {
            return self.connections.bootstrap();
        }
        let connections = brokers.map(|broker| self.connections.node(broker.id, Role::Data, &broker.endpoint()));
        connections.collect()
    }

    fn close(&self) {
        self.core().closed = true;
        self.signal.send_modify(|signal| signal.closed = true);
        self.wake.notify_one();
        // Observers may own this metadata, so they are dropped outside of the lock.
        let observers = std::mem::take(&mut *self.observers());
        drop(observers);
    }

    fn core(&self) -> MutexGuard<'_, MetadataCore> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn observers(&self) -> MutexGuard<'_, Vec<Arc<Observer>>> {
        self.observers.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl std::fmt::Debug for MetadataShared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("MetadataShared")
            .field("core", &self.core)
            .finish_non_exhaustive()
    }
}

fn best(mut connections: Vec<Connection>, random: &mut Random) -> Option<Connection> {
    let candidates: Vec<_> = connections.iter().map(candidate).collect();
    let index = choose(&candidates, now_ms(), random)?;
    (index < connections.len()).then(|| connections.swap_remove(index))
}

fn candidate(connection: &Connection) -> Candidate {
    Candidate {
        status: connection.status(),
        load: connection.load(),
    }
}
