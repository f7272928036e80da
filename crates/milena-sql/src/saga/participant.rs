//! A service's part in a saga type: its definition, and the functions of its steps.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    sync::Arc,
};

use milena_app::saga::Saga;
use milena_machines::saga::{Definition, StepIndex, StepKind};

use super::call::{EndFn, EndFunction, StepFn, StepFunction};

/// A service that takes part in sagas of one type.
///
/// ```
/// # use milena_sql::saga::{Outcome, Participant, SagaId};
/// # use milena_sql::{once::Tx, sqlx::{self, Sqlite}};
/// # use milena_app::{handler::Fault, saga::Saga};
/// async fn reserve(SagaId(order): SagaId, mut tx: Tx<Sqlite>) -> Result<Outcome, Fault> {
///     let taken = sqlx::query("UPDATE stock SET free = free - 1 WHERE free > 0").execute(&mut *tx).await?;
///     if taken.rows_affected() == 0 {
///         return Ok(Outcome::failed("out of stock"));
///     }
///     sqlx::query("INSERT INTO reservations (order_id) VALUES ($1)").bind(order).execute(&mut *tx).await?;
///     Ok(Outcome::done())
/// }
///
/// async fn release(SagaId(order): SagaId, mut tx: Tx<Sqlite>) -> Result<(), Fault> {
///     sqlx::query("DELETE FROM reservations WHERE order_id = $1").bind(order).execute(&mut *tx).await?;
///     sqlx::query("UPDATE stock SET free = free + 1").execute(&mut *tx).await?;
///     Ok(())
/// }
///
/// # fn demo(order_saga: &Saga) {
/// let inventory = Participant::new(order_saga, "inventory")
///     .step("reserve", reserve)
///     .compensation("reserve", release);
/// # }
/// ```
#[derive(Clone)]
#[must_use = "a participant does nothing until it is added to an application"]
pub struct Participant {
    pub(crate) saga: Saga,
    pub(crate) name: String,
    /// Types of events that it reacts to.
    events: BTreeSet<String>,
    steps: BTreeMap<StepIndex, StepFn>,
    compensations: BTreeMap<StepIndex, StepFn>,
    completed: Option<EndFn>,
    cancelled: Option<EndFn>,
    problems: Vec<ParticipantError>,
}

/// A participant that does not fit its definition.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ParticipantError {
    #[error("the saga {saga_type} has no participant {participant:?}; it has {known}")]
    UnknownParticipant {
        saga_type: String,
        participant: String,
        known: String,
    },
    #[error("{participant} has no step {step:?} in the saga {saga_type}")]
    UnknownStep {
        saga_type: String,
        participant: String,
        step: String,
    },
    #[error("step {step} of the saga {saga_type} has no function; add Participant::step({step:?}, …)")]
    NoFunction { saga_type: String, step: String },
    #[error("step {step} of the saga {saga_type} has no compensation; add Participant::compensation({step:?}, …)")]
    NoCompensation { saga_type: String, step: String },
    #[error("step {step} of the saga {saga_type} is {kind} and cannot be compensated; remove its compensation")]
    NotCompensatable {
        saga_type: String,
        step: String,
        kind: &'static str,
    },
    #[error("{participant} does not own the saga {saga_type}; only {owner} has functions for its end")]
    NotOwner {
        saga_type: String,
        participant: String,
        owner: String,
    },
    #[error("{participant} is added twice for the saga {saga_type}; remove one")]
    Twice { saga_type: String, participant: String },
    #[error("no participant was added; add one with Sagas::participant")]
    None,
}

impl Participant {
    /// The part of the service `name`, which is the owner or has steps in the definition.
    pub fn new(saga: &Saga, name: impl Into<String>) -> Self {
        let name = name.into();
        let events = saga.definition().events_read_by(&name);
        Self {
            saga: saga.clone(),
            events: events.into_iter().map(str::to_owned).collect(),
            name,
            steps: BTreeMap::new(),
            compensations: BTreeMap::new(),
            completed: None,
            cancelled: None,
            problems: vec![],
        }
    }

