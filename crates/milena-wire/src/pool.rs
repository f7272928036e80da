//! Buffers that are used again instead of freed.

use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

/// Keeps the buffers of decompressed batches for the next ones. Clones share
/// the same buffers.
#[derive(Debug, Clone)]
pub struct BufferPool {
    shared: Arc<Shared>,
}

impl BufferPool {
    /// At most `max_idle_bytes` of capacity wait for use; buffers beyond that
    /// are freed when they come back.
    pub fn new(max_idle_bytes: usize) -> Self {
        let shared = Shared {
            max_idle_bytes,
            idle: Mutex::default(),
        };
        Self {
            shared: Arc::new(shared),
        }
    }

    /// An empty buffer with a capacity of at least `capacity` bytes.
    pub fn take(&self, capacity: usize) -> PooledBuffer {
        self.take_within(capacity, usize::MAX)
    }

    /// As [`BufferPool::take`], but without reusing a buffer of more than `capacity_max`: a caller that keeps a
    /// part of the contents for long keeps all of it.
    pub fn take_within(&self, capacity: usize, capacity_max: usize) -> PooledBuffer {
        let buffer = self
            .shared
            .take_idle(capacity, capacity_max)
            .unwrap_or_else(|| Vec::with_capacity(capacity));
        PooledBuffer {
            buffer,
            shared: Arc::clone(&self.shared),
        }
    }

    /// The capacity of all buffers that wait for use.
    pub fn idle_bytes(&self) -> usize {
        self.shared.idle().bytes
    }
}

/// A buffer that goes back to its pool when it is dropped.
#[derive(Debug)]
pub struct PooledBuffer {
    buffer: Vec<u8>,
    shared: Arc<Shared>,
}

impl PooledBuffer {
    /// Makes the contents shareable. The buffer goes back to its pool when the
    /// last `Bytes` of it is dropped.
    pub fn freeze(self) -> Bytes {
        if self.buffer.is_empty() {
            return Bytes::new();
        }
        Bytes::from_owner(self)
    }
}

impl Deref for PooledBuffer {
    type Target = Vec<u8>;

    fn deref(&self) -> &Self::Target {
        &self.buffer
    }
}

impl DerefMut for PooledBuffer {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.buffer
    }
}

impl AsRef<[u8]> for PooledBuffer {
    fn as_ref(&self) -> &[u8] {
        &self.buffer
    }
}

impl Drop for PooledBuffer {
    fn drop(&mut self) {
        self.shared.give_back(std::mem::take(&mut self.buffer));
    }
}

#[derive(Debug)]
struct Shared {
    max_idle_bytes: usize,
    idle: Mutex<Idle>,
}

#[derive(Debug, Default)]
struct Idle {
    buffers: Vec<Vec<u8>>,
    bytes: usize,
}

/// Keeps the search in `take_idle` short, however small the buffers are.
const MAX_IDLE_BUFFERS: usize = 1024;

impl Shared {
    /// The smallest buffer that is large enough: a large one would be held by
    /// little data.
    fn take_idle(&self, capacity: usize, capacity_max: usize) -> Option<Vec<u8>> {
        let mut idle = self.idle();
        let enough = idle.buffers.iter().map(Vec::capacity).enumerate();
        let enough = enough.filter(|&(_, available)| available >= capacity && available <= capacity_max);
        let Some((position, _)) = enough.min_by_key(|&(_, available)| available) else {
            // None has the right size. One is dropped for the returning buffer; otherwise sizes that are
            // no longer requested could fill the pool.
            let unfit = idle.buffers.pop();
            let freed = unfit.as_ref().map_or(0, Vec::capacity);
            idle.bytes = idle.bytes.saturating_sub(freed);
            drop(idle);
            return None;
        };
        let buffer = idle.buffers.swap_remove(position);
        idle.bytes = idle.bytes.saturating_sub(buffer.capacity());
        Some(buffer)
    }

