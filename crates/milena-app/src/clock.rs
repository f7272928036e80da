//! The one place where the runtime learns the time and waits for it, so that tests can put their own in its place.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// What time it is. Clones show the same time.
#[derive(Clone, Default)]
pub struct Clock {
    kind: Kind,
}

#[derive(Clone, Default)]
enum Kind {
    #[default]
    Real,
    Virtual(Arc<Mutex<Hands>>),
}

/// A time that stands still until it is moved.
struct Hands {
    now_ms: i64,
    /// The same moment for what is measured.
    now: Instant,
    next_id: u64,
    sleepers: BTreeMap<(i64, u64), Waker>,
    /// Those that were woken and have not gone on yet.
    woken: BTreeSet<(i64, u64)>,
}

impl Clock {
    /// The machine's time.
    pub fn real() -> Self {
        Self::default()
    }

    /// A time that begins now and moves only by [`advance`](Self::advance).
    pub fn manual() -> Self {
        let hands = Hands {
            now_ms: wall_ms(),
            now: Instant::now(),
            next_id: 0,
            sleepers: BTreeMap::new(),
            woken: BTreeSet::new(),
        };
        Self {
            kind: Kind::Virtual(Arc::new(Mutex::new(hands))),
        }
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        match &self.kind {
            Kind::Real => wall_ms(),
            Kind::Virtual(hands) => lock(hands).now_ms,
        }
    }

    /// This moment, to measure how long something takes. Unlike the time of day nobody sets it back.
    pub(crate) fn instant(&self) -> Instant {
        match &self.kind {
            Kind::Real => Instant::now(),
            Kind::Virtual(hands) => lock(hands).now,
        }
    }

    /// Moves a standing clock and wakes those whose time has come; a real one cannot be moved.
    pub fn advance(&self, time: Duration) {
        let Kind::Virtual(hands) = &self.kind else { return };
        let mut hands = lock(hands);
        hands.now_ms = hands.now_ms.saturating_add(millis(time));
        hands.now = hands.now.checked_add(time).unwrap_or(hands.now);
        let next = (hands.now_ms.saturating_add(1), 0);
        let later = hands.sleepers.split_off(&next);
        let due = std::mem::replace(&mut hands.sleepers, later);
        hands.woken.extend(due.keys());
        drop(hands);
        due.into_values().for_each(Waker::wake);
    }

    /// When the next of those who wait for a standing clock wants to be woken.
    pub fn next_ms(&self) -> Option<i64> {
        let Kind::Virtual(hands) = &self.kind else { return None };
        lock(hands).sleepers.keys().next().map(|(at_ms, _)| *at_ms)
    }

    /// Whether all that a standing clock has woken have gone on.
    pub fn is_quiet(&self) -> bool {
        let Kind::Virtual(hands) = &self.kind else { return true };
        lock(hands).woken.is_empty()
    }

    /// Returns when it is so late.
    pub async fn sleep_until(&self, at_ms: i64) {
        match &self.kind {
            Kind::Real => loop {
                // The wall clock may have been moved meanwhile.
                let left_ms = at_ms.saturating_sub(wall_ms());
                let Ok(left_ms) = u64::try_from(left_ms) else { return };
                if left_ms == 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(left_ms)).await;
            },
            Kind::Virtual(hands) => sleep_virtually(hands, at_ms).await,
        }
    }

    pub async fn sleep(&self, time: Duration) {
        self.sleep_until(self.now_ms().saturating_add(millis(time))).await;
    }

    /// Waits for a future, but not longer than this. A future that is ready at once costs no timer.
    pub(crate) async fn within<F: Future>(&self, limit: Option<Duration>, future: F) -> Option<F::Output> {
        let mut future = pin!(future);
        let mut sleep = pin!(None);
        std::future::poll_fn(|cx| {
            if let Poll::Ready(output) = future.as_mut().poll(cx) {
                return Poll::Ready(Some(output));
            }
            let Some(limit) = limit else {
                return Poll::Pending;
            };
            if sleep.is_none() {
                sleep.set(Some(self.sleep(limit)));
            }
            let slept = sleep.as_mut().as_pin_mut().map(|sleep| sleep.poll(cx));
            match slept {
                Some(Poll::Ready(())) => Poll::Ready(None),
                _ => Poll::Pending,
            }
        })
        .await
    }
}

async fn sleep_virtually(hands: &Arc<Mutex<Hands>>, at_ms: i64) {
    let mut seat = Seat { hands, key: None };
    std::future::poll_fn(|cx| {
        let mut hands = lock(hands);
        if hands.now_ms >= at_ms {
            return Poll::Ready(());
        }
        let key = *seat.key.get_or_insert_with(|| {
            hands.next_id += 1;
            (at_ms, hands.next_id)
        });
        hands.sleepers.insert(key, cx.waker().clone());
        Poll::Pending
    })
    .await;
}

/// Takes the sleeper out when it sleeps no more.
struct Seat<'a> {
    hands: &'a Mutex<Hands>,
    key: Option<(i64, u64)>,
}

impl Drop for Seat<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let mut hands = lock(self.hands);
            hands.sleepers.remove(&key);
            hands.woken.remove(&key);
        }
    }
}

fn lock(hands: &Mutex<Hands>) -> MutexGuard<'_, Hands> {
    hands.lock().unwrap_or_else(PoisonError::into_inner)
}

fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    millis(since)
}

pub(crate) fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

pub(crate) fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

impl fmt::Debug for Clock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self.kind {
            Kind::Real => "Clock::real",
            Kind::Virtual(_) => "Clock::manual",
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_standing_clock_wakes_those_whose_time_has_come() {
        let clock = Clock::manual();
        let start = clock.now_ms();
        let short = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(start + 1_000).await }
        });
        let long = tokio::spawn({
            let clock = clock.clone();
            async move { clock.sleep_until(start + 1_001).await }
        });
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(1));
        assert!(!clock.is_quiet());
        short.await.unwrap();
        assert!(clock.is_quiet());
        assert!(!long.is_finished());
        assert_eq!(clock.now_ms(), start + 1_000);
        clock.advance(Duration::from_millis(1));
        long.await.unwrap();
    }

    #[tokio::test]
    async fn what_takes_too_long_is_dropped() {
        let clock = Clock::manual();
        assert_eq!(clock.within(Some(Duration::from_secs(1)), async { 7 }).await, Some(7));
        let waiting = tokio::spawn({
            let clock = clock.clone();
            async move {
                clock
                    .within(Some(Duration::from_secs(1)), std::future::pending::<()>())
                    .await
            }
        });
        tokio::task::yield_now().await;
        clock.advance(Duration::from_secs(1));
        assert_eq!(waiting.await.unwrap(), None);
    }
}
