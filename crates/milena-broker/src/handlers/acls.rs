//! DescribeAcls, CreateAcls and DeleteAcls 1–3. Without an authorizer they are refused, as Kafka does.
//!
//! A request with a code that does not exist ends the connection: in Kafka it cannot be parsed.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_machines::authorizer::{
    Acl, AclFilter, Operation, PatternFilter, PatternType, Permission, ResourceType, Unknown,
};
use milena_wire::{
    errors::ErrorCode,
    messages::{
        CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
        DescribeAclsResponse,
        create_acls_request::AclCreation,
        create_acls_response::AclCreationResult,
        delete_acls_request::DeleteAclsFilter,
        delete_acls_response::{DeleteAclsFilterResult, DeleteAclsMatchingAcl},
        describe_acls_response::{AclDescription, DescribeAclsResource},
    },
};

use super::common::{Outcome, RequestContext, code_and_message};
use crate::node::Refusal;

/// Kafka's text.
const NO_AUTHORIZER: ByteString = ByteString::from_static("No Authorizer is configured on the broker");
const UNKNOWN: &str = "the request has a type, operation or permission that does not exist";
/// The code that stands for any value in a filter.
const ANY: i8 = 1;
/// The code of the pattern type that selects all patterns which cover a name.
const MATCH: i8 = 2;

pub(super) fn describe(cx: &RequestContext<'_>, request: DescribeAclsRequest) -> Outcome<DescribeAclsResponse> {
    let filter = filter(DeleteAclsFilter {
        resource_type_filter: request.resource_type_filter,
        resource_name_filter: request.resource_name_filter,
        pattern_type_filter: request.pattern_type_filter,
        principal_filter: request.principal_filter,
        host_filter: request.host_filter,
        operation: request.operation,
        permission_type: request.permission_type,
        ..Default::default()
    });
    let Ok(filter) = filter else {
        return Outcome::Close(UNKNOWN.to_owned());
    };
    let Some(authorizer) = &cx.node.authorizer else {
        return Outcome::Ready(DescribeAclsResponse {
            error_code: ErrorCode::SecurityDisabled.code(),
            error_message: Some(NO_AUTHORIZER),
            ..Default::default()
        });
    };
    let mut resources: BTreeMap<(ResourceType, ByteString, PatternType), Vec<AclDescription>> = BTreeMap::new();
    for (acl, _) in authorizer.acls().acls(&filter) {
        let resource = (acl.resource_type, acl.resource_name.clone(), acl.pattern_type);
        resources.entry(resource).or_default().push(AclDescription {
            principal: acl.principal.clone(),
            host: acl.host.clone(),
            operation: acl.operation.code(),
            permission_type: acl.permission.code(),
            ..Default::default()
        });
    }
    let resources =
        resources.into_iter().map(
            |((resource_type, resource_name, pattern_type), acls)| DescribeAclsResource {
                resource_type: resource_type.code(),
                resource_name,
                pattern_type: pattern_type.code(),
                acls,
                ..Default::default()
            },
        );
    Outcome::Ready(DescribeAclsResponse {
        error_message: None,
        resources: resources.collect(),
        ..Default::default()
    })
}

pub(super) fn create(cx: &RequestContext<'_>, request: CreateAclsRequest) -> Outcome<CreateAclsResponse> {
    let acls: Result<Vec<Result<Acl, Refusal>>, Unknown> = request.creations.iter().map(creation).collect();
    let Ok(acls) = acls else {
        return Outcome::Close(UNKNOWN.to_owned());
    };
    let results = match &cx.node.authorizer {
        Some(authorizer) => cx.node.create_acls(authorizer, acls),
        None => acls.iter().map(|_| Err(no_authorizer())).collect(),
    };
    let results = results.into_iter().map(|result| {
        let (error_code, error_message) = code_and_message(result);
        AclCreationResult {
            error_code,
            error_message,
            ..Default::default()
        }
    });
    Outcome::Ready(CreateAclsResponse {
        results: results.collect(),
        ..Default::default()
    })
}

