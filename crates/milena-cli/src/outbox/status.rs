//! `milena outbox status`.

use std::time::Duration;

use anyhow::Result;
use milena_sql::{
    outbox::{RowState, rows, slot_owners},
    relay::backlog,
};
use serde::Serialize;

use crate::{
    database::SqlArguments,
    output::{Table, counted},
};

/// Failed aggregates that are shown.
const FAILED_MAX: u32 = 20;

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: SqlArguments,
}

#[derive(Serialize)]
struct Status {
    unpublished: u64,
    /// Age of the oldest unpublished event.
    oldest_ms: Option<u64>,
    failed: u64,
    relays: Vec<RelayRow>,
    /// Slots that no relay has a valid lease of.
    free_slots: u32,
    failed_events: Vec<FailedRow>,
}

#[derive(Serialize)]
struct RelayRow {
    name: String,
    slots: u32,
    lease_ms: u64,
}

#[derive(Serialize)]
struct FailedRow {
    aggregate_type: String,
    aggregate_id: String,
    id: String,
    attempts: u32,
    error: String,
}

pub(super) async fn status(arguments: &Arguments) -> Result<()> {
    let database = arguments.common.database.connect().await?;
    let backlog = backlog(&database).await.map_err(super::explain)?;
    let owners = slot_owners(&database).await.map_err(super::explain)?;
    let failed = rows(&database, RowState::Failed, FAILED_MAX)
        .await
        .map_err(super::explain)?;
    database.close().await;
    let free = owners.iter().filter(|owner| owner.owner.is_none());
    let relays = owners.iter().filter_map(|owner| {
        Some(RelayRow {
            name: owner.owner.clone()?,
            slots: owner.slots,
            lease_ms: owner.expires_in.map_or(0, millis),
        })
    });
    let status = Status {
        unpublished: backlog.rows,
        oldest_ms: backlog.oldest.map(millis),
        failed: backlog.failed,
        free_slots: free.map(|owner| owner.slots).sum(),
        relays: relays.collect(),
        failed_events: failed
            .into_iter()
            .map(|event| FailedRow {
                aggregate_type: event.aggregate_type,
                aggregate_id: event.aggregate_id,
                id: event.id,
                attempts: event.attempts,
                error: event.last_error.unwrap_or_default(),
            })
            .collect(),
    };
    arguments.common.output.print(&status, || text(&status))
}

fn text(status: &Status) -> String {
    let oldest = status
        .oldest_ms
        .map_or_else(String::new, |ms| format!(", the oldest {} old", age(ms)));
    let mut text = format!(
        "{} unpublished{oldest}, {} failed\n",
        counted(status.unpublished, "event"),
        status.failed
    );
    if status.relays.is_empty() {
        text.push_str("no relay is running; start one with milena outbox relay\n");
    } else {
        let mut table = Table::new(&["RELAY", "SLOTS", "LEASE"]);
        for relay in &status.relays {
            table.row([relay.name.clone(), relay.slots.to_string(), age(relay.lease_ms)]);
        }
        if status.free_slots > 0 {
            table.row([String::new(), status.free_slots.to_string(), String::new()]);
        }
        text.push_str(&format!("\n{}", table.write()));
    }
    if !status.failed_events.is_empty() {
        let mut table = Table::new(&["AGGREGATE-TYPE", "AGGREGATE-ID", "EVENT", "ATTEMPTS", "ERROR"]);
        for event in &status.failed_events {
            table.row([
                event.aggregate_type.clone(),
                event.aggregate_id.clone(),
                event.id.clone(),
                event.attempts.to_string(),
                event.error.clone(),
            ]);
        }
        text.push_str(&format!("\n{}", table.write()));
    }
    text
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// A duration with its greatest unit.
pub(super) fn age(ms: u64) -> String {
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..120_000 => format!("{} s", ms / 1_000),
        120_000..7_200_000 => format!("{} min", ms / 60_000),
        7_200_000..172_800_000 => format!("{} h", ms / 3_600_000),
        _ => format!("{} d", ms / 86_400_000),
    }
}
