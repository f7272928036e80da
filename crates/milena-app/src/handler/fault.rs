//! Faults: errors of handlers with the intended reaction.

use std::{any::type_name, borrow::Cow, error::Error, fmt};

use milena_client::consumer::deserialize::DeserializeError;

/// A boxed error of any type.
pub type BoxError = Box<dyn Error + Send + Sync>;

/// Reaction to a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Intent {
    /// Retry as the policy says, then the retry topics, then a dead letter.
    Retry,
    /// The record can never be handled: dead letter at once.
    Poison,
    /// A dependency is unavailable. Like `Retry`, and counted by the circuit breaker of this name. While the breaker is
    /// open the record waits without using up an attempt.
    Dependency(Cow<'static, str>),
    /// The application stops; the record is not committed.
    Fatal,
}

impl Intent {
    fn name(&self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Poison => "poison",
            Self::Dependency(_) => "dependency",
            Self::Fatal => "fatal",
        }
    }
}

/// An error with its [`Intent`].
///
/// `?` turns every error into a fault with [`Intent::Retry`]. A fault does not implement `Error` itself, which is why
/// `?` works for all error types.
pub struct Fault {
    intent: Intent,
    /// See [`Fault::class`].
    class: Cow<'static, str>,
    error: BoxError,
    /// See [`Fault::with_details`].
    details: Option<String>,
}

impl Fault {
    /// A fault with [`Intent::Retry`].
    pub fn retry<E: Into<BoxError>>(error: E) -> Self {
        Self::new(Intent::Retry, error)
    }

    /// A fault with [`Intent::Poison`].
    pub fn poison<E: Into<BoxError>>(error: E) -> Self {
        Self::new(Intent::Poison, error)
    }

    /// A fault with [`Intent::Fatal`].
    pub fn fatal<E: Into<BoxError>>(error: E) -> Self {
        Self::new(Intent::Fatal, error)
    }

    /// A fault of a dependency: `call.await.map_err(Fault::dependency("psp"))?`.
    pub fn dependency<E: Into<BoxError>>(name: impl Into<Cow<'static, str>>) -> impl FnOnce(E) -> Self {
        let name = name.into();
        move |error| Self::new(Intent::Dependency(name), error)
    }

    fn new<E: Into<BoxError>>(intent: Intent, error: E) -> Self {
        let class = match unboxed(type_name::<E>()) {
            // A plain text has no type worth reporting; its intent is.
            "&str" | "alloc::string::String" => intent.name(),
            // The type of an error behind `dyn Error` is unknown.
            class if class.starts_with("dyn ") => intent.name(),
            class => class,
        };
        Self {
            intent,
            class: class.into(),
            error: error.into(),
            details: None,
        }
    }

    /// Sets the class of the failure, for `dlq.failure.exception`. By default it is the type of the error.
    #[must_use]
    pub fn with_class(mut self, class: impl Into<Cow<'static, str>>) -> Self {
        self.class = class.into();
        self
    }

    /// Adds text to `dlq.stacktrace`, below the error and its causes: a stack trace, or the last lines of a log.
    #[must_use]
    pub fn with_details(mut self, details: impl Into<String>) -> Self {
        self.details = Some(details.into()).filter(|details| !details.is_empty());
        self
    }

    pub fn intent(&self) -> &Intent {
        &self.intent
    }

    /// Class of the failure, as in `dlq.failure.exception`: the class set by [`with_class`](Self::with_class), else the
    /// type of the error, or the intent if the error is plain text.
    pub fn class(&self) -> &str {
        &self.class
    }

    pub(crate) fn shared_class(&self) -> Cow<'static, str> {
        self.class.clone()
    }

    /// Returns whether the record could not be decoded.
    pub(crate) fn is_decode_error(&self) -> bool {
        self.error.is::<DeserializeError>() || self.error.is::<Box<DeserializeError>>()
    }

    pub fn error(&self) -> &(dyn Error + Send + Sync + 'static) {
        &*self.error
    }

    /// The error, its causes and the details, one per line.
    pub fn chain(&self) -> String {
        let mut text = self.error.to_string();
        let mut cause = self.error.source();
        while let Some(error) = cause {
            text.push_str("\ncaused by: ");
            text.push_str(&error.to_string());
            cause = error.source();
        }
        if let Some(details) = &self.details {
            text.push('\n');
            text.push_str(details);
        }
        text
    }
}

/// Returns the name of the type inside of a `Box`, or else the name itself.
fn unboxed(class: &'static str) -> &'static str {
    let inner = class.strip_prefix("alloc::boxed::Box<");
    inner.and_then(|inner| inner.strip_suffix('>')).map_or(class, unboxed)
}

impl<E: Error + Send + Sync + 'static> From<E> for Fault {
    fn from(error: E) -> Self {
        Self::retry(error)
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl fmt::Debug for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fault")
            .field("intent", &self.intent)
            .field("error", &self.error)
            .finish()
    }
}

/// The handler did not return within its timeout.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the handler timed out after {limit_ms} ms; its effects may be incomplete")]
pub struct TimedOut {
    pub limit_ms: u64,
}

/// The handler panicked.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the handler panicked: {message}")]
pub struct Panicked {
    pub message: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[derive(Debug, thiserror::Error)]
    #[error("no stock")]
    struct NoStock(#[source] std::num::ParseIntError);

    fn fails() -> Result<(), Fault> {
        "x".parse::<i32>().map_err(NoStock)?;
        Ok(())
    }

    #[test]
    fn a_question_mark_means_try_again_and_keeps_the_causes() {
        let fault = fails().unwrap_err();
        assert_eq!(*fault.intent(), Intent::Retry);
        assert!(fault.class().ends_with("NoStock"), "{}", fault.class());
        assert_eq!(fault.chain(), "no stock\ncaused by: invalid digit found in string");
    }

    #[test]
    fn intents_are_made_where_errors_are_mapped() {
        let poison = "x".parse::<i32>().map_err(Fault::poison).unwrap_err();
        assert_eq!(*poison.intent(), Intent::Poison);
        let dependency = "x".parse::<i32>().map_err(Fault::dependency("psp")).unwrap_err();
        assert_eq!(*dependency.intent(), Intent::Dependency("psp".into()));
        assert_eq!(*Fault::fatal("the disk is full").intent(), Intent::Fatal);
    }

    #[test]
    fn a_boxed_error_has_the_class_of_the_error() {
        let parse_error = || "x".parse::<i32>().unwrap_err();
        assert_eq!(
            Fault::retry(Box::new(parse_error())).class(),
            "core::num::error::ParseIntError"
        );
        assert_eq!(Fault::poison(BoxError::from(parse_error())).class(), "poison");
    }

    #[test]
    fn words_are_classed_by_what_is_meant() {
        assert_eq!(Fault::fatal("the disk is full").class(), "fatal");
        assert_eq!(Fault::poison(format!("{} cents", -1)).class(), "poison");
        let named = Fault::retry("no reply")
            .with_class("http.500")
            .with_details("line 1\nline 2");
        assert_eq!(named.class(), "http.500");
        assert_eq!(named.chain(), "no reply\nline 1\nline 2");
    }
}
