//! The transaction of a handler call.

use std::{
    collections::BTreeSet,
    fmt,
    ops::{Deref, DerefMut},
    pin::Pin,
    sync::{Arc, Mutex, PoisonError},
    task::{Context, Poll},
    time::Duration,
};

use milena_app::{
    Delivery,
    handler::{ArgumentError, Available, CallScope, Cx, Extract, Fault, Opened, Opening, ScopeFuture},
};
use sqlx::{Error, Pool, Postgres, Sqlite, Transaction};

use super::{
    dialect::{TxDatabase, sealed::Statements as _},
    error::{HandlerKeptTx, StatementIgnored, fault},
    key::EventKey,
};
use crate::{
    Connection, Database,
    offsets::{Ownership, OwnershipError},
};

/// Time for which a failed call waits until its transaction is rolled back. Then the connection rolls it back later.
const ROLLBACK_MAX: Duration = Duration::from_secs(5);

/// A database transaction around a handler call, in which the event is already noted as processed.
///
/// It derefs to the connection of sqlx: `query.execute(&mut *tx)`. It commits when the handler returns `Ok`, also with
/// `Done::Skip`, and rolls back after an error, a panic, a timeout, a revoke, `Done::RetryAfter` and `Done::Duplicate`.
/// `Done::Emit` is an error: output belongs into the outbox of the transaction.
///
/// A batch handler gets one transaction for its batch, and only records that were not handled before. If one of them
/// fails, all are rolled back, and the others are handled again.
pub struct Tx<DB: TxDatabase> {
    /// `None` only while it is dropped.
    transaction: Option<Transaction<'static, DB>>,
    slot: Arc<Slot<DB>>,
    /// The record of the call, unless it is a batch.
    cause: Option<Cx>,
}

/// A transaction of PostgreSQL.
pub type PgTx = Tx<Postgres>;
/// A transaction of SQLite. It has the write lock of the database until it ends.
pub type SqliteTx = Tx<Sqlite>;

/// Place of the transaction while the handler does not have it.
pub(crate) type Slot<DB> = Mutex<Option<Transaction<'static, DB>>>;

fn put<DB: TxDatabase>(slot: &Slot<DB>, transaction: Option<Transaction<'static, DB>>) {
    *slot.lock().unwrap_or_else(PoisonError::into_inner) = transaction;
}

pub(crate) fn take<DB: TxDatabase>(slot: &Slot<DB>) -> Option<Transaction<'static, DB>> {
    slot.lock().unwrap_or_else(PoisonError::into_inner).take()
}

impl<DB: TxDatabase> Tx<DB> {
    /// Takes the transaction of a slot, to which it goes back when it is dropped.
    pub(crate) fn take_from(slot: &Arc<Slot<DB>>, cause: Option<&Cx>) -> Option<Self> {
        Some(Self {
            transaction: Some(take(slot)?),
            slot: Arc::clone(slot),
            cause: cause.cloned(),
        })
    }

    /// Connection of the transaction, for functions that take either database.
    pub fn connection(&mut self) -> Connection<'_> {
        DB::connection(self)
    }

    /// The record that caused the effects; `None` in a batch.
    pub(super) fn cause(&self) -> Option<&Cx> {
        self.cause.as_ref()
    }
}

impl<DB: TxDatabase> Drop for Tx<DB> {
    /// Gives the transaction back to the scope of the call, which commits it or rolls it back.
    fn drop(&mut self) {
        put(&self.slot, self.transaction.take());
    }
}

impl<DB: TxDatabase> Deref for Tx<DB> {
    type Target = DB::Connection;

    #[cfg_attr(not(test), expect(clippy::expect_used, reason = "only drop takes the transaction"))]
    fn deref(&self) -> &DB::Connection {
        self.transaction
            .as_ref()
            .expect("the transaction is there until the drop")
    }
}

impl<DB: TxDatabase> DerefMut for Tx<DB> {
    #[cfg_attr(not(test), expect(clippy::expect_used, reason = "only drop takes the transaction"))]
    fn deref_mut(&mut self) -> &mut DB::Connection {
        self.transaction
            .as_mut()
            .expect("the transaction is there until the drop")
    }
}

impl<DB: TxDatabase> fmt::Debug for Tx<DB> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct(DB::ARGUMENT).finish_non_exhaustive()
    }
}

