use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use openraft::SnapshotPolicy;

use crate::{Error, GroupId, NodeId};

/// Who this node is. Sent in every handshake and written into every log file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Identity {
    pub cluster_id: String,
    pub node_id: NodeId,
}

/// Settings of one node. [`Config::new`] gives the defaults.
#[derive(Clone, Debug)]
pub struct Config {
    /// Where to listen; port 0 asks the system for one ([`crate::Node::listen_addr`] tells which).
    pub listen: SocketAddr,
    /// What other nodes dial. Empty: the real listen address.
    pub advertise: String,
    pub data_dir: PathBuf,
    /// This node has run before, so its log must be there. A node that starts over under its old id could vote twice
    /// in a term and has forgotten what it acknowledged.
    pub must_exist: bool,
    /// Time between beats of a leader; all groups of a node beat together.
    pub heartbeat: Duration,
    pub election_min: Duration,
    /// Also the leader lease: a follower starts an election `election_max + random(election_min..election_max)` after
    /// the last beat.
    pub election_max: Duration,
    /// Beats and their answers may wait this long for company on the wire.
    pub beat_hold: Duration,
    /// A snapshot is built after this many entries …
    pub snapshot_entries: u64,
    /// … or this many bytes of entries, whichever comes first.
    pub snapshot_log_bytes: u64,
    /// Entries kept in the log behind a snapshot, for followers that are a little late.
    pub kept_entries: u64,
    /// … but no more bytes of them than this.
    pub kept_log_bytes: u64,
    /// A log file is closed when it reaches this size.
    pub segment_bytes: u64,
    /// Largest body of one request, answer or proposal.
    pub body_bytes_max: usize,
    /// Bytes waiting for one peer; more is refused as unreachable.
    pub peer_queue_bytes_max: usize,
    /// Bytes waiting for the log writer; more waits.
    pub log_queue_bytes_max: usize,
    /// Requests of one connection handled at the same time.
    pub inbound_requests_max: usize,
    /// Connections accepted at the same time.
    pub connections_max: usize,
    /// A connection with unanswered requests and no byte received for so long is closed.
    pub progress_timeout: Duration,
    pub connect_timeout: Duration,
    /// One snapshot transfer, from the message to the end of the install.
    pub install_timeout: Duration,
    /// A learner within this many entries of the leader's last is caught up.
    pub caught_up_entries: u64,
    /// Bound on handing leadership over in [`crate::Node::shutdown`].
    pub shutdown_timeout: Duration,
}

impl Config {
    pub fn new(listen: SocketAddr, data_dir: impl Into<PathBuf>) -> Self {
        Config {
            listen,
            advertise: String::new(),
            data_dir: data_dir.into(),
            must_exist: false,
            heartbeat: Duration::from_millis(150),
            election_min: Duration::from_millis(300),
            election_max: Duration::from_millis(400),
            beat_hold: Duration::from_millis(5),
            snapshot_entries: 20_000,
            snapshot_log_bytes: 64 << 20,
            kept_entries: 5_000,
            kept_log_bytes: 64 << 20,
            segment_bytes: 64 << 20,
            body_bytes_max: 64 << 20,
            peer_queue_bytes_max: 128 << 20,
            log_queue_bytes_max: 128 << 20,
            inbound_requests_max: 1_024,
            connections_max: 1_024,
            progress_timeout: Duration::from_secs(2),
            connect_timeout: Duration::from_secs(1),
            install_timeout: Duration::from_secs(60),
            caught_up_entries: 1_000,
            shutdown_timeout: Duration::from_secs(5),
        }
    }

    /// # Errors
    /// [`Error::Config`] says which setting contradicts which.
    pub fn validate(&self) -> Result<(), Error> {
        let refuse = |why: &str| Err(Error::Config(why.to_owned()));
        if self.heartbeat < Duration::from_millis(10) {
            return refuse("heartbeat is below 10 ms");
        }
        if self.election_min < self.heartbeat * 2 || self.election_max <= self.election_min {
            return refuse("election times need 2 x heartbeat <= election_min < election_max");
        }
        if self.beat_hold > self.heartbeat / 4 {
            return refuse("beat_hold is above a quarter of heartbeat");
        }
        if self.body_bytes_max < 4_096 || self.body_bytes_max > 1 << 30 {
            return refuse("body_bytes_max is outside 4 KiB..1 GiB");
        }
        if self.peer_queue_bytes_max < self.body_bytes_max || self.log_queue_bytes_max < self.body_bytes_max {
            return refuse("a queue cannot hold one body of body_bytes_max");
        }
        if self.log_queue_bytes_max > 1 << 31 || self.segment_bytes < 4_096 || self.snapshot_entries == 0 {
            return refuse("log_queue_bytes_max, segment_bytes or snapshot_entries is out of range");
        }
        Ok(())
    }

    pub(crate) fn for_openraft(&self, group: GroupId) -> Result<openraft::Config, Error> {
        let millis = |duration: Duration| u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
        let (heartbeat, election_min) = (millis(self.heartbeat), millis(self.election_min));
        // openraft asks for heartbeat + suppression + one tick (13/64 of a heartbeat) below the shortest election.
        let room = election_min.saturating_sub(heartbeat + heartbeat * 13 / 64 + 1);
        let raft = openraft::Config {
            cluster_name: format!("group-{group}"),
            heartbeat_interval: heartbeat,
            // Every group would beat at moments of its own: see `beats`.
            enable_heartbeat: false,
            // Beats to a follower that has just acknowledged entries are left out.
            heartbeat_min_interval: Some(heartbeat.min(room.saturating_sub(1))),
            election_timeout_min: election_min,
            election_timeout_max: millis(self.election_max),
            enable_pre_vote: Some(true),
            quorum_loss_probe_interval: Some(millis(self.election_max) * 4),
            // A restarted leader must not go on in its old term: what depended on that term lived in memory.
            enable_leader_restore: Some(false),
            max_payload_entries: 1_024,
            snapshot_policy: SnapshotPolicy::Never,
            max_in_snapshot_log_to_keep: self.kept_entries,
            purge_batch_size: (self.kept_entries / 8).clamp(1, 256),
            replication_lag_threshold: self.caught_up_entries,
            install_snapshot_timeout: millis(self.install_timeout),
            api_channel_size: Some(4_096),
            broadcast_submitted_on_append: Some(true),
            backoff: "50ms 100ms 200ms 500ms".into(),
            ..openraft::Config::default()
        };
        raft.validate().map_err(|why| Error::Config(why.to_string()))
    }
}
