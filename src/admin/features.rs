//! Features: what this build can do at several levels (KIP-584), in one table. The level that is in force is the
//! cluster's: the root keeps those that were changed.

use crate::cluster::{Resource, RootState};
use crate::protocol::{FeatureLevel, Features};

/// One line of the table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    pub name: &'static str,
    pub min: i16,
    pub max: i16,
    /// In force where the root says nothing. Stays as it is when `max` grows: a cluster that runs several builds must
    /// not do what the oldest of them cannot.
    pub unset: i16,
}

const fn feature(name: &'static str, min: i16, max: i16, unset: i16) -> Feature {
    Feature { name, min, max, unset }
}

/// Level 1: groups of the consumer protocol (KIP-848). One level: nothing turns them off but not using them.
pub const GROUP_VERSION: Feature = feature("group.version", 1, 1, 1);

/// Kafka 4.1's (`4.1-IV1`): of this release are the APIs that we serve. One level, since our own entries have versions of
/// their own; tools read a release from it.
pub const METADATA_VERSION: Feature = feature("metadata.version", 27, 27, 27);

/// Level 1: share groups (KIP-932). At level 0 nobody joins one; what they have delivered is kept.
pub const SHARE_VERSION: Feature = feature("share.version", 0, 1, 1);

/// Level 2 tells producers that every end of a transaction raises their epoch, and that they need not add partitions to
/// transactions themselves (KIP-890). Both ways are served at every level: the level says which one clients take.
pub const TRANSACTION_VERSION: Feature = feature("transaction.version", 0, 2, 2);

/// Every feature, by name.
pub const FEATURES: [Feature; 4] = [GROUP_VERSION, METADATA_VERSION, SHARE_VERSION, TRANSACTION_VERSION];

impl Feature {
    pub fn named(name: &str) -> Option<&'static Feature> {
        FEATURES.iter().find(|feature| feature.name == name)
    }

    /// The level in force, within what this build can do.
    pub fn level(&self, view: &RootState) -> i16 {
        view.feature_level(self.name).unwrap_or(self.unset).clamp(self.min, self.max)
    }
}

/// What ApiVersions tells of features.
pub fn describe(view: &RootState) -> Features {
    let levels = FEATURES.iter().map(|feature| FeatureLevel {
        name: feature.name,
        min: feature.min,
        max: feature.max,
        level: feature.level(view),
    });
    let telemetry = view.configured().any(|(resource, _)| matches!(resource, Resource::ClientMetrics(_)));
    Features { levels: levels.collect(), epoch: view.features_epoch(), telemetry }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use super::*;
    use crate::cluster::RootEntry;

    #[test]
    fn the_table_is_in_order_and_its_levels_are_possible() {
        assert!(FEATURES.is_sorted_by_key(|feature| feature.name));
        assert!(FEATURES.iter().all(|feature| (feature.min..=feature.max).contains(&feature.unset)));
    }

    #[test]
    fn a_level_is_the_roots_within_what_this_build_can_do() {
        let feature = feature("some.version", 0, 2, 1);
        let mut view = RootState::default();
        assert_eq!(feature.level(&view), 1);
        for (set, level) in [(0, 0), (2, 2), (7, 2)] {
            view.apply(RootEntry::UpdateFeatures { levels: BTreeMap::from([("some.version".to_owned(), set)]) });
            assert_eq!(feature.level(&view), level);
        }
        assert_eq!(view.features_epoch(), 3);
    }
}
