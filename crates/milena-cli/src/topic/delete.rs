//! `milena topic delete`.

use anyhow::Result;

use super::Topics;
use crate::{common::Common, output::print_outcomes};

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    topics: Topics,
    #[command(flatten)]
    common: Common,
}

pub(super) async fn delete(arguments: &Arguments) -> Result<()> {
    let names = arguments.topics.names()?;
    let admin = arguments.common.connection.admin().await?;
    let deleted = admin.delete_topics(names).await;
    print_outcomes(&arguments.common.output, deleted, |name, ()| format!("deleted {name}"))
}
