//! ApiVersions 0–4. An unknown version is answered in version 0, with an error and the versions that would do.

use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    frame::RequestFrame,
    message::VersionRange,
    messages::{ApiVersionsRequest, ApiVersionsResponse, api_versions_response::ApiVersion},
};

use super::{Handled, SERVED, answer, reply};

pub(super) fn handle(request: &RequestFrame) -> Handled {
    let served = |key: &ApiKey| Some((*key, key.broker_versions()?));
    let known = ApiKey::ApiVersions
        .broker_versions()
        .is_some_and(|versions| versions.contains(request.version));
    if !known {
        let range = served(&ApiKey::ApiVersions).map(api_version);
        let response = ApiVersionsResponse {
            error_code: ErrorCode::UnsupportedVersion.code(),
            api_keys: range.into_iter().collect(),
            ..ApiVersionsResponse::default()
        };
        let mut oldest = request.clone();
        oldest.version = 0;
        return reply(&oldest, &response, vec![]);
    }
    answer(request, |body: ApiVersionsRequest| {
        let named = request.version < 3
            || (is_software_text(&body.client_software_name) && is_software_text(&body.client_software_version));
        if !named {
            return ApiVersionsResponse {
                error_code: ErrorCode::InvalidRequest.code(),
                ..ApiVersionsResponse::default()
            };
        }
        ApiVersionsResponse {
            api_keys: SERVED.iter().filter_map(served).map(api_version).collect(),
            ..ApiVersionsResponse::default()
        }
    })
}

fn api_version((key, versions): (ApiKey, VersionRange)) -> ApiVersion {
    ApiVersion {
        api_key: key.id(),
        min_version: versions.min,
        max_version: versions.max,
        ..ApiVersion::default()
    }
}

/// Letters, digits, dots and dashes; not a dot or a dash at either end.
fn is_software_text(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(ends) && text.ends_with(ends) && text.chars().all(|c| ends(c) || c == '-' || c == '.')
}
