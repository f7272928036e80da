//! `milena config alter`.

use anyhow::Result;

use super::{ChangeArguments, entity::EntityArguments};
use crate::admin_arguments::AdminArguments;

pub(crate) const HELP: &str = "\
Examples:
  milena config alter topic letters --set retention.ms=86400000
  milena config alter broker --default --set log.retention.ms=86400000
  milena config alter broker 1 --delete log.retention.ms
  milena config alter group readers --set consumer.session.timeout.ms=45000";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    entities: EntityArguments,
    #[command(flatten)]
    changes: ChangeArguments,
    #[command(flatten)]
    common: AdminArguments,
}

pub(super) async fn alter(arguments: &Arguments) -> Result<()> {
    arguments.entities.check()?;
    arguments.entities.check_named()?;
    arguments.changes.check()?;
    let admin = arguments.common.connection.admin().await?;
    let resources = arguments.entities.resources(&admin).await?;
    arguments
        .changes
        .apply(&admin, resources, &arguments.common.output)
        .await
}
