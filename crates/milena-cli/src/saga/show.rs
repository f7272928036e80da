//! `milena saga show`.

use std::fmt::Write as _;

use anyhow::{Context, Result, ensure};
use milena_sql::saga::{
    command::PendingCommand,
    store::{self, AuditLine, SagaRow},
};

use super::rows::{SagaDetails, StepRow, age, cut, iso};
use crate::{database::SqlArguments, output::Table, time::now_ms};

/// Characters of a cell of the audit trail.
const WHO_MAX: usize = 24;
const WHAT_MAX: usize = 40;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Id of the saga
    #[arg(value_name = "ID")]
    id: String,
    /// Type of the saga, if sagas of several types have the id
    #[arg(long = "type", value_name = "TYPE")]
    saga_type: Option<String>,
    #[command(flatten)]
    common: SqlArguments,
}

pub(super) async fn show(arguments: &Arguments) -> Result<()> {
    let database = arguments.common.database.connect().await?;
    let mut transaction = database.begin_read().await?;
    let rows = store::find(transaction.connection(), &arguments.id).await;
    let rows = rows.context("cannot read the table milena_sagas; milena sql init creates it")?;
    let of_type = |row: &SagaRow| {
        arguments
            .saga_type
            .as_ref()
            .is_none_or(|name| row.key.saga_type == *name)
    };
    let mut found = vec![];
    for row in rows.into_iter().filter(of_type) {
        let trail = store::trail(transaction.connection(), &row.key).await?;
        found.push((row, trail));
    }
    drop(transaction);
    database.close().await;
    ensure!(
        !found.is_empty(),
        "no saga has the id {:?} in this database",
        arguments.id
    );
    let details: Vec<SagaDetails> = found.iter().map(|(row, trail)| SagaDetails::new(row, trail)).collect();
    arguments.common.output.print(&details, || {
        let texts = found.iter().zip(&details);
        let texts: Vec<String> = texts
            .map(|((row, trail), details)| text(row, trail, &details.steps))
            .collect();
        texts.join("\n")
    })
}

fn text(row: &SagaRow, trail: &[AuditLine], steps: &[StepRow]) -> String {
    let now_ms = now_ms();
    let mut text = String::new();
    // Writing to a string cannot fail.
    let mut line = |name: &str, value: String| {
        let _ = writeln!(text, "{name:<12} {value}");
    };
    line("ID", row.key.saga_id.clone());
    line("TYPE", row.key.saga_type.clone());
    line("PARTICIPANT", row.key.participant.clone());
    line("STATUS", row.status.clone());
    if let Some(reason) = &row.reason {
        line("REASON", reason.clone());
    }
    line(
        "STARTED",
        format!("{} ({} ago)", iso(row.started_ms), age(row.started_ms, now_ms)),
    );
    line(
        "CHANGED",
        format!("{} ({} ago)", iso(row.changed_ms), age(row.changed_ms, now_ms)),
    );
    let pending: Option<PendingCommand> = row.command.as_deref().and_then(|text| serde_json::from_str(text).ok());
    if let Some(pending) = pending {
        line(
            "PENDING",
            format!("{} by {}: {}", pending.command.name(), pending.actor, pending.reason),
        );
    } else if let Some(wake_ms) = row.wake_ms {
        line("TIMER", iso(wake_ms));
    }
    text.push('\n');
    let mut table = Table::new(&["STEP", "STATUS", "ATTEMPTS", "DUE"]);
    for step in steps {
        let due = step.due.clone().unwrap_or_default();
        table.row([step.step.clone(), step.status.clone(), step.attempts.to_string(), due]);
    }
    text.push_str(&table.write());
    text.push('\n');
    let mut table = Table::new(&["AGE", "WHO", "WHAT"]);
    for line in trail {
        let what = match &line.reason {
            Some(reason) => format!("{} ({reason})", line.action),
            None => line.action.clone(),
        };
        table.row([age(line.at_ms, now_ms), cut(&line.actor, WHO_MAX), cut(&what, WHAT_MAX)]);
    }
    text.push_str(&table.write());
    text
}
