use std::sync::{Arc, Mutex};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

/// One answer takes at most this part of the budget, so that no reader can have it all.
const ANSWER_SHARE: usize = 4;

/// Memory of answers, beside that of requests.
///
/// An answer that its reader does not take at once moves to a part of its own, which is given without waiting or not at
/// all: so what ordinary readers wait for comes back within about a second, however many slow ones there are.
#[derive(Debug)]
pub struct Answers {
    bytes_max: usize,
    ordinary: Arc<Semaphore>,
    /// Of the ordinary ones, what readers far behind may take: their bytes come from the store, which may be slow.
    catching_up: Arc<Semaphore>,
    slow: Arc<Semaphore>,
}

impl Answers {
    /// Half as much again for slow readers.
    pub fn new(bytes_max: usize) -> Arc<Answers> {
        let bytes_max = bytes_max.clamp(ANSWER_SHARE, u32::MAX as usize);
        let half = || Arc::new(Semaphore::new(bytes_max / 2));
        let ordinary = Arc::new(Semaphore::new(bytes_max));
        Arc::new(Answers { bytes_max, ordinary, catching_up: half(), slow: half() })
    }

    fn share(&self, bytes: usize) -> u32 {
        bytes.min(self.bytes_max / ANSWER_SHARE) as u32
    }
}

/// What one answer holds of the budget, from before its bytes are gathered until they are written. Clones share it.
#[derive(Debug, Clone)]
pub struct AnswerMemory {
    answers: Arc<Answers>,
    held: Arc<Mutex<Held>>,
}

#[derive(Debug, Default)]
struct Held {
    bytes: u32,
    ordinary: Option<OwnedSemaphorePermit>,
    catching_up: Option<OwnedSemaphorePermit>,
    slow: Option<OwnedSemaphorePermit>,
}

impl AnswerMemory {
    pub fn new(answers: &Arc<Answers>) -> AnswerMemory {
        AnswerMemory { answers: answers.clone(), held: Arc::default() }
    }

    /// Waits its turn for `bytes`, once for an answer, and says how many may be gathered: fewer where they would be too large a part of all.
    pub async fn take(&self, bytes: usize, catches_up: bool) -> usize {
        const OPEN: &str = "our semaphores are never closed";
        let share = self.answers.share(bytes);
        let catching_up = match catches_up {
            true => Some(self.answers.catching_up.clone().acquire_many_owned(share).await.expect(OPEN)),
            false => None,
        };
        let ordinary = Some(self.answers.ordinary.clone().acquire_many_owned(share).await.expect(OPEN));
        *self.held() = Held { bytes: share, ordinary, catching_up, slow: None };
        share as usize
    }

    /// Once it is known how many bytes there are: gives back what is not needed, or takes what lacks. False when that
    /// is not there; the answer then must be made smaller.
    pub fn settle(&self, bytes: usize) -> bool {
        let wanted = self.answers.share(bytes);
        let mut held = self.held();
        if wanted > held.bytes {
            let lacks = wanted - held.bytes;
            let Ok(more) = self.answers.ordinary.clone().try_acquire_many_owned(lacks) else { return false };
            match &mut held.ordinary {
                Some(ordinary) => ordinary.merge(more),
                none => *none = Some(more),
            }
        }
        let surplus = held.bytes.saturating_sub(wanted) as usize;
        let Held { ordinary, catching_up, .. } = &mut *held;
        for permit in [ordinary, catching_up].into_iter().flatten() {
            drop(permit.split(surplus.min(permit.num_permits())));
        }
        held.bytes = wanted;
        true
    }

    /// Whether room for an answer was asked for already.
    pub fn is_taken(&self) -> bool {
        self.held().bytes > 0
    }

    /// The reader is slow. False when there are too many of its kind.
    pub fn turn_slow(&self) -> bool {
        let mut held = self.held();
        if held.slow.is_none() {
            let bytes = held.bytes.min(self.answers.bytes_max as u32 / 2);
            let Ok(slow) = self.answers.slow.clone().try_acquire_many_owned(bytes) else { return false };
            *held = Held { bytes, slow: Some(slow), ..Held::default() };
        }
        true
    }

    fn held(&self) -> std::sync::MutexGuard<'_, Held> {
        self.held.lock().expect("no holder panics")
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt;

    use super::*;

    #[tokio::test]
    async fn slow_readers_give_back_what_others_wait_for() {
        let answers = Answers::new(400);
        let held: Vec<_> = (0..4).map(|_| AnswerMemory::new(&answers)).collect();
        for one in &held {
            assert_eq!(one.take(1000, false).await, 100);
        }
        let next = AnswerMemory::new(&answers);
        assert!(next.take(50, false).now_or_never().is_none());
        assert!(held[0].turn_slow() && held[1].turn_slow());
        assert!(!held[2].turn_slow(), "the slow ones' part is used up");
        assert_eq!(next.take(50, false).await, 50);
        drop(held);
        assert_eq!(answers.slow.available_permits(), 200);
    }

    #[tokio::test]
    async fn those_who_catch_up_leave_room() {
        let answers = Answers::new(400);
        let held: Vec<_> = (0..2).map(|_| AnswerMemory::new(&answers)).collect();
        for one in &held {
            one.take(100, true).await;
        }
        assert!(AnswerMemory::new(&answers).take(1, true).now_or_never().is_none());
        assert_eq!(AnswerMemory::new(&answers).take(100, false).await, 100);
    }

    #[tokio::test]
    async fn what_was_taken_too_much_comes_back() {
        let answers = Answers::new(400);
        let memory = AnswerMemory::new(&answers);
        memory.take(100, true).await;
        assert!(memory.settle(10));
        assert_eq!((answers.ordinary.available_permits(), answers.catching_up.available_permits()), (390, 190));
        assert!(memory.settle(60));
        assert_eq!(answers.ordinary.available_permits(), 340);
        drop(memory);
        assert_eq!(answers.ordinary.available_permits(), 400);
    }
}