impl<DB: TxDatabase> Extract for Tx<DB> {
    const IS_SCOPED: bool = true;

    /// Only [`open`](Self::open) can make a transaction, because it waits.
    fn extract(_cx: &Cx) -> Result<Self, Fault> {
        Err(Fault::fatal(
            "a Tx is an argument of its own; it cannot be part of another",
        ))
    }

    fn check(available: &Available<'_>) -> Result<(), ArgumentError> {
        if !matches!(available.delivery(), Delivery::AtLeastOnce | Delivery::StoredOffsets) {
            return Err(ArgumentError::Refused(refused_delivery(available.delivery()).into()));
        }
        if available.state::<Pool<DB>>().is_some() {
            return Ok(());
        }
        pool_of::<DB>(available.state::<Database>()).map(drop)
    }

    async fn open(opening: &mut Opening<'_>) -> Result<Opened<Self>, Fault> {
        let keys: Result<Vec<(usize, EventKey)>, _> = opening
            .records()
            .map(|(index, cx)| Ok((index, EventKey::of(cx)?)))
            .collect();
        let keys = keys.map_err(Fault::poison::<super::EventIdError>)?;
        let mut transaction = begin(pool::<DB>(opening.first()?)?).await.map_err(fault)?;
        let duplicates = note::<DB>(&mut transaction, &keys).await.map_err(fault)?;
        if duplicates.len() == keys.len() {
            // The answer is known, so an error is none of the call.
            let _ = transaction.rollback().await;
            return Ok(Opened::Duplicate);
        }
        let cause = (!opening.is_batch()).then(|| opening.first().cloned()).transpose()?;
        duplicates.into_iter().for_each(|index| opening.mark_duplicate(index));
        let slot = Arc::new(Slot::new(None));
        opening.set_scope(TxScope {
            slot: Arc::clone(&slot),
            ownerships: Ownership::of(opening.records().map(|(_, cx)| cx)),
        });
        Ok(Opened::Ready(Self {
            transaction: Some(transaction),
            slot,
            cause,
        }))
    }
}

/// Why a handler with this guarantee cannot take a transaction.
fn refused_delivery(delivery: Delivery) -> &'static str {
    match delivery {
        Delivery::AtMostOnce => {
            "a handler with at-most-once delivery takes a Tx: its offset is committed first, so a rollback would lose the \
             record; register it with App::on"
        }
        Delivery::ExactlyOnce => {
            "a handler with exactly-once delivery takes a Tx: the transactions of Kafka and of the database end separately; \
             register it with App::on, and write its output with tx.outbox(…)"
        }
        _ => "a handler takes a Tx, which needs at-least-once delivery; register it with App::on",
    }
}

/// The pool in the states of the application.
fn pool<DB: TxDatabase>(cx: &Cx) -> Result<&Pool<DB>, Fault> {
    if let Ok(pool) = cx.state::<Pool<DB>>() {
        return Ok(pool);
    }
    pool_of::<DB>(cx.state::<Database>().ok()).map_err(Fault::fatal)
}

fn pool_of<DB: TxDatabase>(database: Option<&Database>) -> Result<&Pool<DB>, ArgumentError> {
    let name = DB::ARGUMENT;
    let Some(database) = database else {
        let text = format!("a handler takes {name}, and the application has no database; add it with .state(database)");
        return Err(ArgumentError::Refused(text.into()));
    };
    DB::pool(database).ok_or_else(|| {
        let found = database.dialect();
        let text =
            format!("a handler takes {name}, and the application's database is {found}; take the Tx of that database");
        ArgumentError::Refused(text.into())
    })
}

/// Begins a transaction.
async fn begin<DB: TxDatabase>(pool: &Pool<DB>) -> Result<Transaction<'static, DB>, Error> {
    let connection = pool.acquire().await?;
    FinishedAnyway(Some(Transaction::begin(connection, Some(DB::begin())))).await
}

/// Begins a transaction of either database. The future may be dropped at any time.
pub(crate) async fn begin_on(database: &Database) -> Result<crate::Transaction, Error> {
    Ok(match database {
        Database::Postgres(pool) => crate::Transaction::Postgres(begin(pool).await?),
        Database::Sqlite(pool) => crate::Transaction::Sqlite(begin(pool).await?),
    })
}

