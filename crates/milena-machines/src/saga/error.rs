//! Errors in the definition of a saga.

/// One error in a definition, with the name of the step or event that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum DefinitionError {
    #[error("{what} has no name; give it one")]
    Unnamed { what: &'static str },
    #[error("the saga has no steps; declare at least one")]
    NoSteps,
    #[error("the owner {owner} is not a participant; declare its topic")]
    UnknownOwner { owner: String },
    #[error("the participant {name} is declared twice; remove one")]
    ParticipantTwice { name: String },
    #[error("the participant {name} has no steps; remove it, or give it a step")]
    IdleParticipant { name: String },
    #[error("two steps are named {step}; rename one")]
    StepTwice { step: String },
    #[error("step {step}: the participant {participant} is not declared; known participants: {}", known.join(", "))]
    UnknownParticipant {
        step: String,
        participant: String,
        known: Vec<String>,
    },
    #[error("step {step} has no event that triggers it; set `on`")]
    NoTrigger { step: String },
    #[error(
        "step {step}: {event} in `on` is neither the event that starts the saga nor the `done` event of a step; \
         known events: {}", known.join(", ")
    )]
    UnknownTrigger {
        step: String,
        event: String,
        known: Vec<String>,
    },
    #[error("step {step}: {event} is twice in `on`; remove one")]
    TriggerTwice { step: String, event: String },
    #[error("step {step} is unreachable: it waits for its own `done` event, through {}", through.join(", "))]
    Unreachable { step: String, through: Vec<String> },
    #[error("the event {event} has two meanings: {first} and {second}; use two event types")]
    TwoMeanings {
        event: String,
        first: String,
        second: String,
    },
    #[error("step {step} is compensatable and has no compensation; set `compensated`, or declare it as the pivot")]
    NoCompensation { step: String },
    #[error("step {step} is {kind} and is never compensated; remove `compensated`")]
    NeverCompensated { step: String, kind: &'static str },
    #[error("step {step} is the pivot and has no `failed` event; a pivot that is cancelled in time must emit one")]
    PivotCannotFail { step: String },
    #[error("step {step} is retriable and cannot fail; remove `failed`, or declare it before the pivot")]
    RetriableFails { step: String },
    #[error("steps {first} and {second} are both pivots; a saga has one point of no return")]
    TwoPivots { first: String, second: String },
    #[error("step {step} is retriable and the saga has no pivot; declare which step is the point of no return")]
    NoPivot { step: String },
    #[error(
        "step {step} is compensatable and not before the pivot {pivot}; it could fail after the point of no return"
    )]
    NotBeforePivot { step: String, pivot: String },
    #[error("step {step} is retriable and not after the pivot {pivot}; it could not be undone when the pivot fails")]
    NotAfterPivot { step: String, pivot: String },
    #[error("step {step}: the timeout must be longer than zero")]
    ZeroTimeout { step: String },
    #[error("the deadline must be longer than zero")]
    ZeroDeadline,
    #[error("step {step} has no timeout and the saga has no deadline; a lost event would not be noticed")]
    NoTimeLimit { step: String },
}
