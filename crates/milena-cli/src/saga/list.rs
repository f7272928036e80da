//! `milena saga list`.

use std::time::Duration;

use anyhow::{Context, Result};
use clap::ValueEnum;
use milena_sql::saga::store::{self, SagaFilter};

use super::rows::{SagaSummary, age, cut};
use crate::{
    database::SqlArguments,
    output::Table,
    time::{now_ms, parse_duration},
};

pub(crate) const HELP: &str = "\
Examples:
  milena saga list -d postgres://app@db/shop
  milena saga list --status stuck --unchanged-for 1h
  milena saga list --status completed --status compensated --limit 10

The database of the owner knows whole sagas; that of another service only its
own steps. Open sagas are listed with the oldest first, others with the last
first.";

/// Characters of an id and of a reason in the table.
const ID_MAX: usize = 24;
const REASON_MAX: usize = 30;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only sagas with this status, such as stuck or completed; may be repeated
    #[arg(long, value_enum, value_name = "STATUS", hide_possible_values = true)]
    status: Vec<Status>,
    /// Only sagas of this type
    #[arg(long = "type", value_name = "TYPE")]
    saga_type: Option<String>,
    /// Only sagas of this participant, if several share the database
    #[arg(long, value_name = "NAME")]
    participant: Option<String>,
    /// Only sagas without a change for this time, as in 10m or 1h
    #[arg(long, value_name = "DURATION", value_parser = duration)]
    unchanged_for: Option<Duration>,
    /// Maximum number of sagas
    #[arg(long, value_name = "NUMBER", default_value_t = 50)]
    limit: u32,
    #[command(flatten)]
    common: SqlArguments,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum Status {
    Running,
    Compensating,
    Stuck,
    Waiting,
    Completed,
    Compensated,
    Closed,
    Done,
    Failed,
    Cancelled,
}

impl Status {
    fn name(self) -> &'static str {
        match self {
            Self::Running => "running",
            Self::Compensating => "compensating",
            Self::Stuck => "stuck",
            Self::Waiting => "waiting",
            Self::Completed => "completed",
            Self::Compensated => "compensated",
            Self::Closed => "closed",
            Self::Done => "done",
            Self::Failed => "failed",
            Self::Cancelled => "cancelled",
        }
    }
}

fn duration(text: &str) -> Result<Duration, String> {
    parse_duration(text).ok_or_else(|| format!("{text:?} is not a duration such as 10m or 1h"))
}

pub(super) async fn list(arguments: &Arguments) -> Result<()> {
    let now_ms = now_ms();
    let unchanged_since_ms = arguments.unchanged_for.map(|time| {
        let time_ms = i64::try_from(time.as_millis()).unwrap_or(i64::MAX);
        now_ms.saturating_sub(time_ms)
    });
    let filter = SagaFilter {
        statuses: arguments.status.iter().map(|status| status.name()).collect(),
        saga_type: arguments.saga_type.clone(),
        participant: arguments.participant.clone(),
        unchanged_since_ms,
        limit: arguments.limit,
    };
    let database = arguments.common.database.connect().await?;
    let mut transaction = database.begin_read().await?;
    let rows = store::list(transaction.connection(), &filter).await;
    let rows = rows.context("cannot read the table milena_sagas; milena sql init creates it")?;
    drop(transaction);
    database.close().await;
    let summaries: Vec<SagaSummary> = rows.iter().map(SagaSummary::new).collect();
    arguments.common.output.print(&summaries, || {
        let mut table = Table::new(&["ID", "TYPE", "STATUS", "AGE", "CHANGED", "REASON"]);
        for row in &rows {
            table.row([
                cut(&row.key.saga_id, ID_MAX),
                row.key.saga_type.clone(),
                row.status.clone(),
                age(row.started_ms, now_ms),
                age(row.changed_ms, now_ms),
                cut(row.reason.as_deref().unwrap_or_default(), REASON_MAX),
            ]);
        }
        table.write()
    })
}
