//! `milena group reset`.

mod file;
mod target;

use std::collections::BTreeMap;

use anyhow::{Result, bail, ensure};
use milena_client::{
    admin::{Admin, OffsetTarget},
    consumer::TopicPartition,
};
use serde::Serialize;

use super::{
    groups::Groups,
    scope::{self, Scope},
};
use crate::{
    common::Common,
    log,
    output::{Table, counted, split},
};
use target::{Target, TargetArguments};

pub(crate) const HELP: &str = "\
Examples:
  milena group reset readers --to earliest              shows what would change
  milena group reset readers --to earliest --execute    does it
  milena group reset readers --to ago:1h -t letters --execute
  milena group reset readers --to shift:-100 -t letters:0,1 --execute
  milena group reset readers --to current --export > offsets.csv
  milena group reset readers --from-file offsets.csv --execute

The group must have no members: they would commit over it. After a reset, the
records in between are read again, or never.";

#[derive(clap::Args)]
#[command(override_usage = "milena group reset [OPTIONS] --to <WHERE> [GROUP]...")]
pub(crate) struct Arguments {
    #[command(flatten)]
    groups: Groups,
    #[command(flatten)]
    target: TargetArguments,
    /// Only this topic, or these partitions of it, as in letters:0,1; may be repeated. Without it, all that the group has
    /// committed
    #[arg(short, long, value_name = "TOPIC[:NUMBERS]", value_parser = scope::parse)]
    topic: Vec<Scope>,
    /// All topics that the group has committed offsets of: the default
    #[arg(long, conflicts_with = "topic")]
    all_topics: bool,
    /// Commit the new offsets; without it they are only shown
    #[arg(long, conflicts_with = "dry_run")]
    execute: bool,
    /// Only show the new offsets: the default
    #[arg(long)]
    dry_run: bool,
    /// Print the new offsets as CSV, for --from-file
    #[arg(long, conflicts_with = "output")]
    export: bool,
    #[command(flatten)]
    common: Common,
}

#[derive(Serialize)]
struct Moved {
    group: String,
    topic: String,
    partition: i32,
    old_offset: Option<i64>,
    new_offset: i64,
    /// The offset that was asked for, where the partition does not have it.
    clamped_from: Option<i64>,
}

/// The new place of each partition.
type Targets = BTreeMap<TopicPartition, OffsetTarget>;

pub(super) async fn reset(arguments: &Arguments) -> Result<()> {
    let target = arguments.target.target()?;
    if !matches!(target, Target::File(_)) {
        arguments.groups.check()?;
    }
    let admin = arguments.common.connection.admin().await?;
    let targets = targets(&admin, arguments, target).await?;
    let (mut moved, mut outcome) = (vec![], Ok(()));
    for (group, targets) in targets {
        let planned = match arguments.execute {
            true => admin.reset_group_offsets_to(group.as_str(), targets).await?,
            false => admin.plan_group_offsets_to(group.as_str(), targets).await?,
        };
        let (planned, problems) = split(planned);
        outcome = outcome.and(problems);
        moved.extend(planned.into_iter().map(|(partition, planned)| Moved {
            group: group.clone(),
            topic: partition.topic.to_string(),
            partition: partition.partition,
            old_offset: planned.from,
            new_offset: planned.to,
            clamped_from: planned.clamped,
        }));
    }
    print(arguments, &moved)?;
    outcome
}

/// The new places of each group. All groups are checked before the first is moved.
async fn targets(admin: &Admin, arguments: &Arguments, target: Target<'_>) -> Result<BTreeMap<String, Targets>> {
    let names = arguments.groups.names(admin).await?;
    let mut targets = BTreeMap::new();
    match target {
        Target::Place(place) => {
            for name in names {
                check_is_inactive(admin, &name).await?;
                // Among all groups, one without offsets has nothing that could be moved.
                if arguments.groups.are_all()
                    && arguments.topic.is_empty()
                    && scope::committed(admin, &name).await?.is_empty()
                {
                    continue;
                }
                let partitions = scope::partitions(admin, &name, &arguments.topic).await?.into_iter();
                targets.insert(name, partitions.map(|partition| (partition, place)).collect());
            }
        }
        Target::File(path) => {
            let only = match names.as_slice() {
                [name] => Some(name.as_str()),
                _ => None,
            };
            let in_scope = |partition: &TopicPartition| {
                arguments.topic.is_empty() || arguments.topic.iter().any(|scope| scope.contains(partition))
            };
            let of_groups = file::read(path, only)?.into_iter();
            for (name, offsets) in of_groups.filter(|(name, _)| !arguments.groups.are_named() || names.contains(name)) {
                check_is_inactive(admin, &name).await?;
                let offsets = offsets.into_iter().filter(|(partition, _)| in_scope(partition));
                let places: Targets = offsets
                    .map(|(partition, offset)| (partition, OffsetTarget::Offset(offset)))
                    .collect();
                targets.insert(name, places);
            }
            ensure!(
                targets.values().any(|places| !places.is_empty()),
                "{} has no offset of what is named",
                path.display()
            );
        }
    }
    Ok(targets)
}

/// Members would commit over the new offsets, and hold the old ones until then.
async fn check_is_inactive(admin: &Admin, group: &str) -> Result<()> {
    // A group that is not there can be given a place to begin.
    let Some(Ok(described)) = admin.describe_groups([group]).await.remove(group) else {
        return Ok(());
    };
    let members = described.members;
    if members.is_empty() {
        return Ok(());
    }
    let shown = members.iter().take(10).map(|member| {
        let name = member.instance_id.as_ref().unwrap_or(&member.client_id);
        format!("{name} at {}", member.host.trim_start_matches('/'))
    });
    let shown = shown.collect::<Vec<_>>().join(", ");
    let rest = match members.len() {
        0..=10 => "",
        _ => ", …",
    };
    bail!(
        "group {group} is {} with {} ({shown}{rest}), which would commit over it; stop the group first",
        described.state,
        counted(members.len(), "member")
    )
}

fn print(arguments: &Arguments, moved: &[Moved]) -> Result<()> {
    for one in moved {
        if let Some(wanted) = one.clamped_from {
            let side = match wanted > one.new_offset {
                true => "beyond the end",
                false => "before the start",
            };
            let (group, topic, partition, offset) = (&one.group, &one.topic, one.partition, one.new_offset);
            log::notice(format_args!(
                "{group}, {topic}-{partition}: {wanted} is {side}; {offset} instead"
            ));
        }
    }
    if arguments.export {
        let is_one = moved
            .iter()
            .all(|one| moved.first().is_some_and(|first| first.group == one.group));
        let line = |one: &Moved| {
            let group = (!is_one).then_some(one.group.as_str());
            file::line(group, &one.topic, one.partition, one.new_offset)
        };
        let lines: String = moved.iter().map(line).collect();
        std::io::Write::write_all(&mut std::io::stdout().lock(), lines.as_bytes())?;
    } else {
        arguments.common.output.print(&moved, || text(moved))?;
    }
    if !arguments.execute && !arguments.export {
        log::notice("dry run, nothing has changed; add --execute to commit these offsets");
    }
    Ok(())
}

fn text(moved: &[Moved]) -> String {
    let mut table = Table::new(&["GROUP", "TOPIC", "PARTITION", "OLD-OFFSET", "NEW-OFFSET"]);
    for one in moved {
        table.row([
            one.group.clone(),
            one.topic.clone(),
            one.partition.to_string(),
            one.old_offset.map_or_else(String::new, |offset| offset.to_string()),
            one.new_offset.to_string(),
        ]);
    }
    table.write()
}
