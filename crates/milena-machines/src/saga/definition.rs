//! Definition of a saga type: its participants, steps and events.

use std::collections::BTreeMap;

use super::{DefinitionError, graph};

/// The place of a step in [`Definition::steps`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StepIndex(pub usize);

/// Whether a step can be undone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum StepKind {
    /// Can be undone. Comes before the pivot.
    Compensatable,
    /// The point of no return.
    Pivot,
    /// Comes after the pivot and cannot fail.
    Retriable,
}

impl StepKind {
    pub const ALL: [Self; 3] = [Self::Compensatable, Self::Pivot, Self::Retriable];

    pub fn name(self) -> &'static str {
        match self {
            Self::Compensatable => "compensatable",
            Self::Pivot => "pivot",
            Self::Retriable => "retriable",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// A service with its own database.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Participant {
    pub name: String,
    /// The topic to which it writes its events.
    pub topic: String,
}

/// An action of a participant, and its events. Events are named by their types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Step {
    pub name: String,
    pub participant: String,
    pub kind: StepKind,
    /// Events that must all have arrived before the step is performed.
    pub on: Vec<String>,
    pub done: String,
    /// Required for a pivot, impossible for a retriable step.
    pub failed: Option<String>,
    /// Required for a compensatable step, impossible for the others.
    pub compensated: Option<String>,
    /// Time in which the step reports; `None` leaves it to the deadline of the saga.
    pub timeout_ms: Option<i64>,
    /// Redeliveries of the trigger after a timeout.
    pub retries: u32,
    /// Further requests for a compensation after a timeout.
    pub compensation_retries: u32,
}

impl Step {
    /// Further requests for a compensation, unless declared otherwise.
    pub const COMPENSATION_RETRIES: u32 = 3;
    /// Timeout of a step, unless declared otherwise, and of a compensation whose step has none.
    pub const TIMEOUT_MS: i64 = 300_000;

    /// Redeliveries of the trigger, unless declared otherwise.
    pub fn default_retries(kind: StepKind) -> u32 {
        match kind {
            StepKind::Compensatable | StepKind::Pivot => 0,
            StepKind::Retriable => 3,
        }
    }

    /// Timeout of one request for the compensation.
    pub fn compensation_timeout_ms(&self) -> i64 {
        self.timeout_ms.unwrap_or(Self::TIMEOUT_MS)
    }
}

/// A definition before it is checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Draft {
    /// The saga type.
    pub name: String,
    /// The name of the participant that starts and follows sagas.
    pub owner: String,
    pub participants: Vec<Participant>,
    pub steps: Vec<Step>,
    pub starts: String,
    /// Emitted by the owner when all steps are done.
    pub completed: Option<String>,
    /// Emitted by the owner when all steps are compensated.
    pub cancelled: Option<String>,
    /// Events in the owner's topic that ask to cancel.
    pub cancel_on: Vec<String>,
    /// Emitted by the owner to ask a participant for a compensation.
    pub compensation_requested: String,
    pub deadline_ms: Option<i64>,
}

impl Draft {
    /// Type of the event with which the owner asks for a compensation, unless declared otherwise.
    pub const COMPENSATION_REQUESTED: &'static str = "CompensationRequested";
}

/// A checked definition. Its graph has no cycle, and every event has one meaning.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Definition {
    draft: Draft,
    before: Vec<Vec<StepIndex>>,
    after: Vec<Vec<StepIndex>>,
    descendants: Vec<Vec<StepIndex>>,
    pivot: Option<StepIndex>,
    meanings: BTreeMap<String, Meaning>,
}

/// The meaning of an event for the owner.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Meaning {
    Start,
    Cancel,
    Done(StepIndex),
    Failed(StepIndex),
    Compensated(StepIndex),
    /// Emitted by the owner itself.
    Own,
}

impl Definition {
    /// Checks a draft, and reports all errors at once.
    pub fn new(draft: Draft) -> Result<Self, Vec<DefinitionError>> {
        let checked = graph::check(&draft)?;
        Ok(Self {
            before: checked.before,
            after: checked.after,
            descendants: checked.descendants,
            pivot: checked.pivot,
            meanings: checked.meanings,
            draft,
        })
    }

