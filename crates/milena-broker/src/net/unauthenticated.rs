//! Connections that have not logged in yet: bounded in number, the oldest gives way.

use std::{
    collections::BTreeMap,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use tokio::sync::oneshot;

/// The connections of all listeners that are in their TLS handshake or log-in.
///
/// A log-in takes milliseconds. If there are too many at once, most of them are not going to finish; the oldest of them is
/// the one least likely to, so it is closed for a new one.
#[derive(Debug, Default)]
pub(crate) struct Unauthenticated {
    waiting: Mutex<Waiting>,
}

#[derive(Debug, Default)]
struct Waiting {
    next_id: u64,
    /// In the order of their arrival.
    by_id: BTreeMap<u64, oneshot::Sender<()>>,
}

/// The place of one connection; dropping it frees the place.
#[derive(Debug)]
pub(super) struct UnauthenticatedPlace {
    registry: Arc<Unauthenticated>,
    id: u64,
    evicted: oneshot::Receiver<()>,
}

impl Unauthenticated {
    /// Adds a connection; with `max` of them, the oldest is evicted.
    pub(super) fn enter(self: &Arc<Self>, max: usize) -> UnauthenticatedPlace {
        let (evict, evicted) = oneshot::channel();
        let mut waiting = self.waiting();
        let id = waiting.next_id;
        waiting.next_id += 1;
        while waiting.by_id.len() >= max.max(1)
            && let Some((_, oldest)) = waiting.by_id.pop_first()
        {
            // It may have ended meanwhile.
            let _ = oldest.send(());
        }
        waiting.by_id.insert(id, evict);
        UnauthenticatedPlace {
            registry: Arc::clone(self),
            id,
            evicted,
        }
    }

    pub(crate) fn count(&self) -> usize {
        self.waiting().by_id.len()
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl UnauthenticatedPlace {
    /// Waits until the connection has to give way.
    pub(super) async fn evicted(&mut self) {
        let _ = (&mut self.evicted).await;
    }
}

impl Drop for UnauthenticatedPlace {
    fn drop(&mut self) {
        self.registry.waiting().by_id.remove(&self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn the_oldest_gives_way() {
        let registry = Arc::new(Unauthenticated::default());
        let mut first = registry.enter(2);
        let second = registry.enter(2);
        drop(second);
        let _third = registry.enter(2);
        assert_eq!(registry.count(), 2);
        let _fourth = registry.enter(2);
        first.evicted().await;
        assert_eq!(registry.count(), 2);
        drop(first);
        assert_eq!(registry.count(), 2);
    }
}
