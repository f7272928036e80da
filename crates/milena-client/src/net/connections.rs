//! All connections of a client.

use std::{
    collections::{BTreeMap, BTreeSet},
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
};

use milena_wire::pool::BufferPool;
use tracing::Instrument;

use super::{
    AuthenticationFailures, CallError, ClientSettings, Connection, Endpoint, Numbers, Role,
    auth::Authenticator,
    connection::{Common, Link},
    counters::Counters,
    error::DisconnectCause,
    failures::Failures,
    lifecycle, reload,
    versions::Features,
};
use crate::{
    io::{Io, now_ms},
    reachability::UnreachableBroker,
};

/// The connections of a client: one per node and role. Clones share them; they close with the last clone.
#[derive(Debug, Clone)]
pub(crate) struct Connections {
    inner: Arc<Inner>,
}

#[derive(Debug)]
struct Inner {
    common: Arc<Common>,
    links: Mutex<Links>,
}

#[derive(Debug, Default)]
struct Links {
    by_node: BTreeMap<(i32, Role), Arc<Link>>,
    closed: bool,
}

/// The counters of one node in one role.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct NodeNumbers {
    pub(crate) node_id: i32,
    pub(crate) role: Role,
    pub(crate) numbers: Numbers,
}

impl Connections {
    pub(crate) fn new(io: Io, settings: Arc<ClientSettings>) -> Self {
        Self::with_runtime(io, None, settings)
    }

    /// With a `runtime`, the connections that carry records run on it.
    pub(crate) fn with_runtime(io: Io, runtime: Option<Io>, settings: Arc<ClientSettings>) -> Self {
        let sasl = settings.security.sasl.clone();
        let common = Common {
            runtime,
            is_runtime_gone: AtomicBool::new(false),
            buffers: BufferPool::new(settings.idle_buffer_bytes_max),
            authenticator: sasl.map(|sasl| Authenticator::new(&io, sasl)),
            authentication: AuthenticationFailures::default(),
            settings,
            totals: Counters::default(),
            features: Mutex::default(),
            failures: Failures::default(),
            on_lost: OnceLock::new(),
            io,
        };
        let common = Arc::new(common);
        common.io.spawn(reload::run(Arc::downgrade(&common)));
        Self {
            inner: Arc::new(Inner {
                common,
                links: Mutex::default(),
            }),
        }
    }

    /// Returns the connection to a node. It connects with its first request.
    ///
    /// This is cheap; call it for each request, because a node that has moved gets a new connection.
    pub(crate) fn node(&self, node_id: i32, role: Role, endpoint: &Endpoint) -> Connection {
        let mut links = self.inner.links();
        let found = links.by_node.get(&(node_id, role));
        let link = match found {
            // A closed one belongs to a runtime that has ended, unless all connections are closed.
            Some(link) if link.endpoint == *endpoint && !link.is_closed() => Arc::clone(link),
            _ => {
                let link = self.inner.open(node_id, role, endpoint, links.closed);
                if let Some(old) = links.by_node.insert((node_id, role), Arc::clone(&link)) {
                    old.close(CallError::Disconnected {
                        address: old.endpoint.clone(),
                        cause: DisconnectCause::BrokerMoved { to: endpoint.clone() },
                    });
                }
                link
            }
        };
        Connection {
            link,
            common: Arc::clone(&self.inner.common),
        }
    }

    /// Returns the connection to a node for records.
    pub(crate) fn records(&self, node_id: i32, endpoint: &Endpoint) -> Connection {
        let role = match self.inner.common.runtime {
            Some(_) => Role::Records,
            None => Role::Data,
        };
        self.node(node_id, role, endpoint)
    }

    /// The connections to the bootstrap servers. Their node ids are not known yet, so they have the ids -1, -2, ….
    pub(crate) fn bootstrap(&self) -> Vec<Connection> {
        let servers = self.inner.common.settings.bootstrap.iter();
        let ids = (i32::MIN..0).rev();
        servers
            .zip(ids)
            .map(|(server, id)| self.node(id, Role::Data, server))
            .collect()
    }

