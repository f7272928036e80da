//! Declaration of a saga in Rust.

use std::{fmt, time::Duration};

use milena_machines::saga::{self, Definition, DefinitionError, Draft, Participant, StepKind};

use super::{ID_HEADER, Locator, Saga, TYPE_HEADER};

/// A saga that is being declared.
#[derive(Debug, Clone)]
pub struct SagaBuilder {
    draft: Draft,
    id: Locator,
    event_type: Locator,
}

impl SagaBuilder {
    pub(super) fn new(name: impl Into<String>) -> Self {
        Self {
            draft: Draft {
                name: name.into(),
                owner: String::new(),
                participants: vec![],
                steps: vec![],
                starts: String::new(),
                completed: None,
                cancelled: None,
                cancel_on: vec![],
                compensation_requested: Draft::COMPENSATION_REQUESTED.to_owned(),
                deadline_ms: None,
            },
            id: Locator::header(ID_HEADER),
            event_type: Locator::header(TYPE_HEADER),
        }
    }

    /// Declares the participant that starts sagas, follows them and ends them, with the topic of its events.
    #[must_use]
    pub fn owner(mut self, name: impl Into<String>, topic: impl Into<String>) -> Self {
        self.draft.owner = name.into();
        let name = self.draft.owner.clone();
        self.participant(name, topic)
    }

    /// Declares another participant, with the topic of its events.
    #[must_use]
    pub fn participant(mut self, name: impl Into<String>, topic: impl Into<String>) -> Self {
        let (name, topic) = (name.into(), topic.into());
        self.draft.participants.push(Participant { name, topic });
        self
    }

    /// Sets the place of the saga's id in its events. The default is the header `correlation_id`.
    #[must_use]
    pub fn id(mut self, id: Locator) -> Self {
        self.id = id;
        self
    }

    /// Sets the place of an event's type. The default is the header `eventType`, which the outbox writes.
    #[must_use]
    pub fn event_type(mut self, event_type: Locator) -> Self {
        self.event_type = event_type;
        self
    }

    /// Sets the event of the owner that starts a saga.
    #[must_use]
    pub fn starts(mut self, event: impl Into<String>) -> Self {
        self.draft.starts = event.into();
        self
    }

    /// Sets the event that the owner emits when all steps are done. By default it emits none.
    #[must_use]
    pub fn completed(mut self, event: impl Into<String>) -> Self {
        self.draft.completed = Some(event.into());
        self
    }

    /// Sets the event that the owner emits when all steps are compensated. By default it emits none.
    #[must_use]
    pub fn cancelled(mut self, event: impl Into<String>) -> Self {
        self.draft.cancelled = Some(event.into());
        self
    }

    /// Adds an event in the owner's topic that cancels a saga whose pivot is not done.
    #[must_use]
    pub fn cancel_on(mut self, event: impl Into<String>) -> Self {
        self.draft.cancel_on.push(event.into());
        self
    }

    /// Sets the event with which the owner asks for a compensation. The default is `CompensationRequested`.
    #[must_use]
    pub fn compensation_requested(mut self, event: impl Into<String>) -> Self {
        self.draft.compensation_requested = event.into();
        self
    }

    /// Sets the time in which a saga must end. Then it is cancelled, or stuck if its pivot is done. The default is none.
    #[must_use]
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.draft.deadline_ms = Some(millis(deadline));
        self
    }

    /// Adds a step.
    #[must_use]
    pub fn step(mut self, step: Step) -> Self {
        self.draft.steps.push(step.0);
        self
    }

    /// Checks the declaration, and reports all errors at once.
    pub fn build(self) -> Result<Saga, SagaErrors> {
        let saga = self.draft.name.clone();
        let definition = Definition::new(self.draft).map_err(|errors| SagaErrors { saga, errors })?;
        Ok(Saga::new(definition, self.id, self.event_type))
    }
}

/// A step that is being declared.
#[derive(Debug, Clone)]
pub struct Step(saga::Step);

impl Step {
    /// Declares a step that can be undone. It comes before the pivot.
    pub fn compensatable(name: impl Into<String>) -> Self {
        Self::new(name, StepKind::Compensatable)
    }

    /// Declares the point of no return.
    pub fn pivot(name: impl Into<String>) -> Self {
        Self::new(name, StepKind::Pivot)
    }

    /// Declares a step behind the pivot, which cannot fail.
    pub fn retriable(name: impl Into<String>) -> Self {
        Self::new(name, StepKind::Retriable)
    }

    pub(crate) fn new(name: impl Into<String>, kind: StepKind) -> Self {
        Self(saga::Step {
            name: name.into(),
            participant: String::new(),
            kind,
            on: vec![],
            done: String::new(),
            failed: None,
            compensated: None,
            timeout_ms: Some(saga::Step::TIMEOUT_MS),
            retries: saga::Step::default_retries(kind),
            compensation_retries: saga::Step::COMPENSATION_RETRIES,
        })
    }

    /// Sets the participant that performs the step.
    #[must_use]
    pub fn by(mut self, participant: impl Into<String>) -> Self {
        self.0.participant = participant.into();
        self
    }

    /// Adds an event that triggers the step. With several, the step waits for all of them.
    #[must_use]
    pub fn on(mut self, event: impl Into<String>) -> Self {
        self.0.on.push(event.into());
        self
    }

    /// Sets the event of a performed step.
    #[must_use]
    pub fn done(mut self, event: impl Into<String>) -> Self {
        self.0.done = event.into();
        self
    }

    /// Sets the event of a step that failed and has no effect.
    #[must_use]
    pub fn failed(mut self, event: impl Into<String>) -> Self {
        self.0.failed = Some(event.into());
        self
    }

    /// Sets the event of a step that was undone, or never will be performed.
    #[must_use]
    pub fn compensated(mut self, event: impl Into<String>) -> Self {
        self.0.compensated = Some(event.into());
        self
    }

    /// Sets the time in which the step, or its compensation, reports. The default is 5 minutes. `None` leaves it to the
    /// deadline of the saga.
    #[must_use]
    pub fn timeout(mut self, timeout: impl Into<Option<Duration>>) -> Self {
        self.0.timeout_ms = timeout.into().map(millis);
        self
    }

    /// Sets how often the trigger is redelivered after a timeout. The default is 3 for retriable steps, and 0 for others.
    #[must_use]
    pub fn retries(mut self, retries: u32) -> Self {
        self.0.retries = retries;
        self
    }

    /// Sets how often a compensation is requested again after a timeout. The default is 3.
    #[must_use]
    pub fn compensation_retries(mut self, retries: u32) -> Self {
        self.0.compensation_retries = retries;
        self
    }
}

fn millis(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// All errors of a declaration.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SagaErrors {
    /// The saga type.
    pub saga: String,
    pub errors: Vec<DefinitionError>,
}

/// One line per error.
impl fmt::Display for SagaErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, error) in self.errors.iter().enumerate() {
            if place > 0 {
                f.write_str("\n")?;
            }
            write!(f, "saga {}: {error}", self.saga)?;
        }
        Ok(())
    }
}

impl std::error::Error for SagaErrors {}
