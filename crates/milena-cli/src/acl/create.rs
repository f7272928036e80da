//! `milena acl create`.

use anyhow::Result;
use milena_client::admin::PatternType;

use super::{codes, resource::ResourceArguments, rule::RuleArguments, table};
use crate::{
    connection::ConnectionArguments,
    log,
    output::{OutputArguments, counted, split},
};

pub(crate) const HELP: &str = "\
Examples:
  milena acl create --allow-principal alice --producer --topic letters
  milena acl create --allow-principal bob --consumer --topic letters \\
    --group readers
  milena acl create --allow-principal alice --operation read --topic orders- \\
    --resource-pattern-type prefixed
  milena acl create --deny-principal mallory --deny-host 10.0.0.7 --topic '*'

Each principal gets each operation on each resource. An ACL that exists already
stays.";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// How names of resources are compared: literal or prefixed
    #[arg(long, value_name = "TYPE", value_parser = codes::new_pattern, default_value = "literal")]
    resource_pattern_type: PatternType,
    /// Only print the ACLs
    #[arg(long)]
    dry_run: bool,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    rules: RuleArguments,
    #[command(flatten)]
    resources: ResourceArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(super) async fn create(arguments: &Arguments) -> Result<()> {
    let acls = arguments
        .rules
        .bindings(&arguments.resources, arguments.resource_pattern_type)?;
    if arguments.dry_run {
        let rows = table::rows(&acls);
        arguments.output.print(&rows, || table::text(&rows))?;
        log::notice(format_args!("dry run: {} not created", counted(acls.len(), "ACL")));
        return Ok(());
    }
    let admin = arguments.connection.admin().await?;
    let (created, problems) = split(admin.create_acls(acls).await);
    let rows = table::rows(created.iter().map(|(acl, ())| acl));
    arguments.output.print(&rows, || table::text(&rows))?;
    problems
}
