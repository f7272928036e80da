//! `milena txn`: looks after transactions.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail, ensure};
use clap::Subcommand;
use milena_client::{
    admin::{AbortTransaction, Admin, TransactionFilter},
    consumer::TopicPartition,
};
use serde::Serialize;

use crate::{
    cluster::{self, ClusterArguments},
    output::{OutputArguments, Table, fail_if_any, print_outcomes, split},
};

const ABORT_HELP: &str = "\
Examples:
  milena txn abort -b localhost:9092 payments                        fence the producer off; its coordinator aborts
  milena txn abort -b localhost:9092 -t letters -p 0 --start-offset 1234

The second form is for a transaction that no coordinator knows of any more, and that keeps read_committed readers waiting:
a marker is written into the partition behind the coordinator's back.";

#[derive(Subcommand)]
pub(crate) enum Command {
    /// List transactional ids and their states
    #[command(visible_alias = "ls")]
    List(ListArguments),
    /// Show open transactions and the partitions that are part of them
    Describe(DescribeArguments),
    /// Abort a transaction that its producer will not end
    #[command(after_help = ABORT_HELP)]
    Abort(AbortArguments),
}

/// What every command here needs.
#[derive(clap::Args)]
struct Common {
    #[command(flatten)]
    cluster: ClusterArguments,
    #[command(flatten)]
    output: OutputArguments,
}

#[derive(clap::Args)]
pub(crate) struct ListArguments {
    /// Only in this state, such as Ongoing or CompleteCommit; may be repeated
    #[arg(long, value_name = "STATE")]
    state: Vec<String>,
    /// Only those that have been open for at least so long
    #[arg(long, value_name = "SECONDS")]
    open_for: Option<u64>,
    /// Only transactional ids that match this regular expression
    #[arg(long, value_name = "REGEX")]
    pattern: Option<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
pub(crate) struct DescribeArguments {
    /// The transactional ids
    #[arg(value_name = "TRANSACTIONAL-ID", required = true)]
    ids: Vec<String>,
    #[command(flatten)]
    common: Common,
}

#[derive(clap::Args)]
pub(crate) struct AbortArguments {
    /// The transactional ids whose producers are fenced off
    #[arg(value_name = "TRANSACTIONAL-ID", conflicts_with_all = ["topic", "partition", "start_offset"])]
    ids: Vec<String>,
    /// The topic of a transaction that no coordinator knows
    #[arg(short, long, requires = "partition", requires = "start_offset")]
    topic: Option<String>,
    /// The partition of that transaction
    #[arg(short, long, value_name = "NUMBER", requires = "topic")]
    partition: Option<i32>,
    /// Where it begins
    #[arg(long, value_name = "OFFSET", requires = "topic")]
    start_offset: Option<i64>,
    #[command(flatten)]
    common: Common,
}

pub(crate) fn run(command: &Command) -> Result<()> {
    match command {
        Command::List(arguments) => cluster::run(list(arguments)),
        Command::Describe(arguments) => cluster::run(describe(arguments)),
        Command::Abort(arguments) => cluster::run(abort(arguments)),
    }
}

#[derive(Serialize)]
struct Listed {
    transactional_id: String,
    coordinator: i32,
    producer_id: i64,
    transaction_state: String,
}

async fn list(arguments: &ListArguments) -> Result<()> {
    let filter = TransactionFilter {
        states: arguments.state.iter().map(|state| state.as_str().into()).collect(),
        open_for: arguments.open_for.map(Duration::from_secs),
        pattern: arguments.pattern.as_deref().map(Into::into),
        ..Default::default()
    };
    let admin = cluster::admin(&arguments.common.cluster).await?;
    let listed = admin.list_transactions(filter).await?;
    let transactions: Vec<Listed> = listed
        .found
        .into_iter()
        .map(|one| Listed {
            transactional_id: one.transactional_id.to_string(),
            coordinator: one.coordinator,
            producer_id: one.producer_id,
            transaction_state: one.state.to_string(),
        })
        .collect();
    arguments.common.output.print(&transactions, || {
        let mut table = Table::new(&["TransactionalId", "Coordinator", "ProducerId", "TransactionState"]);
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

#[derive(Serialize)]
struct Described {
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

async fn describe(arguments: &DescribeArguments) -> Result<()> {
    let admin = cluster::admin(&arguments.common.cluster).await?;
    let (described, problems) = split(
        admin
            .describe_transactions(arguments.ids.iter().map(String::as_str))
            .await,
    );
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let now_ms = i64::try_from(now.as_millis()).unwrap_or(i64::MAX);
    let described: Vec<Described> = described
        .into_iter()
        .map(|(id, one)| Described {
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

fn text(described: &[Described]) -> String {
    let mut table = Table::new(&[
        "CoordinatorId",
        "TransactionalId",
        "ProducerId",
        "ProducerEpoch",
        "TransactionState",
        "TransactionTimeoutMs",
        "CurrentTransactionStartTimeMs",
        "TransactionDurationMs",
        "TopicPartitions",
    ]);
    let number = |number: Option<i64>| number.map_or_else(String::new, |number| number.to_string());
    for one in described {
        table.row([
            one.coordinator.to_string(),
            one.transactional_id.clone(),
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

async fn abort(arguments: &AbortArguments) -> Result<()> {
    let hanging = arguments
        .topic
        .as_ref()
        .zip(arguments.partition)
        .zip(arguments.start_offset);
    ensure!(
        !arguments.ids.is_empty() || hanging.is_some(),
        "name a transactional id, or where the transaction is: -t TOPIC -p NUMBER --start-offset OFFSET"
    );
    let admin = cluster::admin(&arguments.common.cluster).await?;
    let Some(((topic, number), start_offset)) = hanging else {
        let fenced = admin.fence_producers(arguments.ids.iter().map(String::as_str)).await;
        return print_outcomes(&arguments.common.output, fenced, |id, producer| {
            format!(
                "fenced {id} off; the next producer follows {} in epoch {}",
                producer.producer_id, producer.producer_epoch
            )
        });
    };
    let partition = TopicPartition::new(topic.as_str(), number);
    let transaction = find(&admin, &partition, start_offset).await?;
    let aborted = admin.abort_transaction(transaction).await;
    let results = [(partition, aborted)].into();
    print_outcomes(&arguments.common.output, results, |partition, ()| {
        format!("aborted the transaction in {partition} that began at {start_offset}")
    })
}

/// The producer whose open transaction begins there.
async fn find(admin: &Admin, partition: &TopicPartition, start_offset: i64) -> Result<AbortTransaction> {
    let (producers, problems) = split(admin.describe_producers([partition.clone()]).await);
    problems?;
    let producers: Vec<_> = producers.into_iter().flat_map(|(_, producers)| producers).collect();
    let found = producers
        .iter()
        .find(|producer| producer.transaction_start_offset == Some(start_offset));
    let Some(producer) = found else {
        let open: Vec<String> = producers
            .iter()
            .filter_map(|producer| producer.transaction_start_offset)
            .map(|offset| offset.to_string())
            .collect();
        match open.is_empty() {
            true => bail!("no transaction is open in {partition}"),
            false => bail!(
                "no transaction begins at {start_offset} in {partition}; open ones begin at {}",
                open.join(", ")
            ),
        }
    };
    Ok(AbortTransaction {
        partition: partition.clone(),
        producer_id: producer.producer_id,
        producer_epoch: i16::try_from(producer.producer_epoch).context("the broker names an epoch that cannot be")?,
        // Zero is what a coordinator that has never written here counts as.
        coordinator_epoch: producer.coordinator_epoch.unwrap_or(0),
    })
}
