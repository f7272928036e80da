//! Fetches that wait for records: woken by what happens, never by looking again and again.

use std::{
    collections::HashMap,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicI64, AtomicU64, Ordering},
    },
};

use tokio::sync::Notify;

/// One fetch that waits until enough bytes have arrived in any of its partitions.
#[derive(Debug)]
pub(crate) struct Waiter {
    id: u64,
    missing_bytes: AtomicI64,
    woken: Notify,
}

impl Waiter {
    /// A fetch that lacks `missing_bytes` before it can answer.
    pub(crate) fn new(missing_bytes: i64) -> Arc<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            missing_bytes: AtomicI64::new(missing_bytes),
            woken: Notify::new(),
        })
    }

    /// Completes when enough has arrived, also if that happened before the call.
    pub(crate) async fn wait(&self) {
        self.woken.notified().await;
    }

    /// Bytes have arrived.
    fn arrived(&self, bytes: i64) {
        if self.missing_bytes.fetch_sub(bytes, Ordering::Relaxed) <= bytes {
            self.woken.notify_one();
        }
    }
}

/// The fetches that wait for one partition.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    waiting: Mutex<HashMap<u64, Arc<Waiter>>>,
}

impl Waiters {
    pub(crate) fn add(&self, waiter: &Arc<Waiter>) {
        self.waiting().insert(waiter.id, Arc::clone(waiter));
    }

    pub(crate) fn remove(&self, waiter: &Waiter) {
        self.waiting().remove(&waiter.id);
    }

    pub(crate) fn arrived(&self, bytes: usize) {
        for waiter in self.waiting().values() {
            waiter.arrived(bytes as i64);
        }
    }

    /// Something happened that every fetch must look at, such as the end of the topic.
    pub(crate) fn wake_all(&self) {
        for waiter in self.waiting().values() {
            waiter.woken.notify_one();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Arc<Waiter>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
