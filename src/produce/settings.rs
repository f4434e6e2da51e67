use crate::admin::Layers;
use crate::admin::configs::{STORAGE_CLASS, list};
use crate::batch::{Codec, Compression, Rules, records};
use crate::cluster::{RootState, Topic};
use crate::types::{StorageClass, Timestamp};

/// Zstandard came with Produce 7 (KIP-110).
const ZSTD_VERSION: i16 = 7;

/// What a topic asks of what is written to it, looked up once for each request.
#[derive(Debug, Clone)]
pub(super) struct TopicSettings {
    pub rules: Rules,
    pub class: StorageClass,
    pub insync_min: usize,
    /// What Kafka's segments could hold of one append.
    pub list_bytes_max: usize,
    /// None keeps what was sent.
    pub compression: Option<Compression>,
}

impl TopicSettings {
    pub fn of(topic: &Topic, view: &RootState, layers: Layers<'_>, version: i16, now: Timestamp) -> TopicSettings {
        let number = |name: &str| layers.topic_number(&topic.configs, name);
        let text = |name: &str| layers.topic(&topic.configs, name);
        let size = |name: &str| usize::try_from(number(name)).unwrap_or(0);
        let before = number("message.timestamp.before.max.ms");
        TopicSettings {
            rules: Rules {
                append_time: view.is_stamped(topic),
                timestamp_max: now.saturating_add(number("message.timestamp.after.max.ms")),
                // Its default is no limit, which is more than time itself.
                timestamp_min: now.checked_sub(before).filter(|earliest| *earliest > 0).unwrap_or(Timestamp::MIN),
                message_bytes_max: size("max.message.bytes"),
                zstd_allowed: version >= ZSTD_VERSION,
                keys_required: list(text("cleanup.policy")).any(|policy| policy == "compact"),
                inflated_bytes_max: size("max.decompressed.message.bytes").min(records::INFLATED_BYTES_MAX),
            },
            class: StorageClass::of_name(text(STORAGE_CLASS)).unwrap_or(StorageClass::Regional),
            insync_min: size("min.insync.replicas"),
            list_bytes_max: size("segment.bytes"),
            compression: compression(text("compression.type"), |codec| {
                number(&format!("compression.{codec}.level")) as i32
            }),
        }
    }
}

fn compression(wanted: &str, level: impl Fn(&str) -> i32) -> Option<Compression> {
    let codec = match wanted {
        "uncompressed" => Codec::None,
        "gzip" => Codec::Gzip,
        "snappy" => Codec::Snappy,
        "lz4" => Codec::Lz4,
        "zstd" => Codec::Zstd,
        _ => return None,
    };
    let level = if matches!(codec, Codec::Gzip | Codec::Lz4 | Codec::Zstd) { level(wanted) } else { 0 };
    Some(Compression { codec, level })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::Defaults;
    use crate::cluster::{Configs, NewTopic, RootEntry};
    use crate::types::TopicId;

    fn of(configs: &[(&str, &str)]) -> TopicSettings {
        let mut view = RootState::default();
        view.apply(RootEntry::CreateShard { replication_factor: 1, voters: vec![1], preferred: 1 });
        let configs: Configs = configs.iter().map(|(name, value)| ((*name).into(), (*value).into())).collect();
        let id = TopicId::from_bytes([1; 16]);
        view.apply(RootEntry::CreateTopic(NewTopic {
            id,
            name: "t".into(),
            partitions: 1,
            replication_factor: 1,
            assigned: Vec::new(),
            configs,
        }));
        TopicSettings::of(view.topic(id).unwrap(), &view, Defaults::default().layers(&view, 0), 9, 1_000_000)
    }

    #[test]
    fn a_topic_without_settings_has_kafkas_defaults() {
        let settings = of(&[]);
        let rules = &settings.rules;
        assert_eq!((rules.message_bytes_max, rules.timestamp_min), (1_048_588, Timestamp::MIN));
        assert_eq!(
            (rules.timestamp_max, rules.append_time, rules.keys_required),
            (1_000_000 + 3_600_000, false, false)
        );
        assert_eq!((settings.insync_min, settings.compression, settings.list_bytes_max), (1, None, 1 << 30));
    }

    #[test]
    fn what_a_topic_says_is_asked() {
        let settings = of(&[
            ("message.timestamp.before.max.ms", "1000"),
            ("message.timestamp.type", "LogAppendTime"),
            ("cleanup.policy", "delete, compact"),
            ("compression.type", "zstd"),
            ("compression.zstd.level", "-5"),
        ]);
        assert_eq!((settings.rules.timestamp_min, settings.rules.append_time), (999_000, true));
        assert!(settings.rules.keys_required);
        assert_eq!(settings.compression, Some(Compression { codec: Codec::Zstd, level: -5 }));
        assert_eq!(of(&[("compression.type", "uncompressed")]).compression.unwrap().codec, Codec::None);
    }
}