pub(super) fn delete(cx: &RequestContext<'_>, request: DeleteAclsRequest) -> Outcome<DeleteAclsResponse> {
    let count = request.filters.len();
    let filters: Result<Vec<AclFilter>, Unknown> = request.filters.into_iter().map(filter).collect();
    let Ok(filters) = filters else {
        return Outcome::Close(UNKNOWN.to_owned());
    };
    let deleted = match &cx.node.authorizer {
        Some(authorizer) => cx.node.delete_acls(authorizer, &filters),
        None => Err(no_authorizer()),
    };
    let filter_results = match deleted {
        Ok(deleted) => deleted.iter().map(|acls| deletion(acls)).collect(),
        Err(refusal) => {
            let failed = DeleteAclsFilterResult {
                error_code: refusal.code.code(),
                error_message: Some(refusal.reason.into()),
                ..Default::default()
            };
            vec![failed; count]
        }
    };
    Outcome::Ready(DeleteAclsResponse {
        filter_results,
        ..Default::default()
    })
}

fn no_authorizer() -> Refusal {
    Refusal::new(ErrorCode::SecurityDisabled, "No Authorizer is configured.")
}

fn deletion(acls: &[Acl]) -> DeleteAclsFilterResult {
    let matching_acls = acls.iter().map(|acl| DeleteAclsMatchingAcl {
        error_message: None,
        resource_type: acl.resource_type.code(),
        resource_name: acl.resource_name.clone(),
        pattern_type: acl.pattern_type.code(),
        principal: acl.principal.clone(),
        host: acl.host.clone(),
        operation: acl.operation.code(),
        permission_type: acl.permission.code(),
        ..Default::default()
    });
    DeleteAclsFilterResult {
        error_message: None,
        matching_acls: matching_acls.collect(),
        ..Default::default()
    }
}

/// An ACL to be created, or the reason why it cannot be; an error if a code does not exist.
fn creation(requested: &AclCreation) -> Result<Result<Acl, Refusal>, Unknown> {
    let invalid = |field: &str| {
        let reason = format!("Invalid {field} ANY");
        Ok(Err(Refusal::new(ErrorCode::InvalidRequest, reason)))
    };
    let resource_type = any_or(requested.resource_type, ResourceType::from_code)?;
    let pattern_type = match requested.resource_pattern_type {
        MATCH => None,
        code => any_or(code, PatternType::from_code)?,
    };
    let operation = any_or(requested.operation, Operation::from_code)?;
    let permission = any_or(requested.permission_type, Permission::from_code)?;
    let Some(resource_type) = resource_type else {
        return invalid("resourceType");
    };
    let Some(pattern_type) = pattern_type else {
        return invalid("patternType");
    };
    let Some(operation) = operation else {
        return invalid("operation");
    };
    let Some(permission) = permission else {
        return invalid("permissionType");
    };
    // Texts are copied: as slices they would keep the whole request in memory.
    let acl = Acl {
        resource_type,
        resource_name: (*requested.resource_name).into(),
        pattern_type,
        principal: (*requested.principal).into(),
        host: (*requested.host).into(),
        operation,
        permission,
    };
    let checked = acl.check();
    let refuse =
        |error: milena_machines::authorizer::InvalidAcl| Refusal::new(ErrorCode::InvalidRequest, error.to_string());
    Ok(checked.map(|()| acl).map_err(refuse))
}

fn filter(requested: DeleteAclsFilter) -> Result<AclFilter, Unknown> {
    Ok(AclFilter {
        resource_type: any_or(requested.resource_type_filter, ResourceType::from_code)?,
        resource_name: requested.resource_name_filter,
        pattern: match requested.pattern_type_filter {
            MATCH => PatternFilter::Match,
            code => any_or(code, PatternType::from_code)?.map_or(PatternFilter::Any, PatternFilter::Only),
        },
        principal: requested.principal_filter,
        host: requested.host_filter,
        operation: any_or(requested.operation, Operation::from_code)?,
        permission: any_or(requested.permission_type, Permission::from_code)?,
    })
}

/// The value of a code; `None` if it stands for any.
fn any_or<T>(code: i8, from_code: fn(i8) -> Result<T, Unknown>) -> Result<Option<T>, Unknown> {
    match code {
        ANY => Ok(None),
        code => from_code(code).map(Some),
    }
}
