use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use futures::future::BoxFuture;
use tokio::time::Instant;

/// Work, and the time that a processor has spent on it so far: what it waits for does not count.
pub struct Timed<'a, T> {
    work: BoxFuture<'a, T>,
    spent: Duration,
}

impl<'a, T> Timed<'a, T> {
    pub fn new(work: BoxFuture<'a, T>) -> Self {
        Timed { work, spent: Duration::ZERO }
    }
}

impl<T> Future for Timed<'_, T> {
    type Output = (T, Duration);

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let begun = Instant::now();
        let done = self.work.as_mut().poll(context);
        self.spent += begun.elapsed();
        done.map(|done| (done, self.spent))
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn waiting_does_not_count() {
        let work = async {
            tokio::time::sleep(Duration::from_secs(5)).await;
            7
        };
        assert_eq!(Timed::new(work.boxed()).await, (7, Duration::ZERO));
    }
}
