//! The price sheet, and what traffic and requests cost by it. Disks, stored bytes and machines are not in it.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    cross_zone_gb: f64,
    store: BTreeMap<String, StorePrices>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct StorePrices {
    put_thousand: f64,
    get_thousand: f64,
    upload_gb: f64,
    retrieval_gb: f64,
}

/// What is billed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Bill {
    pub cross_zone_bytes: f64,
    pub puts: f64,
    pub gets: f64,
    pub uploaded_bytes: f64,
    pub retrieved_bytes: f64,
}

const GB: f64 = 1e9;

impl Prices {
    pub fn load() -> Result<Prices> {
        toml::from_str(include_str!("prices.toml")).context("benches/prices.toml")
    }

    /// Dollars, with a store of one of the classes of the sheet.
    pub fn dollars(&self, bill: &Bill, class: &str) -> Result<f64> {
        let store = self.store.get(class).with_context(|| format!("the price sheet has no {class}"))?;
        Ok(bill.cross_zone_bytes / GB * self.cross_zone_gb
            + bill.puts / 1e3 * store.put_thousand
            + bill.gets / 1e3 * store.get_thousand
            + bill.uploaded_bytes / GB * store.upload_gb
            + bill.retrieved_bytes / GB * store.retrieval_gb)
    }
}
