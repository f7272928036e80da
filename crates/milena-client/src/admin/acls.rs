//! Who may do what.

use std::fmt;

use bytestring::ByteString;
use milena_wire::{
    api::versions,
    messages::{
        CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
        DescribeAclsResponse, create_acls_request::AclCreation, delete_acls_request::DeleteAclsFilter,
        delete_acls_response::DeleteAclsMatchingAcl, describe_acls_response::DescribeAclsResource,
    },
};

use super::{
    Admin, AdminError, Results,
    call::{AdminCall, CallContext},
    codes::named_codes,
    error::{BrokerError, Failure, check},
    own,
    route::Route,
};

named_codes! {
    /// What an ACL is about.
    pub enum AclResourceType: i8 {
        /// Of any type; in filters only.
        Any = 1, "ANY";
        Topic = 2, "TOPIC";
        Group = 3, "GROUP";
        Cluster = 4, "CLUSTER";
        TransactionalId = 5, "TRANSACTIONAL_ID";
        DelegationToken = 6, "DELEGATION_TOKEN";
        User = 7, "USER";
    }
}

named_codes! {
    /// How the name of a resource is meant.
    pub enum PatternType: i8 {
        /// In any way; in filters only.
        Any = 1, "ANY";
        /// In any way that the given name is taken by; in filters only.
        Match = 2, "MATCH";
        /// As the whole name; `*` stands for all.
        Literal = 3, "LITERAL";
        /// As its beginning.
        Prefixed = 4, "PREFIXED";
    }
}

named_codes! {
    /// What is allowed or denied.
    pub enum AclOperation: i8 {
        /// Whatever it is; in filters only.
        Any = 1, "ANY";
        All = 2, "ALL";
        Read = 3, "READ";
        Write = 4, "WRITE";
        Create = 5, "CREATE";
        Delete = 6, "DELETE";
        Alter = 7, "ALTER";
        Describe = 8, "DESCRIBE";
        ClusterAction = 9, "CLUSTER_ACTION";
        DescribeConfigs = 10, "DESCRIBE_CONFIGS";
        AlterConfigs = 11, "ALTER_CONFIGS";
        IdempotentWrite = 12, "IDEMPOTENT_WRITE";
        CreateTokens = 13, "CREATE_TOKENS";
        DescribeTokens = 14, "DESCRIBE_TOKENS";
        TwoPhaseCommit = 15, "TWO_PHASE_COMMIT";
    }
}

named_codes! {
    /// Whether it is allowed.
    pub enum AclPermission: i8 {
        /// Either; in filters only.
        Any = 1, "ANY";
        Deny = 2, "DENY";
        Allow = 3, "ALLOW";
    }
}

/// Allows or denies somebody something.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclBinding {
    pub resource_type: AclResourceType,
    pub resource_name: ByteString,
    pub pattern_type: PatternType,
    /// Whom, as in `User:milena`; `User:*` is everybody.
    pub principal: ByteString,
    /// From where; `*` is from anywhere.
    pub host: ByteString,
    pub operation: AclOperation,
    pub permission: AclPermission,
}

impl AclBinding {
    /// Allows a principal an operation on the resource of this name, from anywhere.
    pub fn allow(
        resource_type: AclResourceType,
        resource_name: impl Into<ByteString>,
        principal: impl Into<ByteString>,
        operation: AclOperation,
    ) -> Self {
        Self {
            resource_type,
            resource_name: resource_name.into(),
            pattern_type: PatternType::Literal,
            principal: principal.into(),
            host: "*".into(),
            operation,
            permission: AclPermission::Allow,
        }
    }
}

impl fmt::Display for AclBinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} {} {} on {} {} {} from {}",
            self.permission,
            self.principal,
            self.operation,
            self.pattern_type,
            self.resource_type,
            self.resource_name,
            self.host
        )
    }
}

/// Which ACLs; all if nothing is said.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclFilter {
    pub resource_type: AclResourceType,
    pub resource_name: Option<ByteString>,
    pub pattern_type: PatternType,
    pub principal: Option<ByteString>,
    pub host: Option<ByteString>,
    pub operation: AclOperation,
    pub permission: AclPermission,
}

impl Default for AclFilter {
    fn default() -> Self {
        Self {
            resource_type: AclResourceType::Any,
            resource_name: None,
            pattern_type: PatternType::Any,
            principal: None,
            host: None,
            operation: AclOperation::Any,
            permission: AclPermission::Any,
        }
    }
}

impl fmt::Display for AclFilter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let or_any = |text: &Option<ByteString>| text.as_ref().map_or_else(|| "ANY".to_owned(), ToString::to_string);
        write!(
            f,
            "{} {} {} on {} {} {} from {}",
            self.permission,
            or_any(&self.principal),
            self.operation,
            self.pattern_type,
            self.resource_type,
            or_any(&self.resource_name),
            or_any(&self.host)
        )
    }
}

/// An ACL, and whether it was deleted.
type Deleted = (AclBinding, Result<(), BrokerError>);

