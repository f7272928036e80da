//! Circuit breakers that engines of different deliveries share.
//!
//! An engine acts while it has the lock: see `milena_machines::app::SharedBreakers`. When a breaker has changed so that
//! others must follow, all engines are notified, and each acts in its own time.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Mutex, MutexGuard, PoisonError},
};

use milena_machines::app::SharedBreakers;
use tokio::sync::watch;

use super::start::breaker_config;
use crate::{
    policy::Breaker,
    route::{Delivery, Route},
};

#[derive(Debug)]
pub(crate) struct BreakerExchange {
    /// In the order of their ids in all schedulers.
    pub(super) names: Vec<String>,
    breakers: Mutex<SharedBreakers>,
    /// The number of changes.
    changes: watch::Sender<u64>,
}

impl BreakerExchange {
    /// `None` if no breaker is needed by handlers of several deliveries.
    pub(crate) fn new(routes: &BTreeMap<Delivery, Vec<Route>>, breakers: &BTreeMap<String, Breaker>) -> Option<Self> {
        let mut seen = BTreeSet::new();
        let mut names = BTreeSet::new();
        for routes in routes.values() {
            let of_delivery = routes.iter().flat_map(|route| &route.policy.breakers);
            let of_delivery: BTreeSet<&String> = of_delivery.collect();
            names.extend(of_delivery.intersection(&seen).copied());
            seen.extend(of_delivery);
        }
        if names.is_empty() {
            return None;
        }
        let configs = names
            .iter()
            .map(|name| breaker_config(breakers.get(*name).cloned().unwrap_or_default()));
        Some(Self {
            breakers: Mutex::new(SharedBreakers::new(configs)),
            names: names.into_iter().cloned().collect(),
            changes: watch::Sender::new(0),
        })
    }

    pub(super) fn lock(&self) -> MutexGuard<'_, SharedBreakers> {
        self.breakers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notifies all engines.
    pub(super) fn notify(&self) {
        self.changes.send_modify(|changes| *changes = changes.wrapping_add(1));
    }

    pub(super) fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }
}