    fn give_back(&self, mut buffer: Vec<u8>) {
        buffer.clear();
        let mut idle = self.idle();
        let bytes = idle.bytes.saturating_add(buffer.capacity());
        if buffer.capacity() > 0 && bytes <= self.max_idle_bytes && idle.buffers.len() < MAX_IDLE_BUFFERS {
            idle.bytes = bytes;
            idle.buffers.push(buffer);
        }
    }

    /// A panic elsewhere while the lock was held cannot leave anything worse
    /// than a wrong sum, so poison is ignored.
    fn idle(&self) -> MutexGuard<'_, Idle> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_dropped_buffer_is_used_again_and_empty() {
        let pool = BufferPool::new(10_000);
        let mut buffer = pool.take(100);
        buffer.extend_from_slice(b"old");
        let address = buffer.as_ptr();
        drop(buffer);
        assert_eq!(pool.idle_bytes(), 100);

        let again = pool.clone().take(50);
        assert!(again.is_empty());
        assert_eq!(again.as_ptr(), address);
        assert_eq!(pool.idle_bytes(), 0);
    }

    #[test]
    fn a_frozen_buffer_comes_back_with_its_last_reader() {
        let pool = BufferPool::new(10_000);
        let mut buffer = pool.take(100);
        buffer.extend_from_slice(b"hello world");
        let all = buffer.freeze();
        let world = all.slice(6..);
        drop(all);
        assert_eq!(pool.idle_bytes(), 0);
        assert_eq!(world, "world");
        drop(world);
        assert_eq!(pool.idle_bytes(), 100);
    }

    #[test]
    fn freezing_nothing_gives_the_buffer_back_at_once() {
        let pool = BufferPool::new(10_000);
        assert!(pool.take(100).freeze().is_empty());
        assert_eq!(pool.idle_bytes(), 100);
    }

    #[test]
    fn idle_capacity_is_bounded() {
        let pool = BufferPool::new(250);
        let buffers = [pool.take(100), pool.take(100), pool.take(100)];
        drop(buffers);
        assert_eq!(pool.idle_bytes(), 200);
        drop(pool.take(1000));
        assert!(pool.idle_bytes() <= 250);

        let many = BufferPool::new(usize::MAX);
        let buffers: Vec<_> = (0..2 * MAX_IDLE_BUFFERS).map(|_| many.take(1)).collect();
        drop(buffers);
        assert_eq!(many.shared.idle().buffers.len(), MAX_IDLE_BUFFERS);
    }

    #[test]
    fn the_smallest_that_is_enough_is_taken() {
        let pool = BufferPool::new(10_000);
        drop([pool.take(1000), pool.take(200), pool.take(3000)]);
        assert_eq!(pool.take(150).capacity(), 200);
        assert_eq!(pool.take(201).capacity(), 1000);
    }

    #[test]
    fn one_that_is_too_large_is_not_taken() {
        let pool = BufferPool::new(10_000);
        drop([pool.take(1000), pool.take(3000)]);
        assert_eq!(pool.take_within(100, 1000).capacity(), 1000);
        assert_eq!(pool.take_within(100, 999).capacity(), 100);
    }

    #[test]
    fn small_buffers_make_place_for_large_ones() {
        let pool = BufferPool::new(1000);
        let small: Vec<_> = (0..10).map(|_| pool.take(100)).collect();
        drop(small);
        for _ in 0..10 {
            drop(pool.take(500));
        }
        let large = pool.take(500);
        assert_eq!(large.capacity(), 500);
        // The small ones that were not in the way are still there.
        assert_eq!(pool.idle_bytes(), 500);
    }

    #[test]
    fn a_poisoned_lock_does_not_matter() {
        let pool = BufferPool::new(10_000);
        drop(pool.take(100));
        let poisoner = pool.clone();
        let result = std::thread::spawn(move || {
            let _guard = poisoner.shared.idle.lock().unwrap();
            panic!("on purpose");
        })
        .join();
        assert!(result.is_err());
        drop(pool.take(100));
        assert_eq!(pool.idle_bytes(), 100);
    }
}
