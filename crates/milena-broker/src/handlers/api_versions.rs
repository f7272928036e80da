//! ApiVersions 0–4. An unknown version is answered in version 0, with an error and the versions that would do.

use bytestring::ByteString;
use milena_wire::{
    api::ApiKey,
    errors::ErrorCode,
    message::VersionRange,
    messages::{
        ApiVersionsRequest, ApiVersionsResponse,
        api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey},
    },
};

use super::{Handled, SERVED, answer, reply};
use crate::net::Incoming;

/// What clients may rely on: groups in which the broker assigns, and transactions that take a new epoch at each end.
const FEATURES: &[(&str, i16)] = &[("group.version", 1), ("transaction.version", 2)];

pub(super) fn handle(request: &Incoming) -> Handled {
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
        oldest.frame.version = 0;
        return reply(&oldest, response, vec![]);
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
            supported_features: supported_features(request.version),
            finalized_features_epoch: 0,
            finalized_features: FEATURES.iter().map(|feature| finalized(*feature)).collect(),
            ..ApiVersionsResponse::default()
        }
    })
}

fn supported_features(version: i16) -> Vec<SupportedFeatureKey> {
    // Clients before version 4 cannot read a feature that may be off (KAFKA-17492), and all of these may.
    let told = if version >= 4 { FEATURES } else { &[] };
    let supported = told.iter().map(|(name, level)| SupportedFeatureKey {
        name: ByteString::from_static(name),
        max_version: *level,
        ..Default::default()
    });
    supported.collect()
}

fn finalized((name, level): (&'static str, i16)) -> FinalizedFeatureKey {
    FinalizedFeatureKey {
        name: ByteString::from_static(name),
        max_version_level: level,
        min_version_level: level,
        ..Default::default()
    }
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
