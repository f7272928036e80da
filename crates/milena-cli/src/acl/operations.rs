//! Operations of each type of resource.

use milena_client::admin::{AclOperation, AclResourceType};

use super::codes::option_text;

/// Fails if an operation has no meaning for a resource. Brokers accept such an ACL, and it never matches.
pub(super) fn check(kind: AclResourceType, operation: AclOperation) -> Result<(), String> {
    let allowed = of(kind);
    if operation == AclOperation::All || allowed.contains(&operation) {
        return Ok(());
    }
    let names: Vec<String> = allowed.iter().map(|one| option_text(*one)).collect();
    Err(format!(
        "the operation {} does not exist for the resource type {kind}; use all, {}",
        option_text(operation),
        names.join(", ")
    ))
}

const fn of(kind: AclResourceType) -> &'static [AclOperation] {
    use AclOperation::{
        Alter, AlterConfigs, ClusterAction, Create, CreateTokens, Delete, Describe, DescribeConfigs, DescribeTokens,
        IdempotentWrite, Read, TwoPhaseCommit, Write,
    };
    match kind {
        AclResourceType::Topic => &[
            Read,
            Write,
            Create,
            Delete,
            Alter,
            Describe,
            DescribeConfigs,
            AlterConfigs,
        ],
        AclResourceType::Group => &[Read, Delete, Describe, DescribeConfigs, AlterConfigs],
        AclResourceType::Cluster => &[
            Create,
            Alter,
            Describe,
            ClusterAction,
            DescribeConfigs,
            AlterConfigs,
            IdempotentWrite,
        ],
        AclResourceType::TransactionalId => &[Write, Describe, TwoPhaseCommit],
        AclResourceType::DelegationToken => &[Describe],
        AclResourceType::User => &[CreateTokens, DescribeTokens],
        _ => &[],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_operation_must_fit_its_resource() {
        assert_eq!(check(AclResourceType::Group, AclOperation::Read), Ok(()));
        assert_eq!(check(AclResourceType::User, AclOperation::All), Ok(()));
        let wrong = check(AclResourceType::Group, AclOperation::Write).unwrap_err();
        assert_eq!(
            wrong,
            "the operation write does not exist for the resource type GROUP; use all, read, delete, describe, \
             describe-configs, alter-configs"
        );
    }
}
