//! The database of a service.

use std::collections::{BTreeMap, BTreeSet};

use milena_machines::saga::{SagaState, StepIndex, StepState};

use super::{EventId, Record, SagaNo};

/// Rows that survive a crash.
#[derive(Debug, Default)]
pub(super) struct Store {
    pub(super) steps: BTreeMap<(SagaNo, StepIndex), StepState>,
    pub(super) sagas: BTreeMap<SagaNo, SagaState>,
    /// Guards the rows of a saga: a transaction that has read an older version does not commit.
    pub(super) versions: BTreeMap<SagaNo, u64>,
    pub(super) processed: BTreeSet<EventId>,
    pub(super) outbox: Vec<Record>,
    /// Events that the owner has heard, to redeliver them.
    pub(super) heard: BTreeMap<(SagaNo, String), Record>,
}

/// A change of the database.
#[derive(Debug, Clone)]
pub(super) enum Write {
    Step(StepIndex, StepState),
    Saga(SagaState),
    Processed(EventId),
    Heard(Record),
    Outbox(Record),
    Effect(StepIndex, Effect),
}

/// The business side of a write, which the checker follows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Effect {
    Performed,
    Failed,
    Undone,
    /// The step promises that it will never be performed.
    Cancelled,
}

impl Store {
    pub(super) fn version(&self, saga: SagaNo) -> u64 {
        self.versions.get(&saga).copied().unwrap_or(0)
    }

    pub(super) fn step(&self, saga: SagaNo, step: StepIndex) -> StepState {
        self.steps.get(&(saga, step)).cloned().unwrap_or_default()
    }

    /// Applies a write, except effects.
    pub(super) fn apply(&mut self, saga: SagaNo, write: Write) {
        match write {
            Write::Step(step, state) => drop(self.steps.insert((saga, step), state)),
            Write::Saga(state) => drop(self.sagas.insert(saga, state)),
            Write::Processed(event) => drop(self.processed.insert(event)),
            Write::Heard(record) => drop(self.heard.insert((saga, record.event_type.clone()), record)),
            Write::Outbox(record) => self.outbox.push(record),
            Write::Effect(..) => {}
        }
    }
}
