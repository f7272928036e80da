//! ApiVersions 0–4. A request of an unknown version gets a response in version 0, with an error and the known versions.

use bytestring::ByteString;
use milena_wire::{
    api::{ApiKey, versions},
    errors::ErrorCode,
    messages::{
        ApiVersionsRequest, ApiVersionsResponse,
        api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey},
    },
};

use super::{
    APIS,
    common::{Outcome, RequestContext},
};
use crate::{
    config::{FEATURES, FinalizedFeatures},
    net::{OutboundResponse, Software},
};

pub(super) fn handle(cx: &RequestContext<'_>, request: ApiVersionsRequest) -> Outcome<ApiVersionsResponse> {
    let (node, version) = (cx.node, cx.request.version);
    let has_software = version < versions::api_versions::FEATURES
        || (is_software_text(&request.client_software_name) && is_software_text(&request.client_software_version));
    let longest = request
        .client_software_name
        .len()
        .max(request.client_software_version.len());
    if !has_software || longest > node.config().limits.name_bytes {
        return Outcome::Ready(ApiVersionsResponse {
            error_code: ErrorCode::InvalidRequest.code(),
            ..ApiVersionsResponse::default()
        });
    }
    // Copies: as slices of the request they would keep it in memory for as long as the connection.
    cx.peer.set_software(Software {
        name: ByteString::from(&*request.client_software_name),
        version: ByteString::from(&*request.client_software_version),
    });
    let config = node.config();
    let features = &config.overrides.features;
    let advertised = APIS.iter().filter(|api| api.is_advertised(node, &config));
    Outcome::Ready(ApiVersionsResponse {
        api_keys: advertised.filter_map(|api| api_version(api.key)).collect(),
        supported_features: supported_features(version),
        finalized_features_epoch: features.epoch,
        finalized_features: finalized_features(features),
        ..ApiVersionsResponse::default()
    })
}

pub(super) fn is_supported(version: i16) -> bool {
    let versions = ApiKey::ApiVersions.broker_versions();
    versions.is_some_and(|versions| versions.contains(version))
}

/// The response to an unsupported version, whose request cannot be decoded.
pub(super) fn unsupported_version(cx: &RequestContext<'_>) -> Outcome<OutboundResponse> {
    let response = ApiVersionsResponse {
        error_code: ErrorCode::UnsupportedVersion.code(),
        api_keys: api_version(ApiKey::ApiVersions).into_iter().collect(),
        ..ApiVersionsResponse::default()
    };
    let mut oldest = cx.request.clone();
    oldest.frame.version = 0;
    match oldest.response(response.into()) {
        Ok(outgoing) => Outcome::Ready(outgoing),
        Err(error) => Outcome::Close(error.to_string()),
    }
}

fn supported_features(version: i16) -> Vec<SupportedFeatureKey> {
    // Clients before version 4 cannot read a feature that may be off (KAFKA-17492).
    let visible = FEATURES
        .iter()
        .filter(|feature| version >= versions::api_versions::FEATURES_FROM_ZERO || feature.min > 0);
    let supported = visible.map(|feature| SupportedFeatureKey {
        name: ByteString::from_static(feature.name),
        min_version: feature.min,
        max_version: feature.max,
        ..Default::default()
    });
    supported.collect()
}

/// The levels in force; a feature at level 0 is off, and is not listed.
fn finalized_features(features: &FinalizedFeatures) -> Vec<FinalizedFeatureKey> {
    let levels = FEATURES.iter().map(|feature| (feature, features.level(feature)));
    let on = levels.filter(|(_, level)| *level > 0);
    let finalized = on.map(|(feature, level)| FinalizedFeatureKey {
        name: ByteString::from_static(feature.name),
        max_version_level: level,
        min_version_level: level,
        ..Default::default()
    });
    finalized.collect()
}

fn api_version(key: ApiKey) -> Option<ApiVersion> {
    let versions = key.broker_versions()?;
    Some(ApiVersion {
        api_key: key.id(),
        min_version: versions.min,
        max_version: versions.max,
        ..ApiVersion::default()
    })
}

/// Letters, digits, dots and dashes; not a dot or a dash at either end.
fn is_software_text(text: &str) -> bool {
    let ends = |c: char| c.is_ascii_alphanumeric();
    text.starts_with(ends) && text.ends_with(ends) && text.chars().all(|c| ends(c) || c == '-' || c == '.')
}