    /// Closes the connections to nodes that have left the cluster, unless they are in use.
    pub(crate) fn retain(&self, node_ids: &BTreeSet<i32>) {
        let mut links = self.inner.links();
        links.by_node.retain(|&(node_id, _), link| {
            let keep = node_id < 0 || node_ids.contains(&node_id) || !link.is_unused();
            if !keep {
                link.close(CallError::Disconnected {
                    address: link.endpoint.clone(),
                    cause: DisconnectCause::BrokerRemoved,
                });
            }
            keep
        });
        let addresses: BTreeSet<_> = links.by_node.values().map(|link| link.endpoint.clone()).collect();
        drop(links);
        self.inner.common.failures.retain(|address| addresses.contains(address));
        self.inner
            .common
            .authentication
            .retain(|address| addresses.contains(address));
    }

    /// The brokers that refuse the log-in now.
    pub(crate) fn authentication(&self) -> &AuthenticationFailures {
        &self.inner.common.authentication
    }

    pub(crate) fn unreachable(&self) -> Vec<UnreachableBroker> {
        self.inner.common.failures.current(now_ms())
    }

    /// The finalized features of the cluster, from the broker with the highest features epoch.
    pub(crate) fn features(&self) -> Features {
        self.inner.common.features().clone()
    }

    /// Calls `on_lost` on the io thread with the id of a node whose connection was lost or could not be established.
    /// Idle and closed connections do not count. Only the first observer is kept.
    pub(crate) fn watch_losses(&self, on_lost: impl Fn(i32) + Send + Sync + 'static) {
        // A second observer is ignored.
        let _ = self.inner.common.on_lost.set(Box::new(on_lost));
    }

    pub(crate) fn settings(&self) -> &Arc<ClientSettings> {
        &self.inner.common.settings
    }

    pub(crate) fn io(&self) -> &Io {
        &self.inner.common.io
    }

    /// The counters of all connections, including closed ones.
    pub(crate) fn numbers(&self) -> Numbers {
        self.inner.common.totals.read()
    }

    /// The number of requests in flight.
    pub(crate) fn in_flight(&self) -> usize {
        let links = self.inner.links();
        links.by_node.values().map(|link| link.in_flight.load(Relaxed)).sum()
    }

    pub(crate) fn node_numbers(&self) -> Vec<NodeNumbers> {
        let links = self.inner.links();
        let numbers = links.by_node.iter().map(|(&(node_id, role), link)| NodeNumbers {
            node_id,
            role,
            numbers: link.counters.read(),
        });
        numbers.collect()
    }

    /// Closes all connections for good, without waiting. Requests in flight fail with [`CallError::Closed`] on the io
    /// thread.
    pub(crate) fn close(&self) {
        self.inner.close();
    }
}

impl Inner {
    fn open(&self, node_id: i32, role: Role, endpoint: &Endpoint, closed: bool) -> Arc<Link> {
        let link = Arc::new(Link::new(node_id, role, endpoint.clone()));
        if closed {
            link.close(CallError::Closed);
        } else {
            let seed = RandomState::new().hash_one(node_id);
            let task = lifecycle::run(Arc::clone(&link), Arc::clone(&self.common), seed);
            let client = &self.common.settings.client_id;
            let connection = tracing::debug_span!(parent: None, "connection", %client, node = node_id, ?role);
            self.common.home(role).spawn(task.instrument(connection));
        }
        link
    }

    fn close(&self) {
        let mut links = self.links();
        links.closed = true;
        let by_node = std::mem::take(&mut links.by_node);
        drop(links);
        for link in by_node.values() {
            link.close(CallError::Closed);
        }
    }

    fn links(&self) -> MutexGuard<'_, Links> {
        self.links.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        self.close();
    }
}

impl Common {
    /// The thread or runtime of the tasks of a role. Record connections move to the io thread when their runtime has
    /// ended.
    fn home(&self, role: Role) -> &Io {
        let runtime = self.runtime.as_ref().filter(|_| role == Role::Records);
        runtime
            .filter(|_| !self.is_runtime_gone.load(Relaxed))
            .unwrap_or(&self.io)
    }

    pub(super) fn features(&self) -> MutexGuard<'_, Features> {
        self.features.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn lost(&self, node_id: i32) {
        if let Some(on_lost) = self.on_lost.get() {
            on_lost(node_id);
        }
    }
}
