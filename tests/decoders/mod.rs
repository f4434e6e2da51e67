//! Feeds decoders with bytes that nobody meant for them, and watches what they allocate.
//!
//! The allocator counts per thread: the largest single request, and the most that was held at once. It is the one place
//! where `unsafe` is needed, since an allocator cannot be written without.

#![allow(unsafe_code)]

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};

use bytes::Bytes;
use rand::rngs::StdRng;
use rand::{Rng, RngCore, SeedableRng};

struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

thread_local! {
    static LARGEST: Cell<usize> = const { Cell::new(0) };
    static HELD: Cell<isize> = const { Cell::new(0) };
    static PEAK: Cell<isize> = const { Cell::new(0) };
}

fn count(new: usize, old: usize) {
    // A thread that is ending has no counters any more, and nobody looks at them.
    let _ = LARGEST.try_with(|largest| largest.set(largest.get().max(new)));
    let _ = HELD.try_with(|held| {
        held.set(held.get() + new as isize - old as isize);
        let _ = PEAK.try_with(|peak| peak.set(peak.get().max(held.get())));
    });
}

// Safety: every call is passed on to the system's allocator as it came.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size(), 0);
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn realloc(&self, at: *mut u8, layout: Layout, new: usize) -> *mut u8 {
        count(new, layout.size());
        unsafe { System.realloc(at, layout, new) }
    }

    unsafe fn dealloc(&self, at: *mut u8, layout: Layout) {
        let _ = HELD.try_with(|held| held.set(held.get() - layout.size() as isize));
        unsafe { System.dealloc(at, layout) }
    }
}

/// What running `f` took: the largest single allocation, and the most at once.
fn measured(f: impl FnOnce()) -> (usize, usize) {
    LARGEST.set(0);
    HELD.set(0);
    PEAK.set(0);
    f();
    (LARGEST.get(), PEAK.get().max(0) as usize)
}

/// What a decoder may allocate at once: `base` and `factor` times the bytes it was given.
#[derive(Clone, Copy)]
pub struct Bound {
    pub base: usize,
    pub factor: usize,
}

/// What came of all inputs of all decoders so far.
pub struct Fuzz {
    random: StdRng,
    pub inputs: u64,
    pub panics: u64,
}

impl Fuzz {
    pub fn new(seed: u64) -> Fuzz {
        Fuzz { random: StdRng::seed_from_u64(seed), inputs: 0, panics: 0 }
    }

