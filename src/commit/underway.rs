//! ▲ Whether what came before a moment is settled, without a record of what it was.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use tokio::sync::{oneshot, watch};

use crate::commit::Error;
use crate::shard::Verdict;

/// Requests of producers that are on their way through this broker, told apart only by the questions they came between.
#[derive(Default)]
pub struct Underway {
    times: Mutex<Times>,
    /// The time of the oldest ticket, or the present one if there is none.
    oldest: watch::Sender<u64>,
}

/// Counted in questions: each begins a new time.
#[derive(Default)]
struct Times {
    present: u64,
    tickets: BTreeMap<u64, usize>,
}

/// Held by everything that came with one request, until all of it is settled. A cheap clone.
#[derive(Clone)]
pub struct Ticket {
    _held: Arc<Held>,
}

struct Held {
    time: u64,
    underway: Arc<Underway>,
}

impl Underway {
    /// A request has come.
    pub fn enter(self: &Arc<Self>) -> Ticket {
        let mut times = self.times.lock().expect("no holder panics");
        let time = times.present;
        *times.tickets.entry(time).or_default() += 1;
        Ticket { _held: Arc::new(Held { time, underway: self.clone() }) }
    }

    /// Ends when every ticket that there is now, when this is called, is given back.
    pub fn settled(&self) -> impl Future<Output = ()> + Send + use<> {
        let now = {
            let mut times = self.times.lock().expect("no holder panics");
            times.present += 1;
            self.publish(&times);
            times.present
        };
        let mut oldest = self.oldest.subscribe();
        async move {
            // The broker that is gone has nothing on its way.
            let _ = oldest.wait_for(|oldest| *oldest >= now).await;
        }
    }

    fn publish(&self, times: &Times) {
        self.oldest.send_replace(times.tickets.keys().next().copied().unwrap_or(times.present));
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let mut times = self.underway.times.lock().expect("no holder panics");
        let left = times.tickets.get_mut(&self.time).expect("entered once, given back once");
        *left -= 1;
        if *left == 0 {
            times.tickets.remove(&self.time);
            self.underway.publish(&times);
        }
    }
}

pub type Waiting = oneshot::Receiver<Result<Verdict, Error>>;

/// Somebody waits for the verdict of one batch.
pub struct Reply {
    verdict: oneshot::Sender<Result<Verdict, Error>>,
    _ticket: Ticket,
}

impl Reply {
    pub fn awaited(ticket: &Ticket) -> (Reply, Waiting) {
        let (verdict, waiting) = oneshot::channel();
        (Reply { verdict, _ticket: ticket.clone() }, waiting)
    }

    pub fn send(self, result: Result<Verdict, Error>) {
        // A producer that has gone away asks again elsewhere.
        let _ = self.verdict.send(result);
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[test]
    fn what_came_before_a_question_is_waited_for_and_nothing_else() {
        let underway = Arc::new(Underway::default());
        assert!(underway.settled().now_or_never().is_some());
        let (first, waiting) = Reply::awaited(&underway.enter());
        let mut early = Box::pin(underway.settled());
        let between = underway.enter();
        let mut late = Box::pin(underway.settled());
        let after = underway.enter();
        assert!(early.as_mut().now_or_never().is_none() && late.as_mut().now_or_never().is_none());
        // The later question waits for the older request as well.
        drop(between.clone());
        drop(between);
        assert!(late.as_mut().now_or_never().is_none());
        // The producer is gone; its batch is not.
        drop(waiting);
        assert!(early.as_mut().now_or_never().is_none());
        first.send(Err(Error::Unknown));
        assert!(early.now_or_never().is_some() && late.now_or_never().is_some());
        drop(after);
        assert!(underway.settled().now_or_never().is_some());
        assert!(underway.times.lock().unwrap().tickets.is_empty());
    }
}
