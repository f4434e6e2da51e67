//! What the settings of a share group come to (KIP-932).

use std::time::Duration;

use crate::admin::configs::Layers;
use crate::cluster::{Configs, Resource, RootState};

/// What is in force for how a share group's records are delivered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ShareSettings {
    /// Where the group begins in a partition that it has read nothing of (`share.auto.offset.reset`).
    pub reset: ShareReset,
    /// Records of transactions are delivered when they are committed, or at once and whatever becomes of them
    /// (`share.isolation.level`).
    pub read_committed: bool,
    /// How long a member may keep a record (`share.record.lock.duration.ms`).
    pub lock_duration: Duration,
    /// Whether it may ask for more time (`share.renew.acknowledge.enable`).
    pub renews: bool,
    /// How often a record is delivered (`share.delivery.count.limit`).
    pub deliveries_max: u16,
    /// Records of one partition in delivery at a time (`share.partition.max.record.locks`).
    pub locks_max: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ShareReset {
    Earliest,
    Latest,
    /// With the first record that is not older than this.
    ByDuration(Duration),
}

impl ShareSettings {
    /// Of a group that may have settings of its own.
    pub fn of(group: &str, view: &RootState, layers: Layers) -> ShareSettings {
        let none = Configs::new();
        let own = view.configs(&Resource::Group(group.to_owned())).unwrap_or(&none);
        let text = |name: &str| layers.group(own, name).trim();
        let number = |name: &str| text(name).parse::<u64>().expect("validated when it was set");
        ShareSettings {
            reset: ShareReset::parse(text("share.auto.offset.reset")).expect("validated when it was set"),
            read_committed: text("share.isolation.level") == "read_committed",
            lock_duration: Duration::from_millis(number("share.record.lock.duration.ms")),
            renews: text("share.renew.acknowledge.enable").eq_ignore_ascii_case("true"),
            deliveries_max: number("share.delivery.count.limit") as u16,
            locks_max: number("share.partition.max.record.locks") as usize,
        }
    }
}

impl ShareReset {
    /// `earliest`, `latest`, or `by_duration:` and a length of time as `P1DT2H3M4.5S`: days, then after a `T` hours,
    /// minutes and seconds, none of them twice.
    pub(super) fn parse(value: &str) -> Option<ShareReset> {
        let value = value.trim().to_ascii_lowercase();
        match value.as_str() {
            "earliest" => return Some(ShareReset::Earliest),
            "latest" => return Some(ShareReset::Latest),
            _ => {}
        }
        let length = value.strip_prefix("by_duration:")?.strip_prefix('p')?;
        let (days, time) = length.split_once('t').map_or((length, None), |(days, time)| (days, Some(time)));
        if time.is_some_and(str::is_empty) || (days.is_empty() && time.is_none()) {
            return None;
        }
        let days = sum(days, &[('d', 86_400)])?;
        let time = sum(time.unwrap_or(""), &[('h', 3600), ('m', 60), ('s', 1)])?;
        days.checked_add(time).map(ShareReset::ByDuration)
    }
}

/// Numbers, each followed by its unit of so many seconds; units in this order. Of seconds there may be a fraction.
fn sum(mut text: &str, units: &[(char, u64)]) -> Option<Duration> {
    let mut units = units.iter();
    let mut all = Duration::ZERO;
    while !text.is_empty() {
        let (number, rest) = text.split_at(text.find(|c: char| !c.is_ascii_digit() && c != '.')?);
        let unit = rest.chars().next()?;
        let (_, seconds) = units.find(|(name, _)| *name == unit)?;
        let part = match unit {
            's' => Duration::try_from_secs_f64(number.parse().ok()?).ok()?,
            _ => Duration::from_secs(number.parse::<u64>().ok()?.checked_mul(*seconds)?),
        };
        all = all.checked_add(part)?;
        text = &rest[unit.len_utf8()..];
    }
    Some(all)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::configs::Defaults;
    use crate::cluster::RootEntry;

    #[test]
    fn a_share_group_begins_where_kafka_lets_it() {
        let ago = |seconds, millis: u32| Some(ShareReset::ByDuration(Duration::new(seconds, millis * 1_000_000)));
        let good = [
            ("earliest", Some(ShareReset::Earliest)),
            ("LATEST", Some(ShareReset::Latest)),
            ("by_duration:PT1H", ago(3600, 0)),
            ("by_duration:P2DT3M4.5S", ago(2 * 86_400 + 184, 500)),
            ("by_duration:P1D", ago(86_400, 0)),
        ];
        let bad = ["none", "by_duration:", "by_duration:P", "by_duration:PT", "by_duration:1H", "by_duration:PT1M1H"];
        let more = ["by_duration:PTH", "by_duration:P1H", "by_duration:PT1", "by_duration:P99999999999999999999D"];
        for (value, begins) in good.into_iter().chain(bad.into_iter().chain(more).map(|value| (value, None))) {
            assert_eq!(ShareReset::parse(value), begins, "{value}");
        }
    }

    #[test]
    fn a_groups_own_settings_come_before_the_brokers() {
        let defaults = Defaults::new([("group.share.record.lock.duration.ms", "20000".to_owned())]);
        let mut view = RootState::default();
        let own = [("share.auto.offset.reset", "earliest"), ("share.isolation.level", "read_committed")];
        let after = own.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
        view.apply(RootEntry::AlterConfigs { resource: Resource::Group("g".into()), before: Configs::new(), after });
        let layers = defaults.layers(&view, 1);
        let others = ShareSettings {
            reset: ShareReset::Latest,
            read_committed: false,
            lock_duration: Duration::from_secs(20),
            renews: true,
            deliveries_max: 5,
            locks_max: 2000,
        };
        let of_g = ShareSettings { reset: ShareReset::Earliest, read_committed: true, ..others.clone() };
        assert_eq!(ShareSettings::of("g", &view, layers), of_g);
        assert_eq!(ShareSettings::of("h", &view, layers), others);
    }
}
