//! A pool of futures polled by one task.
//!
//! Like `FuturesUnordered`, but slots are reused: once there are enough of them, a future costs no allocation. A future
//! can also be cancelled by its owner's key.

use std::{
    future::Future,
    mem,
    pin::Pin,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

/// Futures of one type, each with the key of its owner.
pub(crate) struct Pool<K, F> {
    slots: Vec<Slot<K, F>>,
    free: Vec<usize>,
    woken_slots: Arc<Woken>,
    /// Slots being polled; kept to reuse the allocation.
    woken: Vec<usize>,
    count: usize,
}

struct Slot<K, F> {
    owner: Option<K>,
    future: Pin<Box<Option<F>>>,
    wake: Arc<SlotWaker>,
    waker: Waker,
}

/// Result of the first poll of a future.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FirstPoll<K, T> {
    Ready(K, T),
    /// Index of the slot.
    Pending(usize),
}

/// Slots that were woken, and the task to wake.
#[derive(Default)]
struct Woken {
    state: Mutex<WokenState>,
}

#[derive(Default)]
struct WokenState {
    slots: Vec<usize>,
    task: Option<Waker>,
}

struct SlotWaker {
    slot: usize,
    is_queued: AtomicBool,
    woken_slots: Arc<Woken>,
}

impl Wake for SlotWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut state = self.woken_slots.state();
        state.slots.push(self.slot);
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl Woken {
    fn state(&self) -> MutexGuard<'_, WokenState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, F: Future> Pool<K, F> {
    pub(crate) fn new() -> Self {
        Self {
            slots: vec![],
            free: vec![],
            woken_slots: Arc::default(),
            woken: vec![],
            count: 0,
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.count
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Polls a future once and keeps it in a slot unless it is ready.
    pub(crate) fn start(&mut self, owner: K, future: F) -> FirstPoll<K, F::Output> {
        let slot = self.free.pop().unwrap_or_else(|| self.add_slot());
        if let Some(found) = self.slots.get_mut(slot) {
            found.owner = Some(owner);
            found.future.set(Some(future));
            self.count += 1;
        }
        match self.poll_slot(slot) {
            Some((owner, output)) => FirstPoll::Ready(owner, output),
            None => FirstPoll::Pending(slot),
        }
    }

    /// Changes the owner of a pending future, or drops the future if `to` returns `None`.
    pub(crate) fn hand_over(&mut self, slot: usize, to: impl FnOnce(K) -> Option<K>) {
        let Some(found) = self.slots.get_mut(slot) else { return };
        found.owner = found.owner.take().and_then(to);
        if found.owner.is_none() {
            self.clear(slot);
        }
    }

    fn add_slot(&mut self) -> usize {
        let slot = self.slots.len();
        let wake = Arc::new(SlotWaker {
            slot,
            is_queued: AtomicBool::new(false),
            woken_slots: Arc::clone(&self.woken_slots),
        });
        let waker = Waker::from(Arc::clone(&wake));
        self.slots.push(Slot {
            owner: None,
            future: Box::pin(None),
            wake,
            waker,
        });
        slot
    }

    fn poll_slot(&mut self, slot: usize) -> Option<(K, F::Output)> {
        let found = self.slots.get_mut(slot)?;
        // A wakeup from here on requires another poll.
        found.wake.is_queued.store(false, Ordering::Release);
        let mut context = Context::from_waker(&found.waker);
        let future = found.future.as_mut().as_pin_mut()?;
        let Poll::Ready(output) = future.poll(&mut context) else {
            return None;
        };
        found.future.set(None);
        let owner = found.owner.take()?;
        self.free.push(slot);
        self.count -= 1;
        Some((owner, output))
    }

    /// Polls woken futures and passes on those that are ready. `Pending` if none was: the task is woken when one may
    /// be.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>, mut take: impl FnMut(K, F::Output)) -> Poll<()> {
        let mut woken = mem::take(&mut self.woken);
        {
            let mut state = self.woken_slots.state();
            mem::swap(&mut state.slots, &mut woken);
            if woken.is_empty() && !state.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
                state.task = Some(cx.waker().clone());
            }
        }
        let mut found = false;
        let any_woken = !woken.is_empty();
        for slot in woken.drain(..) {
            if let Some((owner, output)) = self.poll_slot(slot) {
                found = true;
                take(owner, output);
            }
        }
        self.woken = woken;
        if found {
            return Poll::Ready(());
        }
        if any_woken {
            // Yield, so that futures that wake themselves do not starve other tasks of this thread.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Drops the futures of the owners for which the function returns `true`.
    pub(crate) fn cancel(&mut self, mut is_cancelled: impl FnMut(&mut K) -> bool) {
        for slot in 0..self.slots.len() {
            let owner = self.slots.get_mut(slot).and_then(|found| found.owner.as_mut());
            if owner.is_some_and(&mut is_cancelled) {
                self.clear(slot);
            }
        }
    }

    fn clear(&mut self, slot: usize) {
        if let Some(found) = self.slots.get_mut(slot) {
            found.future.set(None);
            found.owner = None;
            self.free.push(slot);
            self.count -= 1;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;

    use tokio::sync::oneshot;

    use super::*;

    async fn next<K, F: Future>(pool: &mut Pool<K, F>) -> Vec<(K, F::Output)> {
        let mut found = vec![];
        poll_fn(|cx| pool.poll_ready(cx, |owner, output| found.push((owner, output)))).await;
        found
    }

    #[tokio::test]
    async fn futures_end_in_any_order_and_their_places_are_used_again() {
        let mut pool = Pool::new();
        let (first, waits_first) = oneshot::channel();
        let (second, waits_second) = oneshot::channel();
        assert_eq!(pool.start("first", waits_first), FirstPoll::Pending(0));
        assert_eq!(pool.start("second", waits_second), FirstPoll::Pending(1));
        second.send(2).unwrap();
        assert_eq!(next(&mut pool).await, [("second", Ok(2))]);
        let (third, waits_third) = oneshot::channel();
        assert_eq!(pool.start("third", waits_third), FirstPoll::Pending(1));
        assert_eq!(pool.slots.len(), 2);
        tokio::spawn(async move {
            first.send(1).unwrap();
            third.send(3).unwrap();
        });
        let mut ended = next(&mut pool).await;
        while ended.len() < 2 {
            ended.extend(next(&mut pool).await);
        }
        assert_eq!(ended, [("first", Ok(1)), ("third", Ok(3))]);
        assert!(pool.is_empty());
    }

    #[tokio::test]
    async fn a_future_that_is_ready_at_once_is_returned_at_once() {
        let mut pool = Pool::new();
        assert_eq!(pool.start(1, async { "done" }), FirstPoll::Ready(1, "done"));
        assert_eq!(pool.len(), 0);
    }

    #[tokio::test]
    async fn one_that_is_cancelled_is_dropped_there_and_then() {
        let mut pool = Pool::new();
        let (sender, receiver) = oneshot::channel::<()>();
        let (kept, waits) = oneshot::channel::<()>();
        assert_eq!(pool.start(1, receiver), FirstPoll::Pending(0));
        assert_eq!(pool.start(2, waits), FirstPoll::Pending(1));
        pool.cancel(|owner| *owner == 1);
        assert!(sender.is_closed());
        assert_eq!(pool.len(), 1);
        kept.send(()).unwrap();
        assert_eq!(next(&mut pool).await, [(2, Ok(()))]);
    }
}
