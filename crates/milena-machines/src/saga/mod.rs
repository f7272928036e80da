//! Choreographed sagas: a transaction over several services that react to each other's events.
//!
//! [`Definition`] is the contract of all services. Each participant decides about its own steps with [`StepState`]: an
//! action happens once, a compensation undoes it once, and a compensation that arrives first leaves a tombstone. The
//! owner follows the whole saga with [`SagaState`], has the timers, and asks for compensations where events alone do not
//! lead to them.
//!
//! A driver stores the new state, marks the event as processed and writes the emitted events in one transaction. Both
//! machines are safe against duplicates, reordering across topics and timers that fire late or twice.

mod definition;
mod error;
mod graph;
mod owner;
mod participant;

pub use definition::{Definition, Draft, Participant, Step, StepIndex, StepKind};
pub use error::DefinitionError;
pub use owner::{
    Action, Cause, Command, Ignored, Input, OwnerEvent, Phase, Refused, SagaState, StepProgress, StepStatus, Stuck,
    Transition,
};
pub use participant::{
    Decision, Emission, IgnoredPart, Outcome, Reaction, RefusedPart, StepEvent, StepPhase, StepState,
};
