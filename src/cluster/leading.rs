use milepost_raft::Leadership;
use tokio::sync::watch;
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

/// Ends the work with the reign it was begun in: what the next leader has finished is not begun again here.
pub(super) async fn while_leading<T>(
    mut leadership: watch::Receiver<Leadership>,
    term: u64,
    work: impl Future<Output = T>,
) -> Option<T> {
    tokio::select! {
        biased;
        _ = leadership.wait_for(|now| now.term != term || !now.ready) => None,
        done = work => Some(done),
    }
}

#[cfg(test)]
mod tests {
    use std::future::{pending, ready};
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

    #[tokio::test]
    async fn work_ends_with_its_reign() {
        let at = |term, ready| Leadership { term, leader: Some(1), ready };
        let (change, leadership) = watch::channel(at(1, true));
        assert_eq!(while_leading(leadership.clone(), 1, ready(7)).await, Some(7));
        assert_eq!(while_leading(leadership.clone(), 2, ready(7)).await, None);
        let work = while_leading(leadership, 1, pending::<()>());
        let (ended, ()) = tokio::join!(work, async { change.send_modify(|now| now.ready = false) });
        assert_eq!(ended, None);
    }
}
