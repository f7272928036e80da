//! `milena topic create` and `milena topic add-partitions`.

use anyhow::{Result, bail};
use milena_client::admin::{NewPartitions, NewTopic, Results};

use super::{Common, Topics, setting};
use crate::{cluster, output::print_outcomes};

pub(crate) const HELP: &str = "\
Examples:
  milena topic create -b localhost:9092 letters -p 6
  milena topic create -b localhost:9092 letters words -p 6 -r 3 -c retention.ms=86400000 -c cleanup.policy=compact
  milena topic create -b localhost:9092 letters --assignment 1:2,2:3        two partitions, two replicas each

Without -p and -r the brokers' defaults count (num.partitions, default.replication.factor).";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    topics: Topics,
    /// How many partitions
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// How many brokers have each partition
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replicas: Option<i16>,
    /// The brokers of each partition, the preferred leader first: partitions are separated by commas, brokers by colons
    #[arg(long, value_name = "BROKERS", value_parser = assignment, conflicts_with_all = ["partitions", "replicas"])]
    assignment: Option<Assignment>,
    /// A setting of the topic; may be repeated
    #[arg(short = 'c', long = "topic-config", value_name = "KEY=VALUE", value_parser = setting)]
    configs: Vec<(String, String)>,
    /// Only ask whether it could be created
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

/// The brokers of each partition.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Assignment(Vec<Vec<i32>>);

fn assignment(text: &str) -> Result<Assignment, String> {
    let partition = |brokers: &str| {
        brokers
            .split(':')
            .map(|id| id.trim().parse().ok())
            .collect::<Option<Vec<i32>>>()
    };
    let partitions: Option<Vec<_>> = text.split(',').map(partition).collect();
    partitions
        .map(Assignment)
        .ok_or_else(|| "it must be ids of brokers, as in 1:2,2:3 for two partitions with two replicas each".to_owned())
}

pub(super) async fn create(arguments: &Arguments) -> Result<()> {
    let topics = arguments.topics.names()?.into_iter().map(|name| {
        let mut topic = NewTopic::new(name);
        if let Some(partitions) = arguments.partitions {
            topic = topic.partitions(partitions);
        }
        if let Some(replicas) = arguments.replicas {
            topic = topic.replication_factor(replicas);
        }
        if let Some(Assignment(brokers)) = &arguments.assignment {
            topic = topic.assignment(brokers.clone());
        }
        let configs = arguments.configs.iter();
        configs.fold(topic, |topic, (name, value)| topic.config(name.clone(), value.clone()))
    });
    let topics: Vec<NewTopic> = topics.collect();
    let admin = cluster::admin(&arguments.common.cluster).await?;
    let created = match arguments.dry_run {
        true => admin.validate_topics(topics).await,
        false => admin.create_topics(topics).await,
    };
    let done = if arguments.dry_run { "could create" } else { "created" };
    print_outcomes(&arguments.common.output, created, |name, topic| {
        match topic.partitions {
            Some(1) => format!("{done} {name} with 1 partition"),
            Some(count) => format!("{done} {name} with {count} partitions"),
            None => format!("{done} {name}"),
        }
    })
}

#[derive(clap::Args)]
pub(crate) struct AddArguments {
    #[command(flatten)]
    topics: Topics,
    /// How many partitions to add
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..), conflicts_with = "total")]
    num: Option<i32>,
    /// How many partitions there are to be in all
    #[arg(long, visible_alias = "partitions", value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    total: Option<i32>,
    /// Only ask whether they could be added
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

pub(super) async fn add_partitions(arguments: &AddArguments) -> Result<()> {
    let names = arguments.topics.names()?;
    if arguments.num.is_none() && arguments.total.is_none() {
        bail!("say how many partitions to add (--num N), or how many there are to be in all (--total N)");
    }
    let admin = cluster::admin(&arguments.common.cluster).await?;
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
    let verb = if arguments.dry_run { "could have" } else { "has" };
    print_outcomes(&arguments.common.output, results, |name, ()| {
        let total = wanted
            .iter()
            .find(|(wanted, _)| wanted == name)
            .map(|(_, new)| new.total());
        format!("{name} {verb} {} partitions", total.unwrap_or_default())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_assignment_is_read_partition_by_partition() {
        assert_eq!(assignment("1:2,2:3"), Ok(Assignment(vec![vec![1, 2], vec![2, 3]])));
        assert_eq!(assignment("1"), Ok(Assignment(vec![vec![1]])));
        for wrong in ["", "1:", "a", "1,,2"] {
            assert!(assignment(wrong).is_err(), "{wrong}");
        }
    }
}
