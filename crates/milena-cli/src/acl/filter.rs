//! Filters of ACLs on the command line.

use std::collections::BTreeSet;

use anyhow::Result;
use milena_client::admin::{AclBinding, AclFilter, AclOperation, AclPermission, Admin, PatternType};

use super::{codes, principal, resource::ResourceArguments};

#[derive(clap::Args)]
pub(super) struct FilterArguments {
    /// Only ACLs of this principal, as in User:alice or alice; may be repeated
    #[arg(long, value_name = "PRINCIPAL", value_parser = principal)]
    principal: Vec<String>,
    /// Only ACLs for this host
    #[arg(long, value_name = "IP")]
    host: Option<String>,
    /// Only ACLs that allow, or that deny
    #[arg(long, value_name = "allow|deny", value_parser = codes::permission)]
    permission: Option<AclPermission>,
    /// How names of resources are compared: any (literal and prefixed ACLs of that very name), match (all ACLs that
    /// affect it), literal or prefixed [default: any]
    #[arg(long, value_name = "TYPE", value_parser = codes::pattern)]
    resource_pattern_type: Option<PatternType>,
}

impl FilterArguments {
    /// Whether all ACLs match.
    pub(super) fn is_default(&self) -> bool {
        self.has_pattern_only() && self.resource_pattern_type.is_none()
    }

    /// Whether nothing but the pattern type is given.
    pub(super) fn has_pattern_only(&self) -> bool {
        self.principal.is_empty() && self.host.is_none() && self.permission.is_none()
    }

    pub(super) fn given_pattern(&self) -> Option<PatternType> {
        self.resource_pattern_type
    }

    /// A filter for each resource and principal. Without any it is one.
    pub(super) fn filters(&self, resources: &ResourceArguments) -> Vec<AclFilter> {
        let base = AclFilter {
            pattern_type: self.resource_pattern_type.unwrap_or(PatternType::Any),
            host: self.host.as_deref().map(Into::into),
            permission: self.permission.unwrap_or(AclPermission::Any),
            ..AclFilter::default()
        };
        let of_resources = match resources.all() {
            none if none.is_empty() => vec![base],
            all => all
                .into_iter()
                .map(|(resource_type, name)| AclFilter {
                    resource_type,
                    resource_name: Some(name.into()),
                    ..base.clone()
                })
                .collect(),
        };
        if self.principal.is_empty() {
            return of_resources;
        }
        let of_principals = of_resources.into_iter().flat_map(|filter| {
            let with = |principal: &String| AclFilter {
                principal: Some(principal.as_str().into()),
                ..filter.clone()
            };
            self.principal.iter().map(with).collect::<Vec<_>>()
        });
        of_principals.collect()
    }
}

/// The filters, each with every one of these operations. Without operations they stay as they are.
pub(super) fn with_operations(filters: Vec<AclFilter>, operations: &[AclOperation]) -> Vec<AclFilter> {
    if operations.is_empty() {
        return filters;
    }
    let with = filters.into_iter().flat_map(|filter| {
        let of = |operation: &AclOperation| AclFilter {
            operation: *operation,
            ..filter.clone()
        };
        operations.iter().map(of).collect::<Vec<_>>()
    });
    with.collect()
}

/// The ACLs that match at least one filter, sorted.
pub(super) async fn matching(admin: &Admin, filters: Vec<AclFilter>) -> Result<BTreeSet<AclBinding>> {
    let mut found = BTreeSet::new();
    for filter in filters {
        found.extend(admin.describe_acls(filter).await?);
    }
    Ok(found)
}
