//! The loop of a run: events in order, until the end, a failed check, or a violated invariant.

use crate::{Failure, Outcome, history::History, invariants::until_violated, queue::Queue, simulation::START_MS};

/// A scenario that has been set up.
pub(crate) trait Play {
    type Event;

    fn queue(&mut self) -> &mut Queue<Self::Event>;

    /// The first failed check.
    fn failure(&mut self) -> &mut Option<String>;

    fn happen(&mut self, event: Self::Event);

    /// Whether nothing is left to do, after this number of events. A run may end before its time then.
    fn is_over(&self, events: u64) -> bool {
        let _ = events;
        false
    }

    /// Checks the end of a run in which no check has failed.
    fn check_settled(&mut self);

    fn into_history(self) -> History;
}

/// Plays a scenario to its end.
pub(crate) fn play<P: Play>(mut run: P, end_ms: i64) -> Outcome {
    let mut events = 0;
    let held = until_violated(|| {
        while run.failure().is_none()
            && let Some(event) = run.queue().next(end_ms)
        {
            events += 1;
            run.happen(event);
            if run.is_over(events) {
                break;
            }
        }
        if run.failure().is_none() {
            run.check_settled();
        }
    });
    if let Err(violation) = held {
        run.failure().get_or_insert(violation);
    }
    let at_ms = run.queue().now() - START_MS;
    Outcome {
        failure: run.failure().take().map(|what| Failure { at_ms, what }),
        events,
        history: run.into_history(),
    }
}
