//! `milena txn describe`.

use anyhow::Result;
use serde::Serialize;

use crate::{
    admin_arguments::AdminArguments,
    output::{Table, split},
    time::now_ms,
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Transactional ids
    #[arg(value_name = "TRANSACTIONAL-ID", required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    common: AdminArguments,
}

#[derive(Serialize)]
struct TransactionReport {
    transactional_id: String,
    coordinator: i32,
    producer_id: i64,
    producer_epoch: i16,
    transaction_state: String,
    transaction_timeout_ms: i32,
    current_transaction_start_time_ms: Option<i64>,
    transaction_duration_ms: Option<i64>,
    topic_partitions: Vec<String>,
}

pub(super) async fn describe(arguments: &Arguments) -> Result<()> {
    let admin = arguments.common.connection.admin().await?;
    let (described, problems) = split(
        admin
            .describe_transactions(arguments.ids.iter().map(String::as_str))
            .await,
    );
    let now_ms = now_ms();
    let described: Vec<TransactionReport> = described
        .into_iter()
        .map(|(id, one)| TransactionReport {
            transactional_id: id.to_string(),
            coordinator: one.coordinator.id,
            producer_id: one.producer_id,
            producer_epoch: one.producer_epoch,
            transaction_state: one.state.to_string(),
            transaction_timeout_ms: one.timeout_ms,
            current_transaction_start_time_ms: one.start_time_ms,
            transaction_duration_ms: one.start_time_ms.map(|start| (now_ms - start).max(0)),
            topic_partitions: one.partitions.iter().map(ToString::to_string).collect(),
        })
        .collect();
    arguments.common.output.print(&described, || text(&described))?;
    problems
}

fn text(described: &[TransactionReport]) -> String {
    let mut table = Table::new(&[
        "TRANSACTIONAL-ID",
        "COORDINATOR",
        "PRODUCER-ID",
        "EPOCH",
        "STATE",
        "TIMEOUT-MS",
        "START-MS",
        "DURATION-MS",
        "PARTITIONS",
    ]);
    let number = |number: Option<i64>| number.map_or_else(String::new, |number| number.to_string());
    for one in described {
        table.row([
            one.transactional_id.clone(),
            one.coordinator.to_string(),
            one.producer_id.to_string(),
            one.producer_epoch.to_string(),
            one.transaction_state.clone(),
            one.transaction_timeout_ms.to_string(),
            number(one.current_transaction_start_time_ms),
            number(one.transaction_duration_ms),
            one.topic_partitions.join(","),
        ]);
    }
    table.write()
}
