//! Sagas whose state is in a database.
//!
//! A [`Participant`] is the part of a service in a saga type: the functions of its steps and compensations. [`Sagas`] adds
//! participants to an application. Every event is one transaction: the note that it was handled, the guarded change of the
//! saga, the effect of the user's function, and the events that follow, in the outbox.
//!
//! The application needs the tables of [`Database::migrate`](crate::Database::migrate), and a relay for its outbox.

mod call;
mod change;
pub mod command;
mod driver;
mod event;
mod metrics;
mod outcome;
mod participant;
mod state;
pub mod store;
mod timers;

pub use call::{Argument, EndFunction, SagaEnd, SagaId, StepFunction};
#[doc(hidden)]
pub use call::{EndCall, FunctionFuture, StepCall};
pub use driver::{AppSagas, Sagas};
pub use metrics::SagaCounts;
pub use outcome::{IntoStepOutcome, Outcome};
pub use participant::{Participant, ParticipantError};
pub use state::StateError;
