//! `milena group delete`.

use anyhow::Result;

use super::groups::Groups;
use crate::{admin_arguments::AdminArguments, output::print_outcomes};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    groups: Groups,
    #[command(flatten)]
    common: AdminArguments,
}

pub(super) async fn delete(arguments: &Arguments) -> Result<()> {
    arguments.groups.check()?;
    let admin = arguments.common.connection.admin().await?;
    let names = arguments.groups.names(&admin).await?;
    let deleted = admin.delete_groups(names).await;
    print_outcomes(&arguments.common.output, deleted, |name, ()| format!("deleted {name}"))
}
