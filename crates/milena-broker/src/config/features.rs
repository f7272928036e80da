//! Features of a cluster: the levels that this broker supports, and the finalized ones.

use std::collections::BTreeMap;

use super::ConfigError;

/// A feature under Kafka's name, and the levels that this broker can work at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    pub name: &'static str,
    pub min: i16,
    pub max: i16,
    /// The level of a new cluster.
    pub initial: i16,
}

/// Every feature of Kafka 4.3, by name.
///
/// Unsupported features stay at level 0, also `eligible.leader.replicas.version`: a partition with one replica has no other
/// eligible leader. The metadata version is that of Kafka 4.3, and the only one: without a quorum there are no members of
/// an older version.
pub const FEATURES: &[Feature] = &[
    at("eligible.leader.replicas.version", 0),
    up_to("group.version", 1),
    at("kraft.version", 0),
    at("metadata.version", 30),
    at("share.version", 0),
    at("streams.version", 0),
    up_to("transaction.version", 2),
];

const fn at(name: &'static str, level: i16) -> Feature {
    let (min, max, initial) = (level, level, level);
    Feature {
        name,
        min,
        max,
        initial,
    }
}

const fn up_to(name: &'static str, max: i16) -> Feature {
    let (min, initial) = (0, max);
    Feature {
        name,
        min,
        max,
        initial,
    }
}

/// The levels that were set at run time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FinalizedFeatures {
    /// By name; a feature that is not here is at its initial level.
    pub levels: BTreeMap<String, i16>,
    /// The number of changes so far.
    pub epoch: i64,
}

/// The change of one feature by UpdateFeatures.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FeatureUpdate {
    pub name: String,
    pub level: i16,
    pub direction: FeatureDirection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FeatureDirection {
    Upgrade,
    /// Safe or unsafe: no downgrade loses metadata here.
    Downgrade,
}

impl FinalizedFeatures {
    /// The level of a feature, clamped to the levels that this version of the broker supports.
    pub fn level(&self, feature: &Feature) -> i16 {
        let set = self.levels.get(feature.name).copied();
        set.unwrap_or(feature.initial).clamp(feature.min, feature.max)
    }

    pub(super) fn level_of(&self, name: &str) -> i16 {
        let feature = FEATURES.iter().find(|feature| feature.name == name);
        feature.map_or(0, |feature| self.level(feature))
    }

    /// The features after all updates, or the error of the first update that is not possible.
    pub fn updated(&self, updates: &[FeatureUpdate]) -> Result<Self, ConfigError> {
        let mut updated = self.clone();
        for update in updates {
            let FeatureUpdate { name, level, direction } = update;
            let refuse = |problem: String| ConfigError::Feature {
                name: name.clone(),
                level: *level,
                problem,
            };
            let feature = FEATURES.iter().find(|feature| feature.name == *name);
            let feature = feature.ok_or_else(|| refuse("this broker does not support this feature".to_owned()))?;
            if !(feature.min..=feature.max).contains(level) {
                let range = format!("this broker only supports versions {}-{}", feature.min, feature.max);
                return Err(refuse(range));
            }
            let current = self.level(feature);
            if *level < current && *direction == FeatureDirection::Upgrade {
                return Err(refuse(format!("it is at {current}; request a downgrade")));
            }
            if *level > current && *direction == FeatureDirection::Downgrade {
                return Err(refuse(format!("it is at {current}; request an upgrade")));
            }
            updated.levels.insert(name.clone(), *level);
        }
        if FEATURES
            .iter()
            .any(|feature| updated.level(feature) != self.level(feature))
        {
            updated.epoch += 1;
        }
        Ok(updated)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn update(name: &str, level: i16, direction: FeatureDirection) -> FeatureUpdate {
        let name = name.to_owned();
        FeatureUpdate { name, level, direction }
    }

    #[test]
    fn features_are_sorted_and_their_initial_levels_are_supported() {
        assert!(FEATURES.is_sorted_by(|a, b| a.name < b.name));
        for feature in FEATURES {
            assert!(
                (feature.min..=feature.max).contains(&feature.initial),
                "{}",
                feature.name
            );
        }
    }

    #[test]
    fn levels_move_within_what_is_supported_and_in_the_direction_that_was_asked_for() {
        use FeatureDirection::{Downgrade, Upgrade};
        let first = FinalizedFeatures::default();
        let down = first.updated(&[update("transaction.version", 1, Downgrade)]).unwrap();
        assert_eq!((down.level_of("transaction.version"), down.epoch), (1, 1));
        assert_eq!(down.level_of("group.version"), 1);
        let same = down.updated(&[update("transaction.version", 1, Upgrade)]).unwrap();
        assert_eq!(same.epoch, 1, "nothing has changed");
        for (wrong, problem) in [
            (update("transaction.version", 0, Upgrade), "request a downgrade"),
            (update("transaction.version", 2, Downgrade), "request an upgrade"),
            (update("transaction.version", 3, Upgrade), "versions 0-2"),
            (update("transaction.version", -1, Downgrade), "versions 0-2"),
            (update("share.version", 1, Upgrade), "versions 0-0"),
            (update("nothing.version", 1, Upgrade), "does not support"),
        ] {
            let error = down.updated(std::slice::from_ref(&wrong)).unwrap_err().to_string();
            assert!(error.contains(problem) && error.contains(&wrong.name), "{error}");
        }
    }

    #[test]
    fn one_wrong_update_stops_all() {
        use FeatureDirection::Downgrade;
        let first = FinalizedFeatures::default();
        let updates = [
            update("group.version", 0, Downgrade),
            update("share.version", 1, Downgrade),
        ];
        assert!(first.updated(&updates).is_err());
    }
}
