//! The fetch purgatory: fetches that wait for records are woken by appends, never by polling.

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
    /// Bytes that have arrived since it was registered.
    arrived: AtomicI64,
    /// The number of bytes that it waits for.
    enough: AtomicI64,
    woken: Notify,
}

impl Waiter {
    pub(crate) fn new() -> Arc<Self> {
        static NEXT_ID: AtomicU64 = AtomicU64::new(0);
        Arc::new(Self {
            id: NEXT_ID.fetch_add(1, Ordering::Relaxed),
            arrived: AtomicI64::new(0),
            enough: AtomicI64::new(i64::MAX),
            woken: Notify::new(),
        })
    }

    /// Bytes that have arrived so far. Call it before reading the partitions: bytes that arrive during the read may then be
    /// counted twice, which wakes too early at worst, but never missed.
    pub(crate) fn arrived_so_far(&self) -> i64 {
        self.arrived.load(Ordering::SeqCst)
    }

    /// Completes when `enough` bytes have arrived in all, or the waiter was woken for another reason.
    pub(crate) async fn wait_until(&self, enough: i64) {
        self.enough.store(enough, Ordering::SeqCst);
        // The bytes may have arrived before `enough` was stored.
        if self.arrived.load(Ordering::SeqCst) < enough {
            self.woken.notified().await;
        }
    }

    fn arrived(&self, bytes: i64) {
        let arrived = self.arrived.fetch_add(bytes, Ordering::SeqCst) + bytes;
        if arrived >= self.enough.load(Ordering::SeqCst) {
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

    /// Wakes all fetches after an event that is not an append, such as the deletion of the topic.
    pub(crate) fn wake_all(&self) {
        for waiter in self.waiting().values() {
            waiter.woken.notify_one();
        }
    }

    fn waiting(&self) -> MutexGuard<'_, HashMap<u64, Arc<Waiter>>> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
