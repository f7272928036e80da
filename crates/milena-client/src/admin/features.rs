//! Features of the cluster.

use std::collections::BTreeMap;

use bytestring::ByteString;
use milena_wire::{
    api::versions,
    messages::{
        ApiVersionsRequest, ApiVersionsResponse, UpdateFeaturesRequest, UpdateFeaturesResponse,
        update_features_request::FeatureUpdateKey,
    },
};

use super::{
    Admin, AdminError, Results,
    call::{AdminCall, CallContext},
    codes::named_codes,
    error::check,
    own,
    route::Route,
};

named_codes! {
    /// The direction in which the level of a feature may change.
    pub enum UpgradeType: i8 {
        /// Upgrade only.
        Upgrade = 1, "UPGRADE";
        /// Downgrade without loss of metadata.
        SafeDowngrade = 2, "SAFE_DOWNGRADE";
        /// Downgrade that may lose metadata.
        UnsafeDowngrade = 3, "UNSAFE_DOWNGRADE";
    }
}

/// The features of a cluster, such as `metadata.version` and `transaction.version`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Features {
    /// The finalized levels.
    pub finalized: BTreeMap<ByteString, VersionLevels>,
    /// Grows with every change of the finalized levels; `None` if the broker does not report it.
    pub finalized_epoch: Option<i64>,
    /// The levels that the responding broker supports.
    pub supported: BTreeMap<ByteString, VersionLevels>,
}

/// Versions from `min` to `max`, both included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct VersionLevels {
    pub min: i16,
    pub max: i16,
}

/// The new level of a feature.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FeatureUpdate {
    /// Zero disables the feature.
    pub version: i16,
    pub upgrade_type: UpgradeType,
}

impl Admin {
    /// Returns the finalized and the supported features.
    pub async fn describe_features(&self) -> Result<Features, AdminError> {
        let call = AdminCall::new(
            "",
            |_| Route::Any,
            |_| ApiVersionsRequest {
                client_software_name: "milena".into(),
                client_software_version: env!("CARGO_PKG_VERSION").into(),
                ..Default::default()
            },
            |context: &CallContext<&str>, response: ApiVersionsResponse| {
                check(response.error_code, None)?;
                context.all(&features(&response))
            },
        );
        self.call_one(
            call.version_min(versions::api_versions::FEATURES),
            "the features of the cluster",
        )
        .await
    }

    /// Changes the levels of features, all of them or none.
    pub async fn update_features<N: Into<ByteString>>(
        &self,
        updates: impl IntoIterator<Item = (N, FeatureUpdate)>,
    ) -> Results<ByteString, ()> {
        self.update(updates, false).await
    }

    /// Validates changes of features without making them.
    pub async fn validate_features<N: Into<ByteString>>(
        &self,
        updates: impl IntoIterator<Item = (N, FeatureUpdate)>,
    ) -> Results<ByteString, ()> {
        self.update(updates, true).await
    }

    async fn update<N: Into<ByteString>>(
        &self,
        updates: impl IntoIterator<Item = (N, FeatureUpdate)>,
        validate_only: bool,
    ) -> Results<ByteString, ()> {
        let updates: BTreeMap<ByteString, FeatureUpdate> = updates
            .into_iter()
            .map(|(name, update)| (name.into(), update))
            .collect();
        let names: Vec<ByteString> = updates.keys().cloned().collect();
        let call = AdminCall::new(
            "feature",
            |_: &ByteString| Route::Controller,
            move |batch| {
                let updates = batch.keys.iter().filter_map(|name| {
                    let update = updates.get(name)?;
                    Some(FeatureUpdateKey {
                        feature: name.clone(),
                        max_version_level: update.version,
                        upgrade_type: update.upgrade_type.code(),
                        ..Default::default()
                    })
                });
                UpdateFeaturesRequest {
                    timeout_ms: batch.timeout_ms,
                    feature_updates: updates.collect(),
                    validate_only,
                    ..Default::default()
                }
            },
            |context: &CallContext<ByteString>, response: UpdateFeaturesResponse| {
                check(response.error_code, response.error_message.as_deref())?;
                // Since version 2 a response has only the features that failed.
                let mut results: BTreeMap<_, _> = context.keys.iter().map(|key| (key.clone(), Ok(()))).collect();
                for result in &response.results {
                    let outcome = check(result.error_code, result.error_message.as_deref());
                    results.insert(own(&result.feature), outcome);
                }
                Ok(results.into_iter().collect())
            },
        );
        self.call(call.version_min(versions::update_features::UPGRADE_TYPE), names)
            .await
    }
}

fn features(response: &ApiVersionsResponse) -> Features {
    let finalized = response.finalized_features.iter().map(|feature| {
        let (min, max) = (feature.min_version_level, feature.max_version_level);
        (own(&feature.name), VersionLevels { min, max })
    });
    let supported = response.supported_features.iter().map(|feature| {
        let (min, max) = (feature.min_version, feature.max_version);
        (own(&feature.name), VersionLevels { min, max })
    });
    Features {
        finalized: finalized.collect(),
        finalized_epoch: Some(response.finalized_features_epoch).filter(|epoch| *epoch >= 0),
        supported: supported.collect(),
    }
}
