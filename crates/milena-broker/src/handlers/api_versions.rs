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

use super::{Caller, Handled, SERVED, SERVED_WITH_TELEMETRY, answer, reply};
use crate::{
    config::{FEATURES, FinalizedFeatures},
    net::Software,
};

pub(super) fn handle(caller: &Caller<'_>) -> Handled {
    let Caller { node, peer, request } = *caller;
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
        peer.set_software(Software {
            name: body.client_software_name,
            version: body.client_software_version,
        });
        let config = node.config();
        let features = &config.overrides.features;
        // Clients log that they were asked, so they are asked only if there is something to ask for.
        let is_asked = node.telemetry_receiver.is_some() && !config.client_metrics.is_empty();
        let with_telemetry = SERVED_WITH_TELEMETRY.iter().filter(|_| is_asked);
        ApiVersionsResponse {
            api_keys: SERVED
                .iter()
                .chain(with_telemetry)
                .filter_map(served)
                .map(api_version)
                .collect(),
            supported_features: supported_features(request.version),
            finalized_features_epoch: features.epoch,
            finalized_features: finalized_features(features),
            ..ApiVersionsResponse::default()
        }
    })
}

fn supported_features(version: i16) -> Vec<SupportedFeatureKey> {
    // Clients before version 4 cannot read a feature that may be off (KAFKA-17492).
    let told = FEATURES.iter().filter(|feature| version >= 4 || feature.min > 0);
    let supported = told.map(|feature| SupportedFeatureKey {
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
