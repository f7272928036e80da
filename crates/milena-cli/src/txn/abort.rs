//! `milena txn abort`.

use anyhow::{Context, Result, bail, ensure};
use milena_client::{
    admin::{AbortTransaction, Admin},
    consumer::TopicPartition,
};

use crate::{
    admin_arguments::AdminArguments,
    output::{print_outcomes, split},
};

pub(crate) const HELP: &str = "\
Examples:
  milena txn abort payments       fences the producer; the coordinator aborts
  milena txn abort -t letters -p 0 --start-offset 1234

The second form is for a hanging transaction, which no coordinator knows and
which blocks read_committed consumers. It writes an abort marker directly to the
partition.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Transactional ids whose producers are fenced
    #[arg(value_name = "TRANSACTIONAL-ID", conflicts_with_all = ["topic", "partition", "start_offset"])]
    ids: Vec<String>,
    /// Topic of a transaction that no coordinator knows
    #[arg(short, long, requires = "partition", requires = "start_offset")]
    topic: Option<String>,
    /// Partition of that transaction
    #[arg(short, long, value_name = "NUMBER", requires = "topic")]
    partition: Option<i32>,
    /// First offset of that transaction
    #[arg(long, value_name = "OFFSET", requires = "topic")]
    start_offset: Option<i64>,
    #[command(flatten)]
    common: AdminArguments,
}

pub(super) async fn abort(arguments: &Arguments) -> Result<()> {
    let hanging = arguments
        .topic
        .as_ref()
        .zip(arguments.partition)
        .zip(arguments.start_offset);
    ensure!(
        !arguments.ids.is_empty() || hanging.is_some(),
        "no transaction given; name a transactional id, or use -t TOPIC -p NUMBER --start-offset OFFSET"
    );
    let admin = arguments.common.connection.admin().await?;
    let Some(((topic, number), start_offset)) = hanging else {
        let fenced = admin.fence_producers(arguments.ids.iter().map(String::as_str)).await;
        return print_outcomes(&arguments.common.output, fenced, |id, producer| {
            format!(
                "fenced {id}: producer id {}, epoch {}",
                producer.producer_id, producer.producer_epoch
            )
        });
    };
    let partition = TopicPartition::new(topic.as_str(), number);
    let transaction = find(&admin, &partition, start_offset).await?;
    let aborted = admin.abort_transaction(transaction).await;
    let results = [(partition, aborted)].into();
    print_outcomes(&arguments.common.output, results, |partition, ()| {
        format!("aborted the transaction at offset {start_offset} of {partition}")
    })
}

/// The producer of the open transaction that begins at this offset.
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
                "no transaction starts at offset {start_offset} of {partition}; open transactions start at {}",
                open.join(", ")
            ),
        }
    };
    Ok(AbortTransaction {
        partition: partition.clone(),
        producer_id: producer.producer_id,
        producer_epoch: i16::try_from(producer.producer_epoch).context("the broker returned an invalid epoch")?,
        // Zero is the epoch of a coordinator that has never written to the partition.
        coordinator_epoch: producer.coordinator_epoch.unwrap_or(0),
    })
}
