//! Batches that the log need not tell apart.

use crate::commit::{Error, Reply};
use crate::shard::{Batch, Part, Verdict};

/// Those who wait for one batch of a submission: it may be several of clients', back to back, which share its fate.
pub(super) struct Run(Vec<Member>);

struct Member {
    /// Offsets of the run that come before it.
    after: u32,
    reply: Reply,
}

impl Run {
    pub fn answer(self, result: Result<Verdict, Error>) {
        for Member { after, reply } in self.0 {
            let own = result.map(|verdict| match verdict {
                Verdict::Appended { base, append_time } => {
                    Verdict::Appended { base: base + i64::from(after), append_time }
                }
                other => other,
            });
            reply.send(own);
        }
    }
}

/// Makes one batch of those of a partition that lie back to back and claim no sequences: nobody asks for them again one
/// by one, and their pointers would be joined anyhow. `replies` are one per batch, in order, and so are the runs.
pub(super) fn join(parts: Vec<Part>, replies: Vec<Reply>) -> (Vec<Part>, Vec<Run>) {
    let (mut replies, mut runs) = (replies.into_iter(), Vec::new());
    let parts = parts.into_iter().map(|part| {
        let mut batches: Vec<Batch> = Vec::new();
        for (batch, reply) in part.batches.into_iter().zip(&mut replies) {
            let longer = batches.last().and_then(|last| Some((last.span, joined(last, &batch)?)));
            match longer {
                Some((after, longer)) => {
                    *batches.last_mut().expect("found above") = longer;
                    let Run(members) = runs.last_mut().expect("one for each batch");
                    members.push(Member { after, reply });
                }
                None => {
                    batches.push(batch);
                    runs.push(Run(vec![Member { after: 0, reply }]));
                }
            }
        }
        Part { batches, ..part }
    });
    (parts.collect(), runs)
}

fn joined(batch: &Batch, next: &Batch) -> Option<Batch> {
    if batch.sequence.is_some() || next.sequence.is_some() {
        return None;
    }
    Some(Batch {
        len: batch.len.checked_add(next.len)?,
        span: batch.span.checked_add(next.span)?,
        max_timestamp: batch.max_timestamp.max(next.max_timestamp),
        ..*batch
    })
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::commit::Underway;
    use crate::shard::{Refusal, Sequence};
    use crate::types::Producer;

    fn batch(len: u32, span: u32, max_timestamp: i64) -> Batch {
        Batch { len, span, max_timestamp, sequence: None }
    }

    fn claimed(base: i32) -> Batch {
        let producer = Producer { id: 7, epoch: 0 };
        Batch { sequence: Some(Sequence { producer, base, transaction: None }), ..batch(10, 1, 0) }
    }

    #[test]
    fn batches_back_to_back_are_one_and_each_gets_its_own_offset() {
        let part = |slot, start, batches| Part { slot, start, batches };
        let parts = vec![
            part(
                3,
                0,
                vec![batch(100, 2, 50), batch(30, 5, 40), batch(7, 1, 60), claimed(0), claimed(1), batch(9, 1, 1)],
            ),
            part(4, 156, vec![batch(11, 3, 9)]),
        ];
        let ticket = Arc::new(Underway::default()).enter();
        let (replies, mut answers): (Vec<_>, Vec<_>) = (0..7).map(|_| Reply::awaited(&ticket)).unzip();
        let (joined, runs) = join(parts, replies);
        let expected = vec![
            part(3, 0, vec![batch(137, 8, 60), claimed(0), claimed(1), batch(9, 1, 1)]),
            part(4, 156, vec![batch(11, 3, 9)]),
        ];
        assert_eq!(joined, expected);
        let appended = |base| Ok(Verdict::Appended { base, append_time: None });
        let refused = Ok(Verdict::Refused(Refusal::UnknownPartition));
        let verdicts = [appended(1000), appended(1008), appended(1009), appended(1010), refused];
        assert_eq!(runs.len(), verdicts.len());
        runs.into_iter().zip(verdicts).for_each(|(run, verdict)| run.answer(verdict));
        let got: Vec<_> = answers.iter_mut().map(|answer| answer.try_recv().unwrap()).collect();
        let own =
            [appended(1000), appended(1002), appended(1007), appended(1008), appended(1009), appended(1010), refused];
        assert_eq!(got, own);
    }

    #[test]
    fn what_would_not_fit_is_not_joined() {
        assert_eq!(joined(&batch(u32::MAX, 1, 0), &batch(1, 1, 0)), None);
        assert_eq!(joined(&batch(1, u32::MAX, 0), &batch(1, 1, 0)), None);
    }
}
