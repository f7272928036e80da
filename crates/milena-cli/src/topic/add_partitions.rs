//! `milena topic add-partitions`.

use anyhow::{Result, bail};
use milena_client::admin::{NewPartitions, Results};

use super::Topics;
use crate::{
    admin_arguments::AdminArguments,
    output::{counted, print_outcomes},
};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    topics: Topics,
    /// Number of partitions to add
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..), conflicts_with = "total")]
    num: Option<i32>,
    /// Number of partitions in total
    #[arg(long, visible_alias = "partitions", value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    total: Option<i32>,
    /// Only check whether they could be added
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: AdminArguments,
}

pub(super) async fn add(arguments: &Arguments) -> Result<()> {
    let names = arguments.topics.names()?;
    if arguments.num.is_none() && arguments.total.is_none() {
        bail!("no number of partitions given; use --num N (to add) or --total N");
    }
    let admin = arguments.common.connection.admin().await?;
    let described = admin.describe_topics(names).await;
    let mut results = Results::new();
    let mut wanted = vec![];
    for (name, described) in described {
        match described {
            Ok(topic) => {
                let count = i32::try_from(topic.partitions.len()).unwrap_or(i32::MAX);
                let added = arguments.num.map(|added| count.saturating_add(added));
                let total = added.or(arguments.total).unwrap_or(count);
                wanted.push((name, NewPartitions::increase_to(total)));
            }
            Err(error) => drop(results.insert(name, Err(error))),
        }
    }
    results.extend(match arguments.dry_run {
        true => admin.validate_partitions(wanted.clone()).await,
        false => admin.create_partitions(wanted.clone()).await,
    });
    let verb = if arguments.dry_run { "would have" } else { "has" };
    print_outcomes(&arguments.common.output, results, |name, ()| {
        let total = wanted
            .iter()
            .find(|(wanted, _)| wanted == name)
            .map(|(_, new)| new.total());
        format!("{name} {verb} {}", counted(total.unwrap_or_default(), "partition"))
    })
}
