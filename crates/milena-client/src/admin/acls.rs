//! ACLs.

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
    /// The type of a resource.
    pub enum AclResourceType: i8 {
        /// Any type; in filters only.
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
    /// How the name of a resource is matched.
    pub enum PatternType: i8 {
        /// Any pattern; in filters only.
        Any = 1, "ANY";
        /// Any pattern that matches the given name; in filters only.
        Match = 2, "MATCH";
        /// The whole name; `*` matches all names.
        Literal = 3, "LITERAL";
        /// A prefix of the name.
        Prefixed = 4, "PREFIXED";
    }
}

named_codes! {
    /// The operation that is allowed or denied.
    pub enum AclOperation: i8 {
        /// Any operation; in filters only.
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
    /// Whether the operation is allowed or denied.
    pub enum AclPermission: i8 {
        /// Either; in filters only.
        Any = 1, "ANY";
        Deny = 2, "DENY";
        Allow = 3, "ALLOW";
    }
}

/// An ACL: allows or denies a principal an operation on a resource.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct AclBinding {
    pub resource_type: AclResourceType,
    pub resource_name: ByteString,
    pub pattern_type: PatternType,
    /// As in `User:milena`; `User:*` is every user.
    pub principal: ByteString,
    /// The host of the client; `*` is any host.
    pub host: ByteString,
    pub operation: AclOperation,
    pub permission: AclPermission,
}

impl AclBinding {
    /// Allows a principal an operation on the resource of this name, from any host.
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

/// A filter of ACLs. The default matches all.
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

/// An ACL that matched, with the result of its deletion.
type Deleted = (AclBinding, Result<(), BrokerError>);

impl Admin {
    /// Creates ACLs. One that exists already stays.
    pub async fn create_acls(&self, acls: impl IntoIterator<Item = AclBinding>) -> Results<AclBinding, ()> {
        let call = AdminCall::new(
            "ACL",
            |_| Route::Controller,
            |batch| CreateAclsRequest {
                creations: batch.keys.iter().map(creation).collect(),
                ..Default::default()
            },
            |context: &CallContext<AclBinding>, response: CreateAclsResponse| {
                // The response has them in the order of the request, without names.
                let results = context.keys.iter().zip(&response.results).map(|(acl, result)| {
                    let outcome = check(result.error_code, result.error_message.as_deref());
                    (acl.clone(), outcome)
                });
                Ok(results.collect())
            },
        );
        self.call(call.version_min(versions::acls::PATTERN_TYPE), acls).await
    }

    /// Returns the ACLs that match a filter, sorted.
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

    /// Deletes the ACLs that match filters, and returns them with the result of each.
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
