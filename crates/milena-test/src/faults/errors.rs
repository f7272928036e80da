//! Errors of partitions and topics inside the broker's own response.
//!
//! The error response of most APIs is that of `milena-wire`. Fetch and Metadata are different: clients need the session or
//! the brokers of the response besides the error, so the broker handles the request and its response is changed.

use std::any::Any;

use milena_wire::{api::ApiKey, errors::ErrorCode, messages::*};

/// Whether the error of an API is set in the broker's own response. Such requests change nothing in the broker.
pub(super) fn is_set_in_broker_response(api: ApiKey) -> bool {
    matches!(api, ApiKey::Fetch | ApiKey::Metadata)
}

/// Sets the error in the response of a request for which [`is_set_in_broker_response`] holds.
pub(super) fn set(code: ErrorCode, request: &dyn Any, response: &mut dyn Any) {
    if let Some(request) = request.downcast_ref::<FetchRequest>()
        && let Some(response) = response.downcast_mut::<FetchResponse>()
    {
        fail_fetch(code, request, response);
    } else if let Some(response) = response.downcast_mut::<MetadataResponse>() {
        fail_metadata(code, response);
    }
}

/// Errors that are above all partitions of a fetch.
const SESSION_ERRORS: [ErrorCode; 3] = [
    ErrorCode::FetchSessionIdNotFound,
    ErrorCode::InvalidFetchSessionEpoch,
    ErrorCode::FetchSessionTopicIdError,
];

fn fail_fetch(code: ErrorCode, request: &FetchRequest, response: &mut FetchResponse) {
    response.responses.clear();
    if SESSION_ERRORS.contains(&code) {
        response.error_code = code.code();
        response.session_id = 0;
        return;
    }
    let failed = |partition: &fetch_request::FetchPartition| fetch_response::PartitionData {
        partition_index: partition.partition,
        error_code: code.code(),
        high_watermark: -1,
        last_stable_offset: -1,
        records: Some(bytes::Bytes::new()),
        ..Default::default()
    };
    let topics = request
        .topics
        .iter()
        .map(|topic| fetch_response::FetchableTopicResponse {
            topic: topic.topic.clone(),
            topic_id: topic.topic_id,
            partitions: topic.partitions.iter().map(failed).collect(),
            ..Default::default()
        });
    response.responses = topics.collect();
}

fn fail_metadata(code: ErrorCode, response: &mut MetadataResponse) {
    if code == ErrorCode::RebootstrapRequired {
        response.error_code = code.code();
    }
    for topic in &mut response.topics {
        topic.error_code = code.code();
        topic.partitions.clear();
    }
}
