//! The one timer of a machine. It also lets the machine act when others have changed what it shares with them.

use std::sync::Arc;

use tokio::sync::watch;

use super::Engine;
use crate::clock::Clock;

/// Wakes the machine when it wants to be woken. It ends when it is aborted.
pub(super) async fn run(engine: Arc<Engine>) {
    let mut changes = engine.shared.as_ref().map(|shared| shared.listen());
    loop {
        let at_ms = engine.state().timer_at;
        tokio::select! {
            biased;
            () = engine.timer.notified() => continue,
            () = changed(changes.as_mut()) => {}
            () = until(&engine.clock, at_ms) => {}
        }
        engine.act(None, |state, now_ms| state.work.handle_timeout(now_ms));
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
