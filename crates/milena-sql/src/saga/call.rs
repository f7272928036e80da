//! The user's functions, and their arguments.

use std::{any::Any, future::Future, pin::Pin, sync::Arc};

use milena_app::handler::{Cx, Decoded, Event, Extract, Fault, Headers, Key, Raw, State, Value};
use sqlx::{Postgres, Sqlite};

use super::{IntoStepOutcome, Outcome};
use crate::{
    Connection, Transaction,
    once::{HandlerKeptTx, Slot, Tx, TxDatabase, take},
};

/// The transaction of a change, while no function of the user has it.
#[derive(Debug)]
pub(crate) struct TransactionHolder(Option<Transaction>);

/// The transaction of a change, while a function of the user may have it.
#[derive(Debug)]
pub(crate) enum LentTransaction {
    Postgres(Arc<Slot<Postgres>>),
    Sqlite(Arc<Slot<Sqlite>>),
}

impl TransactionHolder {
    pub(crate) fn new(transaction: Transaction) -> Self {
        Self(Some(transaction))
    }

    /// Fails after a function has kept the transaction.
    pub(crate) fn connection(&mut self) -> Result<Connection<'_>, Fault> {
        self.0.as_mut().map(Transaction::connection).ok_or_else(kept)
    }

    pub(crate) fn into_inner(self) -> Result<Transaction, Fault> {
        self.0.ok_or_else(kept)
    }

    pub(crate) fn lend(&mut self) -> Result<LentTransaction, Fault> {
        Ok(match self.0.take().ok_or_else(kept)? {
            Transaction::Postgres(transaction) => LentTransaction::Postgres(Arc::new(Slot::new(Some(transaction)))),
            Transaction::Sqlite(transaction) => LentTransaction::Sqlite(Arc::new(Slot::new(Some(transaction)))),
        })
    }

    pub(crate) fn take_back(&mut self, lent: &LentTransaction) -> Result<(), Fault> {
        self.0 = match lent {
            LentTransaction::Postgres(slot) => take(slot).map(Transaction::Postgres),
            LentTransaction::Sqlite(slot) => take(slot).map(Transaction::Sqlite),
        };
        self.0.as_ref().map(drop).ok_or_else(kept)
    }
}

fn kept() -> Fault {
    Fault::fatal(HandlerKeptTx)
}

fn lend<D: TxDatabase>(lent: &LentTransaction, cause: Option<&Cx>) -> Result<Tx<D>, Fault> {
    let slot: &dyn Any = match lent {
        LentTransaction::Postgres(slot) => slot,
        LentTransaction::Sqlite(slot) => slot,
    };
    let slot = slot.downcast_ref::<Arc<Slot<D>>>().ok_or_else(|| {
        let name = <D as sqlx::Database>::NAME;
        Fault::fatal(format!(
            "a function of a saga takes a transaction of {name}, but the sagas are in another database"
        ))
    })?;
    Tx::take_from(slot, cause).ok_or_else(|| Fault::fatal("a function of a saga can take one transaction"))
}

/// Id of the saga, such as the number of an order. An argument of steps, compensations and functions for the end.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SagaId(pub String);

/// End of a saga: an argument of the functions for the end.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SagaEnd {
    pub saga_id: String,
    /// Why the saga was cancelled; `None` if it is completed.
    pub reason: Option<String>,
}

/// Call of a step or of a compensation.
#[doc(hidden)]
#[derive(Debug)]
pub struct StepCall<'a> {
    pub(crate) cx: &'a Cx,
    pub(crate) saga_id: &'a str,
    pub(crate) transaction: &'a LentTransaction,
}

/// Call of a function for the end of a saga.
#[doc(hidden)]
#[derive(Debug)]
pub struct EndCall<'a> {
    pub(crate) end: &'a SagaEnd,
    pub(crate) transaction: &'a LentTransaction,
}

#[diagnostic::on_unimplemented(
    message = "`{Self}` cannot be an argument of this function of a saga",
    note = "steps and compensations take `Tx<Postgres>` or `Tx<Sqlite>`, `SagaId`, and the arguments of handlers, such \
            as `Event<T>` and `State<S>`",
    note = "functions for the end of a saga take `Tx`, `SagaId` and `SagaEnd`: a timer may end a saga, without a record"
)]
/// An argument of a function of a saga.
pub trait Argument<C>: Sized + Send {
    fn take(call: &C) -> Result<Self, Fault>;
}

macro_rules! from_record {
    ($([$($generic:tt)*] $argument:ty),* $(,)?) => {$(
        impl<$($generic)*> Argument<StepCall<'_>> for $argument
        where
            Self: Extract,
        {
            fn take(call: &StepCall<'_>) -> Result<Self, Fault> {
                Self::extract(call.cx)
            }
        }
    )*};
}

