//! The background thread of the process, and its clock.
//!
//! It runs the connections of all clients, so that heartbeats do not depend on the application's executor. Connections
//! for records run on the application's runtime if `milena.io=runtime`. The thread only waits, copies bytes and
//! decides; nothing that takes long may run on it.

use std::{
    future::Future,
    sync::{LazyLock, Mutex, PoisonError},
    time::{Duration, SystemTime, UNIX_EPOCH},
};

use tokio::{
    runtime::{Builder, Handle},
    task::AbortHandle,
    time::{Instant, Sleep},
};

use crate::config::RecordsIo;

/// Threads for host name look-ups, which block.
const LOOKUPS_MAX: usize = 8;
/// Deadlines further away than this never expire.
const FAR_MS: u64 = 10 * 365 * 24 * 3600 * 1000;

static THREAD: Mutex<Option<Handle>> = Mutex::new(None);
static START: LazyLock<Instant> = LazyLock::new(Instant::now);

/// Milliseconds since the first call in this process; monotonic.
pub(crate) fn now_ms() -> i64 {
    let elapsed = Instant::now().saturating_duration_since(*START);
    i64::try_from(elapsed.as_millis()).unwrap_or(i64::MAX)
}

/// Wall clock time in milliseconds since 1970, for timestamps of records.
pub(crate) fn wall_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

/// Wall clock time that lags by up to one tick of the system clock (1 to 10 ms). It costs a fifth of [`wall_ms`].
#[cfg(any(target_os = "linux", target_os = "android"))]
pub(crate) fn coarse_wall_ms() -> i64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::RealtimeCoarse);
    now.tv_sec * 1_000 + now.tv_nsec / 1_000_000
}

#[cfg(not(any(target_os = "linux", target_os = "android")))]
pub(crate) fn coarse_wall_ms() -> i64 {
    wall_ms()
}

/// The instant at which [`now_ms`] returns `ms`.
pub(crate) fn instant(ms: i64) -> Instant {
    *START + Duration::from_millis(u64::try_from(ms).unwrap_or(0).min(FAR_MS))
}

/// A handle to the background thread.
#[derive(Debug, Clone)]
pub(crate) struct Io {
    handle: Handle,
}

impl Io {
    /// Returns the thread of the process. The first call starts it; it never ends.
    pub(crate) fn start() -> Result<Self, StartIoError> {
        let mut thread = THREAD.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(handle) = &*thread {
            return Ok(Self { handle: handle.clone() });
        }
        let handle = start_thread()?;
        *thread = Some(handle.clone());
        Ok(Self { handle })
    }

    /// Returns the caller's runtime, if connections for records run on it.
    pub(crate) fn of_records(io: RecordsIo) -> Result<Option<Self>, StartIoError> {
        let handle = match io {
            RecordsIo::Thread => return Ok(None),
            RecordsIo::Runtime => Handle::try_current(),
        };
        handle
            .map(|handle| Some(Self { handle }))
            .map_err(|_| StartIoError::NoRuntime)
    }

    pub(crate) fn spawn(&self, task: impl Future<Output = ()> + Send + 'static) -> AbortHandle {
        self.handle.spawn(task).abort_handle()
    }

    /// A timer of this thread. It may be awaited anywhere, also outside of tokio.
    pub(crate) fn sleep_until(&self, deadline_ms: i64) -> Sleep {
        let _inside = self.handle.enter();
        tokio::time::sleep_until(instant(deadline_ms))
    }
}

fn start_thread() -> std::io::Result<Handle> {
    let runtime = Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(LOOKUPS_MAX)
        .thread_name("milena-lookup")
        .build()?;
    let handle = runtime.handle().clone();
    std::thread::Builder::new()
        .name("milena-io".to_owned())
        .spawn(move || runtime.block_on(std::future::pending::<()>()))?;
    Ok(handle)
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum StartIoError {
    #[error("cannot start the io thread: {0}")]
    Thread(#[from] std::io::Error),
    #[error("milena.io=runtime needs a tokio runtime; create the client on one, or use milena.io=thread")]
    NoRuntime,
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use super::*;
    use crate::net::tests::rig::PATIENCE;

    #[test]
    fn all_tasks_run_on_the_one_thread() {
        let (names, seen) = mpsc::channel();
        for _ in 0..2 {
            let names = names.clone();
            let io = Io::start().unwrap();
            let timer = io.sleep_until(now_ms() + 1);
            io.spawn(async move {
                timer.await;
                let _ = names.send(std::thread::current().name().map(str::to_owned));
            });
        }
        for _ in 0..2 {
            assert_eq!(seen.recv_timeout(PATIENCE).unwrap().as_deref(), Some("milena-io"));
        }
    }

    #[test]
    fn the_end_of_time_can_be_slept_for() {
        let io = Io::start().unwrap();
        assert!(!io.sleep_until(i64::MAX).is_elapsed());
        assert!(instant(-1) <= Instant::now());
    }
}
