use std::cmp::Reverse;
use std::collections::BinaryHeap;

use tokio::time::Instant;

/// Looks at members that are gone or need an earlier one, kept until there are so many.
const SLACK: usize = 1024;

/// When which member of which group is to be looked at.
#[derive(Debug)]
pub(super) struct Due {
    looks: BinaryHeap<Reverse<(Instant, String, String)>>,
    /// More looks than that are more than there are members.
    max: usize,
}

impl Due {
    pub fn new() -> Due {
        Due { looks: BinaryHeap::new(), max: SLACK }
    }

    pub fn push(&mut self, at: Instant, group: &str, member: &str) {
        self.looks.push(Reverse((at, group.to_owned(), member.to_owned())));
    }

    pub fn next(&self) -> Option<Instant> {
        self.looks.peek().map(|Reverse((at, ..))| *at)
    }

    /// A look that is due by now: when it was, at which group and member.
    pub fn pop(&mut self, now: Instant) -> Option<(Instant, String, String)> {
        self.next().filter(|at| *at <= now)?;
        self.looks.pop().map(|Reverse(look)| look)
    }

    /// Forgets the looks that nobody waits for, once there are many.
    pub fn shed(&mut self, is_awaited: impl Fn(Instant, &str, &str) -> bool) {
        if self.looks.len() > self.max {
            self.looks.retain(|Reverse((at, group, member))| is_awaited(*at, group, member));
            self.max = SLACK + 2 * self.looks.len();
        }
    }
}
