//! A fault that has been put in, and how often it struck.

use std::{fmt, sync::Arc, time::Duration};

use tokio::{runtime::Handle, sync::watch, time::timeout};

/// A fault that has not struck by then never will.
const TIMEOUT: Duration = Duration::from_secs(60);

/// Counts for one fault.
#[derive(Debug, Clone)]
pub(crate) struct Strikes {
    text: Arc<str>,
    count: Arc<watch::Sender<u64>>,
}

impl Strikes {
    pub(crate) fn new(text: String) -> Self {
        Self {
            text: text.into(),
            count: Arc::new(watch::Sender::new(0)),
        }
    }

    pub(crate) fn strike(&self) {
        self.count.send_modify(|count| *count += 1);
    }
}

/// A fault that is at work until it is [removed](Self::remove), has struck as often as it was to, or the broker is dropped.
/// Dropping this value changes nothing.
pub struct Fault {
    strikes: Strikes,
    handle: Handle,
    remove: Box<dyn Fn() + Send + Sync>,
}

impl Fault {
    pub(super) fn new(strikes: Strikes, handle: Handle, remove: Box<dyn Fn() + Send + Sync>) -> Self {
        Self {
            strikes,
            handle,
            remove,
        }
    }

    /// Number of strikes.
    pub fn struck(&self) -> u64 {
        *self.strikes.count.borrow()
    }

    /// Waits until it has struck at least so often, in any executor. Panics after a minute.
    pub async fn struck_times(&self, times: u64) {
        let mut count = self.strikes.count.subscribe();
        let waiting = async move { timeout(TIMEOUT, count.wait_for(|count| *count >= times)).await.is_ok() };
        let came = self.handle.spawn(waiting).await.unwrap_or(false);
        let Strikes { text, .. } = &self.strikes;
        assert!(
            came,
            "({text}) was to strike {times} times, and struck {} times",
            self.struck()
        );
    }

    /// Removes the fault. Its past effects remain.
    pub fn remove(&self) {
        (self.remove)();
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault")
            .field("what", &self.strikes.text)
            .field("struck", &self.struck())
            .finish_non_exhaustive()
    }
}
