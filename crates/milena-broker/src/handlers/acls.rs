//! DescribeAcls, CreateAcls and DeleteAcls 1–3. There is no authorizer, and Kafka without one refuses them like this.

use bytestring::ByteString;
use milena_wire::{
    errors::ErrorCode,
    messages::{
        CreateAclsRequest, CreateAclsResponse, DeleteAclsRequest, DeleteAclsResponse, DescribeAclsRequest,
        DescribeAclsResponse, create_acls_response::AclCreationResult, delete_acls_response::DeleteAclsFilterResult,
    },
};

use super::common::{Outcome, RequestContext};

const CODE: i16 = ErrorCode::SecurityDisabled.code();
/// Kafka's text.
const NO_AUTHORIZER: ByteString = ByteString::from_static("No Authorizer is configured on the broker");

pub(super) fn describe(_: &RequestContext<'_>, _: DescribeAclsRequest) -> Outcome<DescribeAclsResponse> {
    Outcome::Ready(DescribeAclsResponse {
        error_code: CODE,
        error_message: Some(NO_AUTHORIZER),
        ..Default::default()
    })
}

pub(super) fn create(_: &RequestContext<'_>, request: CreateAclsRequest) -> Outcome<CreateAclsResponse> {
    let results = request.creations.iter().map(|_| AclCreationResult {
        error_code: CODE,
        error_message: Some(NO_AUTHORIZER),
        ..Default::default()
    });
    Outcome::Ready(CreateAclsResponse {
        results: results.collect(),
        ..Default::default()
    })
}

pub(super) fn delete(_: &RequestContext<'_>, request: DeleteAclsRequest) -> Outcome<DeleteAclsResponse> {
    let results = request.filters.iter().map(|_| DeleteAclsFilterResult {
        error_code: CODE,
        error_message: Some(NO_AUTHORIZER),
        ..Default::default()
    });
    Outcome::Ready(DeleteAclsResponse {
        filter_results: results.collect(),
        ..Default::default()
    })
}
