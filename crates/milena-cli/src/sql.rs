//! `milena sql`: the tables of Milena in a database.

mod clean;

use std::io::{Write as _, stdout};

use anyhow::{Result, ensure};
use clap::{Subcommand, ValueEnum};
use milena_sql::{Dialect, script};
use serde::Serialize;

use crate::{
    connection,
    database::{DatabaseArguments, SqlArguments},
    output::Table,
};

pub(crate) const PRINT_HELP: &str = "\
Examples:
  milena sql print | psql --single-transaction shop
  milena sql print --dialect sqlite | sqlite3 shop.db

The script is for an empty database, or for the files of another migration tool.
Afterwards, milena sql init only adds what later versions need.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// Create or upgrade the tables
    Init(SqlArguments),
    /// Print the statements that create the tables
    #[command(after_help = PRINT_HELP)]
    Print(PrintArguments),
    /// Show which steps of the schema a database has
    Status(SqlArguments),
    /// Delete processed events that are too old to be delivered again
    #[command(after_help = clean::HELP)]
    Clean(clean::Arguments),
}

#[derive(clap::Args)]
pub(crate) struct PrintArguments {
    /// Kind of the database: postgres or sqlite [default: that of the URL, or postgres]
    #[arg(long, value_enum, hide_possible_values = true)]
    dialect: Option<DialectName>,
    #[command(flatten)]
    database: DatabaseArguments,
}

#[derive(Clone, Copy, ValueEnum)]
enum DialectName {
    Postgres,
    Sqlite,
}

#[derive(Serialize)]
struct StepRow {
    version: i32,
    name: String,
    /// `None` before the step is applied.
    applied_at: Option<String>,
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::Init(arguments) => connection::run(init(arguments)),
        Command::Print(arguments) => print(arguments),
        Command::Status(arguments) => connection::run(status(arguments)),
        Command::Clean(arguments) => connection::run(clean::clean(arguments)),
    }
}

async fn init(arguments: &SqlArguments) -> Result<()> {
    let database = arguments.database.create().await?;
    let applied: Vec<&str> = database.migrate().await?.iter().map(|step| step.name).collect();
    database.close().await;
    arguments.output.print(&applied, || match applied.is_empty() {
        true => "the tables are up to date\n".to_owned(),
        false => applied.iter().map(|name| format!("applied {name}\n")).collect(),
    })
}

fn print(arguments: &PrintArguments) -> Result<()> {
    let dialect = match arguments.dialect {
        Some(DialectName::Postgres) => Dialect::Postgres,
        Some(DialectName::Sqlite) => Dialect::Sqlite,
        None => arguments.database.dialect()?.unwrap_or(Dialect::Postgres),
    };
    Ok(stdout().lock().write_all(script(dialect).as_bytes())?)
}

async fn status(arguments: &SqlArguments) -> Result<()> {
    let database = arguments.database.connect().await?;
    let steps = database.migration_status().await?;
    database.close().await;
    let steps: Vec<StepRow> = steps
        .into_iter()
        .map(|step| StepRow {
            version: step.version,
            name: step.name,
            applied_at: step.applied_at,
        })
        .collect();
    arguments.output.print(&steps, || {
        let mut table = Table::new(&["VERSION", "NAME", "APPLIED-AT"]);
        for step in &steps {
            let applied_at = step.applied_at.clone().unwrap_or_default();
            table.row([step.version.to_string(), step.name.clone(), applied_at]);
        }
        table.write()
    })?;
    let is_complete = steps.iter().all(|step| step.applied_at.is_some());
    ensure!(is_complete, "tables are missing; create them with milena sql init");
    Ok(())
}
