use std::collections::{BTreeMap, HashSet};

use bytes::Bytes;
use kafka_protocol::messages::update_features_request::FeatureUpdateKey;
use kafka_protocol::messages::update_features_response::UpdatableFeatureResult;
use kafka_protocol::messages::{UpdateFeaturesRequest, UpdateFeaturesResponse};

use crate::admin::error::code_and_message;
use crate::admin::features::Feature;
use crate::admin::{Admin, Context, Error, topics};
use crate::batch::Segments;
use crate::cluster::{RootEntry, RootState};
use crate::protocol::{self, decode, encode};

/// Kafka's `FeatureUpdate.UpgradeType`.
const UPGRADE: i8 = 1;
const SAFE_DOWNGRADE: i8 = 2;
const UNSAFE_DOWNGRADE: i8 = 3;
/// Later versions do not name the features that were changed.
const ONE_ANSWER: i16 = 2;

/// All levels change or none does (KIP-584, KIP-778).
///
/// # Errors
/// The body does not follow the protocol.
pub async fn update_features(
    admin: &Admin,
    _context: &Context,
    version: i16,
    body: Bytes,
) -> Result<Segments, protocol::Error> {
    let request: UpdateFeaturesRequest = decode(version, body)?;
    let checked = check(&admin.cluster.view(), version, &request.feature_updates);
    let done = match checked {
        Ok(levels) if request.validate_only || levels.is_empty() => Ok(()),
        Ok(levels) => {
            let deadline = topics::deadline(request.timeout_ms);
            admin.propose(RootEntry::UpdateFeatures { levels }, deadline).await.map(drop)
        }
        Err(e) => Err(e),
    };
    let (code, message) = code_and_message(&done);
    let response = UpdateFeaturesResponse::default().with_error_code(code).with_error_message(message);
    if version >= ONE_ANSWER || done.is_err() {
        return encode(version, &response);
    }
    let updates = request.feature_updates.into_iter();
    let results = updates.map(|update| UpdatableFeatureResult::default().with_feature(update.feature));
    encode(version, &response.with_results(results.collect()))
}

/// The levels that change.
fn check(view: &RootState, version: i16, updates: &[FeatureUpdateKey]) -> Result<BTreeMap<String, i16>, Error> {
    let mut seen = HashSet::new();
    let mut levels = BTreeMap::new();
    for update in updates {
        let (name, wanted) = (update.feature.as_str(), update.max_version_level);
        let refused = |why: &str| {
            Err(Error::InvalidUpdateVersion(format!("Invalid update version {wanted} for feature {name}. {why}")))
        };
        if !seen.insert(name) {
            return Err(Error::InvalidRequest(format!("the request names feature {name} more than once")));
        }
        let may_fall = match version {
            0 => update.allow_downgrade,
            _ => match update.upgrade_type {
                UPGRADE => false,
                SAFE_DOWNGRADE | UNSAFE_DOWNGRADE => true,
                _ => return refused("The controller does not support the given upgrade type."),
            },
        };
        if wanted < 0 {
            return refused("A feature version cannot be less than 0.");
        }
        let Some(feature) = Feature::named(name) else {
            return refused("The cluster does not know this feature.");
        };
        if !(feature.min..=feature.max).contains(&wanted) {
            return refused(&format!("The cluster supports versions {}-{}.", feature.min, feature.max));
        }
        let level = feature.level(view);
        if wanted < level && !may_fall {
            return refused(
                "Can't downgrade the version of this feature without setting the upgrade type to either safe or unsafe downgrade.",
            );
        }
        if wanted > level && may_fall && version > 0 {
            return refused("Can't downgrade to a newer version.");
        }
        if wanted != level {
            levels.insert(name.to_owned(), wanted);
        }
    }
    Ok(levels)
}

impl Admin {
    /// What ApiVersions tells of features.
    pub fn features(&self) -> protocol::Features {
        super::features::describe(&self.cluster.view())
    }
}

#[cfg(test)]
mod tests {
    use kafka_protocol::protocol::StrBytes;

    use super::*;
    use crate::admin::features::METADATA_VERSION;
    use crate::protocol::ErrorCode;

    fn update(name: &'static str, level: i16, kind: i8) -> FeatureUpdateKey {
        let update = FeatureUpdateKey::default().with_feature(StrBytes::from_static_str(name));
        update.with_max_version_level(level).with_upgrade_type(kind)
    }

    #[test]
    fn only_possible_levels_in_the_named_direction_are_taken() {
        let view = RootState::default();
        let level = METADATA_VERSION.level(&view);
        let check = |updates: &[FeatureUpdateKey]| check(&view, 2, updates);
        assert!(check(&[update("metadata.version", level, UPGRADE)]).unwrap().is_empty());
        for refused in [
            update("metadata.version", level + 1, UPGRADE),
            update("metadata.version", level - 1, SAFE_DOWNGRADE),
            update("metadata.version", -1, UPGRADE),
            update("metadata.version", level, 0),
            update("no.such.version", 1, UPGRADE),
        ] {
            assert_eq!(check(&[refused]).unwrap_err().code(), ErrorCode::InvalidUpdateVersion);
        }
        let lower = [update("transaction.version", 1, SAFE_DOWNGRADE)];
        assert_eq!(check(&lower).unwrap(), BTreeMap::from([("transaction.version".to_owned(), 1)]));
        assert!(check(&[update("transaction.version", 1, UPGRADE)]).is_err());
        let twice = [update("metadata.version", level, UPGRADE), update("metadata.version", level, UPGRADE)];
        assert_eq!(check(&twice).unwrap_err().code(), ErrorCode::InvalidRequest);
    }
}
