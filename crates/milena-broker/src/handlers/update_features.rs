//! UpdateFeatures 0–2. All features of a request change, or none; `config/features.rs` has those that can.

use milena_wire::{
    api::versions,
    errors::ErrorCode,
    messages::{
        UpdateFeaturesRequest, UpdateFeaturesResponse, update_features_request::FeatureUpdateKey,
        update_features_response::UpdatableFeatureResult,
    },
};

use super::common::{NameCounts, Outcome, RequestContext};
use crate::{
    config::{FeatureDirection, FeatureUpdate},
    node::Refusal,
};

const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;
const UNSAFE_DOWNGRADE: i8 = 3;

pub(super) fn handle(cx: &RequestContext<'_>, request: UpdateFeaturesRequest) -> Outcome<UpdateFeaturesResponse> {
    let node = cx.node;
    let version = cx.request.version;
    let named = NameCounts::count(request.feature_updates.iter().map(|update| update.feature.clone()));
    let updates = request.feature_updates.iter().map(|update| {
        named.check_once(&update.feature, "feature")?;
        requested(version, update)
    });
    let updates: Result<Vec<FeatureUpdate>, Refusal> = updates.collect();
    let outcome = updates.and_then(|updates| node.update_features(&updates, request.validate_only));
    if let Err(refusal) = outcome {
        let reason = format!(
            "The update failed for all features since the following feature had an error: {}",
            refusal.reason
        );
        return Outcome::Ready(UpdateFeaturesResponse {
            error_code: refusal.code.code(),
            error_message: Some(reason.into()),
            ..Default::default()
        });
    }
    let results = request
        .feature_updates
        .into_iter()
        .map(|update| UpdatableFeatureResult {
            feature: update.feature,
            error_message: None,
            ..Default::default()
        });
    Outcome::Ready(UpdateFeaturesResponse {
        error_message: None,
        // From version 2 on there is one result for all.
        results: results
            .filter(|_| version < versions::update_features::ONE_ERROR)
            .collect(),
        ..Default::default()
    })
}

fn requested(version: i16, update: &FeatureUpdateKey) -> Result<FeatureUpdate, Refusal> {
    let direction = match update.upgrade_type {
        _ if version == 0 && update.allow_downgrade => FeatureDirection::Downgrade,
        UPGRADE => FeatureDirection::Upgrade,
        SAFE_DOWNGRADE | UNSAFE_DOWNGRADE => FeatureDirection::Downgrade,
        other => {
            let reason = format!("{}: there is no upgrade type {other}", update.feature);
            return Err(Refusal::new(ErrorCode::InvalidUpdateVersion, reason));
        }
    };
    Ok(FeatureUpdate {
        name: update.feature.to_string(),
        level: update.max_version_level,
        direction,
    })
}
