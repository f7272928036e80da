//! The keys of an issuer, kept up to date by a task.

use std::{
    sync::{
        Arc, Mutex, MutexGuard, PoisonError, RwLock,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use milena_security::jwt::{Claims, Jwks, JwtError};
use tokio::{
    sync::{Notify, watch},
    task::JoinHandle,
    time::{Instant, MissedTickBehavior, interval_at},
};

use super::{
    missing_keys::{MissingKey, MissingKeys},
    source::{KeySource, SourceError},
};
use crate::config::JwksOptions;

/// The longest time that a log-in waits for a refresh.
const WAIT_MAX: Duration = Duration::from_secs(5);

/// The keys of an issuer. Dropping them ends their task.
#[derive(Debug)]
pub(super) struct IssuerKeys {
    shared: Arc<Shared>,
    refreshing: JoinHandle<()>,
}

#[derive(Debug)]
struct Shared {
    listener: String,
    source: KeySource,
    keys: RwLock<Arc<Jwks>>,
    missing: Mutex<MissingKeys>,
    /// A key is missing.
    wake: Notify,
    /// Changes with the end of each refresh.
    refreshed: watch::Sender<u64>,
    /// The start of the clock of `missing`.
    began: Instant,
    refreshes: AtomicU64,
    failed_refreshes: AtomicU64,
}

impl IssuerKeys {
    /// Reads the keys for the first time, and keeps them up to date from then on.
    pub(super) async fn start(listener: &str, options: &JwksOptions) -> Result<Self, SourceError> {
        let source = KeySource::open(options)?;
        let keys = source.read().await?;
        tracing::info!(
            event = "jwks_loaded",
            listener,
            %source,
            keys = keys.len(),
            "keys for the verification of tokens loaded"
        );
        if source.is_in_clear() {
            tracing::warn!(
                event = "jwks_in_clear",
                listener,
                %source,
                "the keys that verify tokens come over http, where an attacker can replace them; use https"
            );
        }
        let shared = Arc::new(Shared {
            listener: listener.to_owned(),
            source,
            keys: RwLock::new(Arc::new(keys)),
            missing: Mutex::default(),
            wake: Notify::new(),
            refreshed: watch::Sender::new(0),
            began: Instant::now(),
            refreshes: AtomicU64::new(1),
            failed_refreshes: AtomicU64::new(0),
        });
        let interval = Duration::from_millis(options.refresh_ms.max(1));
        let refreshing = tokio::spawn(Arc::clone(&shared).refresh_always(interval));
        Ok(Self { shared, refreshing })
    }

    /// Verifies a token; `check` is called again with new keys if the first ones lack the token's.
    pub(super) async fn verify(
        &self,
        check: impl Fn(&Jwks) -> Result<Claims, JwtError> + Send,
    ) -> Result<Claims, JwtError> {
        let shared = &self.shared;
        let error = match check(&shared.keys()) {
            Err(JwtError::UnknownKey { id }) => JwtError::UnknownKey { id },
            outcome => return outcome,
        };
        let JwtError::UnknownKey { id } = &error else {
            return Err(error);
        };
        let mut refreshed = shared.refreshed.subscribe();
        match shared.missing().handle_missing(id, shared.now_ms()) {
            MissingKey::Refuse => return Err(error),
            MissingKey::Refresh => shared.wake.notify_one(),
            MissingKey::Wait => {}
        }
        let _ = tokio::time::timeout(WAIT_MAX, refreshed.changed()).await;
        check(&shared.keys())
    }

    /// The number of refreshes that succeeded, and of those that failed.
    pub(super) fn refreshes(&self) -> (u64, u64) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (load(&self.shared.refreshes), load(&self.shared.failed_refreshes))
    }
}

impl Drop for IssuerKeys {
    fn drop(&mut self) {
        self.refreshing.abort();
    }
}

impl Shared {
    async fn refresh_always(self: Arc<Self>, interval: Duration) {
        let mut timer = interval_at(Instant::now() + interval, interval);
        timer.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            tokio::select! {
                _ = timer.tick() => {}
                () = self.wake.notified() => {}
            }
            self.missing().handle_refresh(self.now_ms());
            self.refresh().await;
        }
    }

    async fn refresh(&self) {
        let (listener, source) = (&self.listener, &self.source);
        match source.read().await {
            Ok(keys) => {
                tracing::debug!(event = "jwks_refreshed", %listener, %source, keys = keys.len(), "keys refreshed");
                self.refreshes.fetch_add(1, Ordering::Relaxed);
                *self.keys.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(keys);
            }
            Err(error) => {
                self.failed_refreshes.fetch_add(1, Ordering::Relaxed);
                tracing::warn!(
                    event = "jwks_refresh_failed",
                    %listener,
                    %source,
                    %error,
                    "keys for the verification of tokens cannot be refreshed; the present ones stay in use"
                );
            }
        }
        let keys = self.keys();
        self.missing().handle_refreshed(|key_id| keys.has_key(key_id));
        self.refreshed.send_modify(|number| *number += 1);
    }

    fn keys(&self) -> Arc<Jwks> {
        Arc::clone(&self.keys.read().unwrap_or_else(PoisonError::into_inner))
    }

    fn missing(&self) -> MutexGuard<'_, MissingKeys> {
        self.missing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn now_ms(&self) -> u64 {
        u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}
