//! A check that names what keeps a function from being a handler.
//!
//! [`App::on`](crate::App::on) takes functions of several shapes, so the compiler can only say that a function has none of
//! them. [`check_handler!`](crate::check_handler) asks for each part by itself, and the compiler names the part.

use std::future::Future;

use super::{Extract, IntoOutcome};

/// A function of up to eight arguments, whatever they are.
pub trait Shape<A> {
    /// Its result.
    type Output;
}

/// Arguments that are all [extractors](Extract).
pub trait Arguments {}

macro_rules! shapes {
    ($($argument:ident)*) => {
        impl<F, R, $($argument,)*> Shape<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> R,
        {
            type Output = R;
        }

        impl<$($argument: Extract),*> Arguments for ($($argument,)*) {}
    };
}

shapes!();
shapes!(A);
shapes!(A B);
shapes!(A B C);
shapes!(A B C D);
shapes!(A B C D E);
shapes!(A B C D E G);
shapes!(A B C D E G H);
shapes!(A B C D E G H I);

/// The result of a handler: a future that may move between threads, with an outcome.
#[diagnostic::on_unimplemented(
    message = "a handler must be an `async fn`, and this returns `{Self}`",
    label = "not a future with an outcome",
    note = "declare it with `async fn`; its result is `()`, `Done`, or `Result` of either with an error"
)]
pub trait Call {}

impl<R> Call for R
where
    R: Future + Send,
    R::Output: IntoOutcome,
{
}

/// Compiles if a function is a handler. Use [`check_handler!`](crate::check_handler).
pub fn check<F, A>(handler: &F)
where
    F: Shape<A> + Send + Sync + 'static,
    A: Arguments,
    F::Output: Call,
{
    let _ = handler;
}

/// Says which part of a function keeps it from being a handler: an argument, the result, or what it holds across an `.await`.
///
/// ```
/// use milena_app::prelude::*;
///
/// async fn charge(Value(order): Value<String>) -> Result<(), Fault> {
///     Ok(())
/// }
///
/// milena_app::check_handler!(charge);
/// ```
#[macro_export]
macro_rules! check_handler {
    ($handler:expr) => {
        const _: fn() = || $crate::handler::check(&$handler);
    };
}