impl Admin {
    /// Adds ACLs. One that is there already stays.
    pub async fn create_acls(&self, acls: impl IntoIterator<Item = AclBinding>) -> Results<AclBinding, ()> {
        let call = AdminCall::new(
            "ACL",
            |_| Route::Controller,
            |batch| CreateAclsRequest {
                creations: batch.keys.iter().map(creation).collect(),
                ..Default::default()
            },
            |context: &CallContext<AclBinding>, response: CreateAclsResponse| {
                // The answer has them in the order of the request, without their names.
                let results = context.keys.iter().zip(&response.results).map(|(acl, result)| {
                    let outcome = check(result.error_code, result.error_message.as_deref());
                    (acl.clone(), outcome)
                });
                Ok(results.collect())
            },
        );
        self.call(call.version_min(versions::acls::PATTERN_TYPE), acls).await
    }

    /// The ACLs that a filter takes, in their order.
    pub async fn describe_acls(&self, filter: AclFilter) -> Result<Vec<AclBinding>, AdminError> {
        let call = AdminCall::new(
            "",
            |_| Route::Any,
            move |_| DescribeAclsRequest {
                resource_type_filter: filter.resource_type.code(),
                resource_name_filter: filter.resource_name.clone(),
                pattern_type_filter: filter.pattern_type.code(),
                principal_filter: filter.principal.clone(),
                host_filter: filter.host.clone(),
                operation: filter.operation.code(),
                permission_type: filter.permission.code(),
                ..Default::default()
            },
            |context: &CallContext<&str>, response: DescribeAclsResponse| {
                check(response.error_code, response.error_message.as_deref())?;
                let mut acls: Vec<AclBinding> = response.resources.iter().flat_map(bindings).collect();
                acls.sort_unstable();
                context.all(&acls)
            },
        );
        self.call_one(call.version_min(versions::acls::PATTERN_TYPE), "the list of ACLs")
            .await
    }

    /// Deletes the ACLs that filters take, and gives those: each was deleted, or was not for a reason.
    pub async fn delete_acls(
        &self,
        filters: impl IntoIterator<Item = AclFilter>,
    ) -> Results<AclFilter, Results<AclBinding, ()>> {
        let call = AdminCall::new(
            "ACLs",
            |_| Route::Controller,
            |batch| DeleteAclsRequest {
                filters: batch.keys.iter().map(deletion).collect(),
                ..Default::default()
            },
            |context: &CallContext<AclFilter>, response: DeleteAclsResponse| {
                let results = context
                    .keys
                    .iter()
                    .zip(&response.filter_results)
                    .map(|(filter, result)| {
                        let outcome = check(result.error_code, result.error_message.as_deref());
                        let deleted: Vec<_> = result.matching_acls.iter().map(deleted).collect();
                        (filter.clone(), outcome.map(|()| deleted))
                    });
                Ok(results.collect())
            },
        );
        let results = self
            .call(call.version_min(versions::acls::PATTERN_TYPE), filters)
            .await
            .into_iter();
        let of_filter = |(filter, deleted): (AclFilter, Result<Vec<Deleted>, AdminError>)| {
            let named = |(acl, result): Deleted| {
                let item = format!("ACL {acl}");
                (acl, result.map_err(|error| Failure::Refused(error).into_error(item)))
            };
            (filter, deleted.map(|deleted| deleted.into_iter().map(named).collect()))
        };
        results.map(of_filter).collect()
    }
}

fn creation(acl: &AclBinding) -> AclCreation {
    AclCreation {
        resource_type: acl.resource_type.code(),
        resource_name: acl.resource_name.clone(),
        resource_pattern_type: acl.pattern_type.code(),
        principal: acl.principal.clone(),
        host: acl.host.clone(),
        operation: acl.operation.code(),
        permission_type: acl.permission.code(),
        ..Default::default()
    }
}

fn deletion(filter: &AclFilter) -> DeleteAclsFilter {
    DeleteAclsFilter {
        resource_type_filter: filter.resource_type.code(),
        resource_name_filter: filter.resource_name.clone(),
        pattern_type_filter: filter.pattern_type.code(),
        principal_filter: filter.principal.clone(),
        host_filter: filter.host.clone(),
        operation: filter.operation.code(),
        permission_type: filter.permission.code(),
        ..Default::default()
    }
}

fn bindings(resource: &DescribeAclsResource) -> impl Iterator<Item = AclBinding> {
    resource.acls.iter().map(|acl| AclBinding {
        resource_type: resource.resource_type.into(),
        resource_name: own(&resource.resource_name),
        pattern_type: resource.pattern_type.into(),
        principal: own(&acl.principal),
        host: own(&acl.host),
        operation: acl.operation.into(),
        permission: acl.permission_type.into(),
    })
}

fn deleted(acl: &DeleteAclsMatchingAcl) -> Deleted {
    let binding = AclBinding {
        resource_type: acl.resource_type.into(),
        resource_name: own(&acl.resource_name),
        pattern_type: acl.pattern_type.into(),
        principal: own(&acl.principal),
        host: own(&acl.host),
        operation: acl.operation.into(),
        permission: acl.permission_type.into(),
    };
    (binding, check(acl.error_code, acl.error_message.as_deref()))
}
