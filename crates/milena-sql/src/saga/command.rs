//! Changes of sagas by hand.
//!
//! A command is stored in the row of the saga, with an audit line. The owner's application performs it: only it has the
//! functions for the end of a saga. A command that no application performs yet stays pending.

use serde::{Deserialize, Serialize};

use super::store::{self, AuditLine, SagaKey, SagaRow};
use crate::Database;

/// A change by hand.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum CommandKind {
    /// Redelivers the triggers of steps that have not reported, and asks again for compensations.
    Retry,
    /// Cancels the saga, unless its pivot is done.
    Compensate,
    /// Ends the saga as it is.
    Close,
}

impl CommandKind {
    pub fn name(self) -> &'static str {
        match self {
            Self::Retry => "retry",
            Self::Compensate => "compensate",
            Self::Close => "close",
        }
    }
}

/// A change by hand, with its reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PendingCommand {
    pub command: CommandKind,
    /// The user.
    pub actor: String,
    pub reason: String,
}

/// Error of [`request`].
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CommandError {
    #[error("no saga has the id {saga_id:?} in this database")]
    NotFound { saga_id: String },
    #[error("{count} sagas have the id {saga_id:?}; name the type: {types}")]
    Ambiguous {
        saga_id: String,
        count: usize,
        types: String,
    },
    #[error("{participant} only takes part in the saga {saga_id:?} of type {saga_type}; use the database of its owner")]
    NotOwner {
        saga_id: String,
        saga_type: String,
        participant: String,
    },
    #[error("the saga {saga_id:?} is {status} already")]
    Ended { saga_id: String, status: String },
    #[error("the saga {saga_id:?} has a command that its application has not performed yet: {command} by {actor}")]
    Pending {
        saga_id: String,
        command: &'static str,
        actor: String,
    },
    #[error("the reason is empty; it is kept in the audit trail")]
    NoReason,
    #[error("the saga {saga_id:?} changes too often; try again")]
    Conflict { saga_id: String },
    #[error(transparent)]
    Json(#[from] serde_json::Error),
    #[error(transparent)]
    Sql(#[from] sqlx::Error),
}

/// Number of attempts against changes of others.
const ATTEMPTS_MAX: u32 = 20;

/// Stores a command with its audit line. Returns the saga as stored.
pub async fn request(
    database: &Database,
    saga_id: &str,
    saga_type: Option<&str>,
    command: &PendingCommand,
    now_ms: i64,
) -> Result<SagaRow, CommandError> {
    if command.reason.trim().is_empty() {
        return Err(CommandError::NoReason);
    }
    for _ in 0..ATTEMPTS_MAX {
        let mut transaction = database.begin().await?;
        let found = store::find(transaction.connection(), saga_id).await?;
        let key = owned(found, saga_id, saga_type)?.key;
        let Some(mut row) = store::lock(transaction.connection(), &key).await? else {
            continue;
        };
        check(&row, command)?;
        row.version = row.version.saturating_add(1);
        row.command = Some(serde_json::to_string(command)?);
        row.wake_ms = Some(now_ms);
        if store::save(transaction.connection(), &row).await?.is_err() {
            continue;
        }
        let line = AuditLine {
            version: row.version,
            at_ms: now_ms,
            actor: command.actor.clone(),
            action: format!("{} requested", command.command.name()),
            reason: Some(command.reason.clone()),
        };
        store::audit(transaction.connection(), &row.key, &line).await?;
        transaction.commit().await?;
        return Ok(row);
    }
    Err(CommandError::Conflict {
        saga_id: saga_id.to_owned(),
    })
}

/// The row of the owner.
fn owned(rows: Vec<SagaRow>, saga_id: &str, saga_type: Option<&str>) -> Result<SagaRow, CommandError> {
    let of_type = |row: &SagaRow| saga_type.is_none_or(|saga_type| row.key.saga_type == saga_type);
    let rows: Vec<SagaRow> = rows.into_iter().filter(of_type).collect();
    let mut owners = rows.iter().filter(|row| is_owner(row));
    match (owners.next(), owners.next(), rows.first()) {
        (Some(owner), None, _) => Ok(owner.clone()),
        (Some(_), Some(_), _) => {
            let types: Vec<&str> = rows.iter().map(|row| row.key.saga_type.as_str()).collect();
            Err(CommandError::Ambiguous {
                saga_id: saga_id.to_owned(),
                count: rows.len(),
                types: types.join(", "),
            })
        }
        (None, _, Some(row)) => Err(CommandError::NotOwner {
            saga_id: saga_id.to_owned(),
            saga_type: row.key.saga_type.clone(),
            participant: row.key.participant.clone(),
        }),
        (None, _, None) => Err(CommandError::NotFound {
            saga_id: saga_id.to_owned(),
        }),
    }
}

/// Whether the row is that of the saga's owner, which knows the whole saga.
pub fn is_owner(row: &SagaRow) -> bool {
    let state: Option<serde_json::Value> = serde_json::from_str(&row.state).ok();
    state.is_some_and(|state| state.get("owner").is_some())
}

fn check(row: &SagaRow, command: &PendingCommand) -> Result<(), CommandError> {
    let saga_id = || row.key.saga_id.clone();
    if let Some(pending) = &row.command {
        let pending: PendingCommand = serde_json::from_str(pending)?;
        // The same again, as after a lost response, is no error.
        if pending != *command {
            return Err(CommandError::Pending {
                saga_id: saga_id(),
                command: pending.command.name(),
                actor: pending.actor,
            });
        }
    }
    if store::ENDED.contains(&row.status.as_str()) {
        return Err(CommandError::Ended {
            saga_id: saga_id(),
            status: row.status.clone(),
        });
    }
    Ok(())
}

/// The saga, if the command of a version was performed.
pub async fn performed(database: &Database, key: &SagaKey, version: i64) -> Result<Option<SagaRow>, sqlx::Error> {
    let mut transaction = database.begin_read().await?;
    let rows = store::find(transaction.connection(), &key.saga_id).await?;
    let row = rows.into_iter().find(|row| row.key == *key);
    Ok(row.filter(|row| row.version > version && row.command.is_none()))
}
