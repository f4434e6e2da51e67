//! The interleavings that would lose, double or reorder records, each forced by a test at the lowest level that shows it.
//!
//! | hazard | file | level |
//! |---|---|---|
//! | lease expiry between two pipelined proposals | `pipeline` | shard log |
//! | a queued proposal after a re-election | `pipeline` | shard log |
//! | object 5 refused and 6 sent | `pipeline`, `late_frames` | shard log, a leader's sequencer |
//! | a duplicate through a second broker while the first is uncommitted and the leader falls | `producers`, `cut_off` | shard log, three brokers |
//! | a producer moved between brokers with five batches in flight | `producers` | shard log, one broker |
//! | sequence 0 fails while 3 and 4 are still in the socket | `uploads` | one broker |
//! | a PUT whose reply was lost, or that takes effect minutes late | `uploads` | one broker, object room |
//! | an old connection's commit read late | `late_frames` | a leader's sequencer |
//! | a broker restarts while its old epoch's uploads are in flight | `late_frames`, `uploads` | a leader's sequencer, one broker |
//! | a replica cut from its peers but not from its clients | `cut_off` | three brokers |
//! | a wiped disk under the old broker id | `directories` | three brokers |
//! | a late batch of a transaction that is over | `transactions` | shard log |
//! | a marker repeated, and delayed past the next transaction | `transactions` | shard log |
//! | a new cluster on an old bucket | `directories` | one broker, object room |
//!
//! `log` drives a shard's state without brokers: the test decides which proposals get into the log, and in which order.
//! `network` runs three brokers in this process, with a wire between them that can be cut.

mod cut_off;
mod directories;
mod late_frames;
mod log;
mod network;
mod pipeline;
mod producers;
mod transactions;
mod uploads;
