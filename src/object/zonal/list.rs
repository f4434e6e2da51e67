use std::collections::BTreeMap;
use std::time::Duration;

use futures::StreamExt;
use futures::stream::FuturesUnordered;
use tokio::time::{Instant, timeout_at};

use super::Zonal;
use crate::object::{Cursor, Error, Key, Listed, PAGE_KEYS_MAX, Page, Prefix, Start, Store};

/// When a majority has listed, the others are waited for so long: what is in a minority only was never acknowledged.
const REST_TIME: Duration = Duration::from_secs(1);

impl Zonal {
    /// One page of what any bucket has, from a majority of them at least, so that nothing acknowledged is left out.
    pub(super) async fn merged(&self, prefix: &Prefix, start: Start) -> Result<Page, Error> {
        let start = match start {
            Start::Next(Cursor(after)) => Start::After(Key::parse(&after)?),
            start => start,
        };
        let mut asked: FuturesUnordered<_> =
            self.buckets().iter().map(|bucket| page(&*bucket.store, prefix, start.clone())).collect();
        let (mut pages, mut trouble, mut deadline) = (Vec::new(), None, None);
        loop {
            let answer = match deadline {
                None => asked.next().await,
                Some(deadline) => timeout_at(deadline, asked.next()).await.unwrap_or(None),
            };
            match answer {
                Some(Ok(page)) => pages.push(page),
                Some(Err(error)) => trouble = Some(error),
                None => break,
            }
            if pages.len() >= self.majority() && deadline.is_none() {
                deadline = Some(Instant::now() + REST_TIME);
            }
        }
        match trouble {
            Some(error) if pages.len() < self.majority() => Err(error),
            _ => Ok(merge(pages)),
        }
    }
}

/// A page that names something, or is the last.
async fn page(store: &dyn Store, prefix: &Prefix, start: Start) -> Result<Page, Error> {
    let mut page = store.list(prefix, start).await?;
    while page.objects.is_empty()
        && let Some(next) = page.next
    {
        page = store.list(prefix, Start::Next(next)).await?;
    }
    Ok(page)
}

/// Up to where every page reaches.
fn merge(pages: Vec<Page>) -> Page {
    let reach = pages.iter().filter(|page| page.next.is_some()).filter_map(|page| page.objects.last());
    let reach = reach.map(|listed| listed.key.clone()).min();
    let mut all: BTreeMap<Key, Listed> = BTreeMap::new();
    for listed in pages.into_iter().flat_map(|page| page.objects) {
        // The earliest date: an object is as old as its oldest copy.
        let known = all.entry(listed.key.clone()).or_insert_with(|| listed.clone());
        known.last_modified = known.last_modified.min(listed.last_modified);
    }
    let total = all.len();
    let within = |listed: &Listed| reach.as_ref().is_none_or(|reach| listed.key <= *reach);
    let objects: Vec<Listed> = all.into_values().filter(within).take(PAGE_KEYS_MAX).collect();
    let is_last = reach.is_none() && objects.len() == total;
    let next = objects.last().filter(|_| !is_last).map(|listed| Cursor(listed.key.to_string()));
    Page { objects, next }
}
