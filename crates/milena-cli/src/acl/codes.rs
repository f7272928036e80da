//! Names of operations, permissions and patterns on the command line.

use milena_client::admin::{AclOperation, AclPermission, PatternType};

const OPERATIONS: [AclOperation; 15] = [
    AclOperation::All,
    AclOperation::Alter,
    AclOperation::AlterConfigs,
    AclOperation::Any,
    AclOperation::ClusterAction,
    AclOperation::Create,
    AclOperation::CreateTokens,
    AclOperation::Delete,
    AclOperation::Describe,
    AclOperation::DescribeConfigs,
    AclOperation::DescribeTokens,
    AclOperation::IdempotentWrite,
    AclOperation::Read,
    AclOperation::TwoPhaseCommit,
    AclOperation::Write,
];

/// An operation in any of Kafka's spellings: `DESCRIBE_CONFIGS`, `DescribeConfigs`, `describe-configs`.
pub(super) fn operation(text: &str) -> Result<AclOperation, String> {
    let wanted = plain(text);
    let found = OPERATIONS
        .into_iter()
        .find(|operation| plain(&operation.to_string()) == wanted);
    found.ok_or_else(|| {
        let names: Vec<String> = OPERATIONS.iter().map(|operation| option_text(*operation)).collect();
        format!("use {}", names.join(", "))
    })
}

/// A name without case and separators.
fn plain(text: &str) -> String {
    let letters = text.chars().filter(|letter| !matches!(letter, '_' | '-'));
    letters.collect::<String>().to_ascii_lowercase()
}

/// An operation as it is typed.
pub(super) fn option_text(operation: AclOperation) -> String {
    operation.to_string().to_ascii_lowercase().replace('_', "-")
}

pub(super) fn permission(text: &str) -> Result<AclPermission, String> {
    match AclPermission::parse(text) {
        Some(permission) => Ok(permission),
        None => Err("use allow or deny".to_owned()),
    }
}

/// A pattern of a filter.
pub(super) fn pattern(text: &str) -> Result<PatternType, String> {
    match PatternType::parse(text) {
        Some(pattern) => Ok(pattern),
        None => Err("use literal, prefixed, match or any".to_owned()),
    }
}

/// A pattern of a new ACL.
pub(super) fn new_pattern(text: &str) -> Result<PatternType, String> {
    match PatternType::parse(text) {
        Some(pattern @ (PatternType::Literal | PatternType::Prefixed)) => Ok(pattern),
        _ => Err("use literal or prefixed".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn operations_have_the_spellings_of_kafkas_tools() {
        for text in ["DESCRIBE_CONFIGS", "DescribeConfigs", "describe-configs"] {
            assert_eq!(operation(text), Ok(AclOperation::DescribeConfigs));
        }
        let wrong = operation("reed").unwrap_err();
        assert!(
            wrong.contains("describe-configs, ") && wrong.contains("read, "),
            "{wrong}"
        );
    }

    #[test]
    fn patterns_that_only_filters_have_create_nothing() {
        assert_eq!(new_pattern("prefixed"), Ok(PatternType::Prefixed));
        assert_eq!(pattern("match"), Ok(PatternType::Match));
        assert!(new_pattern("match").is_err() && new_pattern("any").is_err());
    }
}
