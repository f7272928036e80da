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
    admin_arguments::AdminArguments,
    log,
    output::{Table, counted, split},
};
use target::{Target, TargetArguments};

pub(crate) const HELP: &str = "\
Examples:
  milena group reset readers --to earliest              dry run
  milena group reset readers --to earliest --execute    commits the offsets
  milena group reset readers --to ago:1h -t letters --execute
  milena group reset readers --to shift:-100 -t letters:0,1 --execute
  milena group reset readers --to current --export > offsets.csv
  milena group reset readers --from-file offsets.csv --execute

The group must have no members: they would overwrite the offsets. Records
between the old and the new offset are read again, or skipped.";

#[derive(clap::Args)]
#[command(override_usage = "milena group reset [OPTIONS] --to <WHERE> [GROUP]...")]
pub(crate) struct Arguments {
    #[command(flatten)]
    groups: Groups,
    #[command(flatten)]
    target: TargetArguments,
    /// Only this topic, or these partitions of it, as in letters:0,1; may be repeated [default: all with a committed
    /// offset]
    #[arg(short, long, value_name = "TOPIC[:NUMBERS]", value_parser = scope::parse)]
    topic: Vec<Scope>,
    /// All topics with a committed offset: the default
    #[arg(long, conflicts_with = "topic")]
    all_topics: bool,
    /// Commit the new offsets; without it they are only printed
    #[arg(long, conflicts_with = "dry_run")]
    execute: bool,
    /// Only print the new offsets: the default
    #[arg(long)]
    dry_run: bool,
    /// Print the new offsets as CSV, for --from-file
    #[arg(long, conflicts_with = "output")]
    export: bool,
    #[command(flatten)]
    common: AdminArguments,
}

#[derive(Serialize)]
struct OffsetChange {
    group: String,
    topic: String,
    partition: i32,
    old_offset: Option<i64>,
    new_offset: i64,
    /// The requested offset, if it was outside the partition.
    clamped_from: Option<i64>,
}

/// The new offset of each partition.
type Targets = BTreeMap<TopicPartition, OffsetTarget>;

pub(super) async fn reset(arguments: &Arguments) -> Result<()> {
    let target = arguments.target.target()?;
    if !matches!(target, Target::File(_)) {
        arguments.groups.check()?;
    }
    let admin = arguments.common.connection.admin().await?;
    let targets = targets(&admin, arguments, target).await?;
    let (mut changes, mut outcome) = (vec![], Ok(()));
    for (group, targets) in targets {
        let planned = match arguments.execute {
            true => admin.reset_group_offsets_to(group.as_str(), targets).await?,
            false => admin.plan_group_offsets_to(group.as_str(), targets).await?,
        };
        let (planned, problems) = split(planned);
        outcome = outcome.and(problems);
        changes.extend(planned.into_iter().map(|(partition, planned)| OffsetChange {
            group: group.clone(),
            topic: partition.topic.to_string(),
            partition: partition.partition,
            old_offset: planned.from,
            new_offset: planned.to,
            clamped_from: planned.clamped,
        }));
    }
    print(arguments, &changes)?;
    outcome
}

/// The new offsets by group. All groups are checked before the first one is changed.
async fn targets(admin: &Admin, arguments: &Arguments, target: Target<'_>) -> Result<BTreeMap<String, Targets>> {
    let names = arguments.groups.names(admin).await?;
    let mut targets = BTreeMap::new();
    match target {
        Target::Place(place) => {
            for name in names {
                check_is_inactive(admin, &name).await?;
                // With --all-groups, a group without offsets is skipped.
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
                "{} has no offsets of these groups and topics",
                path.display()
            );
        }
    }
    Ok(targets)
}

/// Fails if the group has members, because they would overwrite the new offsets.
async fn check_is_inactive(admin: &Admin, group: &str) -> Result<()> {
    // A group that does not exist can be given offsets.
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
        "group {group} is {} with {} ({shown}{rest}), which would overwrite the offsets; stop them first",
        described.state,
        counted(members.len(), "member")
    )
}

fn print(arguments: &Arguments, changes: &[OffsetChange]) -> Result<()> {
    for one in changes {
        if let Some(wanted) = one.clamped_from {
            let side = match wanted > one.new_offset {
                true => "after the end",
                false => "before the start",
            };
            let (group, topic, partition, offset) = (&one.group, &one.topic, one.partition, one.new_offset);
            log::notice(format_args!(
                "{group}, {topic}-{partition}: offset {wanted} is {side}; using {offset}"
            ));
        }
    }
    if arguments.export {
        let is_one = changes
            .iter()
            .all(|one| changes.first().is_some_and(|first| first.group == one.group));
        let line = |one: &OffsetChange| {
            let group = (!is_one).then_some(one.group.as_str());
            file::line(group, &one.topic, one.partition, one.new_offset)
        };
        let lines: String = changes.iter().map(line).collect();
        std::io::Write::write_all(&mut std::io::stdout().lock(), lines.as_bytes())?;
    } else {
        arguments.common.output.print(&changes, || text(changes))?;
    }
    if !arguments.execute && !arguments.export {
        log::notice("dry run, nothing changed; add --execute to commit these offsets");
    }
    Ok(())
}

fn text(changes: &[OffsetChange]) -> String {
    let mut table = Table::new(&["GROUP", "TOPIC", "PARTITION", "OLD-OFFSET", "NEW-OFFSET"]);
    for one in changes {
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
