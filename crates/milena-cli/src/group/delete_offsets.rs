//! `milena group delete-offsets`.

use anyhow::{Result, ensure};

use super::scope::{self, Scope};
use crate::{common::Common, output::print_outcomes};

pub(crate) const HELP: &str = "\
Examples:
  milena group delete-offsets readers -t letters          all partitions
  milena group delete-offsets readers -t letters:0,1

No member may be subscribed to the topic. Where the group has no offset, it
begins anew as auto.offset.reset says.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// The group
    #[arg(value_name = "GROUP", required_unless_present = "group")]
    name: Option<String>,
    /// The same as GROUP
    #[arg(short, long, value_name = "GROUP", conflicts_with = "name")]
    group: Option<String>,
    /// A topic, or some of its partitions, as in letters:0,1; may be repeated
    #[arg(short, long, value_name = "TOPIC[:NUMBERS]", value_parser = scope::parse, required = true)]
    topic: Vec<Scope>,
    #[command(flatten)]
    common: Common,
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
        "group {group} has committed no offset there; `milena group describe {group}` shows which it has"
    );
    let deleted = admin.delete_group_offsets(group.as_str(), partitions).await;
    print_outcomes(&arguments.common.output, deleted, |partition, ()| {
        format!("deleted the offset of {partition}")
    })
}
