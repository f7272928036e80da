//! `milena topic alter-config`.

use anyhow::{Result, ensure};
use milena_client::admin::{ConfigChange, ConfigResource};

use super::{Common, Topics, setting};
use crate::{cluster, output::print_outcomes};

pub(crate) const HELP: &str = "\
Examples:
  milena topic alter-config -b localhost:9092 letters --set retention.ms=86400000
  milena topic alter-config -b localhost:9092 letters --append cleanup.policy=compact --delete retention.ms";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    topics: Topics,
    /// Give a setting a value; may be repeated
    #[arg(short, long, value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Let a setting go back to its default; may be repeated
    #[arg(short, long, value_name = "KEY")]
    delete: Vec<String>,
    /// Add to a setting that is a list; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    append: Vec<(String, String)>,
    /// Take out of a setting that is a list; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    subtract: Vec<(String, String)>,
    /// Only ask whether it could be changed
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    common: Common,
}

impl Arguments {
    fn changes(&self) -> Vec<(String, ConfigChange)> {
        let valued = |settings: &[(String, String)], change: fn(&str) -> ConfigChange| {
            let changes = settings.iter().map(|(name, value)| (name.clone(), change(value)));
            changes.collect::<Vec<_>>()
        };
        let mut changes = valued(&self.set, |value| ConfigChange::Set(value.into()));
        changes.extend(self.delete.iter().map(|name| (name.clone(), ConfigChange::Delete)));
        changes.extend(valued(&self.append, |value| ConfigChange::Append(value.into())));
        changes.extend(valued(&self.subtract, |value| ConfigChange::Subtract(value.into())));
        changes
    }
}

pub(super) async fn alter(arguments: &Arguments) -> Result<()> {
    let names = arguments.topics.names()?;
    let changes = arguments.changes();
    ensure!(
        !changes.is_empty(),
        "say what to change: --set KEY=VALUE, --delete KEY, --append KEY=VALUE or --subtract KEY=VALUE"
    );
    let admin = cluster::admin(&arguments.common.cluster).await?;
    let changes = names.iter().flat_map(|name| {
        let of_topic = |(key, change): &(String, ConfigChange)| {
            (ConfigResource::topic(name.as_str()), key.clone(), change.clone())
        };
        changes.iter().map(of_topic).collect::<Vec<_>>()
    });
    let altered = match arguments.dry_run {
        true => admin.validate_configs(changes).await,
        false => admin.alter_configs(changes).await,
    };
    let done = if arguments.dry_run { "could change" } else { "changed" };
    print_outcomes(&arguments.common.output, altered, |name, ()| format!("{done} {name}"))
}