from_record! {
    [T] Event<T>,
    [T] Value<T>,
    [T] Key<T>,
    [T, D] Decoded<T, D>,
    [S] State<S>,
    [] Headers,
    [] Raw,
    [] Cx,
}

impl<'a, T: Argument<StepCall<'a>>> Argument<StepCall<'a>> for Option<T> {
    /// `None` if the argument cannot be decoded.
    fn take(call: &StepCall<'a>) -> Result<Self, Fault> {
        Ok(T::take(call).ok())
    }
}

impl Argument<StepCall<'_>> for SagaId {
    fn take(call: &StepCall<'_>) -> Result<Self, Fault> {
        Ok(Self(call.saga_id.to_owned()))
    }
}

impl Argument<EndCall<'_>> for SagaId {
    fn take(call: &EndCall<'_>) -> Result<Self, Fault> {
        Ok(Self(call.end.saga_id.clone()))
    }
}

impl Argument<EndCall<'_>> for SagaEnd {
    fn take(call: &EndCall<'_>) -> Result<Self, Fault> {
        Ok(call.end.clone())
    }
}

impl<D: TxDatabase> Argument<StepCall<'_>> for Tx<D> {
    fn take(call: &StepCall<'_>) -> Result<Self, Fault> {
        lend(call.transaction, Some(call.cx))
    }
}

impl<D: TxDatabase> Argument<EndCall<'_>> for Tx<D> {
    fn take(call: &EndCall<'_>) -> Result<Self, Fault> {
        lend(call.transaction, None)
    }
}

/// A call of a function of the user.
pub type FunctionFuture = Pin<Box<dyn Future<Output = Result<Outcome, Fault>> + Send>>;

/// A function behind a pointer.
pub(crate) type StepFn = Arc<dyn Fn(&StepCall<'_>) -> Result<FunctionFuture, Fault> + Send + Sync>;
pub(crate) type EndFn = Arc<dyn Fn(&EndCall<'_>) -> Result<FunctionFuture, Fault> + Send + Sync>;

#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a step of a saga",
    note = "a step or a compensation is an `async fn` of up to six arguments: `Tx<Postgres>` or `Tx<Sqlite>`, `SagaId`, \
            and the arguments of handlers, such as `Event<T>` and `State<S>`",
    note = "it returns `()`, `Outcome`, or a `Result` of either with an error"
)]
/// A step or a compensation: an async function.
pub trait StepFunction<A>: Send + Sync + 'static {
    #[doc(hidden)]
    fn call(&self, call: &StepCall<'_>) -> Result<FunctionFuture, Fault>;
}

#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a function for the end of a saga",
    note = "it is an `async fn` that takes some of `Tx<Postgres>` or `Tx<Sqlite>`, `SagaId` and `SagaEnd`, and returns `()`, \
            `Outcome`, or a `Result` of either"
)]
/// A function for the end of a saga.
pub trait EndFunction<A>: Send + Sync + 'static {
    #[doc(hidden)]
    fn call(&self, call: &EndCall<'_>) -> Result<FunctionFuture, Fault>;
}

macro_rules! functions {
    ($function:ident, $call:ident: $($argument:ident)*) => {
        impl<F, R, O, $($argument,)*> $function<($($argument,)*)> for F
        where
            F: Fn($($argument),*) -> R + Send + Sync + 'static,
            R: Future<Output = O> + Send + 'static,
            O: IntoStepOutcome,
            $($argument: for<'a> Argument<$call<'a>>,)*
        {
            fn call(&self, call: &$call<'_>) -> Result<FunctionFuture, Fault> {
                // A function without arguments does not use it.
                let _ = call;
                let future = self($($argument::take(call)?),*);
                Ok(Box::pin(async move { future.await.into_step_outcome() }))
            }
        }
    };
}

functions!(StepFunction, StepCall:);
functions!(StepFunction, StepCall: A);
functions!(StepFunction, StepCall: A B);
functions!(StepFunction, StepCall: A B C);
functions!(StepFunction, StepCall: A B C D);
functions!(StepFunction, StepCall: A B C D E);
functions!(StepFunction, StepCall: A B C D E G);
functions!(EndFunction, EndCall:);
functions!(EndFunction, EndCall: A);
functions!(EndFunction, EndCall: A B);
functions!(EndFunction, EndCall: A B C);

/// Begins a part of a transaction that can be undone alone.
pub(crate) async fn savepoint(connection: Connection<'_>, statement: &'static str) -> Result<(), sqlx::Error> {
    match connection {
        Connection::Postgres(connection) => sqlx::query(statement).execute(connection).await.map(drop),
        Connection::Sqlite(connection) => sqlx::query(statement).execute(connection).await.map(drop),
    }
}
