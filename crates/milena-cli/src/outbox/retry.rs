//! `milena outbox retry`.

use anyhow::Result;
use milena_sql::relay::retry_failed;
use serde::Serialize;

use crate::{database::SqlArguments, output::counted};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    common: SqlArguments,
}

#[derive(Serialize)]
struct Retried {
    events: u64,
}

pub(super) async fn retry(arguments: &Arguments) -> Result<()> {
    let database = arguments.common.database.connect().await?;
    let events = retry_failed(&database).await.map_err(super::explain)?;
    database.close().await;
    arguments.common.output.print(&Retried { events }, || match events {
        0 => "no event has failed\n".to_owned(),
        _ => format!(
            "{} will be tried again within a second by a running relay\n",
            counted(events, "event")
        ),
    })
}
