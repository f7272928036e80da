//! What all connections of a proxy share.

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
    weather: watch::Sender<Weather>,
    leaders: Mutex<Leaders>,
    sessions: Mutex<Sessions>,
    /// The number of the next connection.
    connections: AtomicU64,
    troubles: AtomicU64,
}

/// What concerns all connections alike.
#[derive(Debug, Clone, Default)]
pub(crate) struct Weather {
    /// Connections with a smaller number have ended.
    pub(crate) cut_before: u64,
    /// Through connections with a smaller number nothing goes any more.
    pub(crate) frozen_before: u64,
    pub(crate) troubles: Vec<ActiveTrouble>,
}

#[derive(Debug, Clone)]
pub(crate) struct ActiveTrouble {
    pub(crate) id: u64,
    trouble: Trouble,
    strikes: Strikes,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trouble {
    Refuse,
    Stall,
    Pause,
    Drip { bytes: usize, pause: Duration },
}

impl Weather {
    pub(crate) fn strike_refuse(&self) -> bool {
        self.strike(|trouble| (trouble == Trouble::Refuse).then_some(()))
            .is_some()
    }

    pub(crate) fn strike_stall(&self) -> bool {
        self.strike(|trouble| (trouble == Trouble::Stall).then_some(()))
            .is_some()
    }

    pub(crate) fn strike_drip(&self) -> Option<(usize, Duration)> {
        self.strike(|trouble| match trouble {
            Trouble::Drip { bytes, pause } => Some((bytes, pause)),
            _ => None,
        })
    }

    pub(crate) fn strike_pause(&self) -> bool {
        self.strike(|trouble| (trouble == Trouble::Pause).then_some(()))
            .is_some()
    }

    pub(crate) fn is_paused(&self) -> bool {
        self.troubles.iter().any(|active| active.trouble == Trouble::Pause)
    }

    fn strike<T>(&self, wanted: impl Fn(Trouble) -> Option<T>) -> Option<T> {
        self.troubles.iter().find_map(|active| {
            let found = wanted(active.trouble)?;
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
            weather: watch::Sender::new(Weather::default()),
            leaders: Mutex::new(Leaders::new(nodes)),
            sessions: Mutex::default(),
            connections: AtomicU64::new(0),
            troubles: AtomicU64::new(0),
        }
    }

    pub(crate) fn change_weather(&self, change: impl FnOnce(&mut Weather)) {
        self.weather.send_modify(change);
    }

    pub(super) fn weather(&self) -> Weather {
        self.weather.borrow().clone()
    }

    pub(super) fn watch_weather(&self) -> Receiver<Weather> {
        self.weather.subscribe()
    }

    pub(crate) fn add_trouble(&self, trouble: Trouble, strikes: Strikes) -> u64 {
        let id = self.troubles.fetch_add(1, Ordering::Relaxed);
        let active = ActiveTrouble { id, trouble, strikes };
        self.change_weather(|weather| weather.troubles.push(active));
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
