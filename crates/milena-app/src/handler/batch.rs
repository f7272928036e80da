//! Batch handlers.

use std::{future::Future, iter, ops::Deref, sync::Arc, vec};

use super::{
    Cx, Done, Fault, IntoOutcome, ONE_SCOPE, Opened, Opening,
    cx::ArgumentError,
    extract::{Available, Extract, NOT_INSIDE, extract_plain},
    scope::finish_batch,
    scoped,
};

/// The records of a batch in the form that the handler takes. Records of one key are in order.
#[derive(Debug)]
pub struct Batch<E>(Vec<E>);

impl<E> Batch<E> {
    pub fn into_vec(self) -> Vec<E> {
        self.0
    }
}

impl<E> Deref for Batch<E> {
    type Target = [E];

    fn deref(&self) -> &[E] {
        &self.0
    }
}

impl<E> IntoIterator for Batch<E> {
    type Item = E;
    type IntoIter = vec::IntoIter<E>;

    fn into_iter(self) -> vec::IntoIter<E> {
        self.0.into_iter()
    }
}

impl<'a, E> IntoIterator for &'a Batch<E> {
    type Item = &'a E;
    type IntoIter = std::slice::Iter<'a, E>;

    fn into_iter(self) -> Self::IntoIter {
        self.0.iter()
    }
}

/// Return type of a batch handler: one outcome for all records, or a `Vec` with one per record.
pub trait IntoOutcomes {
    fn into_outcomes(self) -> Outcomes;
}

/// Outcome of a batch.
#[derive(Debug)]
pub enum Outcomes {
    /// One outcome for all records.
    All(Done),
    /// One failure for all records.
    Failed(Arc<Fault>),
    /// One outcome per record, in order.
    Each(Vec<Result<Done, Arc<Fault>>>),
}

impl IntoOutcomes for () {
    fn into_outcomes(self) -> Outcomes {
        Outcomes::All(Done::Ok)
    }
}

impl IntoOutcomes for Done {
    fn into_outcomes(self) -> Outcomes {
        Outcomes::All(self)
    }
}

impl<O: IntoOutcome> IntoOutcomes for Vec<O> {
    fn into_outcomes(self) -> Outcomes {
        let outcomes = self.into_iter().map(|outcome| outcome.into_outcome().map_err(Arc::new));
        Outcomes::Each(outcomes.collect())
    }
}

impl<T: IntoOutcomes, E: Into<Fault>> IntoOutcomes for Result<T, E> {
    fn into_outcomes(self) -> Outcomes {
        self.map_or_else(
            |error| Outcomes::Failed(Arc::new(error.into())),
            IntoOutcomes::into_outcomes,
        )
    }
}

/// The number of outcomes differs from the number of records.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the handler returned {returned} outcomes for {records} records; return one per record, or one for all")]
pub struct WrongCount {
    pub records: usize,
    pub returned: usize,
}

#[diagnostic::on_unimplemented(
    message = "`{Self}` is not a batch handler",
    label = "not a batch handler",
    note = "a handler of batches is an `async fn` whose first argument is `Batch<E>`, where `E` is `Event<T>`, `Value<T>` or \
            another extractor; it may have up to four more arguments, such as `State<S>`",
    note = "it returns `()`, `Done`, a `Vec` with an outcome for each record, or a `Result` of one of these"
)]
/// Handles several records per call. An async function whose first argument is a [`Batch`] is a batch handler. Its
/// other arguments, up to four, are taken from the first record; they should be the same for all records, as `State`
/// is.
pub trait BatchHandler<A>: Send + Sync + 'static {
    fn call(&self, records: &[Cx]) -> impl Future<Output = Outcomes> + Send;

    /// Checks that the application has the states that the handler takes.
    fn check(available: &Available<'_>) -> Result<(), ArgumentError>;
}

/// A call with a scoped argument: duplicates are taken out of the batch, and the scope ends after the call.
macro_rules! call_scoped {
    ($handler:ident, $records:ident, $first:ident, $batch:ident, $unread:ident, $($argument:ident)*) => {
        async move {
            $(
                #[expect(non_snake_case, reason = "named like its type")]
                let $argument = extract_plain::<$argument>($first);
            )*
            $first.are_read();
            let opening = &mut Opening::batch($records, $unread.iter().map(|(index, _)| *index).collect());
            $(
                #[expect(non_snake_case, reason = "named like its type")]
                let $argument = match open_one($argument, opening).await {
                    Ok(Opened::Ready(argument)) => argument,
                    Ok(Opened::Duplicate) => return merge($records.len(), Outcomes::All(Done::Duplicate), $unread),
                    Err(fault) => return merge($records.len(), Outcomes::Failed(Arc::new(fault)), $unread),
                };
            )*
            let (scope, duplicates) = opening.take_parts();
            let (batch, settled) = take_out($batch, $unread, duplicates);
            let expected = batch.0.len();
            let outcomes = $handler(batch, $($argument),*).await.into_outcomes();
            let outcomes = finish_batch(scope, counted(expected, outcomes)).await;
            merge($records.len(), outcomes, settled)
        }
    };
}

