//! The groups of one shard, of every kind: which of the state machines has a group, and what happens when it is to be
//! the other's.

use std::collections::HashMap;
use std::convert::identity;

use tokio::time::Instant;

use crate::group::classic::{self, Listed, Waiter};
use crate::group::{Ask, Reply, Settings, Undecided, View, command, consumer, share};
use crate::protocol::ErrorCode;
use crate::shard::Slot;
use crate::shard::group::{Group, Kind, Share};
use crate::types::TopicId;

pub type Command = command::Command<Reply, Then>;

/// What becomes of a group when the log has decided.
#[derive(Debug, Clone, PartialEq)]
pub enum Then {
    Classic(classic::Then),
    Consumer(consumer::Then),
    Share(share::Then),
}

/// A group, as the log has it.
pub type Applied<'a> = (Slot, &'a String, &'a Group);

#[derive(Debug)]
pub struct Kinds {
    classic: classic::Coordinator,
    consumer: consumer::Coordinator,
    share: share::Coordinator,
}

impl Kinds {
    pub fn new(settings: &Settings) -> Kinds {
        Kinds {
            classic: classic::Coordinator::new(settings.classic.clone()),
            consumer: consumer::Coordinator::new(settings.consumer.clone()),
            share: share::Coordinator::new(settings.share.clone()),
        }
    }

    /// A group with members, as the log has it, when leadership comes.
    pub fn load(&mut self, now: Instant, view: &dyn View, (slot, id, group): Applied) {
        match &group.kind {
            Kind::Simple => {}
            Kind::Classic(classic) => self.classic.load(now, slot, id, classic),
            Kind::Consumer(consumer) => self.consumer.load(now, view, (slot, id), consumer),
            Kind::Share(share) => self.share.load(now, view, (slot, id), share),
        }
    }

    /// `applied` is the group as the log has it now, if it does.
    pub fn ask(
        &mut self,
        now: Instant,
        view: &dyn View,
        (slot, id): (Slot, &str),
        applied: Option<&Group>,
        ask: Ask,
        waiter: Waiter,
    ) {
        let logged = applied.and_then(Group::consumer);
        let is_elsewhere = self.consumer.has(id) || self.classic.has(id);
        let logged_share = applied.and_then(Group::share).filter(|_| !is_elsewhere);
        if self.share.has(id) || logged_share.is_some() {
            return self.ask_share(now, view, (slot, id), logged_share, ask, waiter);
        }
        if let Some(consumer) = logged.filter(|consumer| !consumer.members.is_empty() && !is_elsewhere) {
            self.consumer.load(now, view, (slot, id), consumer);
        }
        let is_consumer = self.consumer.has(id) || (logged.is_some() && !self.classic.has(id));
        match ask {
            // The first member that joins an empty group says what it is.
            Ask::Classic(classic::Ask::Join(join)) if is_consumer && !self.consumer.has(id) => {
                self.classic.ask(now, slot, id, None, classic::Ask::Join(join), waiter);
            }
            Ask::Classic(ask) if is_consumer => self.consumer.ask_classic(now, view, (slot, id), ask, waiter),
            Ask::Classic(ask) => self.classic.ask(now, slot, id, applied, ask, waiter),
            Ask::Consumer(consumer::Ask::Beat(beat)) if !is_consumer => {
                // What is on its way makes it a classic group in the log, whatever it is there now.
                let applied = applied.filter(|_| beat.epoch == 0 && !self.classic.is_saving(id));
                if beat.epoch == 0
                    && let Err((error, why)) = self.upgrade(now, view, (slot, id), applied)
                {
                    let reply = consumer::Reply::failed(error, why);
                    return self.consumer.answer(waiter, Reply::Consumer(reply));
                }
                self.consumer.ask(now, view, (slot, id), applied, consumer::Ask::Beat(beat), waiter);
            }
            Ask::Consumer(consumer::Ask::Describe) if !is_consumer => {
                let is_there = applied.is_some() || self.classic.has(id);
                let what = if is_there { "is not a consumer group" } else { "not found" };
                let why = format!("Group {id} {what}.");
                let reply = consumer::Reply::failed(ErrorCode::GroupIdNotFound, why);
                self.consumer.answer(waiter, Reply::Consumer(reply));
            }
            Ask::Share(ask) if applied.is_none() && !is_elsewhere => {
                self.share.ask(now, view, (slot, id), None, ask, waiter);
            }
            Ask::Share(_) => {
                let reply =
                    share::Reply::failed(ErrorCode::GroupIdNotFound, format!("Group {id} is not a share group."));
                self.share.answer(waiter, reply);
            }
            Ask::Consumer(ask) => {
                let applied = applied.filter(|_| is_consumer);
                self.consumer.ask(now, view, (slot, id), applied, ask, waiter);
            }
        }
        self.downgrade(now);
    }

    /// Of a share group: it is one as long as it is there.
    fn ask_share(
        &mut self,
        now: Instant,
        view: &dyn View,
        (slot, id): (Slot, &str),
        logged: Option<&Share>,
        ask: Ask,
        waiter: Waiter,
    ) {
        match ask {
            Ask::Share(ask) => self.share.ask(now, view, (slot, id), logged, ask, waiter),
            Ask::Classic(ask) => self.share.ask_classic((slot, id), &ask, waiter),
            // It has no offsets, and says so to whoever asks.
            Ask::Consumer(consumer::Ask::MayFetch { .. }) => {
                self.consumer.answer(waiter, Reply::Consumer(consumer::Reply::Done));
            }
            Ask::Consumer(consumer::Ask::Beat(_) | consumer::Ask::Describe) => {
                let why = format!("Group {id} is not a consumer group.");
                let reply = consumer::Reply::failed(ErrorCode::GroupIdNotFound, why);
                self.consumer.answer(waiter, Reply::Consumer(reply));
            }
        }
    }

