//! Counters and log lines of sagas.

use std::{
    collections::BTreeMap,
    fmt::Write as _,
    sync::{Mutex, MutexGuard, PoisonError},
};

use milena_app::Clock;
use milena_machines::saga::Phase;

use super::store::{OpenCount, SagaKey};

/// A change that counts, when its transaction is committed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Happening {
    Performed {
        step: String,
    },
    Failed {
        step: String,
    },
    Compensated {
        step: String,
    },
    /// A compensation came before the action.
    Cancelled {
        step: String,
    },
    /// An action came after its compensation.
    Refused {
        step: String,
    },
    Redelivered {
        step: String,
    },
    /// The saga is to be compensated.
    Cancelling,
    /// A timer was due.
    TimedOut,
    Stuck {
        reason: String,
    },
    Ended(Phase),
}

/// Counters of a participant since the start of the application.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct SagaCounts {
    /// Steps that were performed.
    pub performed: u64,
    /// Steps that failed.
    pub failed: u64,
    /// Steps that were compensated.
    pub compensated_steps: u64,
    /// Steps that were cancelled before they were performed.
    pub cancelled_steps: u64,
    /// Actions that were refused, because their compensation was first.
    pub refused: u64,
    /// Triggers that the owner wrote again.
    pub redelivered: u64,
    /// Sagas that began to compensate.
    pub compensations: u64,
    /// Timers that were due.
    pub timeouts: u64,
    /// Sagas that became stuck.
    pub stuck: u64,
    pub completed: u64,
    pub compensated: u64,
    /// Sagas that were closed by hand.
    pub closed: u64,
}

/// Saga type and participant.
type Owner = (String, String);

/// Counters of all participants of an application.
#[derive(Debug, Default)]
pub(crate) struct SagaMetrics {
    counts: Mutex<BTreeMap<Owner, SagaCounts>>,
    open: Mutex<Vec<OpenCount>>,
    clock: Mutex<Clock>,
}

impl SagaMetrics {
    pub(crate) fn counts(&self) -> BTreeMap<Owner, SagaCounts> {
        lock(&self.counts).clone()
    }

    pub(crate) fn set_open(&self, open: Vec<OpenCount>) {
        *lock(&self.open) = open;
    }

    pub(crate) fn set_clock(&self, clock: Clock) {
        *lock(&self.clock) = clock;
    }

    /// Counts and logs the changes of a committed transaction.
    pub(crate) fn committed(&self, key: &SagaKey, happenings: &[Happening]) {
        if happenings.is_empty() {
            return;
        }
        let mut counts = lock(&self.counts);
        let counts = counts
            .entry((key.saga_type.clone(), key.participant.clone()))
            .or_default();
        for happening in happenings {
            *counter(counts, happening) += 1;
            log(key, happening);
        }
    }

    /// Appends all metrics in Prometheus' text format.
    pub(crate) fn write(&self, text: &mut String) {
        let now_ms = lock(&self.clock).now_ms();
        let counts = self.counts();
        for (name, help, value) in COUNTERS {
            family(text, name, "counter", help);
            for (owner, counts) in &counts {
                let _ = writeln!(text, "{name}{{{}}} {}", labels(owner), value(counts));
            }
        }
        let open = lock(&self.open);
        let name = "milena_saga_open";
        family(text, name, "gauge", "Sagas in the database that have not ended.");
        for open in open.iter() {
            let labels = labels(&(open.saga_type.clone(), open.participant.clone()));
            let _ = writeln!(
                text,
                "{name}{{{labels},status=\"{}\"}} {}",
                label(&open.status),
                open.count
            );
        }
        let name = "milena_saga_oldest_open_seconds";
        family(text, name, "gauge", "Age of the oldest saga that has not ended.");
        for open in open.iter() {
            let labels = labels(&(open.saga_type.clone(), open.participant.clone()));
            let age_ms = now_ms.saturating_sub(open.oldest_ms).max(0);
            let status = label(&open.status);
            let _ = writeln!(text, "{name}{{{labels},status=\"{status}\"}} {}", age_ms / 1000);
        }
    }
}

/// Name, help text and value of a counter.
type Counter = (&'static str, &'static str, fn(&SagaCounts) -> u64);

