//! Results of the user's functions.

use bytes::Bytes;
use milena_app::handler::Fault;
use milena_machines::saga;
use serde::Serialize;

/// Result of a step, a compensation, or a function for the end of a saga, with the payload of the event that follows.
#[derive(Debug, Clone, PartialEq, Eq)]
#[must_use = "the event of the step is written when the function returns it"]
pub struct Outcome {
    pub(crate) result: saga::Outcome,
    pub(crate) payload: Option<Bytes>,
    pub(crate) headers: Vec<(String, String)>,
    pub(crate) reason: Option<String>,
}

impl Outcome {
    /// Success. The payload of the event is `{}` unless it is set.
    pub fn done() -> Self {
        Self {
            result: saga::Outcome::Done,
            payload: None,
            headers: vec![],
            reason: None,
        }
    }

    /// A failure of the business, such as a declined card: the saga is compensated. All that the function has written to
    /// the database is undone. The payload of the event is `{"reason": …}` unless it is set.
    ///
    /// Other failures are errors: the runtime retries the step.
    pub fn failed(reason: impl Into<String>) -> Self {
        Self {
            result: saga::Outcome::Failed,
            reason: Some(reason.into()),
            ..Self::done()
        }
    }

    /// Sets the payload of the event.
    pub fn payload(mut self, payload: impl Into<Bytes>) -> Self {
        self.payload = Some(payload.into());
        self
    }

    /// Sets the payload of the event to the JSON text of a value.
    pub fn json<T: Serialize + ?Sized>(self, value: &T) -> Result<Self, serde_json::Error> {
        Ok(self.payload(serde_json::to_vec(value)?))
    }

    /// Adds a header to the event.
    pub fn header(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) fn event_payload(&self) -> Bytes {
        match (&self.payload, &self.reason) {
            (Some(payload), _) => payload.clone(),
            (None, Some(reason)) => serde_json::json!({ "reason": reason }).to_string().into(),
            (None, None) => Bytes::from_static(b"{}"),
        }
    }
}

#[diagnostic::on_unimplemented(
    message = "a step of a saga cannot return `{Self}`",
    label = "not an outcome of a step",
    note = "return `()`, `Outcome`, or a `Result` of either with an error"
)]
/// Return type of the user's functions: `()`, an [`Outcome`], or a `Result` of either.
pub trait IntoStepOutcome {
    fn into_step_outcome(self) -> Result<Outcome, Fault>;
}

impl IntoStepOutcome for () {
    fn into_step_outcome(self) -> Result<Outcome, Fault> {
        Ok(Outcome::done())
    }
}

impl IntoStepOutcome for Outcome {
    fn into_step_outcome(self) -> Result<Outcome, Fault> {
        Ok(self)
    }
}

impl<T: IntoStepOutcome, E: Into<Fault>> IntoStepOutcome for Result<T, E> {
    fn into_step_outcome(self) -> Result<Outcome, Fault> {
        self.map_err(Into::into).and_then(IntoStepOutcome::into_step_outcome)
    }
}
