//! `milena user`: users that log in with SCRAM.

mod create;
mod delete;
mod list;
mod mechanism;

use anyhow::Result;
use clap::Subcommand;
use milena_client::admin::{Admin, ErrorCode, Results, ScramChange, ScramCredential, ScramMechanism};

use crate::connection;

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List users and their SCRAM mechanisms
    #[command(visible_alias = "ls")]
    List(list::Arguments),
    /// Create a user with a password, or set a new one
    #[command(after_help = create::HELP)]
    Create(create::Arguments),
    /// Delete users; their open connections stay until they log in again
    #[command(after_help = delete::HELP)]
    Delete(delete::Arguments),
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List(arguments) => connection::run(list::list(arguments)),
        Command::Create(arguments) => connection::run(create::create(arguments)),
        Command::Delete(arguments) => connection::run(delete::delete(arguments)),
    }
}

/// The credentials of a user, none if it does not exist.
async fn credentials(admin: &Admin, name: &str) -> Result<Vec<ScramCredential>> {
    match admin.describe_scram_users([name]).await.remove(name) {
        None => Ok(vec![]),
        Some(Ok(credentials)) => Ok(credentials),
        Some(Err(error)) if error.code() == Some(ErrorCode::ResourceNotFound) => Ok(vec![]),
        Some(Err(error)) => Err(error.into()),
    }
}

/// Changes passwords. The results have a user with a mechanism as their keys.
///
/// One request for each: brokers refuse two changes of a user at once.
async fn alter(
    admin: &Admin,
    changes: impl IntoIterator<Item = (String, ScramMechanism, ScramChange)>,
) -> Results<String, ()> {
    let mut results = Results::new();
    for (user, mechanism, change) in changes {
        for (_, result) in admin.alter_scram_users([(user.as_str(), change)]).await {
            results.insert(format!("{user} ({mechanism})"), result);
        }
    }
    results
}
