use std::time::Duration;

use rand::Rng;
use tokio::time::{Instant, sleep_until, timeout_at};

use super::Error;

const PAUSE_FIRST: Duration = Duration::from_millis(20);
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// Pauses that double up to a second, each cut by a random part so that many callers do not come back as one.
pub struct Backoff {
    pause: Duration,
}

impl Backoff {
    pub fn new() -> Self {
        Backoff { pause: PAUSE_FIRST }
    }

    /// Waits, but never past the deadline; false when there is no time for another try.
    pub async fn wait(&mut self, deadline: Instant) -> bool {
        let until = Instant::now() + self.pause.mul_f64(rand::rng().random_range(0.5..=1.0));
        self.pause = (self.pause * 2).min(PAUSE_MAX);
        sleep_until(until.min(deadline)).await;
        until < deadline
    }
}

/// Repeats an operation that is harmless to repeat while its error is transient, up to `attempts_max` times and
/// never past the deadline.
///
/// # Errors
/// The last error; [`Error::Unknown`] when the deadline cut an attempt off.
pub async fn repeat<T, F: Future<Output = Result<T, Error>>>(
    operation: &'static str,
    attempts_max: u32,
    deadline: Instant,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Error> {
    let mut backoff = Backoff::new();
    for _ in 1..attempts_max {
        match within(operation, deadline, attempt()).await {
            Err(error) if error.is_transient() => {
                if !backoff.wait(deadline).await {
                    return Err(error);
                }
            }
            verdict => return verdict,
        }
    }
    within(operation, deadline, attempt()).await
}

/// Cuts one attempt off at the deadline; what it did is then unknown.
pub async fn within<T>(
    operation: &'static str,
    deadline: Instant,
    attempt: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    timeout_at(deadline, attempt).await.unwrap_or_else(|_| Err(Error::unknown(operation, "no answer in time")))
}
