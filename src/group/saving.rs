//! A group's way into the log, one entry at a time.

use std::collections::BTreeMap;

use crate::group::Reply;
use crate::group::classic::Waiter;

pub(super) type Waiting = Vec<(Waiter, Reply)>;

/// What the log does not have yet, and who waits for it. `Parts` says what of a member is new.
#[derive(Debug)]
pub(super) struct Saving<Parts> {
    /// On its way.
    flight: Option<Waiting>,
    /// Goes next.
    header: bool,
    members: BTreeMap<String, Parts>,
    waiting: Waiting,
}

impl<Parts> Default for Saving<Parts> {
    fn default() -> Self {
        Saving { flight: None, header: false, members: BTreeMap::new(), waiting: Vec::new() }
    }
}

impl<Parts: Default> Saving<Parts> {
    pub fn is_idle(&self) -> bool {
        self.flight.is_none() && !self.is_dirty()
    }

    fn is_dirty(&self) -> bool {
        self.header || !self.members.is_empty()
    }

    /// Epochs or the like have changed.
    pub fn touch(&mut self) {
        self.header = true;
    }

    /// Of a member that has gone, all parts.
    pub fn touch_member(&mut self, id: &str) -> &mut Parts {
        if !self.members.contains_key(id) {
            self.members.insert(id.to_owned(), Parts::default());
        }
        self.members.get_mut(id).expect("it was put there")
    }

    /// The reply is to be told when the log has all that it may depend on: given back if nothing is new.
    pub fn wait(&mut self, waiter: Waiter, reply: Reply) -> Option<(Waiter, Reply)> {
        if self.is_dirty() {
            self.waiting.push((waiter, reply));
        } else if let Some(flight) = &mut self.flight {
            flight.push((waiter, reply));
        } else {
            return Some((waiter, reply));
        }
        None
    }

    /// All that is new since the last entry, to make the next: what of which members. None while one is on its way.
    pub fn depart(&mut self) -> Option<BTreeMap<String, Parts>> {
        if self.flight.is_some() || !self.is_dirty() {
            return None;
        }
        self.header = false;
        self.flight = Some(std::mem::take(&mut self.waiting));
        Some(std::mem::take(&mut self.members))
    }

    /// The log has what was on its way: whom to tell what.
    pub fn arrive(&mut self) -> Waiting {
        self.flight.take().unwrap_or_default()
    }

    /// Everybody who waits for the log.
    pub fn give_up(self) -> impl Iterator<Item = Waiter> {
        self.flight.into_iter().flatten().chain(self.waiting).map(|(waiter, _)| waiter)
    }
}
