//! `buffer.memory`: what waits to be acknowledged takes no more. Who finds no room waits in line.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::Semaphore;

#[derive(Debug)]
pub(super) struct Memory {
    total: usize,
    free: Semaphore,
    /// Buffers of batches that are done, for the next ones.
    buffers: Mutex<Vec<Vec<u8>>>,
    buffers_max: usize,
    buffer_size: usize,
}

/// Room for one batch. It goes back when this is dropped.
#[derive(Debug)]
pub(super) struct Room {
    memory: Arc<Memory>,
    bytes: usize,
}

impl Room {
    /// Gives back what is not needed.
    pub(super) fn shrink(&mut self, bytes: usize) {
        let left = self.bytes.saturating_sub(bytes);
        self.bytes -= left;
        if left > 0 {
            self.memory.free.add_permits(left);
        }
    }

    /// Takes a part of it away, as large as is left.
    pub(super) fn part(&mut self, bytes: usize) -> Self {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Self {
            memory: Arc::clone(&self.memory),
            bytes,
        }
    }
}

impl Drop for Room {
    fn drop(&mut self) {
        self.shrink(0);
    }
}

impl Memory {
    pub(super) fn new(total: usize, buffer_size: usize) -> Arc<Self> {
        let total = total.min(Semaphore::MAX_PERMITS);
        Arc::new(Self {
            total,
            free: Semaphore::new(total),
            buffers: Mutex::default(),
            buffers_max: (total / buffer_size.max(1)).max(1),
            buffer_size,
        })
    }

    pub(super) fn total(&self) -> usize {
        self.total
    }

    pub(super) fn free(&self) -> usize {
        self.free.available_permits()
    }

    pub(super) fn try_take(self: &Arc<Self>, bytes: usize) -> Option<Room> {
        let permit = self.free.try_acquire_many(u32::try_from(bytes).ok()?).ok()?;
        permit.forget();
        let memory = Arc::clone(self);
        Some(Room { memory, bytes })
    }

    /// Waits for room, in the order of those who ask. `None` if there never will be.
    pub(super) async fn take(self: &Arc<Self>, bytes: usize) -> Option<Room> {
        let permit = self.free.acquire_many(u32::try_from(bytes).ok()?).await.ok()?;
        permit.forget();
        let memory = Arc::clone(self);
        Some(Room { memory, bytes })
    }

    /// Nobody waits any more.
    pub(super) fn close(&self) {
        self.free.close();
    }

    pub(super) fn buffer(&self) -> Vec<u8> {
        let kept = self.buffers.lock().unwrap_or_else(PoisonError::into_inner).pop();
        kept.unwrap_or_else(|| Vec::with_capacity(self.buffer_size))
    }

    /// Large ones are not kept: they were for a single record.
    pub(super) fn recycle(&self, buffer: Vec<u8>) {
        if buffer.capacity() < self.buffer_size || buffer.capacity() > self.buffer_size.saturating_mul(2) {
            return;
        }
        let mut buffers = self.buffers.lock().unwrap_or_else(PoisonError::into_inner);
        if buffers.len() < self.buffers_max {
            buffers.push(buffer);
        }
    }
}
