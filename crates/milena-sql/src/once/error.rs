//! Errors of databases as faults of handlers.

use milena_app::handler::Fault;
use sqlx::{Error, error::DatabaseError};

/// Name of the circuit breaker for the database: `policy.breaker("database")`.
pub const DEPENDENCY: &str = "database";

/// The fault of an error, by its cause:
///
/// | cause | fault | reason |
/// |---|---|---|
/// | serialization failure, deadlock, lock or statement timeout (40001, 40P01, 55P03, 57014), `SQLITE_BUSY` | retry | the same transaction can succeed |
/// | no connection, lost connection, pool timeout, shutdown, no memory or disk (08, 53, 57P, `SQLITE_FULL`, `SQLITE_IOERR`) | dependency `database` | no record can be handled; a breaker of that name pauses the handler, and without one it is a retry |
/// | foreign key violation (23503), no row found | retry | the other row may come later |
/// | other constraint violations (23), invalid data (22), column or value that cannot be decoded or encoded | poison | the record stays as it is |
/// | undefined table or column, syntax, missing privilege or database (42, 3D, 3F, 28) | fatal | the program or the schema is wrong; each record would become a dead letter |
/// | all others | retry | |
///
/// `?` without this function is a retry in all cases.
pub fn fault(error: Error) -> Fault {
    match reaction(&error) {
        Reaction::Retry => Fault::retry(error),
        Reaction::Dependency => Fault::dependency(DEPENDENCY)(error),
        Reaction::Poison => Fault::poison(error),
        Reaction::Fatal => Fault::fatal(error),
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reaction {
    Retry,
    Dependency,
    Poison,
    Fatal,
}

fn reaction(error: &Error) -> Reaction {
    match error {
        Error::Database(error) => of_database(&**error),
        Error::Io(_)
        | Error::Tls(_)
        | Error::Protocol(_)
        | Error::PoolTimedOut
        | Error::PoolClosed
        | Error::WorkerCrashed
        | Error::BeginFailed => Reaction::Dependency,
        Error::ColumnDecode { .. } | Error::Decode(_) | Error::Encode(_) => Reaction::Poison,
        Error::Configuration(_)
        | Error::TypeNotFound { .. }
        | Error::ColumnIndexOutOfBounds { .. }
        | Error::ColumnNotFound(_)
        | Error::InvalidArgument(_)
        | Error::InvalidSavePointStatement => Reaction::Fatal,
        _ => Reaction::Retry,
    }
}

fn of_database(error: &dyn DatabaseError) -> Reaction {
    let code = error.code().unwrap_or_default();
    if error.try_downcast_ref::<sqlx::sqlite::SqliteError>().is_some() {
        return code.parse().map_or(Reaction::Retry, of_sqlite);
    }
    of_sqlstate(&code)
}

fn of_sqlstate(code: &str) -> Reaction {
    match code {
        "40001" | "40P01" | "55P03" | "57014" | "23503" => return Reaction::Retry,
        _ => {}
    }
    match code.get(..2).unwrap_or_default() {
        "08" | "53" | "57" | "58" => Reaction::Dependency,
        "22" | "23" => Reaction::Poison,
        "28" | "3D" | "3F" | "42" => Reaction::Fatal,
        _ => Reaction::Retry,
    }
}

/// Extended result codes of SQLite; their lowest byte is the primary code.
fn of_sqlite(code: i32) -> Reaction {
    const FOREIGN_KEY: i32 = 787;
    match (code, code & 0xff) {
        (FOREIGN_KEY, _) => Reaction::Retry,
        // BUSY, LOCKED, INTERRUPT.
        (_, 5 | 6 | 9) => Reaction::Retry,
        // NOMEM, READONLY, IOERR, CORRUPT, FULL, CANTOPEN, NOTADB.
        (_, 7 | 8 | 10 | 11 | 13 | 14 | 26) => Reaction::Dependency,
        // TOOBIG, CONSTRAINT, MISMATCH.
        (_, 18..=20) => Reaction::Poison,
        // ERROR, of syntax and missing tables, AUTH, RANGE.
        (_, 1 | 23 | 25) => Reaction::Fatal,
        _ => Reaction::Retry,
    }
}

/// The handler has returned, and its transaction is still in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error(
    "the handler returned and kept its Tx, so that its transaction cannot be committed; do not move the Tx into another \
     task, and do not forget it"
)]
pub struct HandlerKeptTx;

/// A statement failed, and the handler succeeded although PostgreSQL can only roll such a transaction back.
#[derive(Debug, thiserror::Error)]
#[error(
    "a statement of the transaction failed and the handler returned Ok: PostgreSQL has rolled the transaction back; return \
     the error, avoid it with ON CONFLICT, or run the statement in a savepoint (tx.begin())"
)]
pub struct StatementIgnored(#[source] pub(crate) Error);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_of_postgres_have_their_reaction() {
        for (code, expected) in [
            ("40001", Reaction::Retry),
            ("40P01", Reaction::Retry),
            ("23503", Reaction::Retry),
            ("23505", Reaction::Poison),
            ("22003", Reaction::Poison),
            ("08006", Reaction::Dependency),
            ("57P01", Reaction::Dependency),
            ("57014", Reaction::Retry),
            ("53300", Reaction::Dependency),
            ("42P01", Reaction::Fatal),
            ("P0001", Reaction::Retry),
            ("", Reaction::Retry),
        ] {
            assert_eq!(of_sqlstate(code), expected, "{code}");
        }
    }

    #[test]
    fn codes_of_sqlite_have_their_reaction() {
        for (code, expected) in [
            (5, Reaction::Retry),
            (517, Reaction::Retry),
            (787, Reaction::Retry),
            (2067, Reaction::Poison),
            (1299, Reaction::Poison),
            (13, Reaction::Dependency),
            (1, Reaction::Fatal),
        ] {
            assert_eq!(of_sqlite(code), expected, "{code}");
        }
    }
}
