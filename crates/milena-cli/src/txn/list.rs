//! `milena txn list`.

use std::time::Duration;

use anyhow::Result;
use milena_client::admin::TransactionFilter;
use serde::Serialize;

use crate::{
    admin_arguments::AdminArguments,
    output::{Table, fail_if_any},
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Only transactions in this state, such as Ongoing or CompleteCommit; may be repeated
    #[arg(long, value_name = "STATE")]
    state: Vec<String>,
    /// Only transactions that have been open for at least this long
    #[arg(long, value_name = "SECONDS")]
    open_for: Option<u64>,
    /// Only transactional ids that match this regular expression
    #[arg(long, value_name = "REGEX")]
    pattern: Option<String>,
    #[command(flatten)]
    common: AdminArguments,
}

#[derive(Serialize)]
struct TransactionRow {
    transactional_id: String,
    coordinator: i32,
    producer_id: i64,
    transaction_state: String,
}

pub(super) async fn list(arguments: &Arguments) -> Result<()> {
    let filter = TransactionFilter {
        states: arguments.state.iter().map(|state| state.as_str().into()).collect(),
        open_for: arguments.open_for.map(Duration::from_secs),
        pattern: arguments.pattern.as_deref().map(Into::into),
        ..Default::default()
    };
    let admin = arguments.common.connection.admin().await?;
    let listed = admin.list_transactions(filter).await?;
    let transactions: Vec<TransactionRow> = listed
        .found
        .into_iter()
        .map(|one| TransactionRow {
            transactional_id: one.transactional_id.to_string(),
            coordinator: one.coordinator,
            producer_id: one.producer_id,
            transaction_state: one.state.to_string(),
        })
        .collect();
    arguments.common.output.print(&transactions, || {
        let mut table = Table::new(&["TRANSACTIONAL-ID", "COORDINATOR", "PRODUCER-ID", "STATE"]);
        for one in &transactions {
            table.row([
                one.transactional_id.clone(),
                one.coordinator.to_string(),
                one.producer_id.to_string(),
                one.transaction_state.clone(),
            ]);
        }
        table.write()
    })?;
    fail_if_any(listed.failed.into_values())
}
