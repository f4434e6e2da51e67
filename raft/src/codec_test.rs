use proptest::prelude::*;

use super::*;

fn encoded(put: impl FnOnce(&mut Vec<u8>)) -> Bytes {
    let mut out = Vec::new();
    put(&mut out);
    Bytes::from(out)
}

fn membership() -> impl Strategy<Value = Membership> {
    let ids = || proptest::collection::btree_set(1u64..50, 1..5);
    (proptest::collection::vec(ids(), 1..3), ids())
        .prop_map(|(configs, learners)| Membership::new_with_defaults(configs, learners))
}

fn entry() -> impl Strategy<Value = Entry> {
    let payload = prop_oneof![
        Just(EntryPayload::Blank),
        proptest::collection::vec(any::<u8>(), 0..300)
            .prop_map(|bytes| EntryPayload::Normal(Payload(Bytes::from(bytes)))),
        membership().prop_map(EntryPayload::Membership),
    ];
    (any::<u32>(), any::<u64>(), payload)
        .prop_map(|(term, index, payload)| Entry { log_id: log_id(term.into(), index), payload })
}

proptest! {
    #[test]
    fn numbers_come_back(value: u64) {
        let mut bytes = encoded(|out| put_varint(out, value));
        prop_assert_eq!(take_varint(&mut bytes), Ok(value));
        prop_assert!(bytes.is_empty());
    }

    #[test]
    fn entries_come_back(entry in entry()) {
        let bytes = encoded(|out| put_entry(out, &entry));
        let back = take_entry(bytes).expect("own encoding");
        prop_assert_eq!(back.log_id, entry.log_id);
        prop_assert_eq!(back.payload, entry.payload);
    }

    #[test]
    fn votes_and_log_ids_come_back(term in 0u64..1 << 60, node: u64, index: u64, committed: bool, absent: bool) {
        let vote = if committed { Vote::new_committed(term, node) } else { Vote::new(term, node) };
        let id = (!absent).then(|| log_id(term, index));
        let mut bytes = encoded(|out| { put_vote(out, &vote); put_log_id_option(out, &id) });
        prop_assert_eq!(take_vote(&mut bytes), Ok(vote));
        prop_assert_eq!(take_log_id_option(&mut bytes), Ok(id));
    }

    #[test]
    fn garbage_is_an_error_and_never_a_panic(bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        let _ = take_entry(bytes.clone());
        let _ = take_membership(&mut bytes.clone());
        let _ = take_stored_membership(&mut bytes.clone());
        let _ = take_string(&mut bytes.clone());
    }
}
