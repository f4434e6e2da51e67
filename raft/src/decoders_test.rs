//! Every decoder of bytes from a disk or another node, with bytes that nobody meant for it: none panics, none allocates
//! out of proportion. `DECODER_ROUNDS=100000 cargo test -p milepost-raft decoders_test -- --nocapture` goes on for longer.

use std::collections::BTreeSet;
use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use bytes::Bytes;
use openraft::raft::{TransferLeaderRequest, VoteRequest, VoteResponse};
use openraft::storage::SnapshotMeta;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use self::fuzz::{Bound, Fuzz};
use crate::log::record::{Record, Step, decode_segment_head, encode_segment_head, step};
use crate::messages;
use crate::transport::frame::{FrameReader, Tag, put_head};
use crate::transport::handshake;
use crate::types::{AppendRequest, Entry, EntryPayload, Membership, Payload, StoredMembership, Vote, log_id};
use crate::{Identity, codec, snapshot};

#[path = "../../tests/decoders/mod.rs"]
mod fuzz;

/// An entry takes two bytes at least, and some hundred in memory.
const OURS: Bound = Bound { base: 4 << 10, factor: 128 };
const FRAME_BYTES_MAX: usize = 1 << 20;
/// A frame's reader takes room for one read ahead.
const FRAMES: Bound = Bound { base: 160 << 10, factor: 4 };

fn as_is(_: &mut Vec<u8>) {}

fn membership() -> Membership {
    Membership::new_with_defaults(vec![BTreeSet::from([1, 2, 3]), BTreeSet::from([2, 3])], [4])
}

fn entries() -> Vec<Entry> {
    let payloads = [
        EntryPayload::Blank,
        EntryPayload::Normal(Payload(Bytes::from_static(b"a payload"))),
        EntryPayload::Membership(membership()),
    ];
    (8..).zip(payloads).map(|(index, payload)| Entry { log_id: log_id(2, index), payload }).collect()
}

#[test]
fn messages_of_other_nodes_are_decoded_in_proportion() {
    let mut fuzz = Fuzz::new(1);
    let vote = Vote::new_committed(3, 1);
    let request =
        AppendRequest { vote, prev_log_id: Some(log_id(2, 7)), entries: entries(), leader_commit: Some(log_id(2, 6)) };
    let meta = SnapshotMeta {
        last_log_id: Some(log_id(1, 8)),
        last_membership: StoredMembership::new(Some(log_id(1, 0)), membership()),
    };
    let offer = messages::SnapshotOffer { vote, meta, key: "a/b".into(), bytes_len: 1 << 40, crc: 3 };
    let seeds = [
        messages::append(5, 9, &request).to_vec(),
        messages::vote(1, &VoteRequest::new(vote, Some(log_id(3, 9)))).to_vec(),
        messages::snapshot(1, &offer).to_vec(),
        messages::transfer(1, &TransferLeaderRequest::new(vote, 3, Some(log_id(1, 2)))).to_vec(),
        messages::vote_answer(&VoteResponse::new(vote, None, true)).to_vec(),
        messages::failed("why").to_vec(),
    ];
    fuzz.run("messages", &seeds, OURS, as_is, |bytes| {
        let mut behind = bytes.clone();
        if messages::take_group(&mut behind).is_ok() {
            let _ = messages::take_append(behind.clone());
            let _ = messages::take_vote_request(behind.clone());
            let _ = messages::take_snapshot(behind.clone());
            let _ = messages::take_transfer(behind);
        }
        let _ = messages::take_append_answer(bytes.clone());
        let _ = messages::take_vote_answer(bytes.clone());
        let _ = messages::take_snapshot_answer(bytes.clone());
        let _ = messages::take_transfer_answer(bytes);
    });
    fuzz.finish("messages of other nodes");
}

#[test]
fn records_of_the_log_are_decoded_in_proportion() {
    let mut fuzz = Fuzz::new(2);
    let mut log = Vec::new();
    for entry in entries() {
        Record::Entry(entry.clone()).encode(3, &mut log);
        Record::Kept(entry).encode(4, &mut log);
    }
    for record in
        [Record::Vote(Vote::new(4, 2)), Record::TruncateAfter(None), Record::Purge(log_id(1, 1)), Record::Remove]
    {
        record.encode(5, &mut log);
    }
    fuzz.run("log records", &[log], OURS, as_is, |bytes| {
        let mut at = 0;
        while let Step::Record { bytes: taken, .. } = step(&bytes, at) {
            at += taken as usize;
        }
    });
    let bodies = entries().into_iter().map(|entry| {
        let mut out = Vec::new();
        codec::put_entry(&mut out, &entry);
        out
    });
    // Behind the checksum.
    fuzz.run("entries", &bodies.collect::<Vec<_>>(), OURS, as_is, |bytes| {
        let _ = codec::take_entry(bytes.clone());
        let _ = codec::take_stored_membership(&mut bytes.clone());
        let _ = codec::take_log_id_option(&mut bytes.clone());
        let _ = codec::take_vote(&mut bytes.clone());
        let _ = snapshot::parse_head(bytes);
    });
    let identity = Identity { cluster_id: "cluster".into(), node_id: 3 };
    let mend = |bytes: &mut Vec<u8>| {
        if let Some(at) = bytes.len().checked_sub(4) {
            let crc = crc32fast::hash(&bytes[..at]);
            bytes[at..].copy_from_slice(&crc.to_le_bytes());
        }
    };
    fuzz.run("segment head", &[encode_segment_head(7, &identity)], OURS, mend, |bytes| {
        let _ = decode_segment_head(&bytes);
    });
    fuzz.finish("the log");
}

/// Bytes that are all there, and a writer that takes everything.
struct There(Bytes);

impl AsyncRead for There {
    fn poll_read(mut self: Pin<&mut Self>, _: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<std::io::Result<()>> {
        let taken = into.remaining().min(self.0.len());
        into.put_slice(&self.0.split_to(taken));
        Poll::Ready(Ok(()))
    }
}

impl AsyncWrite for There {
    fn poll_write(self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<std::io::Result<usize>> {
        Poll::Ready(Ok(bytes.len()))
    }

    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Nothing waits where all bytes are there.
fn now<F: Future>(future: F) -> F::Output {
    match std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(output) => output,
        Poll::Pending => panic!("it waits"),
    }
}

#[test]
fn frames_and_handshakes_are_decoded_in_proportion() {
    let mut fuzz = Fuzz::new(3);
    let mut wire = Vec::new();
    for id in [1, 300] {
        put_head(&mut wire, Tag::Request, 9, id, 5);
        wire.extend_from_slice(b"hello");
    }
    fuzz.run("frames", &[wire], FRAMES, as_is, |bytes| {
        let mut reader = FrameReader::new(There(bytes), FRAME_BYTES_MAX);
        while let Ok(Some(_)) = now(reader.next()) {}
    });
    let own = Identity { cluster_id: "cluster".into(), node_id: 3 };
    let mut hello = b"MPRT\x01\0\0".to_vec();
    hello.extend_from_slice(&2u64.to_le_bytes());
    hello.extend_from_slice(&3u64.to_le_bytes());
    hello.extend_from_slice(b"\x07cluster");
    assert!(now(handshake::answer(&mut There(hello.clone().into()), &own)).is_ok());
    fuzz.run("handshake", &[hello], OURS, as_is, |bytes| {
        let _ = now(handshake::answer(&mut There(bytes), &own));
    });
    fuzz.finish("frames and handshakes");
}
