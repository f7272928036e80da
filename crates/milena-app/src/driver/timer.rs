//! The one timer of a machine.

use std::sync::Arc;

use super::Engine;

/// Wakes the machine when it wants to be woken. It ends when it is aborted.
pub(super) async fn run(engine: Arc<Engine>) {
    loop {
        let at_ms = engine.state().timer_at;
        let Some(at_ms) = at_ms else {
            engine.timer.notified().await;
            continue;
        };
        tokio::select! {
            biased;
            () = engine.timer.notified() => continue,
            () = engine.clock.sleep_until(at_ms) => {}
        }
        engine.act(None, |state, now_ms| state.work.handle_timeout(now_ms));
    }
}
