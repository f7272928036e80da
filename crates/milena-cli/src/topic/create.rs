//! `milena topic create`.

use anyhow::Result;
use milena_client::admin::NewTopic;

use super::Topics;
use crate::{
    admin_arguments::AdminArguments,
    config::setting,
    output::{counted, print_outcomes},
};

pub(crate) const HELP: &str = "\
Examples:
  milena topic create letters -p 6
  milena topic create letters words -p 6 -r 3 -c retention.ms=86400000
  milena topic create letters --assignment 1:2,2:3     two partitions, two
                                                       replicas each

Without -p and -r the brokers' defaults apply: num.partitions and
default.replication.factor.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    topics: Topics,
    /// Number of partitions
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..))]
    partitions: Option<i32>,
    /// Replication factor
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(i16).range(1..))]
    replicas: Option<i16>,
    /// Brokers of each partition, the preferred leader first; commas separate partitions, colons separate brokers
    #[arg(long, value_name = "BROKERS", value_parser = assignment, conflicts_with_all = ["partitions", "replicas"])]
    assignment: Option<Assignment>,
    /// Topic config; may be repeated
    #[arg(short = 'c', long = "topic-config", value_name = "KEY=VALUE", value_parser = setting)]
    configs: Vec<(String, String)>,
    /// Only check whether it could be created
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: AdminArguments,
}

/// Broker ids by partition.
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
        .ok_or_else(|| "expected broker ids, as in 1:2,2:3 for two partitions with two replicas each".to_owned())
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
    let admin = arguments.common.connection.admin().await?;
    let created = match arguments.dry_run {
        true => admin.validate_topics(topics).await,
        false => admin.create_topics(topics).await,
    };
    let done = if arguments.dry_run { "would create" } else { "created" };
    let replicas = match arguments.replicas {
        Some(asked) => replicas(asked, admin.describe_cluster().await?.brokers.len()),
        None => String::new(),
    };
    print_outcomes(&arguments.common.output, created, |name, topic| {
        let partitions = topic
            .partitions
            .map(|count| format!(" with {}", counted(count, "partition")));
        format!("{done} {name}{}{replicas}", partitions.unwrap_or_default())
    })
}

/// The actual replication factor, where a cluster accepts more replicas than it has brokers, as Milena's does.
fn replicas(asked: i16, brokers: usize) -> String {
    match (usize::try_from(asked).is_ok_and(|asked| asked > brokers), brokers) {
        (false, _) => String::new(),
        (true, 1) => "; replication factor 1, the cluster has one broker".to_owned(),
        (true, brokers) => format!("; replication factor {brokers}, the cluster has {brokers} brokers"),
    }
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
