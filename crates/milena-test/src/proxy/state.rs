//! State shared by all connections of a proxy.

use std::{
    net::SocketAddr,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use tokio::{
    runtime::Handle,
    sync::watch::{self, Receiver},
};

use super::{leaders::Leaders, sessions::Sessions};
use crate::faults::{Rules, Strikes};

pub(crate) struct State {
    /// The runtime of the proxy.
    pub(crate) handle: Handle,
    pub(crate) rules: Rules,
    conditions: watch::Sender<Conditions>,
    leaders: Mutex<Leaders>,
    sessions: Mutex<Sessions>,
    /// The number of the next connection.
    connections: AtomicU64,
    fault_ids: AtomicU64,
}

/// Conditions of all connections.
#[derive(Debug, Clone, Default)]
pub(crate) struct Conditions {
    /// Connections with a smaller number have ended.
    pub(crate) cut_before: u64,
    /// Nothing passes through connections with a smaller number.
    pub(crate) frozen_before: u64,
    pub(crate) network_faults: Vec<ActiveFault>,
}

#[derive(Debug, Clone)]
pub(crate) struct ActiveFault {
    pub(crate) id: u64,
    kind: NetworkFault,
    strikes: Strikes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum NetworkFault {
    Refuse,
    Stall,
    Pause,
    Drip { bytes: usize, pause: Duration },
}

impl Conditions {
    pub(crate) fn strike_refuse(&self) -> bool {
        self.strike(|kind| (kind == NetworkFault::Refuse).then_some(()))
            .is_some()
    }

    pub(crate) fn strike_stall(&self) -> bool {
        self.strike(|kind| (kind == NetworkFault::Stall).then_some(()))
            .is_some()
    }

    pub(crate) fn strike_drip(&self) -> Option<(usize, Duration)> {
        self.strike(|kind| match kind {
            NetworkFault::Drip { bytes, pause } => Some((bytes, pause)),
            _ => None,
        })
    }

    pub(crate) fn strike_pause(&self) -> bool {
        self.strike(|kind| (kind == NetworkFault::Pause).then_some(()))
            .is_some()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.network_faults
            .iter()
            .any(|active| active.kind == NetworkFault::Pause)
    }

    fn strike<T>(&self, wanted: impl Fn(NetworkFault) -> Option<T>) -> Option<T> {
        self.network_faults.iter().find_map(|active| {
            let found = wanted(active.kind)?;
            active.strikes.strike();
            Some(found)
        })
    }
}

impl State {
    pub(super) fn new(handle: Handle, nodes: Vec<SocketAddr>) -> Self {
        Self {
            handle,
            rules: Rules::default(),
            conditions: watch::Sender::new(Conditions::default()),
            leaders: Mutex::new(Leaders::new(nodes)),
            sessions: Mutex::default(),
            connections: AtomicU64::new(0),
            fault_ids: AtomicU64::new(0),
        }
    }

    pub(crate) fn change_conditions(&self, change: impl FnOnce(&mut Conditions)) {
        self.conditions.send_modify(change);
    }

    pub(super) fn conditions(&self) -> Conditions {
        self.conditions.borrow().clone()
    }

    pub(super) fn watch_conditions(&self) -> Receiver<Conditions> {
        self.conditions.subscribe()
    }

    pub(crate) fn add_fault(&self, kind: NetworkFault, strikes: Strikes) -> u64 {
        let id = self.fault_ids.fetch_add(1, Ordering::Relaxed);
        let active = ActiveFault { id, kind, strikes };
        self.change_conditions(|conditions| conditions.network_faults.push(active));
        id
    }

    pub(super) fn count_connection(&self) -> u64 {
        self.connections.fetch_add(1, Ordering::Relaxed)
    }

    pub(crate) fn connections_made(&self) -> u64 {
        self.connections.load(Ordering::Relaxed)
    }

    pub(crate) fn move_leader(&self, topic: &str, partition: i32) -> i32 {
        self.leaders().move_leader(topic, partition)
    }

    pub(super) fn leaders(&self) -> MutexGuard<'_, Leaders> {
        self.leaders.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn sessions(&self) -> MutexGuard<'_, Sessions> {
        self.sessions.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
