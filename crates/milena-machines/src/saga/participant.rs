//! A participant's part of a saga: one state for each of its steps.

use std::collections::BTreeSet;

use super::{Definition, Step, StepIndex, StepKind};

/// Progress of a step in the database of its participant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum StepPhase {
    /// Not performed: some of its events have not arrived.
    #[default]
    Waiting,
    Done,
    Failed,
    /// Performed and undone.
    Compensated,
    /// The tombstone: cancelled before the action, which is refused from now on.
    Cancelled,
}

impl StepPhase {
    pub const ALL: [Self; 5] = [
        Self::Waiting,
        Self::Done,
        Self::Failed,
        Self::Compensated,
        Self::Cancelled,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Waiting => "waiting",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Compensated => "compensated",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|phase| phase.name() == name)
    }
}

/// State of one step of one saga. A missing row is the default.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct StepState {
    pub phase: StepPhase,
    /// Events of `on` that have arrived, while the step waits for others.
    pub arrived: BTreeSet<String>,
}

/// A step and the reason for which an event concerns it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reaction {
    /// The event is in `on` of the step.
    Trigger(StepIndex),
    /// The event asks for the compensation of the step.
    Compensate(StepIndex),
}

impl Reaction {
    pub fn step(self) -> StepIndex {
        match self {
            Self::Trigger(step) | Self::Compensate(step) => step,
        }
    }
}

/// The decision about an event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Decision {
    /// Perform the action in the same transaction, then call [`StepState::performed`].
    Perform,
    /// Undo the action in the same transaction, then call [`StepState::compensated`].
    Compensate,
    /// Store the new state, and write the event if there is one. No code of the user is called.
    Store(StepState, Option<Emission>),
    /// Change nothing.
    Ignore(IgnoredPart),
    /// Change nothing: the action must not happen any more.
    Refuse(RefusedPart),
}

/// Result of an action.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outcome {
    Done,
    /// A failure of the business, such as a declined card. Other errors are retried by the runtime.
    Failed,
}

/// An event that a participant writes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Emission {
    /// The type of the event.
    pub event: String,
    pub kind: StepEvent,
}

/// The meaning of an emitted event.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StepEvent {
    Done,
    Failed,
    Compensated,
    /// `compensated`, or `failed` of a pivot, for a step that had not been performed.
    NothingToUndo,
}

/// Reason for which an event changes nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum IgnoredPart {
    #[error("the step has been performed")]
    AlreadyPerformed,
    #[error("the step has been compensated")]
    AlreadyCompensated,
    #[error("the step has failed, so there is nothing to undo")]
    AlreadyFailed,
    #[error("the pivot has been performed, so the saga cannot be cancelled")]
    PivotPerformed,
    #[error("the event concerns no step of this participant")]
    NotConcerned,
}

/// Reason for which an action is refused.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, thiserror::Error)]
pub enum RefusedPart {
    #[error("the step was cancelled before it was performed")]
    Cancelled,
    #[error("the step was compensated")]
    Compensated,
}

impl Definition {
    /// Steps of a participant that an event concerns. `saga_step` is the header of that name: the addressee of a request
    /// for a compensation.
    pub fn reactions(&self, participant: &str, event: &str, saga_step: Option<&str>) -> Vec<Reaction> {
        let mut reactions = vec![];
        for index in self.indices() {
            let Some(step) = self.step(index).filter(|step| step.participant == participant) else {
                continue;
            };
            if step.on.iter().any(|trigger| trigger == event) {
                reactions.push(Reaction::Trigger(index));
            }
            let is_request = event == self.draft().compensation_requested && saga_step == Some(step.name.as_str());
            let is_requested = is_request && step.kind != StepKind::Retriable;
            if is_requested || self.compensation_triggers(index).any(|trigger| trigger == event) {
                reactions.push(Reaction::Compensate(index));
            }
        }
        reactions
    }
}

impl StepState {
    /// Decides about an event. Without a change of the state, the caller has nothing to store.
    pub fn handle(&self, definition: &Definition, reaction: Reaction, event: &str) -> Decision {
        let Some(step) = definition.step(reaction.step()) else {
            return Decision::Ignore(IgnoredPart::NotConcerned);
        };
        match reaction {
            Reaction::Trigger(_) => self.trigger(step, event),
            Reaction::Compensate(_) => self.compensate(step),
        }
    }

    fn trigger(&self, step: &Step, event: &str) -> Decision {
        match self.phase {
            StepPhase::Waiting => {}
            StepPhase::Done | StepPhase::Failed => return Decision::Ignore(IgnoredPart::AlreadyPerformed),
            StepPhase::Compensated => return Decision::Refuse(RefusedPart::Compensated),
            StepPhase::Cancelled => return Decision::Refuse(RefusedPart::Cancelled),
        }
        let has_arrived = |trigger: &String| trigger == event || self.arrived.contains(trigger);
        if step.on.iter().all(has_arrived) {
            return Decision::Perform;
        }
        let mut next = self.clone();
        next.arrived.insert(event.to_owned());
        Decision::Store(next, None)
    }

    fn compensate(&self, step: &Step) -> Decision {
        match (self.phase, step.kind) {
            (StepPhase::Waiting, kind) => {
                let event = match kind {
                    StepKind::Compensatable => step.compensated.clone(),
                    StepKind::Pivot | StepKind::Retriable => step.failed.clone(),
                };
                let emission = event.map(|event| Emission {
                    event,
                    kind: StepEvent::NothingToUndo,
                });
                Decision::Store(Self::settled(StepPhase::Cancelled), emission)
            }
            (StepPhase::Done, StepKind::Compensatable) => Decision::Compensate,
            (StepPhase::Done, _) => Decision::Ignore(IgnoredPart::PivotPerformed),
            (StepPhase::Failed, _) => Decision::Ignore(IgnoredPart::AlreadyFailed),
            (StepPhase::Compensated | StepPhase::Cancelled, _) => Decision::Ignore(IgnoredPart::AlreadyCompensated),
        }
    }

    /// The state after the action. `None` if the step failed and declares no `failed` event: roll back and retry.
    pub fn performed(step: &Step, outcome: Outcome) -> Option<(Self, Emission)> {
        let (phase, event, kind) = match outcome {
            Outcome::Done => (StepPhase::Done, step.done.clone(), StepEvent::Done),
            Outcome::Failed => (StepPhase::Failed, step.failed.clone()?, StepEvent::Failed),
        };
        Some((Self::settled(phase), Emission { event, kind }))
    }

    /// The state after the compensation.
    pub fn compensated(step: &Step) -> Option<(Self, Emission)> {
        let event = step.compensated.clone()?;
        let kind = StepEvent::Compensated;
        Some((Self::settled(StepPhase::Compensated), Emission { event, kind }))
    }

    fn settled(phase: StepPhase) -> Self {
        Self {
            phase,
            arrived: BTreeSet::new(),
        }
    }
}
