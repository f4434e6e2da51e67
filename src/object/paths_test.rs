use proptest::prelude::*;

use super::*;

fn paths() -> Paths {
    Paths::new("MkU3OEVBNTcwNTJENDM2Qg", 1).unwrap()
}

fn any_name() -> impl Strategy<Value = Name> {
    prop_oneof![
        (any::<i32>(), any::<u64>(), any::<u64>(), 0..=ATTEMPT_MAX, any::<bool>()).prop_map(
            |(broker, epoch, sequence, attempt, zonal)| {
                let class = if zonal { StorageClass::Zonal } else { StorageClass::Regional };
                Name::WriteAhead(ObjectId { broker, epoch, sequence, attempt, class })
            }
        ),
        (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(shard, job, unique)| Name::Data { shard, job, unique }),
        (any::<u32>(), any::<u64>(), any::<u64>()).prop_map(|(shard, log_index, unique)| Name::Snapshot {
            shard,
            log_index,
            unique
        }),
    ]
}

proptest! {
    #[test]
    fn every_name_survives_the_round_trip(name in any_name(), cluster in "[A-Za-z0-9_-]{1,64}", incarnation: u32) {
        let paths = Paths::new(&cluster, incarnation).unwrap();
        let key = paths.key(name);
        prop_assert_eq!(Key::parse(key.as_str()).unwrap(), key.clone());
        prop_assert_eq!(paths.name(&key), Some(name));
        prop_assert_eq!(parse(&key), Some((cluster, incarnation, name)));
    }

    #[test]
    fn hostile_keys_never_panic(text in "\\PC{0,80}") {
        if let Ok(key) = Key::parse(&text) {
            prop_assert_eq!(paths().name(&key), None);
            parse(&key);
        }
    }
}

#[test]
fn keys_are_written_as_documented() {
    let id = ObjectId { broker: 2, epoch: 7, sequence: 42, attempt: 1, class: StorageClass::Regional };
    let key = paths().key(id);
    assert_eq!(key.as_str(), "MkU3OEVBNTcwNTJENDM2Qg-1/wal/6e/2-7/42.1");
    let zonal = paths().key(ObjectId { class: StorageClass::Zonal, ..id });
    assert_eq!(zonal.as_str(), "MkU3OEVBNTcwNTJENDM2Qg-1/zonal/6e/2-7/42.1");
    assert_eq!((class_of(&key), class_of(&zonal)), (StorageClass::Regional, StorageClass::Zonal));
    let snapshot = paths().key(Name::Snapshot { shard: 3, log_index: 900, unique: 0xabc });
    assert_eq!(snapshot.as_str(), "MkU3OEVBNTcwNTJENDM2Qg-1/snap/3/900-0000000000000abc");
    let data = paths().key(Name::Data { shard: 3, job: 11, unique: 0xabc });
    assert_eq!(data.as_str(), "MkU3OEVBNTcwNTJENDM2Qg-1/data/f8/3/11-0000000000000abc");
    assert_eq!(marker_key().as_str(), "milepost.json");
}

#[test]
fn a_name_has_one_spelling() {
    let spellings = [
        "wal/00/2-7/42.1",
        "wal/6e/02-7/42.1",
        "wal/6e/2-7/42.01",
        "wal/6e/+2-7/42.1",
        "wal/6e/2-7/42.1/x",
        "zonal/6e/2-7/42.32769",
    ];
    for spelling in spellings {
        let key = Key::parse(&format!("MkU3OEVBNTcwNTJENDM2Qg-1/{spelling}")).unwrap();
        assert_eq!(paths().name(&key), None, "{spelling}");
    }
}

#[test]
fn another_cluster_or_incarnation_is_not_ours() {
    let id = ObjectId { broker: 2, epoch: 7, sequence: 42, attempt: 1, class: StorageClass::Regional };
    for (cluster, incarnation) in [("MkU3OEVBNTcwNTJENDM2Qg", 2), ("MkU3OEVBNTcwNTJENDM2Qg", 11), ("other", 1)] {
        assert_eq!(paths().name(&Paths::new(cluster, incarnation).unwrap().key(id)), None);
    }
}

#[test]
fn keys_that_leave_their_root_are_refused() {
    for text in ["", "/a", "a/", "a//b", "..", "a/../b", "./a", ".incoming/x", "a\nb", &"x".repeat(201)] {
        assert!(matches!(Key::parse(text), Err(Error::Refused { .. })), "{text:?}");
    }
}
