//! Memory for requests, shared by all connections.
//!
//! A frame takes memory for the bytes that have arrived, never for those that its length announces: otherwise a few
//! clients that announce much and send nothing would keep all others waiting. While frames wait for memory, those that hold
//! some must arrive quickly ([`RequestMemory::is_short`]). Frames that hold memory and wait for more could wait for each
//! other for ever; therefore one frame at a time may exceed the budget. It
//! keeps that right until its request needs no memory any more, so that requests that wait do not add up.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// The memory of all requests. A connection that finds none waits before it reads on.
#[derive(Debug, Clone)]
pub(crate) struct RequestMemory {
    kilobytes: Arc<Semaphore>,
    kilobytes_max: usize,
    /// The permit of the one frame that may exceed the budget.
    extra: Arc<Semaphore>,
    waiting: Arc<AtomicUsize>,
}

/// The memory of a frame; dropping it frees it.
#[derive(Debug, Default)]
pub(super) struct FrameMemory {
    budget: Option<OwnedSemaphorePermit>,
    extra: Option<OwnedSemaphorePermit>,
}

impl RequestMemory {
    pub(crate) fn new(bytes: usize) -> Self {
        // The limit of a semaphore is more memory than there is.
        let kilobytes_max = (bytes / 1024).clamp(1, Semaphore::MAX_PERMITS);
        Self {
            kilobytes: Arc::new(Semaphore::new(kilobytes_max)),
            kilobytes_max,
            extra: Arc::new(Semaphore::new(1)),
            waiting: Arc::default(),
        }
    }

    /// Waits until a frame has memory for its first `bytes`. Returns whether it needed more.
    pub(super) async fn grow(&self, frame: &mut FrameMemory, bytes: usize) -> bool {
        let present = frame.budget.as_ref().map_or(0, OwnedSemaphorePermit::num_permits);
        // A frame larger than the whole budget gets the whole budget.
        let wanted = bytes.div_ceil(1024).min(self.kilobytes_max);
        let missing = u32::try_from(wanted.saturating_sub(present)).unwrap_or(u32::MAX);
        if missing == 0 || frame.extra.is_some() {
            return false;
        }
        if let Ok(more) = Arc::clone(&self.kilobytes).try_acquire_many_owned(missing) {
            frame.add(more);
            return true;
        }
        let _waiting = Waiting::new(&self.waiting);
        tokio::select! {
            biased;
            // The semaphores are never closed.
            Ok(more) = Arc::clone(&self.kilobytes).acquire_many_owned(missing) => frame.add(more),
            Ok(extra) = Arc::clone(&self.extra).acquire_owned() => frame.extra = Some(extra),
        }
        true
    }

    /// Returns whether a frame waits for memory.
    pub(super) fn is_short(&self) -> bool {
        self.waiting.load(Ordering::Relaxed) > 0
    }

    #[cfg(test)]
    pub(super) fn available(&self) -> usize {
        self.kilobytes.available_permits() * 1024
    }
}

impl FrameMemory {
    fn add(&mut self, more: OwnedSemaphorePermit) {
        match &mut self.budget {
            Some(budget) => budget.merge(more),
            none => *none = Some(more),
        }
    }
}

/// Counts a waiting frame until it is dropped.
struct Waiting<'a>(&'a AtomicUsize);

impl<'a> Waiting<'a> {
    fn new(count: &'a AtomicUsize) -> Self {
        count.fetch_add(1, Ordering::Relaxed);
        Self(count)
    }
}

impl Drop for Waiting<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Relaxed);
    }
}
