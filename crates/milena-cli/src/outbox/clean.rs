//! `milena outbox clean`.

use std::time::Duration;

use anyhow::Result;
use milena_client::config::parse_time;
use milena_sql::relay::clean_published;
use serde::Serialize;

use crate::{database::SqlArguments, output::counted};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only events that were published at least this long ago
    #[arg(long, value_name = "DURATION", value_parser = parse_time, default_value = "7d")]
    older_than: Duration,
    #[command(flatten)]
    common: SqlArguments,
}

#[derive(Serialize)]
struct Cleaned {
    events: u64,
}

pub(super) async fn clean(arguments: &Arguments) -> Result<()> {
    let database = arguments.common.database.connect().await?;
    let events = clean_published(&database, arguments.older_than)
        .await
        .map_err(super::explain)?;
    database.close().await;
    let done = || format!("deleted {}\n", counted(events, "published event"));
    arguments.common.output.print(&Cleaned { events }, done)
}
