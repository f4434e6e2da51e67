use std::collections::{HashMap, HashSet};
use std::sync::Mutex;

use crate::protocol::ErrorCode;
use crate::types::Partition;

/// Sessions at this broker (Kafka: `group.share.max.share.sessions`).
const SESSIONS_MAX: usize = 2000;
/// Partitions in one session.
const PARTITIONS_MAX: usize = 10_000;

/// A request that begins a session, and one that ends it, instead of the session's epoch.
pub(super) const INITIAL: i32 = 0;
pub(super) const FINAL: i32 = -1;

/// What members fetch from this broker, so that they need not say it again with every request (KIP-932).
#[derive(Default)]
pub(super) struct Sessions {
    all: Mutex<HashMap<Key, Session>>,
}

type Key = (String, String);

struct Session {
    /// Of the request that is to come next.
    epoch: i32,
    partitions: Vec<Partition>,
    connection: u64,
}

/// A session that is over, with what its member may still hold.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Ended {
    pub group: String,
    pub member: String,
    pub partitions: Vec<Partition>,
}

impl Sessions {
    /// Instead of the one that the member had.
    ///
    /// # Errors
    /// There are too many of them, or it is too large.
    pub fn open(&self, key: &Key, partitions: Vec<Partition>, connection: u64) -> Result<Vec<Partition>, ErrorCode> {
        let mut all = self.all.lock().expect("no holder panics");
        all.remove(key);
        if all.len() >= SESSIONS_MAX {
            return Err(ErrorCode::ShareSessionLimitReached);
        }
        let mut session = Session { epoch: 1, partitions: Vec::new(), connection };
        session.add(partitions)?;
        let wanted = session.partitions.clone();
        all.insert(key.clone(), session);
        Ok(wanted)
    }

    /// Goes on with one: what it is to fetch now, beginning with another partition each time.
    ///
    /// # Errors
    /// There is none, or it expects another epoch.
    pub fn go_on(
        &self,
        key: &Key,
        epoch: i32,
        added: Vec<Partition>,
        forgotten: &[Partition],
    ) -> Result<Vec<Partition>, ErrorCode> {
        // A request may forget more than a session has, and all sessions wait meanwhile.
        let forgotten: HashSet<&Partition> = forgotten.iter().collect();
        let mut all = self.all.lock().expect("no holder panics");
        let session = all.get_mut(key).ok_or(ErrorCode::ShareSessionNotFound)?;
        if session.epoch != epoch {
            return Err(ErrorCode::InvalidShareSessionEpoch);
        }
        session.add(added)?;
        session.partitions.retain(|partition| !forgotten.contains(partition));
        session.epoch = if epoch == i32::MAX { 1 } else { epoch + 1 };
        let mut wanted = session.partitions.clone();
        if !wanted.is_empty() {
            let turn = epoch as usize % wanted.len();
            wanted.rotate_left(turn);
        }
        Ok(wanted)
    }

    /// # Errors
    /// There is none.
    pub fn close(&self, key: &Key) -> Result<Ended, ErrorCode> {
        let mut all = self.all.lock().expect("no holder panics");
        let session = all.remove(key).ok_or(ErrorCode::ShareSessionNotFound)?;
        Ok(Ended::of(key, session))
    }

    /// Those that were begun on a connection that is closed now.
    pub fn of_connection(&self, connection: u64) -> Vec<Ended> {
        let mut all = self.all.lock().expect("no holder panics");
        let over = all.extract_if(|_, session| session.connection == connection);
        over.map(|(key, session)| Ended::of(&key, session)).collect()
    }
}

impl Session {
    fn add(&mut self, partitions: Vec<Partition>) -> Result<(), ErrorCode> {
        let known: HashSet<Partition> = self.partitions.iter().copied().collect();
        self.partitions.extend(partitions.into_iter().filter(|partition| !known.contains(partition)));
        if self.partitions.len() > PARTITIONS_MAX {
            self.partitions.truncate(PARTITIONS_MAX);
            return Err(ErrorCode::InvalidRequest);
        }
        Ok(())
    }
}

impl Ended {
    fn of(key: &Key, session: Session) -> Ended {
        Ended { group: key.0.clone(), member: key.1.clone(), partitions: session.partitions }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::types::TopicId;

    fn at(index: i32) -> Partition {
        Partition { topic: TopicId::ZERO, index }
    }

    fn key(member: &str) -> Key {
        ("g".into(), member.into())
    }

    #[test]
    fn a_session_knows_what_its_member_wants_and_turns_it() {
        let sessions = Sessions::default();
        assert_eq!(sessions.go_on(&key("a"), 1, vec![], &[]), Err(ErrorCode::ShareSessionNotFound));
        assert_eq!(sessions.open(&key("a"), vec![at(0), at(1)], 7), Ok(vec![at(0), at(1)]));
        assert_eq!(sessions.go_on(&key("a"), 1, vec![at(1), at(2)], &[]), Ok(vec![at(1), at(2), at(0)]));
        assert_eq!(sessions.go_on(&key("a"), 1, vec![], &[]), Err(ErrorCode::InvalidShareSessionEpoch));
        assert_eq!(sessions.go_on(&key("a"), 2, vec![], &[at(0), at(2)]), Ok(vec![at(1)]));
        assert_eq!(sessions.close(&key("a")).map(|ended| ended.partitions), Ok(vec![at(1)]));
        assert_eq!(sessions.close(&key("a")), Err(ErrorCode::ShareSessionNotFound));
    }

    #[test]
    fn sessions_end_with_their_connection_and_are_so_many_at_most() {
        let sessions = Sessions::default();
        for member in 0..SESSIONS_MAX {
            sessions.open(&key(&member.to_string()), vec![at(0)], member as u64 % 2).unwrap();
        }
        assert_eq!(sessions.open(&key("b"), vec![], 0), Err(ErrorCode::ShareSessionLimitReached));
        assert!(sessions.open(&key("0"), vec![], 1).is_ok(), "instead of the one it had");
        assert_eq!(sessions.of_connection(0).len(), SESSIONS_MAX / 2 - 1);
        assert_eq!(sessions.of_connection(0), []);
        assert!(sessions.open(&key("b"), vec![], 0).is_ok());
    }
}
