//! The transform of a record.

use std::future::Future;

use crate::{consumer::RecordRef, producer::Transaction};

/// A function of a record, in a form whose future can be spawned: see
/// [`ExactlyOnce::run_with`](super::ExactlyOnce::run_with).
///
/// ```
/// use milena_client::{
///     consumer::RecordRef,
///     exactly_once::Transform,
///     producer::{ProducerRecord, SendError, Transaction},
/// };
///
/// struct CopyTo(String);
///
/// impl Transform for CopyTo {
///     type Error = SendError;
///
///     async fn transform(&mut self, letter: RecordRef<'_>, transaction: &Transaction<'_>) -> Result<(), SendError> {
///         let copy = ProducerRecord::new(&self.0).value(letter.value().unwrap_or_default());
///         transaction.enqueue(copy).await.map(drop)
///     }
/// }
/// ```
pub trait Transform: Send {
    type Error: Send;

    /// Writes the results of a record to the transaction. An error aborts the transaction. Errors of the transaction
    /// itself should be passed on: the record is then transformed again.
    fn transform(
        &mut self,
        record: RecordRef<'_>,
        transaction: &Transaction<'_>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Closures and [`Transform`]s. A `Send` bound on the future of a closure cannot be expressed, so there is none.
pub(super) trait Apply<E> {
    async fn apply(&mut self, record: RecordRef<'_>, transaction: &Transaction<'_>) -> Result<(), E>;
}

pub(super) struct Closure<F>(pub(super) F);

impl<E, F: AsyncFnMut(RecordRef<'_>, &Transaction<'_>) -> Result<(), E>> Apply<E> for Closure<F> {
    async fn apply(&mut self, record: RecordRef<'_>, transaction: &Transaction<'_>) -> Result<(), E> {
        (self.0)(record, transaction).await
    }
}

pub(super) struct Spawnable<'a, T>(pub(super) &'a mut T);

impl<T: Transform> Apply<T::Error> for Spawnable<'_, T> {
    async fn apply(&mut self, record: RecordRef<'_>, transaction: &Transaction<'_>) -> Result<(), T::Error> {
        self.0.transform(record, transaction).await
    }
}
