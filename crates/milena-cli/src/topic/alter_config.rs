//! `milena topic alter-config`.

use anyhow::Result;
use milena_client::admin::ConfigResource;

use super::Topics;
use crate::{admin_arguments::AdminArguments, config::ChangeArguments};

pub(crate) const HELP: &str = "\
Examples:
  milena topic alter-config letters --set retention.ms=86400000
  milena topic alter-config letters --append cleanup.policy=compact
  milena topic alter-config letters --delete retention.ms";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    topics: Topics,
    #[command(flatten)]
    changes: ChangeArguments,
    #[command(flatten)]
    common: AdminArguments,
}

pub(super) async fn alter(arguments: &Arguments) -> Result<()> {
    let names = arguments.topics.names()?;
    arguments.changes.check()?;
    let admin = arguments.common.connection.admin().await?;
    let resources = names.into_iter().map(ConfigResource::topic).collect();
    arguments
        .changes
        .apply(&admin, resources, &arguments.common.output)
        .await
}
