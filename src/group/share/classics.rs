use crate::group;
use crate::group::classic::{self, Waiter};
use crate::group::share::coordinator::{Command, Coordinator, Then};
use crate::protocol::ErrorCode;
use crate::shard::Slot;
use crate::shard::group::Change;

impl Coordinator {
    /// What is asked in the words of the classic protocol. Nobody commits offsets here, or joins by it.
    pub fn ask_classic(&mut self, (slot, id): (Slot, &str), ask: &classic::Ask, waiter: Waiter) {
        let reply = match ask {
            classic::Ask::Join(_) => {
                let error = ErrorCode::InconsistentGroupProtocol;
                classic::Reply::JoinFailed { error, member: String::new() }
            }
            classic::Ask::Sync(_) | classic::Ask::Heartbeat(_) => classic::Reply::Failed(ErrorCode::UnknownMemberId),
            classic::Ask::Leave(leavers) => classic::Reply::Each(vec![ErrorCode::UnknownMemberId; leavers.len()]),
            classic::Ask::Commit(_) | classic::Ask::DeleteOffsets(_) => {
                classic::Reply::Failed(ErrorCode::GroupIdNotFound)
            }
            classic::Ask::Describe => classic::Reply::NotClassic,
            classic::Ask::DeleteGroup if self.has(id) => classic::Reply::Failed(ErrorCode::NonEmptyGroup),
            classic::Ask::DeleteGroup => {
                let then = Then::Answer(waiter, group::Reply::Classic(classic::Reply::Done));
                let (group, change) = (id.to_owned(), Change::Delete);
                return self.commands.push(Command::Propose { slot, group, change, then });
            }
        };
        self.commands.push(Command::Answer(waiter, group::Reply::Classic(reply)));
    }
}