    /// The saga type.
    pub fn name(&self) -> &str {
        &self.draft.name
    }

    /// The declaration itself.
    pub fn draft(&self) -> &Draft {
        &self.draft
    }

    pub fn owner(&self) -> &str {
        &self.draft.owner
    }

    pub fn steps(&self) -> &[Step] {
        &self.draft.steps
    }

    pub fn step(&self, index: StepIndex) -> Option<&Step> {
        self.draft.steps.get(index.0)
    }

    pub fn step_named(&self, name: &str) -> Option<StepIndex> {
        self.draft
            .steps
            .iter()
            .position(|step| step.name == name)
            .map(StepIndex)
    }

    pub fn indices(&self) -> impl DoubleEndedIterator<Item = StepIndex> + use<> {
        (0..self.draft.steps.len()).map(StepIndex)
    }

    pub fn pivot(&self) -> Option<StepIndex> {
        self.pivot
    }

    /// Steps whose `done` events trigger this one.
    pub fn before(&self, step: StepIndex) -> &[StepIndex] {
        self.before.get(step.0).map_or(&[], Vec::as_slice)
    }

    /// Steps that are triggered by the `done` event of this one.
    pub fn after(&self, step: StepIndex) -> &[StepIndex] {
        self.after.get(step.0).map_or(&[], Vec::as_slice)
    }

    /// All steps that can only begin when this one is done.
    pub fn descendants(&self, step: StepIndex) -> &[StepIndex] {
        self.descendants.get(step.0).map_or(&[], Vec::as_slice)
    }

    /// The topic of a participant.
    pub fn topic(&self, participant: &str) -> Option<&str> {
        let found = self.draft.participants.iter().find(|known| known.name == participant);
        found.map(|participant| participant.topic.as_str())
    }

    /// Topics that a participant must read, sorted and without duplicates.
    pub fn topics_read_by(&self, participant: &str) -> Vec<&str> {
        let mut topics: Vec<&str> = self
            .events_read_by(participant)
            .into_iter()
            .filter_map(|event| self.topic(self.emitter(event)?))
            .collect();
        topics.sort_unstable();
        topics.dedup();
        topics
    }

    /// Types of events that a participant reacts to.
    pub fn events_read_by(&self, participant: &str) -> Vec<&str> {
        let mut events: Vec<&str> = vec![];
        for index in self.indices() {
            let Some(step) = self.step(index).filter(|step| step.participant == participant) else {
                continue;
            };
            events.extend(step.on.iter().map(String::as_str));
            if step.kind != StepKind::Retriable {
                events.push(&self.draft.compensation_requested);
                events.extend(self.compensation_triggers(index));
            }
        }
        if participant == self.draft.owner {
            events.extend(
                self.meanings
                    .iter()
                    .filter(|(_, meaning)| **meaning != Meaning::Own)
                    .map(|(event, _)| event.as_str()),
            );
        }
        events.sort_unstable();
        events.dedup();
        events
    }

    /// The participant that emits an event.
    pub fn emitter(&self, event: &str) -> Option<&str> {
        match self.meanings.get(event)? {
            Meaning::Start | Meaning::Cancel | Meaning::Own => Some(&self.draft.owner),
            Meaning::Done(step) | Meaning::Failed(step) | Meaning::Compensated(step) => {
                self.step(*step).map(|step| step.participant.as_str())
            }
        }
    }

    /// Events of the step after this one that let its participant compensate without being asked. A step with several
    /// steps after it has none: its participant would have to follow all of them, which is the owner's task.
    pub fn compensation_triggers(&self, step: StepIndex) -> impl Iterator<Item = &str> {
        let is_compensatable = self.step(step).is_some_and(|step| step.kind == StepKind::Compensatable);
        let next = match self.after(step) {
            [next] if is_compensatable => self.step(*next),
            _ => None,
        };
        let events = next.map(|next| [next.failed.as_deref(), next.compensated.as_deref()]);
        events.into_iter().flatten().flatten()
    }

    pub(super) fn meaning(&self, event: &str) -> Option<Meaning> {
        self.meanings.get(event).copied()
    }
}