    /// Makes a classic group one of the consumer protocol, since somebody joins who speaks it.
    fn upgrade(
        &mut self,
        now: Instant,
        view: &dyn View,
        (slot, id): (Slot, &str),
        applied: Option<&Group>,
    ) -> Result<(), (ErrorCode, String)> {
        if let Some(classic) = applied.and_then(Group::classic).filter(|classic| !classic.members.is_empty())
            && !self.classic.has(id)
        {
            self.classic.load(now, slot, id, classic);
        }
        if !self.classic.is_free(id) {
            let logged = applied.and_then(Group::consumer);
            self.consumer.receive(now, view, (slot, id), self.classic.migrants(id), logged)?;
        }
        self.classic.part(now, id);
        Ok(())
    }

    /// Groups of the consumer protocol with none left who speaks it are classic again.
    fn downgrade(&mut self, now: Instant) {
        for (slot, id, migrants) in self.consumer.departures() {
            self.classic.receive(now, slot, &id, migrants);
        }
    }

    /// The end of what was proposed. An error is one that members can be told; `applied` is the group as the log has it.
    pub fn decided(
        &mut self,
        now: Instant,
        view: &dyn View,
        id: &str,
        (then, applied): (Then, Option<(Slot, &Group)>),
        decided: Result<(), ErrorCode>,
    ) {
        match then {
            Then::Classic(then) => {
                let is_elsewhere = self.consumer.has(id) || self.share.has(id);
                let logged = applied.filter(|_| !is_elsewhere);
                let logged = logged.and_then(|(slot, group)| Some((slot, group.classic()?)));
                self.classic.decided(now, id, then, decided.map_err(|error| (error, logged)));
            }
            Then::Share(then) => {
                let logged = applied.and_then(|(slot, group)| Some((slot, group.share()?)));
                self.share.decided(now, view, id, then, decided.map_err(|error| (error, logged)));
            }
            Then::Consumer(then) => {
                let logged = applied.and_then(|(slot, group)| Some((slot, group.consumer()?)));
                let failed = decided.is_err();
                let decided = decided.map_err(|error| (error, logged));
                self.consumer.decided(now, view, id, then, decided);
                // It did not become what it was to be.
                let classic = applied.and_then(|(slot, group)| Some((slot, group.classic()?)));
                if let Some((slot, classic)) = classic.filter(|_| failed && !self.classic.has(id)) {
                    self.classic.load(now, slot, id, classic);
                }
            }
        }
        self.downgrade(now);
    }

    /// Does what is late by now.
    pub fn tick(&mut self, now: Instant, view: &dyn View) {
        self.classic.tick(now);
        self.consumer.tick(now, view);
        self.share.tick(now, view);
        self.downgrade(now);
    }

    /// When [`Kinds::tick`] has something to look at.
    pub fn deadline(&self) -> Option<Instant> {
        [self.classic.deadline(), self.consumer.deadline(), self.share.deadline()].into_iter().flatten().min()
    }

    pub fn take_commands(&mut self) -> Vec<Command> {
        let (classic, consumer, share) = (&mut self.classic, &mut self.consumer, &mut self.share);
        let classic = classic.take_commands().into_iter().map(|one| one.map(Reply::Classic, Then::Classic));
        let consumer = consumer.take_commands().into_iter().map(|one| one.map(identity, Then::Consumer));
        let share = share.take_commands().into_iter().map(|one| one.map(identity, Then::Share));
        classic.chain(consumer).chain(share).collect()
    }

    /// As the log has it, unless this coordinator knows more.
    pub fn list(&self, applied: &[Applied]) -> Vec<Listed> {
        let (shares, applied) = self.shares(applied);
        let (consumers, others) = self.by_kind(&applied);
        let mut listed = self.classic.list(others.into_iter().map(|(_, id, group)| (id, group)));
        listed.extend(self.consumer.list(consumers.into_iter().map(|(_, id, _)| id)));
        listed.extend(self.share.list(shares.into_iter().map(|(_, id, _)| id)));
        listed
    }

    /// Proposes to forget what nobody needs any more; share groups stay until they are deleted. `names` are those of the
    /// topics that exist.
    pub fn sweep(
        &mut self,
        clock_ms: u64,
        applied: &[Applied],
        names: &HashMap<TopicId, String>,
        undecided: Undecided,
    ) {
        let (_, applied) = self.shares(applied);
        let (consumers, others) = self.by_kind(&applied);
        self.classic.sweep(clock_ms, others.into_iter(), names, undecided);
        self.consumer.sweep(clock_ms, consumers.into_iter(), names, undecided);
    }

    /// Share groups, and all others.
    fn shares<'a>(&self, applied: &[Applied<'a>]) -> (Vec<Applied<'a>>, Vec<Applied<'a>>) {
        applied.iter().copied().partition(|(_, _, group)| group.share().is_some())
    }

    /// A group that is just becoming another kind counts as what it becomes.
    fn by_kind<'a>(&self, applied: &[Applied<'a>]) -> (Vec<Applied<'a>>, Vec<Applied<'a>>) {
        let is_consumer = |(_, id, group): &Applied| match group.consumer() {
            Some(_) => !self.classic.has(id),
            None => self.consumer.has(id),
        };
        applied.iter().copied().partition(is_consumer)
    }
}
