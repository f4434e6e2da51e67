//! What is asked of a group, and what is told, whichever protocol its members speak.

use crate::group::{classic, consumer, share};
use crate::protocol::ErrorCode;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    Classic(classic::Ask),
    Consumer(consumer::Ask),
    Share(share::Ask),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Classic(classic::Reply),
    Consumer(consumer::Reply),
    Share(share::Reply),
}

impl From<classic::Ask> for Ask {
    fn from(ask: classic::Ask) -> Ask {
        Ask::Classic(ask)
    }
}

impl From<consumer::Ask> for Ask {
    fn from(ask: consumer::Ask) -> Ask {
        Ask::Consumer(ask)
    }
}

impl From<share::Ask> for Ask {
    fn from(ask: share::Ask) -> Ask {
        Ask::Share(ask)
    }
}

impl Reply {
    /// As whoever asks in the words of the classic protocol, or of neither, understands it.
    pub fn into_classic(self) -> classic::Reply {
        match self {
            Reply::Classic(reply) => reply,
            Reply::Consumer(consumer::Reply::Failed { error, .. }) => classic::Reply::Failed(error),
            Reply::Share(share::Reply::Failed { error, .. }) => classic::Reply::Failed(error),
            Reply::Consumer(_) | Reply::Share(_) => classic::Reply::Failed(ErrorCode::UnknownServerError),
        }
    }

    pub fn into_consumer(self) -> consumer::Reply {
        match self {
            Reply::Consumer(reply) => reply,
            Reply::Classic(classic::Reply::Failed(error)) => consumer::Reply::failed(error, String::new()),
            Reply::Classic(_) | Reply::Share(_) => {
                consumer::Reply::failed(ErrorCode::UnknownServerError, String::new())
            }
        }
    }

    pub fn into_share(self) -> share::Reply {
        match self {
            Reply::Share(reply) => reply,
            Reply::Classic(classic::Reply::Failed(error)) => share::Reply::failed(error, String::new()),
            Reply::Classic(_) | Reply::Consumer(_) => {
                share::Reply::failed(ErrorCode::UnknownServerError, String::new())
            }
        }
    }
}
