//! The only source of time in the runtime, so that tests can replace it.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    pin::pin,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

/// A clock. Clones share the same time.
#[derive(Clone, Default)]
pub struct Clock {
    kind: Kind,
}

#[derive(Clone, Default)]
enum Kind {
    #[default]
    Real,
    Virtual(Arc<Mutex<ManualTime>>),
}

/// State of a manual clock.
struct ManualTime {
    now_ms: i64,
    /// The current time as an `Instant`, for measurements.
    now: Instant,
    next_id: u64,
    sleepers: BTreeMap<(i64, u64), Waker>,
    /// Sleepers that were woken and have not run yet.
    woken: BTreeSet<(i64, u64)>,
}

impl Clock {
    /// The system clock.
    pub fn real() -> Self {
        Self::default()
    }

    /// A manual clock: it starts now and moves only with [`advance`](Self::advance).
    pub fn manual() -> Self {
        let manual = ManualTime {
            now_ms: wall_ms(),
            now: Instant::now(),
            next_id: 0,
            sleepers: BTreeMap::new(),
            woken: BTreeSet::new(),
        };
        Self {
            kind: Kind::Virtual(Arc::new(Mutex::new(manual))),
        }
    }

    /// Milliseconds since 1970.
    pub fn now_ms(&self) -> i64 {
        match &self.kind {
            Kind::Real => wall_ms(),
            Kind::Virtual(manual) => lock(manual).now_ms,
        }
    }

    /// Monotonic time, for measurements.
    pub(crate) fn instant(&self) -> Instant {
        match &self.kind {
            Kind::Real => Instant::now(),
            Kind::Virtual(manual) => lock(manual).now,
        }
    }

    /// Advances a manual clock and wakes the sleepers that are due. No effect on the system clock.
    pub fn advance(&self, time: Duration) {
        let Kind::Virtual(manual) = &self.kind else { return };
        let mut manual = lock(manual);
        manual.now_ms = manual.now_ms.saturating_add(millis(time));
        manual.now = manual.now.checked_add(time).unwrap_or(manual.now);
        let next = (manual.now_ms.saturating_add(1), 0);
        let later = manual.sleepers.split_off(&next);
        let due = std::mem::replace(&mut manual.sleepers, later);
        manual.woken.extend(due.keys());
        drop(manual);
        due.into_values().for_each(Waker::wake);
    }

    /// Time of the next sleeper of a manual clock.
    pub fn next_ms(&self) -> Option<i64> {
        let Kind::Virtual(manual) = &self.kind else { return None };
        lock(manual).sleepers.keys().next().map(|(at_ms, _)| *at_ms)
    }

    /// Returns whether all sleepers woken by a manual clock have run.
    pub fn is_quiet(&self) -> bool {
        let Kind::Virtual(manual) = &self.kind else { return true };
        lock(manual).woken.is_empty()
    }

    /// Returns at this time.
    pub async fn sleep_until(&self, at_ms: i64) {
        match &self.kind {
            Kind::Real => loop {
                // The wall clock may have been set meanwhile.
                let left_ms = at_ms.saturating_sub(wall_ms());
                let Ok(left_ms) = u64::try_from(left_ms) else { return };
                if left_ms == 0 {
                    return;
                }
                tokio::time::sleep(Duration::from_millis(left_ms)).await;
            },
            Kind::Virtual(manual) => sleep_virtually(manual, at_ms).await,
        }
    }

    pub async fn sleep(&self, time: Duration) {
        self.sleep_until(self.now_ms().saturating_add(millis(time))).await;
    }

    /// Waits for a future up to a limit. A future that is ready at once costs no timer.
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

async fn sleep_virtually(manual: &Arc<Mutex<ManualTime>>, at_ms: i64) {
    let mut guard = SleepGuard { manual, key: None };
    std::future::poll_fn(|cx| {
        let mut manual = lock(manual);
        if manual.now_ms >= at_ms {
            return Poll::Ready(());
        }
        let key = *guard.key.get_or_insert_with(|| {
            manual.next_id += 1;
            (at_ms, manual.next_id)
        });
        manual.sleepers.insert(key, cx.waker().clone());
        Poll::Pending
    })
    .await;
}

/// Removes the sleeper when its future is dropped.
struct SleepGuard<'a> {
    manual: &'a Mutex<ManualTime>,
    key: Option<(i64, u64)>,
}

impl Drop for SleepGuard<'_> {
    fn drop(&mut self) {
        if let Some(key) = self.key {
            let mut manual = lock(self.manual);
            manual.sleepers.remove(&key);
            manual.woken.remove(&key);
        }
    }
}

fn lock(manual: &Mutex<ManualTime>) -> MutexGuard<'_, ManualTime> {
    manual.lock().unwrap_or_else(PoisonError::into_inner)
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
