//! `milena acl delete`.

use std::collections::BTreeSet;

use anyhow::{Result, ensure};
use milena_client::admin::{AclBinding, AclFilter, PatternType};

use super::{
    filter::{FilterArguments, matching, with_operations},
    resource::ResourceArguments,
    rule::RuleArguments,
    table,
};
use crate::{
    connection::ConnectionArguments,
    log,
    output::{OutputArguments, counted, fail_if_any, split},
};

pub(crate) const HELP: &str = "\
Examples:
  milena acl delete --principal alice                      dry run
  milena acl delete --principal alice --execute
  milena acl delete --topic letters --execute
  milena acl delete --allow-principal bob --consumer --topic letters \\
    --group readers --execute";

#[derive(clap::Args)]
pub(crate) struct Arguments {
    /// Delete the ACLs; without it they are only printed
    #[arg(long, conflicts_with = "dry_run")]
    execute: bool,
    /// Only print the ACLs: the default
    #[arg(long)]
    dry_run: bool,
    /// All ACLs of the cluster
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    filter: FilterArguments,
    #[command(flatten)]
    output: OutputArguments,
    #[command(flatten)]
    rules: RuleArguments,
    #[command(flatten)]
    resources: ResourceArguments,
    #[command(flatten)]
    connection: ConnectionArguments,
}

pub(super) async fn delete(arguments: &Arguments) -> Result<()> {
    let filters = filters(arguments)?;
    let admin = arguments.connection.admin().await?;
    if !arguments.execute {
        let acls = matching(&admin, filters).await?;
        let rows = table::rows(&acls);
        arguments.output.print(&rows, || table::text(&rows))?;
        log::notice(match acls.len() {
            0 => "no ACL matches".to_owned(),
            count => format!(
                "dry run: {} not deleted; add --execute to delete",
                counted(count, "ACL")
            ),
        });
        return Ok(());
    }
    let (found, outcome) = split(admin.delete_acls(filters).await);
    let (mut deleted, mut failed) = (BTreeSet::<AclBinding>::new(), vec![]);
    for (acl, result) in found.into_iter().flat_map(|(_, results)| results) {
        match result {
            Ok(()) => drop(deleted.insert(acl)),
            Err(error) => failed.push(error),
        }
    }
    let rows = table::rows(&deleted);
    arguments.output.print(&rows, || table::text(&rows))?;
    if deleted.is_empty() && failed.is_empty() && outcome.is_ok() {
        log::notice("no ACL matches");
    }
    outcome.and_then(|()| fail_if_any(failed))
}

/// The filters. Principals of rules give those of exactly their ACLs, as `kafka-acls --remove` does.
fn filters(arguments: &Arguments) -> Result<Vec<AclFilter>> {
    let Arguments {
        rules,
        resources,
        filter,
        ..
    } = arguments;
    if rules.names_principals() || rules.has_form() {
        ensure!(
            filter.has_pattern_only(),
            "--principal, --host and --permission do not go with --allow-principal, --deny-principal, --producer and \
             --consumer; use one kind"
        );
        // As `acl create`, so that the same words undo it.
        let acls = rules.bindings(resources, filter.given_pattern().unwrap_or(PatternType::Literal))?;
        return Ok(acls.into_iter().map(exactly).collect());
    }
    let is_limited = !filter.is_default() || !resources.all().is_empty() || !rules.operations().is_empty();
    ensure!(
        is_limited != arguments.all,
        match is_limited {
            true => "--all does not go with a resource or another filter; remove one of them",
            false => "no filter given; name a resource or a principal, or use --all",
        }
    );
    Ok(with_operations(filter.filters(resources), rules.operations()))
}

fn exactly(acl: AclBinding) -> AclFilter {
    AclFilter {
        resource_type: acl.resource_type,
        resource_name: Some(acl.resource_name),
        pattern_type: acl.pattern_type,
        principal: Some(acl.principal),
        host: Some(acl.host),
        operation: acl.operation,
        permission: acl.permission,
    }
}
