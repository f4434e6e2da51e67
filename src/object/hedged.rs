use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};

use futures::future::{Either, select};
use prometheus_client::metrics::counter::Counter;
use prometheus_client::registry::Registry;
use tokio::time::{Instant, timeout};

use super::Error;
use super::hedge::{Policy, Settings};

/// Sends requests of one kind, and a second one beside each that takes too long. Clones share budget and counts.
#[derive(Debug, Clone)]
pub struct Hedger {
    policy: Arc<Mutex<Policy>>,
    pub counts: Counts,
}

/// Clones share the counts.
#[derive(Debug, Clone, Default)]
pub struct Counts {
    /// Second requests.
    pub sent: Counter,
    /// Those that were answered before the first.
    pub won: Counter,
    /// Second requests that the budget forbade.
    pub refused: Counter,
}

impl Counts {
    /// Under the name of what is requested, such as `put`.
    pub fn register(&self, registry: &mut Registry, request: &str) {
        let name = |what: &str| format!("{request}_hedges_{what}");
        registry.register(name("sent"), format!("Second requests beside a slow {request}"), self.sent.clone());
        registry.register(name("won"), "Those that were answered first", self.won.clone());
        registry.register(name("refused"), "Second requests that the budget forbade", self.refused.clone());
    }
}

impl Hedger {
    pub fn new(settings: Settings) -> Hedger {
        Hedger { policy: Arc::new(Mutex::new(Policy::new(settings))), counts: Counts::default() }
    }

    /// Awaits `first`, and `second` beside it once it takes longer than most and the budget allows. The first success is
    /// the answer, and the other request is dropped, wherever it is by then. An error of `second` alone is nobody's.
    ///
    /// # Errors
    /// Those of `first`: at once before there is a second request, or when repeating would not help.
    pub async fn run<T, B: Future<Output = Result<T, Error>>>(
        &self,
        first: impl Future<Output = Result<T, Error>>,
        second: impl FnOnce() -> B,
    ) -> Result<T, Error> {
        let started = Instant::now();
        let delay = self.policy().start();
        let mut first = pin!(first);
        let answer = match timeout(delay, &mut first).await {
            Ok(answer) => answer,
            Err(_) if !self.policy().may_repeat() => {
                self.counts.refused.inc();
                first.await
            }
            Err(_) => {
                self.counts.sent.inc();
                match select(first, pin!(second())).await {
                    Either::Left((Err(error), second)) if error.is_transient() => {
                        let answer = second.await.map_err(|_| error);
                        self.counts.won.inc_by(answer.is_ok().into());
                        answer
                    }
                    Either::Left((answer, _)) => answer,
                    Either::Right((Ok(answer), _)) => {
                        self.counts.won.inc();
                        Ok(answer)
                    }
                    Either::Right((Err(_), first)) => first.await,
                }
            }
        };
        if answer.is_ok() {
            self.policy().end(started.elapsed());
        }
        answer
    }

    fn policy(&self) -> MutexGuard<'_, Policy> {
        self.policy.lock().expect("no holder panics")
    }
}

#[cfg(test)]
#[path = "hedged_test.rs"]
mod tests;
