//! Many futures in one task.
//!
//! Like `FuturesUnordered`, but places are used again: once there are as many as are needed at once, a future costs no
//! allocation. And one can be taken out before it is ready.

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

/// Futures of one type, each with something that says whose it is.
pub(crate) struct Pool<K, F> {
    places: Vec<Place<K, F>>,
    free: Vec<usize>,
    ready: Arc<Ready>,
    /// Those that are being looked at; the room is kept.
    woken: Vec<usize>,
    count: usize,
}

struct Place<K, F> {
    owner: Option<K>,
    future: Pin<Box<Option<F>>>,
    wake: Arc<WakePlace>,
    waker: Waker,
}

/// What became of a future that was begun with.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Started<K, T> {
    Ready(K, T),
    /// In this place.
    Waits(usize),
}

/// Which places want to be looked at, and whom to tell.
#[derive(Default)]
struct Ready {
    state: Mutex<ReadyState>,
}

#[derive(Default)]
struct ReadyState {
    places: Vec<usize>,
    task: Option<Waker>,
}

struct WakePlace {
    place: usize,
    is_queued: AtomicBool,
    ready: Arc<Ready>,
}

impl Wake for WakePlace {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        if self.is_queued.swap(true, Ordering::AcqRel) {
            return;
        }
        let mut state = self.ready.state();
        state.places.push(self.place);
        let task = state.task.take();
        drop(state);
        if let Some(task) = task {
            task.wake();
        }
    }
}

impl Ready {
    fn state(&self) -> MutexGuard<'_, ReadyState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl<K, F: Future> Pool<K, F> {
    pub(crate) fn new() -> Self {
        Self {
            places: vec![],
            free: vec![],
            ready: Arc::default(),
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

    /// Begins with a future. If it is ready at once, that is all; otherwise it has a place.
    pub(crate) fn start(&mut self, owner: K, future: F) -> Started<K, F::Output> {
        let place = self.free.pop().unwrap_or_else(|| self.add_place());
        if let Some(seat) = self.places.get_mut(place) {
            seat.owner = Some(owner);
            seat.future.set(Some(future));
            self.count += 1;
        }
        match self.look_at(place) {
            Some((owner, output)) => Started::Ready(owner, output),
            None => Started::Waits(place),
        }
    }

    /// Gives the future in a place to somebody else; if there is nobody it is dropped.
    pub(crate) fn hand_over(&mut self, place: usize, to: impl FnOnce(K) -> Option<K>) {
        let Some(seat) = self.places.get_mut(place) else { return };
        seat.owner = seat.owner.take().and_then(to);
        if seat.owner.is_none() {
            self.clear(place);
        }
    }

    fn add_place(&mut self) -> usize {
        let place = self.places.len();
        let wake = Arc::new(WakePlace {
            place,
            is_queued: AtomicBool::new(false),
            ready: Arc::clone(&self.ready),
        });
        let waker = Waker::from(Arc::clone(&wake));
        self.places.push(Place {
            owner: None,
            future: Box::pin(None),
            wake,
            waker,
        });
        place
    }

    fn look_at(&mut self, place: usize) -> Option<(K, F::Output)> {
        let seat = self.places.get_mut(place)?;
        // What wakes it from here on wants another look.
        seat.wake.is_queued.store(false, Ordering::Release);
        let mut context = Context::from_waker(&seat.waker);
        let future = seat.future.as_mut().as_pin_mut()?;
        let Poll::Ready(output) = future.poll(&mut context) else {
            return None;
        };
        seat.future.set(None);
        let owner = seat.owner.take()?;
        self.free.push(place);
        self.count -= 1;
        Some((owner, output))
    }

    /// Looks at all that want to be looked at; hands out those that are ready. `Pending` if there was none: then the task
    /// is woken when there may be.
    pub(crate) fn poll_ready(&mut self, cx: &mut Context<'_>, mut take: impl FnMut(K, F::Output)) -> Poll<()> {
        let mut woken = mem::take(&mut self.woken);
        {
            let mut state = self.ready.state();
            mem::swap(&mut state.places, &mut woken);
            if woken.is_empty() && !state.task.as_ref().is_some_and(|task| task.will_wake(cx.waker())) {
                state.task = Some(cx.waker().clone());
            }
        }
        let mut found = false;
        let any_woken = !woken.is_empty();
        for place in woken.drain(..) {
            if let Some((owner, output)) = self.look_at(place) {
                found = true;
                take(owner, output);
            }
        }
        self.woken = woken;
        if found {
            return Poll::Ready(());
        }
        if any_woken {
            // Those that wake themselves again must not keep others of this thread from their turn.
            cx.waker().wake_by_ref();
        }
        Poll::Pending
    }

    /// Drops the futures of those that are named.
    pub(crate) fn cancel(&mut self, mut is_cancelled: impl FnMut(&mut K) -> bool) {
        for place in 0..self.places.len() {
            let owner = self.places.get_mut(place).and_then(|seat| seat.owner.as_mut());
            if owner.is_some_and(&mut is_cancelled) {
                self.clear(place);
            }
        }
    }

    fn clear(&mut self, place: usize) {
        if let Some(seat) = self.places.get_mut(place) {
            seat.future.set(None);
            seat.owner = None;
            self.free.push(place);
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
        assert_eq!(pool.start("first", waits_first), Started::Waits(0));
        assert_eq!(pool.start("second", waits_second), Started::Waits(1));
        second.send(2).unwrap();
        assert_eq!(next(&mut pool).await, [("second", Ok(2))]);
        let (third, waits_third) = oneshot::channel();
        assert_eq!(pool.start("third", waits_third), Started::Waits(1));
        assert_eq!(pool.places.len(), 2);
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
    async fn one_that_is_ready_at_once_is_told_at_once() {
        let mut pool = Pool::new();
        assert_eq!(pool.start(1, async { "done" }), Started::Ready(1, "done"));
        assert_eq!(pool.len(), 0);
    }

    #[tokio::test]
    async fn one_that_is_cancelled_is_dropped_there_and_then() {
        let mut pool = Pool::new();
        let (sender, receiver) = oneshot::channel::<()>();
        let (kept, waits) = oneshot::channel::<()>();
        assert_eq!(pool.start(1, receiver), Started::Waits(0));
        assert_eq!(pool.start(2, waits), Started::Waits(1));
        pool.cancel(|owner| *owner == 1);
        assert!(sender.is_closed());
        assert_eq!(pool.len(), 1);
        kept.send(()).unwrap();
        assert_eq!(next(&mut pool).await, [(2, Ok(()))]);
    }
}
