//! What a segment file holds, format version 1.
//!
//! ```text
//! segment  = magic "MPRL" | version u16 | sequence u64 | node id u64 | cluster id (u8 length, bytes) | crc32 u32 | record*
//! record   = body length u32 | group u32 | body crc32 u32 | head crc32 u32 | kind u8 | body | end mark u8
//! ```
//! Numbers in the heads are little-endian, bodies are varints (see `codec`). The head has its own checksum, so that a
//! flipped bit in a length is not taken for a torn end. A head ends with its kind (never 0) and a record with its end
//! mark (never 0), so that zeros at the end of a file are told from a record that was written to its end.

use bytes::Bytes;

use crate::codec::{self, Malformed};
use crate::types::{Entry, LogId, Vote};
use crate::{GroupId, Identity, NodeId};

const MAGIC: &[u8; 4] = b"MPRL";
const VERSION: u16 = 1;
const HEAD_BYTES: usize = 17;
const END_MARK: u8 = 0xA5;
/// Head and end mark.
pub(crate) const OVERHEAD_BYTES: u64 = HEAD_BYTES as u64 + 1;

/// One change of one group.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Record {
    /// Appended: whatever was at this index and behind is gone.
    Entry(Entry),
    /// Copied forward from an older segment: alive at this place of the log, its neighbours are not touched.
    Kept(Entry),
    Vote(Vote),
    TruncateAfter(Option<LogId>),
    Purge(LogId),
    Committed(LogId),
    /// Everything of the group before this place is forgotten.
    Remove,
}

impl Record {
    fn kind(&self) -> u8 {
        match self {
            Record::Entry(_) => 1,
            Record::Kept(_) => 2,
            Record::Vote(_) => 3,
            Record::TruncateAfter(_) => 4,
            Record::Purge(_) => 5,
            Record::Committed(_) => 6,
            Record::Remove => 7,
        }
    }

    /// Appends the encoded record and returns its length.
    pub(crate) fn encode(&self, group: GroupId, out: &mut Vec<u8>) -> u64 {
        let start = out.len();
        out.resize(start + HEAD_BYTES, 0);
        match self {
            Record::Entry(entry) | Record::Kept(entry) => codec::put_entry(out, entry),
            Record::Vote(vote) => codec::put_vote(out, vote),
            Record::TruncateAfter(after) => codec::put_log_id_option(out, after),
            Record::Purge(id) | Record::Committed(id) => codec::put_log_id(out, id),
            Record::Remove => {}
        }
        let body = start + HEAD_BYTES..out.len();
        let body_crc = crc32fast::hash(&out[body.clone()]);
        let body_bytes = u32::try_from(body.len()).expect("bodies are bounded far below 4 GiB by the configuration");
        out[start..start + 4].copy_from_slice(&body_bytes.to_le_bytes());
        out[start + 4..start + 8].copy_from_slice(&group.to_le_bytes());
        out[start + 8..start + 12].copy_from_slice(&body_crc.to_le_bytes());
        let head_crc = head_crc(&out[start..start + 12], self.kind());
        out[start + 12..start + 16].copy_from_slice(&head_crc.to_le_bytes());
        out[start + 16] = self.kind();
        out.push(END_MARK);
        (out.len() - start) as u64
    }

    fn decode(kind: u8, mut body: Bytes) -> Result<Record, Malformed> {
        let record = match kind {
            1 => return Ok(Record::Entry(codec::take_entry(body)?)),
            2 => return Ok(Record::Kept(codec::take_entry(body)?)),
            3 => Record::Vote(codec::take_vote(&mut body)?),
            4 => Record::TruncateAfter(codec::take_log_id_option(&mut body)?),
            5 => Record::Purge(codec::take_log_id(&mut body)?),
            6 => Record::Committed(codec::take_log_id(&mut body)?),
            7 => Record::Remove,
            _ => return Err(Malformed("record kind")),
        };
        codec::end(&body)?;
        Ok(record)
    }
}

fn head_crc(first_twelve: &[u8], kind: u8) -> u32 {
    let mut crc = crc32fast::Hasher::new();
    crc.update(first_twelve);
    crc.update(&[kind]);
    crc.finalize()
}

