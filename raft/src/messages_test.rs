use std::collections::BTreeSet;

use proptest::prelude::*;

use super::*;
use crate::types::{Membership, StoredMembership};

fn behind_group(mut bytes: Bytes) -> Bytes {
    take_group(&mut bytes).expect("a group");
    bytes
}

#[test]
fn appends_come_back() {
    let membership = Membership::new_with_defaults(vec![BTreeSet::from([1, 2, 3])], [4]);
    let payloads = [
        EntryPayload::Blank,
        EntryPayload::Normal(Payload(Bytes::from_static(b""))),
        EntryPayload::Membership(membership),
        EntryPayload::Normal(Payload(Bytes::from(vec![7; 40_000]))),
    ];
    let entries: Vec<Entry> =
        (8..).zip(payloads).map(|(index, payload)| Entry { log_id: log_id(2, index), payload }).collect();
    let request = AppendRequest {
        vote: Vote::new_committed(3, 1),
        prev_log_id: Some(log_id(2, 7)),
        entries,
        leader_commit: None,
    };
    let (session, back) = take_append(behind_group(append(5, 9, &request))).expect("own encoding");
    assert_eq!(session, 9);
    assert_eq!(format!("{request:?}"), format!("{back:?}"));
}

#[test]
fn a_commit_without_entries_is_small() {
    let request = AppendRequest {
        vote: Vote::new_committed(12, 3),
        prev_log_id: Some(log_id(12, 100_000)),
        entries: vec![],
        leader_commit: Some(log_id(12, 100_000)),
    };
    assert!(append(3, 1, &request).len() <= 14);
    assert_eq!(append_answer(&AppendEntriesResponse::Success).len(), 2);
}

#[test]
fn an_entry_costs_three_bytes_beside_its_payload() {
    let request = |count: u64| AppendRequest {
        vote: Vote::new_committed(3, 1),
        prev_log_id: Some(log_id(3, 7)),
        entries: (8..8 + count)
            .map(|index| {
                let payload = EntryPayload::Normal(Payload(Bytes::from(vec![1; 100])));
                Entry { log_id: log_id(3, index), payload }
            })
            .collect(),
        leader_commit: None,
    };
    assert_eq!(append(1, 1, &request(101)).len() - append(1, 1, &request(1)).len(), 100 * 103);
}

#[test]
fn votes_snapshots_and_transfers_come_back() {
    let mut ballot = VoteRequest::new(Vote::new(4, 2), Some(log_id(3, 9)));
    ballot.leadership_transfer = true;
    assert_eq!(take_vote_request(behind_group(vote(1, &ballot))), Ok(ballot));
    let answer = VoteResponse::new(Vote::new(4, 2), None, true);
    assert_eq!(take_vote_answer(vote_answer(&answer)), Ok(answer));
    let membership = Membership::new_with_defaults(vec![BTreeSet::from([1])], []);
    let meta = SnapshotMeta {
        last_log_id: Some(log_id(1, 8)),
        last_membership: StoredMembership::new(Some(log_id(1, 0)), membership),
    };
    let offer = SnapshotOffer { vote: Vote::new_committed(1, 1), meta, key: "a/b".into(), bytes_len: 1 << 40, crc: 3 };
    assert_eq!(take_snapshot(behind_group(snapshot(1, &offer))), Ok(offer));
    let request = TransferLeaderRequest::new(Vote::new_committed(1, 1), 3, Some(log_id(1, 2)));
    assert_eq!(take_transfer(behind_group(transfer(1, &request))), Ok(request));
    for answer in [
        Ok(()),
        Err(TransferLeaderError::VoteChanged { expected: Vote::new(1, 1), actual: Vote::new(2, 2) }),
        Err(TransferLeaderError::LogNotFlushed { expected: Some(log_id(1, 1)), actual: None }),
    ] {
        assert_eq!(take_transfer_answer(transfer_answer(&answer)), Ok(answer));
    }
}

#[test]
fn a_declined_request_says_why() {
    assert_eq!(take_vote_answer(no_group()), Err(Declined::NoGroup));
    assert_eq!(take_append_answer(failed("full")), Err(Declined::Failed("full".into())));
}

proptest! {
    #[test]
    fn garbage_is_an_error_and_never_a_panic(bytes: Vec<u8>) {
        let bytes = Bytes::from(bytes);
        let _ = take_append(bytes.clone());
        let _ = take_vote_request(bytes.clone());
        let _ = take_snapshot(bytes.clone());
        let _ = take_transfer(bytes.clone());
        let _ = take_append_answer(bytes.clone());
        let _ = take_vote_answer(bytes.clone());
        let _ = take_transfer_answer(bytes);
    }
}
