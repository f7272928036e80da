//! Log lines about handlers that are programs or services: down, probed, up again.

use milena_machines::app::{BreakerId, BreakerState};

use super::{Engine, State};

impl Engine {
    /// Logs a change of the breaker around a handler; `false` for a breaker that was declared.
    pub(super) fn handler_changed(&self, state: &State, id: BreakerId, now: BreakerState) -> bool {
        let Some(breaker) = state.work.breaker(id).filter(|breaker| breaker.spares_attempts()) else {
            return false;
        };
        let handler = self.breakers.get(usize::from(id.0)).map_or("", String::as_str);
        match now {
            BreakerState::Open => {
                let until_ms = breaker.poll_timeout().unwrap_or_default();
                let wait_ms = until_ms.saturating_sub(self.clock.now_ms()).max(0);
                // Rounded, for the clock has moved on by a few milliseconds.
                let (wait_s, reason) = ((wait_ms + 500) / 1000, state.last_unavailable.as_str());
                tracing::warn!(
                    event = "handler_down",
                    handler,
                    wait_s,
                    "{handler} is down, waiting ({wait_s} s): {reason}"
                );
            }
            BreakerState::HalfOpen => tracing::debug!(event = "handler_probed", handler, "probing {handler}"),
            BreakerState::Closed => tracing::info!(event = "handler_up", handler, "{handler} is up again"),
        }
        true
    }
}
