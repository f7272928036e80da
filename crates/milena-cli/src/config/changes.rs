//! Config changes on the command line.

use anyhow::{Result, ensure};
use milena_client::admin::{Admin, ConfigChange, ConfigResource};

use super::setting;
use crate::output::{OutputArguments, print_outcomes};

#[derive(clap::Args)]
pub(crate) struct ChangeArguments {
    /// Set a config; may be repeated
    #[arg(short, long, alias = "add-config", value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Reset a config to its default; may be repeated
    #[arg(short, long, alias = "delete-config", value_name = "KEY")]
    delete: Vec<String>,
    /// Append to a list config; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    append: Vec<(String, String)>,
    /// Remove from a list config; may be repeated
    #[arg(long, value_name = "KEY=VALUE", value_parser = setting)]
    subtract: Vec<(String, String)>,
    /// Only check whether the change is valid
    #[arg(long)]
    dry_run: bool,
}

impl ChangeArguments {
    /// Fails if there is no change.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            !self.changes().is_empty(),
            "no change given; use --set KEY=VALUE, --delete KEY, --append KEY=VALUE or --subtract KEY=VALUE"
        );
        Ok(())
    }

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

    /// Changes all resources, and prints the outcome of each.
    pub(crate) async fn apply(
        &self,
        admin: &Admin,
        resources: Vec<ConfigResource>,
        output: &OutputArguments,
    ) -> Result<()> {
        let changes = self.changes();
        let changes = resources.into_iter().flat_map(|resource| {
            let of_resource = |(key, change): &(String, ConfigChange)| (resource.clone(), key.clone(), change.clone());
            changes.iter().map(of_resource).collect::<Vec<_>>()
        });
        let altered = match self.dry_run {
            true => admin.validate_configs(changes).await,
            false => admin.alter_configs(changes).await,
        };
        let done = if self.dry_run { "would change" } else { "changed" };
        print_outcomes(output, altered, |name, ()| format!("{done} {name}"))
    }
}
