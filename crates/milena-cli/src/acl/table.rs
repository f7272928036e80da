//! Output of ACLs.

use milena_client::admin::AclBinding;
use serde::Serialize;

use crate::output::Table;

/// An ACL with Kafka's names.
#[derive(Serialize)]
pub(super) struct AclRow {
    resource_type: String,
    resource_name: String,
    pattern_type: String,
    principal: String,
    host: String,
    operation: String,
    permission: String,
}

pub(super) fn rows<'a>(acls: impl IntoIterator<Item = &'a AclBinding>) -> Vec<AclRow> {
    let row = |acl: &AclBinding| AclRow {
        resource_type: acl.resource_type.to_string(),
        resource_name: acl.resource_name.to_string(),
        pattern_type: acl.pattern_type.to_string(),
        principal: acl.principal.to_string(),
        host: acl.host.to_string(),
        operation: acl.operation.to_string(),
        permission: acl.permission.to_string(),
    };
    acls.into_iter().map(row).collect()
}

pub(super) fn text(rows: &[AclRow]) -> String {
    let mut table = Table::new(&[
        "RESOURCE",
        "NAME",
        "PATTERN",
        "PRINCIPAL",
        "HOST",
        "OPERATION",
        "PERMISSION",
    ]);
    for row in rows {
        table.row([
            row.resource_type.clone(),
            row.resource_name.clone(),
            row.pattern_type.clone(),
            row.principal.clone(),
            row.host.clone(),
            row.operation.clone(),
            row.permission.clone(),
        ]);
    }
    table.write()
}
