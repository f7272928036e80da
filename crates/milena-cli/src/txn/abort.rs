//! `milena txn abort`.

use anyhow::{Context, Result, bail, ensure};
use milena_client::{
    admin::{AbortTransaction, Admin},
    consumer::TopicPartition,
};

use crate::{
    common::Common,
    output::{print_outcomes, split},
};

pub(crate) const HELP: &str = "\
Examples:
  milena txn abort payments       fence the producer; its coordinator aborts
  milena txn abort -t letters -p 0 --start-offset 1234

The second form is for a transaction that no coordinator knows of any more, and
that keeps read_committed readers waiting: a marker is written into the partition
behind the coordinator's back.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
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

pub(super) async fn abort(arguments: &Arguments) -> Result<()> {
    let hanging = arguments
        .topic
        .as_ref()
        .zip(arguments.partition)
        .zip(arguments.start_offset);
    ensure!(
        !arguments.ids.is_empty() || hanging.is_some(),
        "name a transactional id, or where the transaction is: -t TOPIC -p NUMBER --start-offset OFFSET"
    );
    let admin = arguments.common.connection.admin().await?;
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