macro_rules! batch_handlers {
    ($($argument:ident)*) => {
        impl<F, R, O, T, $($argument,)*> BatchHandler<(T, $($argument,)*)> for F
        where
            F: Fn(Batch<T>, $($argument),*) -> R + Send + Sync + 'static,
            R: Future<Output = O> + Send,
            O: IntoOutcomes,
            T: Extract,
            $($argument: Extract,)*
        {
            async fn call(&self, records: &[Cx]) -> Outcomes {
                const {
                    assert!(!T::IS_SCOPED, "{}", NOT_INSIDE);
                    assert!(scoped(&[$($argument::IS_SCOPED),*]) <= 1, "{}", ONE_SCOPE);
                };
                let (batch, unread) = read(records);
                let Some(first) = records.first() else {
                    return Outcomes::All(Done::Ok);
                };
                if batch.0.is_empty() {
                    first.are_read();
                    return merge(records.len(), Outcomes::All(Done::Ok), unread);
                }
                if const { scoped(&[$($argument::IS_SCOPED),*]) > 0 } {
                    // Boxed, so that other handlers do not have its size.
                    return Box::pin(call_scoped!(self, records, first, batch, unread, $($argument)*)).await;
                }
                let expected = batch.0.len();
                $(
                    #[expect(non_snake_case, reason = "named like its type")]
                    let $argument = match $argument::extract(first) {
                        Ok(argument) => argument,
                        Err(fault) => return merge(records.len(), Outcomes::Failed(Arc::new(fault)), unread),
                    };
                )*
                first.are_read();
                let outcomes = self(batch, $($argument),*).await.into_outcomes();
                merge(records.len(), counted(expected, outcomes), unread)
            }

            fn check(available: &Available<'_>) -> Result<(), ArgumentError> {
                available.check_scope(const { scoped(&[$($argument::IS_SCOPED),*]) > 0 })?;
                T::check(available)?;
                $($argument::check(available)?;)*
                Ok(())
            }
        }
    };
}

batch_handlers!();
batch_handlers!(A);
batch_handlers!(A B);
batch_handlers!(A B C);
batch_handlers!(A B C D);

/// Outcomes of records that the handler does not get, with their indexes, in order.
type Settled = Vec<(usize, Result<Done, Arc<Fault>>)>;

/// Returns the decoded records, and the indexes and faults of those that cannot be decoded.
fn read<T: Extract>(records: &[Cx]) -> (Batch<T>, Settled) {
    let mut batch = Vec::with_capacity(records.len());
    let mut unread = vec![];
    for (place, cx) in records.iter().enumerate() {
        match T::extract(cx) {
            Ok(part) => batch.push(part),
            Err(fault) => unread.push((place, Err(Arc::new(fault)))),
        }
    }
    (Batch(batch), unread)
}

/// Opens an argument if it is scoped.
async fn open_one<T: Extract>(
    argument: Result<Option<T>, Fault>,
    opening: &mut Opening<'_>,
) -> Result<Opened<T>, Fault> {
    match argument? {
        Some(argument) => Ok(Opened::Ready(argument)),
        None => T::open(opening).await,
    }
}

/// Takes duplicates out of a batch. `settled` has the records that are not in it, and gets the duplicates too.
fn take_out<T>(batch: Batch<T>, mut settled: Settled, duplicates: Vec<usize>) -> (Batch<T>, Settled) {
    if duplicates.is_empty() {
        return (batch, settled);
    }
    let unread = std::mem::take(&mut settled);
    let mut unread = unread.into_iter().peekable();
    let mut rest = batch.0.into_iter();
    let mut kept = Vec::with_capacity(rest.len());
    let mut duplicates = duplicates.into_iter().peekable();
    for place in 0.. {
        if let Some(bad) = unread.next_if(|(bad, _)| *bad == place) {
            settled.push(bad);
            continue;
        }
        let Some(record) = rest.next() else { break };
        if duplicates.next_if_eq(&place).is_some() {
            settled.push((place, Ok(Done::Duplicate)));
        } else {
            kept.push(record);
        }
    }
    (Batch(kept), settled)
}

fn counted(records: usize, outcomes: Outcomes) -> Outcomes {
    match outcomes {
        Outcomes::Each(each) if each.len() != records => {
            let returned = each.len();
            Outcomes::Failed(Arc::new(Fault::fatal(WrongCount { records, returned })))
        }
        outcomes => outcomes,
    }
}

/// Inserts the outcomes of records that the handler did not get into those of the others.
fn merge(records: usize, outcomes: Outcomes, settled: Settled) -> Outcomes {
    if settled.is_empty() {
        return outcomes;
    }
    let mut others: Box<dyn Iterator<Item = Result<Done, Arc<Fault>>>> = match outcomes {
        Outcomes::All(done) => Box::new(iter::repeat_with(move || Ok(done.clone()))),
        Outcomes::Failed(fault) => Box::new(iter::repeat_with(move || Err(Arc::clone(&fault)))),
        Outcomes::Each(each) => Box::new(each.into_iter()),
    };
    let mut settled = settled.into_iter().peekable();
    let each = (0..records).map(|place| match settled.next_if(|(settled, _)| *settled == place) {
        Some((_, outcome)) => outcome,
        None => others.next().unwrap_or(Ok(Done::Ok)),
    });
    Outcomes::Each(each.collect())
}
