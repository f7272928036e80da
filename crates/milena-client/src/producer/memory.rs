//! `buffer.memory`: the bytes of all unacknowledged batches. A send without free memory waits in order.

use std::sync::{
    Arc, Mutex, PoisonError,
    atomic::{AtomicUsize, Ordering::Relaxed},
};

use tokio::sync::Semaphore;

/// Growth factor of the buffer sizes.
const GROWTH: usize = 4;

#[derive(Debug)]
pub(super) struct Memory {
    total: usize,
    free: Semaphore,
    /// Bytes of closed batches that are not acknowledged.
    unacknowledged: AtomicUsize,
    pool: Mutex<Pool>,
}

/// Buffers of acknowledged batches, for reuse; at most `buffer.memory`.
#[derive(Debug)]
struct Pool {
    bytes_max: usize,
    bytes: usize,
    /// Ordered by size.
    classes: Vec<Class>,
}

#[derive(Debug)]
struct Class {
    capacity: usize,
    buffers: Vec<Vec<u8>>,
}

/// The memory of one batch, released on drop.
#[derive(Debug)]
pub(super) struct Reservation {
    memory: Arc<Memory>,
    bytes: usize,
    /// The size of the closed batch; 0 while it is open.
    closed_bytes: usize,
}

impl Reservation {
    fn new(memory: &Arc<Memory>, bytes: usize) -> Self {
        Self {
            memory: Arc::clone(memory),
            bytes,
            closed_bytes: 0,
        }
    }

    /// Grows the reservation. Returns whether the memory was free.
    pub(super) fn grow_to(&mut self, bytes: usize) -> bool {
        let more = bytes.saturating_sub(self.bytes);
        match self.memory.try_take(more) {
            Some(mut taken) => {
                self.bytes += std::mem::take(&mut taken.bytes);
                true
            }
            None => false,
        }
    }

    /// Records the size of the batch when it is closed.
    pub(super) fn close(&mut self, batch_bytes: usize) {
        self.memory.unacknowledged.fetch_add(batch_bytes, Relaxed);
        self.closed_bytes += batch_bytes;
    }

    /// Releases everything above `bytes`.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let left = self.bytes.saturating_sub(bytes);
        self.bytes -= left;
        if left > 0 {
            self.memory.free.add_permits(left);
        }
    }

    /// Splits off a reservation for a part of the batch, as far as bytes are left.
    pub(super) fn part(&mut self, bytes: usize) -> Self {
        let (taken, closed_bytes) = (bytes.min(self.bytes), bytes.min(self.closed_bytes));
        self.bytes -= taken;
        self.closed_bytes -= closed_bytes;
        Self {
            memory: Arc::clone(&self.memory),
            bytes: taken,
            closed_bytes,
        }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.memory.unacknowledged.fetch_sub(self.closed_bytes, Relaxed);
        self.shrink(0);
    }
}

