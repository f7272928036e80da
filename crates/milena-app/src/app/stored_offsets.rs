//! Handlers whose offsets are stored with their effects.

use std::sync::Arc;

use super::App;
use crate::{
    driver::keeps_key_order,
    error::StartError,
    handler::Handler,
    offset_store::OffsetStore,
    policy::Policy,
    route::{Delivery, One},
};

impl App {
    /// Registers a handler whose offsets are stored in the database of its effects. It takes a transaction, which has the
    /// effect, the processed-event row and, with [`Order::Partition`](crate::policy::Order), the offset. At start and
    /// after a rebalance the partition continues at the stored offset, and transactions of its previous owner cannot
    /// commit any more. Kafka gets a copy of the offsets, for tools that show the lag.
    ///
    /// The application needs an [`offset_store`](Self::offset_store). Retries and dead letters are written at least once.
    /// See [`offset_store`](crate::offset_store) for the invariants.
    pub fn stored_offsets<A: 'static>(
        self,
        topics: &str,
        handler: impl Handler<A>,
        policy: impl FnOnce(Policy) -> Policy,
    ) -> Self {
        self.add(topics, Delivery::StoredOffsets, Arc::new(One::new(handler)), policy)
    }

    /// Sets the store for handlers with [`stored_offsets`](Self::stored_offsets). It must be the database of their
    /// transactions.
    pub fn offset_store(mut self, store: impl OffsetStore) -> Self {
        self.offset_store = Some(Arc::new(store));
        self
    }

    /// The store, if this delivery needs it.
    pub(super) fn store_of(&self, delivery: Delivery) -> Option<Arc<dyn OffsetStore>> {
        self.offset_store
            .clone()
            .filter(|_| delivery == Delivery::StoredOffsets)
    }

    /// Checks the handlers whose offsets are stored.
    pub(super) fn check_stored_offsets(&self) -> Result<(), StartError> {
        let stored = |route: &&_| is_stored(route);
        for route in self.routes.iter().filter(stored) {
            let topics = route.topics.text().to_owned();
            if self.offset_store.is_none() {
                return Err(StartError::NoOffsetStore { topics });
            }
            if keeps_key_order(route) {
                return Err(StartError::HeldKeysWithStoredOffsets { topics });
            }
        }
        Ok(())
    }

    /// Checks that the store can be used.
    pub(super) async fn check_store(&self) -> Result<(), StartError> {
        match &self.offset_store {
            Some(store) if self.routes.iter().any(is_stored) => store.check().await.map_err(StartError::OffsetStore),
            _ => Ok(()),
        }
    }
}

fn is_stored(route: &crate::route::Route) -> bool {
    route.delivery == Delivery::StoredOffsets
}