pub(crate) fn encode_segment_head(sequence: u64, identity: &Identity) -> Vec<u8> {
    let mut out = MAGIC.to_vec();
    out.extend_from_slice(&VERSION.to_le_bytes());
    out.extend_from_slice(&sequence.to_le_bytes());
    out.extend_from_slice(&identity.node_id.to_le_bytes());
    out.push(u8::try_from(identity.cluster_id.len()).expect("a cluster id is checked to be at most 255 bytes"));
    out.extend_from_slice(identity.cluster_id.as_bytes());
    let crc = crc32fast::hash(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// What follows at a place of a segment.
#[derive(Debug, PartialEq)]
pub(crate) enum Step {
    /// A record and the number of bytes it takes.
    Record { group: GroupId, record: Record, bytes: u64 },
    /// The file ends here, exactly.
    End,
    /// Here begins what a crash left: a part of a record, or zeros.
    Torn,
    /// Here is something that was never written like this.
    Damaged(&'static str),
}

/// The head of a segment file.
pub(crate) enum SegmentHead {
    Valid { sequence: u64, node_id: NodeId, cluster_id: String, bytes: u64 },
    Torn,
    Damaged(&'static str),
}

pub(crate) fn decode_segment_head(file: &[u8]) -> SegmentHead {
    let all_zero = file.iter().all(|byte| *byte == 0);
    let fixed = MAGIC.len() + 2 + 8 + 8 + 1;
    if file.len() < fixed || all_zero {
        return SegmentHead::Torn;
    }
    if &file[..4] != MAGIC {
        return SegmentHead::Damaged("not a log segment");
    }
    if file[4..6] != VERSION.to_le_bytes() {
        return SegmentHead::Damaged("unknown format version");
    }
    let crc_at = fixed + usize::from(file[fixed - 1]);
    let Some(crc) = file.get(crc_at..crc_at + 4) else {
        return SegmentHead::Torn;
    };
    if crc != crc32fast::hash(&file[..crc_at]).to_le_bytes() {
        let torn = file[crc_at..].iter().all(|byte| *byte == 0);
        return if torn { SegmentHead::Torn } else { SegmentHead::Damaged("wrong checksum of the segment head") };
    }
    let Ok(cluster_id) = String::from_utf8(file[fixed..crc_at].to_vec()) else {
        return SegmentHead::Damaged("cluster id is not text");
    };
    let number = |at: usize| u64::from_le_bytes(file[at..at + 8].try_into().expect("eight bytes"));
    SegmentHead::Valid { sequence: number(6), node_id: number(14), cluster_id, bytes: crc_at as u64 + 4 }
}

/// Reads the record at `at`.
pub(crate) fn step(file: &Bytes, at: usize) -> Step {
    let rest = &file[at..];
    if rest.is_empty() {
        return Step::End;
    }
    let zeros_from = |from: usize| rest[from.min(rest.len())..].iter().all(|byte| *byte == 0);
    if rest.len() < HEAD_BYTES {
        return Step::Torn;
    }
    let number = |at: usize| u32::from_le_bytes(rest[at..at + 4].try_into().expect("four bytes"));
    let kind = rest[16];
    if number(12) != head_crc(&rest[..12], kind) || kind == 0 {
        return if zeros_from(HEAD_BYTES - 1) { Step::Torn } else { Step::Damaged("wrong checksum of a record head") };
    }
    let body_bytes = number(0) as usize;
    let Some(end_mark) = rest.get(HEAD_BYTES + body_bytes) else {
        return Step::Torn;
    };
    if *end_mark != END_MARK {
        let torn = zeros_from(HEAD_BYTES + body_bytes);
        return if torn { Step::Torn } else { Step::Damaged("wrong end mark of a record") };
    }
    let body = file.slice(at + HEAD_BYTES..at + HEAD_BYTES + body_bytes);
    if number(8) != crc32fast::hash(&body) {
        return Step::Damaged("wrong checksum of a record");
    }
    match Record::decode(kind, body) {
        Ok(record) => Step::Record { group: number(4), record, bytes: OVERHEAD_BYTES + body_bytes as u64 },
        Err(_) => Step::Damaged("malformed record with a right checksum"),
    }
}