    /// The function that performs a step.
    pub fn step<A: 'static>(mut self, step: &str, function: impl StepFunction<A>) -> Self {
        if let Some(index) = self.own_step(step) {
            self.steps.insert(index, Arc::new(move |call| function.call(call)));
        }
        self
    }

    /// The function that undoes a step. It is called only after the step was performed.
    pub fn compensation<A: 'static>(mut self, step: &str, function: impl StepFunction<A>) -> Self {
        if let Some(index) = self.own_step(step) {
            self.compensations
                .insert(index, Arc::new(move |call| function.call(call)));
        }
        self
    }

    /// The function of the owner for sagas whose steps are all done. Its payload is that of the event `completed`.
    pub fn completed<A: 'static>(mut self, function: impl EndFunction<A>) -> Self {
        self.completed = Some(Arc::new(move |call| function.call(call)));
        self
    }

    /// The function of the owner for sagas that are compensated. Its payload is that of the event `cancelled`.
    pub fn cancelled<A: 'static>(mut self, function: impl EndFunction<A>) -> Self {
        self.cancelled = Some(Arc::new(move |call| function.call(call)));
        self
    }

    pub(crate) fn definition(&self) -> &Definition {
        self.saga.definition()
    }

    pub(crate) fn reacts_to(&self, event_type: &str) -> bool {
        self.events.contains(event_type)
    }

    pub(crate) fn is_owner(&self) -> bool {
        self.definition().owner() == self.name
    }

    pub(crate) fn step_function(&self, step: StepIndex) -> Option<&StepFn> {
        self.steps.get(&step)
    }

    pub(crate) fn compensation_function(&self, step: StepIndex) -> Option<&StepFn> {
        self.compensations.get(&step)
    }

    pub(crate) fn end_function(&self, is_completed: bool) -> Option<&EndFn> {
        if is_completed {
            self.completed.as_ref()
        } else {
            self.cancelled.as_ref()
        }
    }

    fn own_step(&mut self, step: &str) -> Option<StepIndex> {
        let definition = self.definition();
        let found = definition.step_named(step).filter(|index| {
            let step = definition.step(*index);
            step.is_some_and(|step| step.participant == self.name)
        });
        if found.is_none() {
            self.problems.push(ParticipantError::UnknownStep {
                saga_type: self.definition().name().to_owned(),
                participant: self.name.clone(),
                step: step.to_owned(),
            });
        }
        found
    }

    pub(crate) fn check(&self) -> Result<(), ParticipantError> {
        let definition = self.definition();
        let saga_type = || definition.name().to_owned();
        if definition.topic(&self.name).is_none() {
            let known = definition.draft().participants.iter();
            let known: Vec<&str> = known.map(|known| known.name.as_str()).collect();
            return Err(ParticipantError::UnknownParticipant {
                saga_type: saga_type(),
                participant: self.name.clone(),
                known: known.join(", "),
            });
        }
        if let Some(problem) = self.problems.first() {
            return Err(problem.clone());
        }
        if !self.is_owner() && (self.completed.is_some() || self.cancelled.is_some()) {
            return Err(ParticipantError::NotOwner {
                saga_type: saga_type(),
                participant: self.name.clone(),
                owner: definition.owner().to_owned(),
            });
        }
        for index in definition.indices() {
            let Some(step) = definition.step(index).filter(|step| step.participant == self.name) else {
                continue;
            };
            let (saga_type, is_undone) = (saga_type(), self.compensations.contains_key(&index));
            let name = step.name.clone();
            if !self.steps.contains_key(&index) {
                return Err(ParticipantError::NoFunction { saga_type, step: name });
            }
            match (step.kind, is_undone) {
                (StepKind::Compensatable, false) => {
                    return Err(ParticipantError::NoCompensation { saga_type, step: name });
                }
                (StepKind::Pivot | StepKind::Retriable, true) => {
                    return Err(ParticipantError::NotCompensatable {
                        saga_type,
                        step: name,
                        kind: step.kind.name(),
                    });
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl fmt::Debug for Participant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Participant")
            .field("saga", &self.definition().name())
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}
