use milepost_raft::Leadership;
use tokio::time::Instant;

/// Since when this node leads a group, in one term: another term is another reign, however short the one between.
#[derive(Debug, Default)]
pub(super) struct Leading {
    reign: Option<(u64, Instant)>,
}

impl Leading {
    /// `None` when it does not lead, or cannot act as the leader yet.
    pub fn since(&mut self, now: Leadership, clock: Instant) -> Option<Instant> {
        if !now.ready {
            self.reign = None;
            return None;
        }
        match self.reign {
            Some((term, since)) if term == now.term => Some(since),
            _ => Some(self.reign.insert((now.term, clock)).1),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[test]
    fn a_new_term_is_a_new_reign() {
        let mut leading = Leading::default();
        let at = |term, ready| Leadership { term, leader: Some(1), ready };
        let start = Instant::now();
        let later = start + Duration::from_secs(5);
        assert_eq!(leading.since(at(1, true), start), Some(start));
        assert_eq!(leading.since(at(1, true), later), Some(start));
        // Lost and won again while nobody looked.
        assert_eq!(leading.since(at(3, true), later), Some(later));
        assert_eq!(leading.since(at(3, false), later), None);
    }
}
