//! The timer of a scheduler. It also lets the scheduler follow changes of shared breakers.

use std::sync::Arc;

use tokio::sync::watch;

use super::Engine;
use crate::clock::Clock;

/// Feeds timeouts to the scheduler. The task ends when it is aborted.
pub(super) async fn run(engine: Arc<Engine>) {
    let mut changes = engine.exchange.as_ref().map(|exchange| exchange.subscribe());
    loop {
        let at_ms = engine.state().timer_at;
        tokio::select! {
            biased;
            () = engine.timer.notified() => continue,
            () = changed(changes.as_mut()) => {}
            () = until(&engine.clock, at_ms) => {}
        }
        engine.act(None, |state, now_ms| state.scheduler.handle_timeout(now_ms));
    }
}

async fn changed(changes: Option<&mut watch::Receiver<u64>>) {
    let is_over = match changes {
        Some(changes) => changes.changed().await.is_err(),
        None => true,
    };
    if is_over {
        std::future::pending().await
    }
}

async fn until(clock: &Clock, at_ms: Option<i64>) {
    match at_ms {
        Some(at_ms) => clock.sleep_until(at_ms).await,
        None => std::future::pending().await,
    }
}
