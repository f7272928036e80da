//! Log lines about circuit breakers: those that were declared, and those around programs and services.

use milena_machines::app::{BreakerId, BreakerState};

use super::{Engine, State};

impl Engine {
    /// Logs a change of a breaker.
    pub(super) fn log_breaker(&self, state: &State, id: BreakerId, now: BreakerState) {
        let handler = self.breakers.get(usize::from(id.0)).map_or("", String::as_str);
        let Some(breaker) = state.scheduler.breaker(id).filter(|breaker| breaker.spares_attempts()) else {
            return log_declared(handler, now);
        };
        match now {
            BreakerState::Open => {
                let until_ms = breaker.poll_timeout().unwrap_or_default();
                let wait_ms = until_ms.saturating_sub(self.clock.now_ms()).max(0);
                // Rounded, because the clock has moved on by a few milliseconds.
                let (wait_s, reason) = ((wait_ms + 500) / 1000, state.last_errors.dependency.as_str());
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
    }
}

fn log_declared(breaker: &str, state: BreakerState) {
    match state {
        BreakerState::Open => tracing::warn!(
            event = "breaker_opened",
            breaker,
            "circuit breaker {breaker} opened: the partitions of the handlers that need it wait"
        ),
        BreakerState::HalfOpen => tracing::warn!(
            event = "breaker_half_open",
            breaker,
            "circuit breaker {breaker} is half open: a few calls try whether it works again"
        ),
        BreakerState::Closed => tracing::warn!(
            event = "breaker_closed",
            breaker,
            "circuit breaker {breaker} closed: its handlers go on"
        ),
    }
}
