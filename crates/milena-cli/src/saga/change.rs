//! `milena saga retry`, `compensate` and `close`.

use std::{env, time::Duration};

use anyhow::{Context, Result};
use milena_client::config::parse_time;
use milena_sql::{
    Database,
    saga::{
        command::{self, CommandKind, PendingCommand},
        store::SagaRow,
    },
};
use tokio::time::{Instant, sleep};

use super::rows::SagaSummary;
use crate::{database::SqlArguments, log, time::now_ms};

pub(crate) const HELP: &str = "\
Example:
  milena saga compensate 4711 -d postgres://app@db/orders --reason 'customer rang'

The command is stored with an audit line. The application of the saga's owner
performs it, because it has the functions of the saga; a command waits until the
application runs.";

/// Between two looks for the result.
const LOOK: Duration = Duration::from_millis(100);
const TIMEOUT: Duration = Duration::from_secs(10);

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Id of the saga
    #[arg(value_name = "ID")]
    id: String,
    /// Why, for the audit trail
    #[arg(long, value_name = "TEXT")]
    reason: String,
    /// Type of the saga, if sagas of several types have the id
    #[arg(long = "type", value_name = "TYPE")]
    saga_type: Option<String>,
    /// Your name, for the audit trail [default: the user of the system]
    #[arg(long, value_name = "NAME")]
    user: Option<String>,
    /// Time to wait for the application, as in 30s; 0s does not wait [default: 10s]
    #[arg(long, value_name = "DURATION", value_parser = parse_time)]
    timeout: Option<Duration>,
    #[command(flatten)]
    common: SqlArguments,
}

pub(super) async fn change(arguments: &Arguments, kind: CommandKind) -> Result<()> {
    let actor = arguments.user.clone().or_else(system_user);
    let pending = PendingCommand {
        command: kind,
        actor: actor.context("the user of the system has no name; give yours with --user")?,
        reason: arguments.reason.clone(),
    };
    let database = arguments.common.database.connect().await?;
    let saga_type = arguments.saga_type.as_deref();
    let row = command::request(&database, &arguments.id, saga_type, &pending, now_ms()).await?;
    let performed = wait(&database, &row, arguments.timeout.unwrap_or(TIMEOUT)).await?;
    database.close().await;
    if performed.is_none() {
        log::notice(format_args!(
            "the application of {} has not performed the command yet; milena saga show {} shows when it has",
            row.key.participant, arguments.id
        ));
    }
    let is_performed = performed.is_some();
    let row = performed.unwrap_or(row);
    arguments
        .common
        .output
        .print(&SagaSummary::new(&row), || match is_performed {
            true => format!("{}: saga {} is {}\n", kind.name(), row.key.saga_id, row.status),
            false => format!("{} of saga {} is requested\n", kind.name(), row.key.saga_id),
        })
}

/// The saga after the command, unless no application performs it in time.
async fn wait(database: &Database, row: &SagaRow, timeout: Duration) -> Result<Option<SagaRow>> {
    let deadline = Instant::now() + timeout;
    loop {
        let performed = command::performed(database, &row.key, row.version).await?;
        if performed.is_some() || Instant::now() >= deadline {
            return Ok(performed);
        }
        sleep(LOOK).await;
    }
}

/// The user of the terminal, also behind sudo.
fn system_user() -> Option<String> {
    ["SUDO_USER", "USER", "LOGNAME"]
        .into_iter()
        .filter_map(|name| env::var(name).ok())
        .find(|name| !name.trim().is_empty())
}
