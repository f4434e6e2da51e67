//! Who asks for records, and what of them may be dealt out.

use std::sync::Arc;

use tokio::time::Instant;

use crate::admin::{ShareReset, ShareSettings};
use crate::cluster::now_ms;
use crate::index::Reader;
use crate::protocol::ErrorCode;
use crate::shard::PartitionState;
use crate::share::gather::gather;
use crate::share::reign::{Key, Reign, WAITING_MAX, Waiting};
use crate::share::wire::{Acquired, Ask, Reply, What};
use crate::types::{Offset, Partition};

/// What of a partition may be delivered now.
struct Offer {
    key: Key,
    ranges: Vec<(Offset, Offset)>,
    state: Arc<PartitionState>,
}

impl Reign {
    /// Registered before the look, so that no record that comes in between is missed.
    pub(super) fn wait(&mut self, waiting: Waiting) {
        let Waiting { ask, until, answer } = waiting;
        if answer.is_closed() {
            return;
        }
        let now = Instant::now();
        let patient = until > now && self.waiting.len() < WAITING_MAX;
        if patient {
            let (What::Acquire { partitions, .. } | What::Look { partitions, .. }) = &ask.what else { return };
            for slot in partitions.iter().filter_map(|partition| self.slot(partition).ok()) {
                self.shard.replica().wake_on_change(slot, &self.waiter, Reader::AtAnotherBroker);
            }
        }
        let reply = self.look(&ask, now);
        let enough = match &reply {
            Reply::Acquired(all) => all.iter().any(|one| one.error != 0 || !one.ranges.is_empty()),
            Reply::Ready(ready) => *ready,
            Reply::Each(_) | Reply::Described(_) => true,
        };
        if enough || !patient {
            let _ = answer.send(reply);
        } else {
            self.waiting.push(Waiting { ask, until, answer });
        }
    }

    /// Those who came first look first.
    pub(super) fn look_again(&mut self) {
        for waiting in std::mem::take(&mut self.waiting) {
            self.wait(waiting);
        }
    }

    /// Whoever has gone waits for nothing.
    pub(super) fn dismiss(&mut self, group: &str, gone: &str) {
        let is_gone = |ask: &Ask| match &ask.what {
            What::Acquire { member, .. } => member == gone && ask.group == group,
            _ => false,
        };
        self.waiting.retain(|waiting| !is_gone(&waiting.ask));
    }

    fn look(&mut self, ask: &Ask, now: Instant) -> Reply {
        let group: Arc<str> = ask.group.as_str().into();
        let settings = self.settings(&group);
        match &ask.what {
            What::Acquire { member, records_max, bytes_max, partitions, .. } => {
                let member: Arc<str> = member.as_str().into();
                let (mut records, mut bytes) = (u64::from(*records_max), *bytes_max);
                let mut all = Vec::with_capacity(partitions.len());
                for partition in partitions {
                    let mut acquired = Acquired::none(*partition);
                    match self.offer(&group, &settings, partition, records) {
                        Ok(Some(Offer { key, ranges, state })) => {
                            let first = all.iter().all(|one: &Acquired| one.ranges.is_empty());
                            let (ranges, pointers, size) = gather(&state, &ranges, bytes, first);
                            bytes = bytes.saturating_sub(size);
                            let Some(live) = self.deliveries.get_mut(&key).and_then(|kept| kept.live.as_mut()) else {
                                continue;
                            };
                            acquired.ranges = live.acquire(&member, now + settings.lock_duration, &ranges);
                            acquired.tell(pointers, &state, settings.read_committed);
                            records = records.saturating_sub(acquired.records());
                            self.reschedule(&key);
                        }
                        Ok(None) => {}
                        Err(error) => acquired.error = error.code(),
                    }
                    all.push(acquired);
                }
                Reply::Acquired(all)
            }
            What::Look { partitions, .. } => {
                let mut any = false;
                for partition in partitions {
                    any |= !matches!(self.offer(&group, &settings, partition, 1), Ok(None));
                }
                Reply::Ready(any)
            }
            _ => Reply::Each(Vec::new()),
        }
    }

    /// What of the partition may be delivered now. Where the group comes to it, delivery begins first.
    fn offer(
        &mut self,
        group: &Arc<str>,
        settings: &ShareSettings,
        partition: &Partition,
        records_max: u64,
    ) -> Result<Option<Offer>, ErrorCode> {
        let state = self.shard.replica().read(|state| state.partition(partition).cloned());
        let state = state.ok_or(ErrorCode::UnknownTopicOrPartition)?;
        let key = (state.slot, group.clone());
        self.load(&key)?;
        let Some(kept) = self.deliveries.get_mut(&key) else {
            let start = beginning(settings.reset, &state, settings.read_committed);
            self.start(&key, start, None);
            return Ok(None);
        };
        let Some(live) = &mut kept.live else { return Ok(None) };
        live.follow(state.log_start_offset);
        let limit = if settings.read_committed { state.last_stable_offset() } else { state.high_watermark };
        let offered = live.offer(limit, records_max, settings.locks_max as u64, settings.deliveries_max);
        Ok((!offered.is_empty()).then_some(Offer { key, ranges: offered, state }))
    }

    /// Delivery could not begin: whoever waits for it is told, so that it is not tried over and over here.
    pub(super) fn refuse_waiting(&mut self, key: &Key, code: ErrorCode) {
        let partition = self.shard.replica().read(|state| state.slot(key.0).map(|partition| partition.id));
        let concerns = |waiting: &Waiting| match &waiting.ask.what {
            What::Acquire { partitions, .. } | What::Look { partitions, .. } => {
                waiting.ask.group == *key.1 && partition.is_some_and(|partition| partitions.contains(&partition))
            }
            _ => false,
        };
        for Waiting { ask, until, answer } in std::mem::take(&mut self.waiting) {
            let waiting = Waiting { ask, until, answer };
            if !concerns(&waiting) {
                self.waiting.push(waiting);
                continue;
            }
            let reply = match waiting.ask.what {
                What::Acquire { partitions, .. } => {
                    let of = |at: Partition| {
                        let error = if Some(at) == partition { code.code() } else { 0 };
                        Acquired { error, ..Acquired::none(at) }
                    };
                    Reply::Acquired(partitions.into_iter().map(of).collect())
                }
                _ => Reply::Ready(true),
            };
            let _ = waiting.answer.send(reply);
        }
    }
}

/// Where a group begins that has never been here.
fn beginning(reset: ShareReset, partition: &PartitionState, committed: bool) -> Offset {
    match reset {
        ShareReset::Earliest => partition.log_start_offset,
        ShareReset::Latest if committed => partition.last_stable_offset(),
        ShareReset::Latest => partition.high_watermark,
        // Kafka begins with the record itself; which of the batch it is the leader does not see.
        ShareReset::ByDuration(age) => {
            let target = now_ms().saturating_sub(age.as_millis() as i64);
            partition.pointers.from_timestamp(target).next().map_or(partition.high_watermark, |pointer| pointer.base)
        }
    }
}