const COUNTERS: [Counter; 12] = [
    ("milena_saga_steps_done_total", "Steps that were performed.", |counts| {
        counts.performed
    }),
    ("milena_saga_steps_failed_total", "Steps that failed.", |counts| {
        counts.failed
    }),
    (
        "milena_saga_steps_compensated_total",
        "Steps that were compensated.",
        |counts| counts.compensated_steps,
    ),
    (
        "milena_saga_steps_cancelled_total",
        "Steps that were cancelled before they were performed.",
        |counts| counts.cancelled_steps,
    ),
    (
        "milena_saga_actions_refused_total",
        "Actions that came after their compensation.",
        |counts| counts.refused,
    ),
    (
        "milena_saga_redelivered_total",
        "Steps whose trigger was written again.",
        |counts| counts.redelivered,
    ),
    (
        "milena_saga_compensations_total",
        "Sagas that began to compensate.",
        |counts| counts.compensations,
    ),
    ("milena_saga_timeouts_total", "Timers that were due.", |counts| {
        counts.timeouts
    }),
    ("milena_saga_stuck_total", "Sagas that became stuck.", |counts| {
        counts.stuck
    }),
    ("milena_saga_completed_total", "Sagas that were completed.", |counts| {
        counts.completed
    }),
    (
        "milena_saga_compensated_total",
        "Sagas that were compensated.",
        |counts| counts.compensated,
    ),
    (
        "milena_saga_closed_total",
        "Sagas that were closed by hand.",
        |counts| counts.closed,
    ),
];

fn counter<'a>(counts: &'a mut SagaCounts, happening: &Happening) -> &'a mut u64 {
    match happening {
        Happening::Performed { .. } => &mut counts.performed,
        Happening::Failed { .. } => &mut counts.failed,
        Happening::Compensated { .. } => &mut counts.compensated_steps,
        Happening::Cancelled { .. } => &mut counts.cancelled_steps,
        Happening::Refused { .. } => &mut counts.refused,
        Happening::Redelivered { .. } => &mut counts.redelivered,
        Happening::Cancelling => &mut counts.compensations,
        Happening::TimedOut => &mut counts.timeouts,
        Happening::Stuck { .. } => &mut counts.stuck,
        Happening::Ended(Phase::Completed) => &mut counts.completed,
        Happening::Ended(Phase::Compensated) => &mut counts.compensated,
        Happening::Ended(_) => &mut counts.closed,
    }
}

/// Failures of the business are part of the work; operators need to see what timers and late events do.
fn log(key: &SagaKey, happening: &Happening) {
    let SagaKey {
        saga_type,
        participant,
        saga_id,
    } = key;
    match happening {
        Happening::Stuck { reason } => tracing::warn!(
            event = "saga_stuck",
            saga_type,
            participant,
            saga_id,
            reason,
            "saga {saga_id} is stuck: {reason}; see `milena saga show {saga_id}`"
        ),
        Happening::Refused { step } => tracing::warn!(
            event = "saga_action_refused",
            saga_type,
            participant,
            saga_id,
            step,
            "step {step} of saga {saga_id} came after its compensation and was refused"
        ),
        Happening::TimedOut => {
            tracing::warn!(
                event = "saga_timed_out",
                saga_type,
                participant,
                saga_id,
                "a timer of saga {saga_id} is due"
            );
        }
        Happening::Redelivered { step } => tracing::info!(
            event = "saga_trigger_redelivered",
            saga_type,
            participant,
            saga_id,
            step,
            "step {step} of saga {saga_id} did not report; its trigger was written again"
        ),
        Happening::Cancelling => {
            tracing::info!(
                event = "saga_compensating",
                saga_type,
                participant,
                saga_id,
                "saga {saga_id} is compensated"
            );
        }
        Happening::Ended(phase) => tracing::debug!(
            event = "saga_ended",
            saga_type,
            participant,
            saga_id,
            status = phase.name(),
            "saga {saga_id} is {}",
            phase.name()
        ),
        Happening::Performed { step }
        | Happening::Failed { step }
        | Happening::Compensated { step }
        | Happening::Cancelled { step } => tracing::debug!(
            event = "saga_step",
            saga_type,
            participant,
            saga_id,
            step,
            "step {step} of saga {saga_id}: {happening:?}"
        ),
    }
}

fn family(text: &mut String, name: &str, kind: &str, help: &str) {
    // Writing to a string cannot fail.
    let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn labels((saga_type, participant): &Owner) -> String {
    format!("saga=\"{}\",participant=\"{}\"", label(saga_type), label(participant))
}

fn label(text: &str) -> String {
    text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
