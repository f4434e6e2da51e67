use std::collections::{BTreeMap, BTreeSet};

use proptest::prelude::*;

use super::compare::{Comparison, Sighting};
use crate::object::Key;

fn key(number: u16) -> Key {
    Key::parse(&format!("k/{number}")).unwrap()
}

/// Goes through listings in pages of two, in turn.
fn compare(listings: &[Vec<u16>], young: &BTreeSet<u16>, parts: u32) -> (BTreeMap<u16, Vec<usize>>, usize) {
    let (mut found, mut most) = (BTreeMap::new(), 0);
    let by_key: BTreeMap<Key, u16> = listings.iter().flatten().map(|number| (key(*number), *number)).collect();
    for part in 0..parts {
        let mut comparison = Comparison::new(listings.len(), part, parts);
        let mut pages: Vec<_> = listings.iter().map(|listing| listing.chunks(2)).collect();
        let mut ended = BTreeSet::new();
        while ended.len() < listings.len() {
            for (bucket, pages) in pages.iter_mut().enumerate() {
                match pages.next() {
                    Some(page) => page.iter().for_each(|number| {
                        let is_settled = !young.contains(number);
                        comparison.sighted(key(*number), Sighting { bucket, is_settled });
                    }),
                    None => {
                        ended.insert(bucket);
                        comparison.end(bucket);
                    }
                }
            }
            for (key, buckets) in comparison.missing() {
                assert!(found.insert(by_key[&key], buckets).is_none(), "{key} was found twice");
            }
            most = most.max(comparison.len());
        }
        assert_eq!(comparison.len(), 0);
    }
    (found, most)
}

proptest! {
    #[test]
    fn what_some_buckets_lack_is_found_once_whatever_the_order(
        copies in proptest::collection::btree_map(0u16..200, 1u8..8, 0..80),
        young in proptest::collection::btree_set(0u16..200, 0..20),
        seed: u64,
        parts in 1u32..4,
    ) {
        let mut listings = vec![Vec::new(); 3];
        for (number, buckets) in &copies {
            (0..3).filter(|bucket| buckets & 1 << bucket != 0).for_each(|bucket| listings[bucket].push(*number));
        }
        for (bucket, listing) in listings.iter_mut().enumerate() {
            listing.sort_by_key(|number| u64::from(*number).wrapping_mul(seed | 1).rotate_left(bucket as u32 * 7));
        }
        let lacking = copies.iter().filter(|(number, buckets)| **buckets != 7 && !young.contains(number));
        let expected: BTreeMap<u16, Vec<usize>> = lacking
            .map(|(number, buckets)| (*number, (0..3).filter(|bucket| buckets & 1 << bucket == 0).collect()))
            .collect();
        prop_assert_eq!(compare(&listings, &young, parts).0, expected);
    }
}

#[test]
fn ordered_listings_of_any_length_are_compared_in_little_memory() {
    let all: Vec<u16> = (0..5000).collect();
    let holed: Vec<u16> = all.iter().copied().filter(|number| number % 100 != 7).collect();
    let (found, most) = compare(&[all.clone(), holed, all.clone()], &BTreeSet::new(), 1);
    assert_eq!(found.len(), 50);
    assert!(most < 200, "{most} keys at once");
    // A bucket that was emptied.
    let (found, most) = compare(&[all.clone(), Vec::new(), all], &BTreeSet::new(), 1);
    assert_eq!(found.len(), 5000);
    assert!(most < 10, "{most} keys at once");
}