impl Memory {
    /// Batches grow from `batch_min` to `batch_max`.
    pub(super) fn new(total: usize, batch_min: usize, batch_max: usize) -> Arc<Self> {
        let total = total.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            total,
            free: Semaphore::new(total),
            unacknowledged: AtomicUsize::new(0),
            pool: Mutex::new(Pool::new(total, batch_min, batch_max)),
        })
    }

    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn free(&self) -> usize {
        self.free.available_permits()
    }

    /// Bytes of closed batches that are not acknowledged.
    pub(super) fn unacknowledged(&self) -> usize {
        self.unacknowledged.load(Relaxed)
    }

    pub(super) fn try_take(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let permit = self.free.try_acquire_many(u32::try_from(bytes).ok()?).ok()?;
        permit.forget();
        Some(Reservation::new(self, bytes))
    }

    /// Waits for free memory, in the order of the calls. `None` if the producer is closed meanwhile.
    pub(super) async fn take(self: &Arc<Self>, bytes: usize) -> Option<Reservation> {
        let permit = self.free.acquire_many(u32::try_from(bytes).ok()?).await.ok()?;
        permit.forget();
        Some(Reservation::new(self, bytes))
    }

    /// Ends all waits.
    pub(super) fn close(&self) {
        self.free.close();
    }

    /// An empty buffer for a batch of this size.
    pub(super) fn buffer(&self, size: usize) -> Vec<u8> {
        self.pool().take(size)
    }

    pub(super) fn recycle(&self, buffer: Vec<u8>) {
        self.pool().put_back(buffer);
    }

    fn pool(&self) -> std::sync::MutexGuard<'_, Pool> {
        self.pool.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Pool {
    fn new(bytes_max: usize, batch_min: usize, batch_max: usize) -> Self {
        let capacities = std::iter::successors(Some(batch_min.max(1)), |capacity| {
            (*capacity < batch_max).then(|| next_size(*capacity, batch_max))
        });
        let classes = capacities.map(|capacity| Class {
            capacity,
            buffers: vec![],
        });
        Self {
            bytes_max,
            bytes: 0,
            classes: classes.collect(),
        }
    }

    fn take(&mut self, size: usize) -> Vec<u8> {
        // A single record can be larger than the largest class.
        let Some(class) = self.classes.iter_mut().find(|class| class.capacity >= size) else {
            return Vec::with_capacity(size);
        };
        match class.buffers.pop() {
            Some(buffer) => {
                self.bytes -= buffer.capacity();
                buffer
            }
            None => Vec::with_capacity(class.capacity),
        }
    }

    /// Keeps a buffer if it fits a class.
    fn put_back(&mut self, buffer: Vec<u8>) {
        let capacity = buffer.capacity();
        if self.bytes + capacity > self.bytes_max {
            return;
        }
        let fits = |class: &&mut Class| class.capacity <= capacity && capacity <= class.capacity.saturating_mul(2);
        if let Some(class) = self.classes.iter_mut().rev().find(fits) {
            self.bytes += capacity;
            class.buffers.push(buffer);
        }
    }
}

/// The next larger buffer size.
pub(super) fn next_size(size: usize, max: usize) -> usize {
    size.saturating_mul(GROWTH).min(max).max(size)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_are_used_again_by_batches_of_their_size() {
        let memory = Memory::new(1 << 20, 1_000, 10_000);
        let capacity = |size| memory.buffer(size).capacity();
        assert_eq!(
            [10, 1_000, 1_001, 4_001, 20_000].map(capacity),
            [1_000, 1_000, 4_000, 10_000, 20_000]
        );
        let mut buffer = memory.buffer(4_000);
        buffer.reserve_exact(5_000);
        memory.recycle(buffer);
        assert_eq!(capacity(4_000), 5_000, "the buffer that came back");
        assert_eq!(capacity(4_000), 4_000, "a new one");
    }

    #[test]
    fn the_pool_holds_no_more_than_the_memory() {
        let memory = Memory::new(3_500, 1_000, 1_000);
        let buffers: Vec<Vec<u8>> = (0..5).map(|_| memory.buffer(1_000)).collect();
        for buffer in buffers {
            memory.recycle(buffer);
        }
        assert_eq!(memory.pool().bytes, 3_000);
    }

    #[test]
    fn rooms_account_for_every_byte() {
        let memory = Memory::new(1_000, 100, 400);
        let mut reservation = memory.try_take(100).unwrap();
        assert!(reservation.grow_to(400) && !reservation.grow_to(1_001));
        assert_eq!(memory.free(), 600);
        reservation.close(350);
        reservation.shrink(350);
        assert_eq!((memory.free(), memory.unacknowledged()), (650, 350));
        let part = reservation.part(200);
        drop(reservation);
        assert_eq!((memory.free(), memory.unacknowledged()), (800, 200));
        drop(part);
        assert_eq!((memory.free(), memory.unacknowledged()), (1_000, 0));
    }
}
