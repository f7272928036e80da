//! `milena group delete-offsets`.

use anyhow::{Result, ensure};

use super::scope::{self, Scope};
use crate::{admin_arguments::AdminArguments, output::print_outcomes};

pub(crate) const HELP: &str = "\
Examples:
  milena group delete-offsets readers -t letters          all partitions
  milena group delete-offsets readers -t letters:0,1

No member may be subscribed to the topic. Without a committed offset, the group
starts at auto.offset.reset.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Group
    #[arg(value_name = "GROUP", required_unless_present = "group")]
    name: Option<String>,
    /// Same as GROUP
    #[arg(short, long, value_name = "GROUP", conflicts_with = "name")]
    group: Option<String>,
    /// Topic, or some of its partitions, as in letters:0,1; may be repeated
    #[arg(short, long, value_name = "TOPIC[:NUMBERS]", value_parser = scope::parse, required = true)]
    topic: Vec<Scope>,
    #[command(flatten)]
    common: AdminArguments,
}

pub(super) async fn delete(arguments: &Arguments) -> Result<()> {
    let group = arguments.name.as_ref().or(arguments.group.as_ref());
    let group = group.cloned().unwrap_or_default();
    let admin = arguments.common.connection.admin().await?;
    let committed = scope::committed(&admin, &group).await?;
    let chosen = |partition: &&_| arguments.topic.iter().any(|scope| scope.contains(partition));
    let partitions: Vec<_> = committed.iter().filter(chosen).cloned().collect();
    ensure!(
        !partitions.is_empty(),
        "group {group} has no committed offset there; `milena group describe {group}` lists its offsets"
    );
    let deleted = admin.delete_group_offsets(group.as_str(), partitions).await;
    print_outcomes(&arguments.common.output, deleted, |partition, ()| {
        format!("deleted the offset of {partition}")
    })
}
