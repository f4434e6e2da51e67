//! The door to everything outside: the network, the wall clock, work that blocks.
//!
//! Brokers, this crate included, reach these things through here and nowhere else, so that with the feature
//! `simulation` whole clusters run in one thread, in simulated time (`tests/simulation`). Timers and elapsed time come
//! from `tokio::time`, which the simulation drives; randomness comes from the operating system, which it replaces.

use std::time::SystemTime;

use tokio::task::JoinHandle;

#[cfg(not(feature = "simulation"))]
pub mod net {
    pub use tokio::net::{TcpListener, TcpStream};
}

#[cfg(feature = "simulation")]
pub mod net {
    pub use turmoil::net::{TcpListener, TcpStream};
}

/// The wall clock: for stamps, never for measuring.
pub fn now() -> SystemTime {
    #[cfg(feature = "simulation")]
    if let Some(since_epoch) = turmoil::since_epoch() {
        return SystemTime::UNIX_EPOCH + since_epoch;
    }
    SystemTime::now()
}

/// Runs what waits for a disk where nothing else waits for it.
pub fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> JoinHandle<T> {
    #[cfg(feature = "simulation")]
    return tokio::spawn(async move { work() });
    #[cfg(not(feature = "simulation"))]
    tokio::task::spawn_blocking(work)
}
