//! `milena outbox list`.

use anyhow::Result;
use milena_sql::outbox::{RowState, rows};
use serde::Serialize;

use super::status::age;
use crate::{database::SqlArguments, output::Table};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only events whose last attempt failed
    #[arg(long, conflicts_with = "published")]
    failed: bool,
    /// Published events, the newest first, instead of unpublished ones
    #[arg(long)]
    published: bool,
    /// Number of events
    #[arg(short = 'n', long, value_name = "NUMBER", default_value_t = 100)]
    limit: u32,
    #[command(flatten)]
    common: SqlArguments,
}

#[derive(Serialize)]
struct EventRow {
    id: String,
    sequence: i64,
    aggregate_type: String,
    aggregate_id: String,
    r#type: String,
    topic: String,
    /// `None` is a tombstone.
    payload_bytes: Option<u64>,
    age_ms: u64,
    is_published: bool,
    attempts: u32,
    error: Option<String>,
}

pub(super) async fn list(arguments: &Arguments) -> Result<()> {
    let state = match (arguments.failed, arguments.published) {
        (true, _) => RowState::Failed,
        (_, true) => RowState::Published,
        _ => RowState::Unpublished,
    };
    let database = arguments.common.database.connect().await?;
    let found = rows(&database, state, arguments.limit).await.map_err(super::explain)?;
    database.close().await;
    let events = found.into_iter().map(|event| EventRow {
        id: event.id,
        sequence: event.sequence,
        aggregate_type: event.aggregate_type,
        aggregate_id: event.aggregate_id,
        r#type: event.event_type,
        topic: event.topic,
        payload_bytes: event.payload_bytes,
        age_ms: u64::try_from(event.age.as_millis()).unwrap_or(u64::MAX),
        is_published: event.is_published,
        attempts: event.attempts,
        error: event.last_error,
    });
    let events: Vec<EventRow> = events.collect();
    arguments.common.output.print(&events, || {
        let mut table = Table::new(&["ID", "AGGREGATE-ID", "TYPE", "TOPIC", "AGE", "ATTEMPTS", "ERROR"]);
        for event in &events {
            table.row([
                event.id.clone(),
                event.aggregate_id.clone(),
                event.r#type.clone(),
                event.topic.clone(),
                age(event.age_ms),
                event.attempts.to_string(),
                event.error.clone().unwrap_or_default(),
            ]);
        }
        table.write()
    })
}
