use crate::group::classic::Waiter;
use crate::shard::Slot;
use crate::shard::group::Change;

/// What a state machine of groups wants its shell to do.
#[derive(Debug, Clone, PartialEq)]
pub enum Command<Reply, Then> {
    Answer(Waiter, Reply),
    /// Have the log decide on it, in the order of the commands, and say so to the state machine's `decided`.
    Propose {
        slot: Slot,
        group: String,
        change: Change,
        /// What becomes of the group when the log has decided.
        then: Then,
    },
}

impl<Reply, Then> Command<Reply, Then> {
    /// As one of a state machine that this one is part of.
    pub fn map<R, T>(self, reply_of: impl Fn(Reply) -> R, then_of: impl Fn(Then) -> T) -> Command<R, T> {
        match self {
            Command::Answer(waiter, reply) => Command::Answer(waiter, reply_of(reply)),
            Command::Propose { slot, group, change, then } => {
                Command::Propose { slot, group, change, then: then_of(then) }
            }
        }
    }
}
