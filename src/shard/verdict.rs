use serde::{Deserialize, Serialize};

use crate::shard::producer::Held;
use crate::types::{ObjectId, Offset, Timestamp};

/// What the log decided about one batch. The same on every replica, for ever.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Verdict {
    #[serde(rename = "a")]
    Appended {
        base: Offset,
        /// The records' timestamp where the topic stamps them on append.
        append_time: Option<Timestamp>,
    },
    /// The batch was appended before, at `base`: success for its sender.
    #[serde(rename = "d")]
    Duplicate {
        base: Offset,
        /// As above.
        #[serde(default)]
        append_time: Option<Timestamp>,
    },
    /// Waits for an earlier sequence of its producer; decided later.
    #[serde(rename = "h")]
    Held,
    #[serde(rename = "r")]
    Refused(Refusal),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub enum Refusal {
    /// Not in this shard: never created here, or deleted.
    #[serde(rename = "p")]
    UnknownPartition,
    #[serde(rename = "e")]
    StaleProducerEpoch,
    /// The predecessor was definitely never appended.
    #[serde(rename = "o")]
    OutOfOrderSequence,
    #[serde(rename = "d")]
    DuplicateSequence,
    /// The predecessor did not come in time: a retry may find it.
    #[serde(rename = "g")]
    SequenceGap,
    /// The object's verdicts are no longer remembered: a retry decides anew.
    #[serde(rename = "f")]
    Forgotten,
    /// Not of the transaction that is open, or of one that is over.
    #[serde(rename = "t")]
    WrongTransaction,
    /// A marker of a coordinator that has been followed by another; a decision in an epoch of delivery that is over.
    #[serde(rename = "c")]
    StaleCoordinator,
}

/// What became of an object as a whole.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// In its turn: one verdict per batch, in the object's order.
    Taken(Vec<Verdict>),
    /// Out of turn: `last` is the newest sequence of this broker epoch that the shard has.
    OutOfTurn { last: u64 },
    /// Its broker epoch or sequence is below the fence, or (a coordinator's decision) its term is over: never again.
    Fenced,
    /// Of markers, one for each partition: it is over there. Of a leader's decisions for share groups, one for each.
    Marked(Vec<Result<(), Refusal>>),
    /// Of a commit within a transaction: not taken.
    Refused(Refusal),
}

/// A held batch got its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Released {
    pub object: ObjectId,
    pub batch_index: u32,
    pub verdict: Verdict,
}

impl Released {
    pub(super) fn of(held: &Held, verdict: Verdict) -> Self {
        Released { object: held.object_id(), batch_index: held.batch_index, verdict }
    }
}
