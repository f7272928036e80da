//! `milena acl list`.

use anyhow::Result;
use milena_client::admin::{AclFilter, AclOperation};

use super::{
    codes,
    filter::{FilterArguments, matching, with_operations},
    resource::ResourceArguments,
    table,
};
use crate::{connection::ConnectionArguments, log, output::OutputArguments};

pub(crate) const HELP: &str = "\
Examples:
  milena acl list                                    all ACLs
  milena acl list --principal alice
  milena acl list --topic letters                    literal and prefixed
  milena acl list --topic letters --resource-pattern-type match
                        all that affect the topic, with prefixes and wildcards";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    filter: FilterArguments,
    /// Only ACLs of this operation, such as read; may be repeated
    #[arg(long, value_name = "OPERATION", value_parser = codes::operation)]
    operation: Vec<AclOperation>,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    resources: ResourceArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(super) async fn list(arguments: &Arguments) -> Result<()> {
    let filters = arguments.filter.filters(&arguments.resources);
    let is_limited = filters.iter().any(|filter| *filter != AclFilter::default());
    let filters = with_operations(filters, &arguments.operation);
    let admin = arguments.connection.admin().await?;
    let acls = matching(&admin, filters).await?;
    let rows = table::rows(&acls);
    arguments.output.print(&rows, || table::text(&rows))?;
    if rows.is_empty() {
        let is_limited = is_limited || !arguments.operation.is_empty();
        log::notice(if is_limited {
            "no ACL matches"
        } else {
            "the cluster has no ACLs"
        });
    }
    Ok(())
}
