//! Brokers that refuse the client now, for the calls that wait for them.

use std::{
    collections::BTreeMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{
            AtomicU64,
            Ordering::{Acquire, Release},
        },
    },
};

use tokio::sync::watch;

use super::Endpoint;
use crate::auth::AuthenticationError;

/// The refused log-ins of one client. Each has a number, so that a caller sees each of them once.
#[derive(Debug, Default)]
pub(crate) struct AuthenticationFailures {
    refused: Mutex<BTreeMap<Endpoint, Refusal>>,
    /// The number of the last refusal.
    last: AtomicU64,
    signal: watch::Sender<u64>,
}

#[derive(Debug)]
struct Refusal {
    number: u64,
    error: AuthenticationError,
}

impl AuthenticationFailures {
    pub(super) fn handle_refused(&self, broker: &Endpoint, error: AuthenticationError) {
        let mut refused = self.refused();
        let number = self.last() + 1;
        refused.insert(broker.clone(), Refusal { number, error });
        // After the insertion, so that a reader of the number finds the refusal.
        self.last.store(number, Release);
        drop(refused);
        self.signal.send_replace(number);
    }

    pub(super) fn handle_connected(&self, broker: &Endpoint) {
        // Most clients have no refusal, ever.
        if self.last() > 0 {
            self.refused().remove(broker);
        }
    }

    pub(super) fn retain(&self, keep: impl Fn(&Endpoint) -> bool) {
        if self.last() > 0 {
            self.refused().retain(|broker, _| keep(broker));
        }
    }

    /// The number of the last refusal; 0 before the first. Cheap enough for every call.
    pub(crate) fn last(&self) -> u64 {
        self.last.load(Acquire)
    }

    /// The newest refusal after `seen` that still holds, with its number.
    pub(crate) fn after(&self, seen: u64) -> Option<(u64, AuthenticationError)> {
        if self.last() <= seen {
            return None;
        }
        let refused = self.refused();
        let newest = refused.values().max_by_key(|refusal| refusal.number);
        let newest = newest.filter(|refusal| refusal.number > seen)?;
        Some((newest.number, newest.error.clone()))
    }

    /// Waits for a refusal after `seen`.
    pub(crate) async fn refused_after(&self, seen: u64) -> AuthenticationError {
        let mut signal = self.signal.subscribe();
        loop {
            if let Some((_, error)) = self.after(seen) {
                return error;
            }
            if signal.changed().await.is_err() {
                // The sender is a field of this object.
                std::future::pending::<()>().await;
            }
        }
    }

    /// Changes with each refusal.
    pub(crate) fn subscribe(&self) -> watch::Receiver<u64> {
        self.signal.subscribe()
    }

    fn refused(&self) -> MutexGuard<'_, BTreeMap<Endpoint, Refusal>> {
        self.refused.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(text: &str) -> AuthenticationError {
        AuthenticationError::new("broker:9093", "PLAIN", text)
    }

    #[test]
    fn each_refusal_is_seen_once_and_ends_with_a_log_in() {
        let failures = AuthenticationFailures::default();
        let (one, two) = (Endpoint::new("one", 1), Endpoint::new("two", 2));
        assert_eq!(failures.after(0), None);
        failures.handle_refused(&one, error("first"));
        let (seen, first) = failures.after(0).unwrap();
        assert_eq!(first.text, "first");
        assert_eq!(failures.after(seen), None);
        failures.handle_refused(&two, error("second"));
        assert_eq!(failures.after(seen).unwrap().1.text, "second");
        failures.handle_connected(&two);
        assert_eq!(failures.after(seen), None);
        failures.handle_refused(&one, error("third"));
        assert_eq!(failures.after(seen).unwrap().1.text, "third");
        failures.retain(|_| false);
        assert_eq!(failures.after(0), None);
    }

    #[tokio::test]
    async fn a_refusal_ends_a_wait() {
        let failures = AuthenticationFailures::default();
        let broker = Endpoint::new("one", 1);
        failures.handle_refused(&broker, error("old"));
        let seen = failures.last();
        let (refused, ()) = tokio::join!(failures.refused_after(seen), async {
            failures.handle_refused(&broker, error("new"));
        });
        assert_eq!(refused.text, "new");
    }
}
