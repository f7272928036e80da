//! `milena config describe`.

use anyhow::Result;
use milena_client::admin::{ConfigEntry, ConfigResource, ConfigSource};
use serde::Serialize;

use super::entity::EntityArguments;
use crate::{
    admin_arguments::AdminArguments,
    log,
    output::{Table, split},
};

pub(crate) const HELP: &str = "\
Examples:
  milena config describe topic letters
  milena config describe broker 1 --all        including defaults
  milena config describe broker --default      the defaults of all brokers
  milena config describe group readers";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    entities: EntityArguments,
    /// Include defaults
    #[arg(short, long)]
    all: bool,
    #[command(flatten)]
    common: AdminArguments,
}

#[derive(Serialize)]
struct ResourceConfigs {
    kind: String,
    name: String,
    configs: Vec<Config>,
}

#[derive(Serialize)]
struct Config {
    key: String,
    value: Option<String>,
    source: String,
    read_only: bool,
    sensitive: bool,
}

pub(super) async fn describe(arguments: &Arguments) -> Result<()> {
    arguments.entities.check()?;
    let admin = arguments.common.connection.admin().await?;
    let resources = arguments.entities.resources(&admin).await?;
    let (described, problems) = split(admin.describe_configs(resources).await);
    let described: Vec<ResourceConfigs> = described
        .into_iter()
        .map(|(resource, entries)| of_resource(&resource, entries, arguments.all))
        .collect();
    arguments.common.output.print(&described, || text(&described))?;
    if !arguments.all && described.iter().all(|one| one.configs.is_empty()) && problems.is_ok() {
        log::notice("all configs have their default values; --all shows them");
    }
    problems
}

fn of_resource(resource: &ConfigResource, entries: Vec<ConfigEntry>, all: bool) -> ResourceConfigs {
    let shown = entries
        .into_iter()
        .filter(|entry| all || entry.source != ConfigSource::Default);
    let configs = shown.map(|entry| Config {
        key: entry.name.to_string(),
        value: entry.value.map(|value| value.to_string()),
        source: entry.source.to_string(),
        read_only: entry.read_only,
        sensitive: entry.sensitive,
    });
    ResourceConfigs {
        kind: resource.kind.to_string(),
        name: resource.name.to_string(),
        configs: configs.collect(),
    }
}

fn text(described: &[ResourceConfigs]) -> String {
    let mut table = Table::new(&["KIND", "NAME", "KEY", "VALUE", "SOURCE"]);
    for one in described {
        let name = match one.name.as_str() {
            "" => "all",
            name => name,
        };
        for config in &one.configs {
            let value = match (&config.value, config.sensitive) {
                (None, true) => "(secret)".to_owned(),
                (value, _) => value.clone().unwrap_or_default(),
            };
            table.row([
                one.kind.clone(),
                name.to_owned(),
                config.key.clone(),
                value,
                config.source.clone(),
            ]);
        }
    }
    table.write()
}
