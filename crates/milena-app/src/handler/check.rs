//! A compile-time check that names the reason why a function is not a handler.
//!
//! [`App::on`](crate::App::on) takes functions of several shapes, so the compiler can only report that none of them
//! matches. [`check_handler!`](crate::check_handler) checks each part separately, and the compiler names the part.

use std::future::Future;

use super::{Extract, IntoOutcome};

/// A function of up to eight arguments of any type.
pub trait Shape<A> {
    /// Return type of the function.
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

/// Return type of a handler: a `Send` future with an outcome.
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

/// Compiles only if the function is a handler. Use [`check_handler!`](crate::check_handler).
pub fn check<F, A>(handler: &F)
where
    F: Shape<A> + Send + Sync + 'static,
    A: Arguments,
    F::Output: Call,
{
    let _ = handler;
}

/// Names the part of a function that keeps it from being a handler: an argument, the return type, or a value held across an
/// `.await`.
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
