//! Handlers: plain async functions.
//!
//! A handler takes [extractors](Extract). It returns the outcome of the record: `()`, a [`Done`], or a `Result` of either
//! whose error becomes a [`Fault`].
//!
//! ```
//! use milena_app::handler::{Cx, Done, Event, Fault, State};
//!
//! #[derive(serde::Deserialize)]
//! struct OrderPlaced {
//!     id: u64,
//! }
//! # #[derive(Clone)]
//! # struct Payments;
//! # impl Payments { async fn charge(&self, order: u64, key: &str) -> std::io::Result<()> { Ok(()) } }
//!
//! async fn charge(Event(order): Event<OrderPlaced>, State(payments): State<Payments>, cx: Cx) -> Result<Done, Fault> {
//!     // An error of the payment service counts against its breaker, and the record comes again.
//!     let paid = payments.charge(order.id, &cx.event_id()).await;
//!     paid.map_err(Fault::dependency("payments"))?;
//!     Ok(Done::Ok)
//! }
//! ```

mod batch;
mod check;
mod cx;
mod done;
mod extract;
mod fault;
mod scope;
mod trace;

use std::future::Future;

pub use batch::{Batch, BatchHandler, IntoOutcomes, Outcomes, WrongCount};
#[doc(hidden)]
pub use check::check;
pub use cx::{ArgumentError, Cx, MissingState};
pub(crate) use cx::{Scope, States, TopicScope};
pub use done::{Done, IntoOutcome, OutRecord};
use extract::extract_plain;
pub use extract::{Available, Decoded, Event, Extract, Headers, Key, Raw, State, Value};
pub use fault::{BoxError, Fault, Intent, Panicked, TimedOut};
pub use scope::{CallScope, EmitInScope, Opened, Opening, ScopeFuture};
pub use trace::TraceContext;
pub(crate) use trace::{TRACEPARENT, TRACESTATE, call_span};

#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a handler",
    label = "not a handler",
    note = "a handler is an `async fn` of up to eight arguments, each of them `Event<T>`, `Value<T>`, `Key<T>`, `State<S>`, \
            `Headers`, `Raw`, `Cx`, or an `Option` of one",
    note = "it returns `()`, `Done`, or a `Result` of either with an error that implements `std::error::Error + Send + Sync`, \
            or a `Fault`",
    note = "its future must be `Send`: nothing like `Rc` or a `MutexGuard` of `std` may live across an `.await`",
    note = "`milena::app::check_handler!(my_handler);` beside the function names the part that is wrong"
)]
/// Handles one record per call. Async functions and closures of up to eight [extractors](Extract) are handlers.
pub trait Handler<A>: Send + Sync + 'static {
    fn call(&self, cx: Cx) -> impl Future<Output = Result<Done, Fault>> + Send;

    /// Checks that the application has the states that the handler takes.
    fn check(available: &Available<'_>) -> Result<(), ArgumentError>;
}

/// Why a handler cannot have two scoped arguments; shown by the compiler.
const ONE_SCOPE: &str = "a handler can take one transaction: two cannot be committed together";

/// Number of scoped arguments.
const fn scoped(arguments: &[bool]) -> usize {
    match arguments {
        [first, others @ ..] => *first as usize + scoped(others),
        [] => 0,
    }
}

/// Opens an argument if it is scoped, or else takes the one that was read. Returns from the call if all records are
/// duplicates.
macro_rules! open {
    ($argument:ident, $opening:ident, $duplicate:expr) => {
        match $argument {
            Some(argument) => argument,
            None => match $argument::open($opening).await? {
                Opened::Ready(argument) => argument,
                Opened::Duplicate => return $duplicate,
            },
        }
    };
}

macro_rules! handlers {
    ($($argument:ident)*) => {
        impl<F, R, O, $($argument,)*> Handler<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> R + Send + Sync + 'static,
            R: Future<Output = O> + Send,
            O: IntoOutcome,
            $($argument: Extract,)*
        {
            #[allow(non_snake_case, reason = "arguments are named like their types")]
            async fn call(&self, cx: Cx) -> Result<Done, Fault> {
                #[allow(unused_variables, reason = "a handler without arguments has no use for it")]
                fn read<$($argument: Extract),*>(cx: &Cx) -> Result<($($argument,)*), Fault> {
                    Ok(($($argument::extract(cx)?,)*))
                }
                const { assert!(scoped(&[$($argument::IS_SCOPED),*]) <= 1, "{}", ONE_SCOPE) };
                if const { scoped(&[$($argument::IS_SCOPED),*]) > 0 } {
                    // Boxed, so that other handlers do not have its size.
                    let call = Box::pin(async move {
                        $(let $argument = extract_plain::<$argument>(&cx);)*
                        cx.are_read();
                        $(let $argument = $argument?;)*
                        let opening = &mut Opening::one(&cx);
                        $(let $argument = open!($argument, opening, Ok(Done::Duplicate));)*
                        let (scope, _) = opening.take_parts();
                        let outcome = self($($argument),*).await.into_outcome();
                        scope::finish(scope, outcome).await
                    });
                    return call.await;
                }
                // Dropped here, so that it is not kept while the handler waits.
                let call = {
                    let arguments = read::<$($argument),*>(&cx);
                    cx.are_read();
                    let ($($argument,)*) = arguments?;
                    self($($argument),*)
                };
                call.await.into_outcome()
            }

            #[allow(unused_variables, reason = "a handler without arguments has no use for it")]
            fn check(available: &Available<'_>) -> Result<(), ArgumentError> {
                available.check_scope(const { scoped(&[$($argument::IS_SCOPED),*]) > 0 })?;
                $($argument::check(available)?;)*
                Ok(())
            }
        }
    };
}

handlers!();
handlers!(A);
handlers!(A B);
handlers!(A B C);
handlers!(A B C D);
handlers!(A B C D E);
handlers!(A B C D E G);
handlers!(A B C D E G H);
handlers!(A B C D E G H I);

#[cfg(test)]
mod tests {
    use std::{mem::size_of_val, sync::Arc};

    use super::*;
    use crate::{clock::Clock, failure::HeaderTrust, testing::record_with_headers};

    fn cx() -> Cx {
        let scope = TopicScope {
            handler: 0,
            source: 0,
            group: Arc::from("billing"),
            handler_name: Arc::from("orders"),
            clock: Clock::real(),
            states: States::default(),
            captures: vec![],
            header_trust: HeaderTrust::None,
            owner: None,
        };
        let records = record_with_headers(&[]);
        let record = records.runs().next().map(|run| run.into_first());
        Cx {
            scope: Arc::new(Arc::new(scope)),
            record: record.expect("a record"),
            attempt: 1,
            is_lowest: false,
            mark: None,
        }
    }

    #[test]
    fn a_call_without_a_scope_is_as_large_as_its_context_and_its_handler() {
        let handler = |_record: Raw, _cx: Cx| async { std::future::pending::<()>().await };
        let own = size_of_val(&handler(Raw(cx().record), cx()));
        let call = size_of_val(&Handler::call(&handler, cx()));
        // The compiler keeps an argument of an async function twice. The rest is the reference to the handler, the box of
        // a call with a scope, and states.
        let most = own + 2 * size_of::<Cx>() + 24;
        assert!(call <= most, "{call} > {most}");
    }
}
