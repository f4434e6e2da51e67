//! `--name value` pairs; a name nobody asked for is refused.

use std::collections::BTreeMap;
use std::fmt::Display;
use std::str::FromStr;

use anyhow::{Result, anyhow, bail};

pub struct Args {
    values: BTreeMap<String, String>,
}

impl Args {
    pub fn parse(words: impl Iterator<Item = String>) -> Result<Args> {
        let mut values = BTreeMap::new();
        let mut words = words;
        while let Some(word) = words.next() {
            let Some(name) = word.strip_prefix("--") else { bail!("unexpected argument {word}") };
            let value = words.next().ok_or_else(|| anyhow!("--{name} needs a value"))?;
            values.insert(name.to_owned(), value);
        }
        Ok(Args { values })
    }

    pub fn required(&mut self, name: &str) -> Result<String> {
        self.values.remove(name).ok_or_else(|| anyhow!("--{name} is missing"))
    }

    pub fn optional<T>(&mut self, name: &str, default: T) -> Result<T>
    where
        T: FromStr,
        T::Err: Display,
    {
        match self.values.remove(name) {
            None => Ok(default),
            Some(text) => text.parse().map_err(|error| anyhow!("--{name} {text}: {error}")),
        }
    }

    /// A comma-separated list; empty when absent.
    pub fn list(&mut self, name: &str) -> Vec<String> {
        let text = self.values.remove(name).unwrap_or_default();
        text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
    }

    pub fn finish(self) -> Result<()> {
        match self.values.keys().next() {
            None => Ok(()),
            Some(name) => bail!("unknown option --{name}"),
        }
    }
}
