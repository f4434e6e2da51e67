//! What is asked of a group, and what is told, whichever protocol its members speak.

use crate::group::{classic, consumer};
use crate::protocol::ErrorCode;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ask {
    Classic(classic::Ask),
    Consumer(consumer::Ask),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reply {
    Classic(classic::Reply),
    Consumer(consumer::Reply),
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

impl Reply {
    /// As whoever asks in the words of the classic protocol, or of neither, understands it.
    pub fn into_classic(self) -> classic::Reply {
        match self {
            Reply::Classic(reply) => reply,
            Reply::Consumer(consumer::Reply::Failed { error, .. }) => classic::Reply::Failed(error),
            Reply::Consumer(_) => classic::Reply::Failed(ErrorCode::UnknownServerError),
        }
    }

    pub fn into_consumer(self) -> consumer::Reply {
        match self {
            Reply::Consumer(reply) => reply,
            Reply::Classic(classic::Reply::Failed(error)) => consumer::Reply::failed(error, String::new()),
            Reply::Classic(_) => consumer::Reply::failed(ErrorCode::UnknownServerError, String::new()),
        }
    }
}
