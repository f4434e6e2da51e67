//! Which workloads run on which systems.

use std::path::PathBuf;
use std::time::Duration;

use anyhow::Result;

use crate::kafka::Kafka;
use crate::milepost::{Milepost, Settings};
use crate::system::System;
use crate::workloads::{Times, Workload};

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which {
    Milepost,
    Kafka,
    KafkaFollowerFetching,
}

impl Which {
    pub fn name(self) -> &'static str {
        match self {
            Which::Milepost => "milepost",
            Which::Kafka => "kafka",
            Which::KafkaFollowerFetching => "kafka-follower-fetching",
        }
    }
}

/// A workload for one system. The settings are Milepost's: other systems have nothing like them.
pub struct Item {
    pub which: Which,
    pub workload: Workload,
    settings: Settings,
}

impl Item {
    pub fn system(&self, clients: PathBuf) -> Result<Box<dyn System>> {
        Ok(match self.which {
            Which::Milepost => {
                let binary = env!("CARGO_BIN_EXE_milepost").into();
                Box::new(Milepost::new(binary, clients, self.settings.clone())?)
            }
            Which::Kafka => Box::new(Kafka::new(clients, false)?),
            Which::KafkaFollowerFetching => Box::new(Kafka::new(clients, true)?),
        })
    }
}

pub fn times(is_quick: bool) -> Times {
    let seconds = if is_quick { [8, 8, 15] } else { [20, 20, 60] }.map(Duration::from_secs);
    Times { idle: seconds[0], warm: seconds[1], measured: seconds[2] }
}

const MB: u64 = 1_000_000;
const MIB: u64 = 1 << 20;

/// The quick suite is part of the whole one. `rate` is each zone's, `latency` the store's for each request.
pub fn items(is_quick: bool, rate: u64, latency: Duration) -> Vec<Item> {
    let plain = Workload {
        name: "a: 16 partitions".to_owned(),
        partitions: 16,
        bytes_per_second: rate,
        linger_ms: 50,
        readers: 1,
        and_later: false,
    };
    let default = Settings {
        brokers_per_zone: 1,
        puts_per_second: None,
        puts_burst: None,
        object_bytes: None,
        store_latency: latency,
    };
    // So many requests that each object gets this size at this rate.
    let objects = |bytes: u64| Settings {
        puts_per_second: Some(rate as f64 / bytes as f64),
        puts_burst: Some(1),
        object_bytes: Some(bytes + bytes / 8),
        ..default.clone()
    };
    let named = |name: &str| Workload { name: name.to_owned(), ..plain.clone() };
    let with_later = Workload { and_later: true, ..plain.clone() };
    let many = |name: &str, partitions: u32, linger_ms: u32| Workload { partitions, linger_ms, ..named(name) };
    let hundred = many("b: 100 partitions", 100, 100);
    let thousand = many("c: 1000 partitions", 1000, 1000);
    let fan_out = Workload { readers: 3, ..named("d: fan-out") };

    let item = |which, workload: &Workload, settings: &Settings| Item {
        which,
        workload: workload.clone(),
        settings: settings.clone(),
    };
    let mut items = vec![
        item(Which::Milepost, &with_later, &default),
        item(Which::Kafka, &with_later, &default),
        item(Which::KafkaFollowerFetching, &plain, &default),
        item(Which::Milepost, &named("a: 16 partitions, 3 MiB objects"), &objects(3 * MIB)),
        item(Which::Milepost, &hundred, &objects(300_000)),
    ];
    let at_size = |name: &str, bytes: u64| {
        let workload = Workload { name: format!("{}, {name} objects", thousand.name), ..thousand.clone() };
        item(Which::Milepost, &workload, &objects(bytes))
    };
    items.push(at_size("3 MiB", 3 * MIB));
    if !is_quick {
        items.push(at_size("1.25 MB", MB * 5 / 4));
        items.push(item(Which::Milepost, &fan_out, &default));
        let two = Settings { brokers_per_zone: 2, ..default.clone() };
        let workload = Workload { name: format!("{}, two brokers a zone", fan_out.name), ..fan_out.clone() };
        items.push(item(Which::Milepost, &workload, &two));
        items.push(item(Which::Kafka, &hundred, &default));
        items.push(item(Which::Kafka, &thousand, &default));
        items.push(item(Which::Kafka, &fan_out, &default));
        items.push(item(Which::KafkaFollowerFetching, &fan_out, &default));
    }
    items
}
