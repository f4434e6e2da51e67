//! Serialises ordered maps of shared values as maps of values (for `#[serde(with = "arc_map")]`).

use std::collections::BTreeMap;
use std::sync::Arc;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

pub fn serialize<K: Serialize, V: Serialize, S: Serializer>(
    map: &BTreeMap<K, Arc<V>>,
    s: S,
) -> Result<S::Ok, S::Error> {
    s.collect_map(map.iter().map(|(key, value)| (key, &**value)))
}

pub fn deserialize<'de, K, V, D>(d: D) -> Result<BTreeMap<K, Arc<V>>, D::Error>
where
    K: Deserialize<'de> + Ord,
    V: Deserialize<'de>,
    D: Deserializer<'de>,
{
    let plain: BTreeMap<K, V> = Deserialize::deserialize(d)?;
    Ok(plain.into_iter().map(|(key, value)| (key, Arc::new(value))).collect())
}