    /// Rounds per decoder; more with DECODER_ROUNDS.
    fn rounds() -> usize {
        std::env::var("DECODER_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(1_000)
    }

    /// Decodes damaged `seeds`, every truncation of them, noise, and counts far beyond what follows them. `mend` makes
    /// the damage reach the code behind a checksum.
    ///
    /// # Panics
    /// When a decoder allocated beyond its bound.
    pub fn run(
        &mut self,
        name: &str,
        seeds: &[Vec<u8>],
        bound: Bound,
        mend: impl Fn(&mut Vec<u8>),
        decode: impl Fn(Bytes),
    ) {
        let mut worst = Worst::default();
        for seed in seeds {
            for cut in 0..=seed.len().min(2_000) {
                self.one(name, seed[..cut].to_vec(), bound, &decode, &mut worst);
            }
        }
        for round in 0..Self::rounds() {
            let mut bytes = seeds[round % seeds.len()].clone();
            match self.random.random_range(0..5) {
                0 => bytes = self.noise(),
                1 => self.claim(&mut bytes),
                2 => self.repeat(&mut bytes),
                _ => self.damage(&mut bytes),
            }
            if self.random.random_bool(0.8) {
                mend(&mut bytes);
            }
            self.one(name, bytes, bound, &decode, &mut worst);
        }
        println!(
            "{name}: largest allocation {} ({:.1} x its input), most at once {} ({:.1} x)",
            worst.largest, worst.largest_times, worst.peak, worst.peak_times
        );
    }

    fn one(&mut self, name: &str, bytes: Vec<u8>, bound: Bound, decode: &impl Fn(Bytes), worst: &mut Worst) {
        self.inputs += 1;
        let input = Bytes::from(bytes);
        let kept = input.clone();
        let mut panicked = false;
        let (largest, peak) = measured(|| panicked = catch_unwind(AssertUnwindSafe(|| decode(input))).is_err());
        if panicked {
            self.panics += 1;
            println!("{name} panics at {kept:?}");
            return;
        }
        worst.add(kept.len(), largest, peak, bound);
        let may = bound.base + bound.factor * kept.len();
        assert!(peak <= may, "{name}: {peak} bytes allocated for {} bytes, {may} allowed: {kept:?}", kept.len());
    }

    fn noise(&mut self) -> Vec<u8> {
        let mut bytes = vec![0; self.random.random_range(0..600)];
        self.random.fill_bytes(&mut bytes);
        bytes
    }

    /// Puts a count or length where there may be one: -1, the largest, the smallest, one too many.
    fn claim(&mut self, bytes: &mut Vec<u8>) {
        let claims: [&[u8]; 8] = [
            &[0x7f, 0xff, 0xff, 0xff],
            &[0xff, 0xff, 0xff, 0xff],
            &[0x80, 0, 0, 0],
            &[0xff, 0xff, 0xff, 0xff, 0x07],
            &[0xff, 0xff, 0xff, 0xff, 0x0f],
            &[0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0x01],
            &[0xdd, 0xff, 0xff, 0xff, 0xff],
            &[0xc6, 0xff, 0xff, 0xff, 0xff],
        ];
        let claim = claims[self.random.random_range(0..claims.len())];
        let at = self.random.random_range(0..=bytes.len());
        let until = (at + claim.len() * usize::from(self.random.random_bool(0.5))).min(bytes.len());
        bytes.splice(at..until, claim.iter().copied());
    }

    /// A count that is true, of elements that are as small as can be.
    fn repeat(&mut self, bytes: &mut Vec<u8>) {
        let count = self.random.random_range(1..3_000usize);
        let at = self.random.random_range(0..=bytes.len());
        bytes.truncate(at);
        match self.random.random_range(0..3) {
            0 => bytes.extend_from_slice(&(count as u32).to_be_bytes()),
            1 => bytes.extend_from_slice(&[(count & 0x7f) as u8 | 0x80, (count >> 7) as u8]),
            _ => bytes.extend_from_slice(&[0xdc, (count >> 8) as u8, count as u8]),
        }
        let element: &[u8] =
            [&[0u8][..], &[1], &[1, 0], &[0, 0, 1], &[0xc0], &[0x90], &[2, b'a', 0]][self.random.random_range(0..7)];
        let elements = count * self.random.random_range(1..6);
        bytes.extend(element.iter().copied().cycle().take(elements.max(element.len())));
    }

    fn damage(&mut self, bytes: &mut Vec<u8>) {
        for _ in 0..self.random.random_range(1..6) {
            let len = bytes.len();
            if len == 0 {
                return;
            }
            let at = self.random.random_range(0..len);
            match self.random.random_range(0..6) {
                0 => bytes[at] = 0xff,
                1 => bytes[at] = 0x7f,
                2 => bytes[at] ^= 1 << self.random.random_range(0..8),
                3 => bytes[at] = self.random.random(),
                4 => drop(bytes.drain(at..(at + self.random.random_range(1..9)).min(len))),
                _ => {
                    let piece = bytes[at..(at + self.random.random_range(1..40)).min(len)].to_vec();
                    let to = self.random.random_range(0..=len);
                    bytes.splice(to..to, piece);
                }
            }
        }
    }

    /// # Panics
    /// When any decoder did.
    pub fn finish(self, what: &str) {
        println!("{what}: {} inputs tried, {} panics", self.inputs, self.panics);
        assert_eq!(self.panics, 0);
    }
}

#[derive(Default)]
struct Worst {
    largest: usize,
    largest_times: f64,
    peak: usize,
    peak_times: f64,
}

impl Worst {
    /// Small inputs say nothing about multiples: what lies within the base is not set against them.
    fn add(&mut self, len: usize, largest: usize, peak: usize, bound: Bound) {
        let times = |bytes: usize| bytes.saturating_sub(bound.base) as f64 / len.max(1) as f64;
        self.largest = self.largest.max(largest);
        self.peak = self.peak.max(peak);
        self.largest_times = self.largest_times.max(times(largest));
        self.peak_times = self.peak_times.max(times(peak));
    }
}
