//! The changes of settings that the command line names.

use anyhow::{Result, ensure};
use milena_client::admin::{Admin, ConfigChange, ConfigResource};

use super::setting;
use crate::output::{OutputArguments, print_outcomes};

#[derive(clap::Args)]
pub(crate) struct ChangeArguments {
    /// Give a setting a value; may be repeated
    #[arg(short, long, alias = "add-config", value_name = "KEY=VALUE", value_parser = setting)]
    set: Vec<(String, String)>,
    /// Let a setting go back to its default; may be repeated
    #[arg(short, long, alias = "delete-config", value_name = "KEY")]
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
}

impl ChangeArguments {
    /// Fails if nothing is to change.
    pub(crate) fn check(&self) -> Result<()> {
        ensure!(
            !self.changes().is_empty(),
            "say what to change: --set KEY=VALUE, --delete KEY, --append KEY=VALUE or --subtract KEY=VALUE"
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

    /// Changes all resources, and prints what became of each.
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
        let done = if self.dry_run { "could change" } else { "changed" };
        print_outcomes(output, altered, |name, ()| format!("{done} {name}"))
    }
}
