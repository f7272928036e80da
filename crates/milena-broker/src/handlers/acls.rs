//! DescribeAcls, CreateAcls and DeleteAcls 1–3. There is no authorizer, and Kafka without one refuses them like this.

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
        DescribeAclsResponse, create_acls_response::AclCreationResult, delete_acls_response::DeleteAclsFilterResult,
    },
};

const CODE: i16 = ErrorCode::SecurityDisabled.code();
/// Kafka's text.
const NO_AUTHORIZER: ByteString = ByteString::from_static("No Authorizer is configured on the broker");

pub(super) fn describe(_: DescribeAclsRequest) -> DescribeAclsResponse {
    DescribeAclsResponse {
        error_code: CODE,
        error_message: Some(NO_AUTHORIZER),
        ..Default::default()
    }
}

pub(super) fn create(request: CreateAclsRequest) -> CreateAclsResponse {
    let results = request.creations.iter().map(|_| AclCreationResult {
        error_code: CODE,
        error_message: Some(NO_AUTHORIZER),
        ..Default::default()
    });
    CreateAclsResponse {
        results: results.collect(),
        ..Default::default()
    }
}

pub(super) fn delete(request: DeleteAclsRequest) -> DeleteAclsResponse {
    let results = request.filters.iter().map(|_| DeleteAclsFilterResult {
        error_code: CODE,
        error_message: Some(NO_AUTHORIZER),
        ..Default::default()
    });
    DeleteAclsResponse {
        filter_results: results.collect(),
        ..Default::default()
    }
}
