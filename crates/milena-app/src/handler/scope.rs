//! Scopes: work around a handler call, such as a database transaction.
//!
//! An argument with [`Extract::IS_SCOPED`](super::Extract::IS_SCOPED) is prepared by an asynchronous
//! [`open`](super::Extract::open) and leaves a [`CallScope`] with the runtime. The scope is committed when the handler
//! has succeeded and rolled back otherwise. A call that is dropped drops its scope: after a timeout, a panic, a revoke,
//! or at the end of the process nothing is committed.

use std::{fmt, future::Future, mem, pin::Pin, slice, sync::Arc, time::Duration};

use super::{Cx, Done, Fault, Outcomes};

/// A boxed future of a [`CallScope`].
pub type ScopeFuture<T> = Pin<Box<dyn Future<Output = T> + Send>>;

/// Work that began before a handler call and ends after it. Dropping it is a rollback.
pub trait CallScope: Send + 'static {
    /// Makes the effects of the call permanent. After an error the record is handled again, although the effects may be
    /// permanent: the scope must find out then.
    fn commit(self: Box<Self>) -> ScopeFuture<Result<(), Fault>>;

    /// Undoes the effects of the call.
    fn rollback(self: Box<Self>) -> ScopeFuture<()>;
}

/// A scoped argument, ready for the call.
#[derive(Debug)]
pub enum Opened<T> {
    Ready(T),
    /// All records of the call were handled before. The handler is not called.
    Duplicate,
}

/// A call whose scoped argument is being prepared.
pub struct Opening<'a> {
    records: &'a [Cx],
    is_batch: bool,
    /// Records that the handler does not get, in order.
    left_out: Vec<usize>,
    duplicates: Vec<usize>,
    scope: Option<Box<dyn CallScope>>,
}

impl<'a> Opening<'a> {
    /// A call with one record.
    pub(super) fn one(cx: &'a Cx) -> Self {
        Self {
            is_batch: false,
            ..Self::batch(slice::from_ref(cx), vec![])
        }
    }

    pub(super) fn batch(records: &'a [Cx], left_out: Vec<usize>) -> Self {
        Self {
            records,
            is_batch: true,
            left_out,
            duplicates: vec![],
            scope: None,
        }
    }

    /// Records of the call with their indexes: one, or those of a batch that could be decoded.
    pub fn records(&self) -> impl Iterator<Item = (usize, &'a Cx)> {
        let left_out = |index: &usize| self.left_out.binary_search(index).is_ok();
        let records = self.records.iter().enumerate();
        records.filter(move |(index, _)| !left_out(index))
    }

    /// Whether it is the call of a batch handler.
    pub fn is_batch(&self) -> bool {
        self.is_batch
    }

    /// Context of the first record. The group, the handler and the states are the same for all.
    pub fn first(&self) -> Result<&'a Cx, Fault> {
        let first = self.records.first();
        first.ok_or_else(|| Fault::fatal("a call without a record; this is a bug in Milena"))
    }

    /// Marks a record of a batch as handled before: the handler does not get it.
    pub fn mark_duplicate(&mut self, index: usize) {
        if let Err(place) = self.duplicates.binary_search(&index) {
            self.duplicates.insert(place, index);
        }
    }

    /// Sets the scope of the call. It replaces an earlier one, which is rolled back.
    pub fn set_scope(&mut self, scope: impl CallScope) {
        self.scope = Some(Box::new(scope));
    }

    /// The scope, and the indexes of duplicates.
    pub(super) fn take_parts(&mut self) -> (Option<Box<dyn CallScope>>, Vec<usize>) {
        (self.scope.take(), mem::take(&mut self.duplicates))
    }
}

impl fmt::Debug for Opening<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Opening")
            .field("records", &self.records)
            .field("duplicates", &self.duplicates)
            .field("has_scope", &self.scope.is_some())
            .finish_non_exhaustive()
    }
}

/// A handler with a scoped argument has emitted records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the handler returned Done::Emit or Done::Reply and takes a transaction: a crash after its commit would lose the output, because the \
     record is then skipped as a duplicate; write the output through the transaction, with tx.outbox(…)"
)]
pub struct EmitInScope;

/// Delay of records whose effects were rolled back because of other records of their batch.
const AGAIN: Duration = Duration::from_millis(1);

/// How a call ends its scope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ending {
    Commit,
    Rollback,
    /// The handler emits records.
    Refuse,
}

impl Ending {
    fn of(done: &Done) -> Self {
        match done {
            Done::Emit(records) if !records.is_empty() => Self::Refuse,
            Done::Reply(_) => Self::Refuse,
            Done::Ok | Done::Skip(_) | Done::Emit(_) => Self::Commit,
            // Nothing of this call is wanted: the record was handled before, or will be handled again.
            Done::Duplicate | Done::RetryAfter(_) => Self::Rollback,
        }
    }
}

/// Ends the scope of a call with one record.
pub(super) async fn finish(scope: Option<Box<dyn CallScope>>, outcome: Result<Done, Fault>) -> Result<Done, Fault> {
    let Some(scope) = scope else { return outcome };
    match outcome.as_ref().map_or(Ending::Rollback, Ending::of) {
        Ending::Commit => scope.commit().await?,
        Ending::Rollback => scope.rollback().await,
        Ending::Refuse => {
            scope.rollback().await;
            return Err(Fault::fatal(EmitInScope));
        }
    }
    outcome
}

/// Ends the scope of a batch. One record that is not done rolls back all of them: their effects are one. The others come
/// again at once, which uses up no attempt.
pub(super) async fn finish_batch(scope: Option<Box<dyn CallScope>>, outcomes: Outcomes) -> Outcomes {
    let Some(scope) = scope else { return outcomes };
    let ending = match &outcomes {
        Outcomes::All(done) => Ending::of(done),
        Outcomes::Failed(_) => Ending::Rollback,
        Outcomes::Each(each) => {
            let endings = each.iter().map(|outcome| match outcome {
                // Its effects, if it has any, are those of a record that is done.
                Ok(Done::Duplicate) => Ending::Commit,
                Ok(done) => Ending::of(done),
                Err(_) => Ending::Rollback,
            });
            let worst = |worst, ending| match (worst, ending) {
                (Ending::Refuse, _) | (_, Ending::Refuse) => Ending::Refuse,
                (Ending::Rollback, _) | (_, Ending::Rollback) => Ending::Rollback,
                (Ending::Commit, Ending::Commit) => Ending::Commit,
            };
            endings.fold(Ending::Commit, worst)
        }
    };
    match ending {
        Ending::Commit => match scope.commit().await {
            Ok(()) => outcomes,
            Err(fault) => Outcomes::Failed(Arc::new(fault)),
        },
        Ending::Rollback => {
            scope.rollback().await;
            handled_again(outcomes)
        }
        Ending::Refuse => {
            scope.rollback().await;
            Outcomes::Failed(Arc::new(Fault::fatal(EmitInScope)))
        }
    }
}

/// Outcomes of a batch that was rolled back.
fn handled_again(outcomes: Outcomes) -> Outcomes {
    let Outcomes::Each(each) = outcomes else {
        return outcomes;
    };
    let again = |outcome| match outcome {
        Ok(Done::RetryAfter(_)) | Err(_) => outcome,
        Ok(_) => Ok(Done::RetryAfter(AGAIN)),
    };
    Outcomes::Each(each.into_iter().map(again).collect())
}
