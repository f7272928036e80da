//! `milena topic delete`.

use anyhow::Result;

use super::Topics;
use crate::{admin_arguments::AdminArguments, output::print_outcomes};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    topics: Topics,
    #[command(flatten)]
    common: AdminArguments,
}

pub(super) async fn delete(arguments: &Arguments) -> Result<()> {
    let names = arguments.topics.names()?;
    let admin = arguments.common.connection.admin().await?;
    let deleted = admin.delete_topics(names).await;
    print_outcomes(&arguments.common.output, deleted, |name, ()| format!("deleted {name}"))
}
