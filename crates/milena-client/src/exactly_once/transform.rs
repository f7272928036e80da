//! What is done with each record.

use std::future::Future;

use crate::{consumer::RecordRef, producer::Transaction};

/// What is done with each record, in a form that can be spawned: see [`ExactlyOnce::run_with`](super::ExactlyOnce::run_with).
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

    /// Writes to the transaction what follows from the record. If it fails, the transaction is aborted. What fails because
    /// the transaction has failed should be handed on: it is called again then.
    fn transform(
        &mut self,
        record: RecordRef<'_>,
        transaction: &Transaction<'_>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send;
}

/// Closures and [`Transform`]s alike. That the future of a closure is `Send` cannot be asked for, so this does not.
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