/// Notes the event of a record as processed. Returns `false` if it is noted already.
pub(crate) async fn note_event(connection: Connection<'_>, cx: &Cx) -> Result<bool, Fault> {
    let key = EventKey::of(cx).map_err(Fault::poison)?;
    let noted = match connection {
        Connection::Postgres(connection) => Postgres::note(connection, &key).await,
        Connection::Sqlite(connection) => Sqlite::note(connection, &key).await,
    };
    noted.map_err(fault)
}

/// A future that ends in a task of its own if it is dropped before.
///
/// A connection of PostgreSQL whose `BEGIN` is interrupted goes back to its pool with an open transaction that sqlx does
/// not know of.
struct FinishedAnyway<T: Send + 'static>(Option<Pin<Box<dyn Future<Output = T> + Send>>>);

impl<T: Send + 'static> Future for FinishedAnyway<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let Some(future) = &mut self.0 else {
            return Poll::Pending;
        };
        let polled = future.as_mut().poll(cx);
        if polled.is_ready() {
            self.0 = None;
        }
        polled
    }
}

impl<T: Send + 'static> Drop for FinishedAnyway<T> {
    fn drop(&mut self) {
        // Without a runtime the process ends, and the connection with it.
        if let (Some(future), Ok(runtime)) = (self.0.take(), tokio::runtime::Handle::try_current()) {
            runtime.spawn(future);
        }
    }
}

/// Notes the events. Returns the indexes of those that were noted before, and of later copies within a batch.
async fn note<DB: TxDatabase>(
    transaction: &mut Transaction<'static, DB>,
    keys: &[(usize, EventKey)],
) -> Result<Vec<usize>, Error> {
    if let [(index, key)] = keys {
        let is_new = DB::note(transaction, key).await?;
        return Ok(if is_new { vec![] } else { vec![*index] });
    }
    // Two transactions that note the same events in different orders would wait for each other.
    let sorted: BTreeSet<&EventKey> = keys.iter().map(|(_, key)| key).collect();
    let sorted: Vec<EventKey> = sorted.into_iter().cloned().collect();
    let mut noted = DB::note_all(transaction, &sorted).await?;
    let duplicates = keys.iter().filter(|(_, key)| !noted.remove(&key.event_id));
    Ok(duplicates.map(|(index, _)| *index).collect())
}

/// Ends the transaction of a call.
struct TxScope<DB: TxDatabase> {
    slot: Arc<Slot<DB>>,
    /// Partitions that must still be owned, if their offsets are stored.
    ownerships: Vec<Ownership>,
}

impl<DB: TxDatabase> CallScope for TxScope<DB> {
    fn commit(self: Box<Self>) -> ScopeFuture<Result<(), Fault>> {
        Box::pin(async move {
            let mut transaction = take(&self.slot).ok_or_else(|| Fault::fatal(HandlerKeptTx))?;
            if self.ownerships.is_empty() {
                DB::check(&mut transaction).await.map_err(not_committed)?;
            }
            for ownership in &self.ownerships {
                let stored = ownership.store(DB::connection(&mut transaction)).await;
                stored.map_err(|error| match error {
                    OwnershipError::Sql(error) => not_committed(error),
                    OwnershipError::Fenced(error) => Fault::retry(error),
                    OwnershipError::NoRow(error) => Fault::fatal(error),
                })?;
            }
            // Whether an interrupted commit has happened is found out by the next attempt: it is a duplicate then.
            transaction.commit().await.map_err(fault)
        })
    }

    fn rollback(self: Box<Self>) -> ScopeFuture<()> {
        Box::pin(async move {
            if let Some(transaction) = take(&self.slot) {
                let _ = tokio::time::timeout(ROLLBACK_MAX, transaction.rollback()).await;
            }
        })
    }
}

/// The fault of the last statement before a commit.
fn not_committed(error: Error) -> Fault {
    if is_aborted(&error) {
        Fault::retry(StatementIgnored(error))
    } else {
        fault(error)
    }
}

/// An earlier statement of the transaction has failed.
fn is_aborted(error: &Error) -> bool {
    const IN_FAILED_TRANSACTION: &str = "25P02";
    error
        .as_database_error()
        .and_then(|error| error.code())
        .is_some_and(|code| code == IN_FAILED_TRANSACTION)
}
