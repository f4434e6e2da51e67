//! The operating system's randomness, replaced by a sequence that the seed decides.
//!
//! Hash maps, uuids, tokio's choices, openraft's election timeouts and backoffs all draw from `getrandom` in the end. A
//! symbol of this program comes before the C library's, so every crate is covered, without a build of its own, and code
//! need not know of it.

use std::sync::atomic::{AtomicU64, Ordering};

static STATE: AtomicU64 = AtomicU64::new(0);

/// To be called before anything draws.
pub fn seed(seed: u64) {
    STATE.store(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15), Ordering::Relaxed);
}

/// SplitMix64.
fn next() -> u64 {
    let mut word = STATE.fetch_add(0x9e37_79b9_7f4a_7c15, Ordering::Relaxed);
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// # Safety
/// As getrandom(2): `buffer` has room for `len` bytes.
#[allow(unsafe_code)]
#[unsafe(no_mangle)]
unsafe extern "C" fn getrandom(buffer: *mut u8, len: usize, _flags: u32) -> isize {
    for at in 0..len {
        // SAFETY: the caller's promise.
        unsafe { buffer.add(at).write(next() as u8) };
    }
    len as isize
}
