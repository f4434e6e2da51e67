//! What subscriptions mean, and who is led to what.

use std::collections::{BTreeMap, BTreeSet};

use crate::group::consumer::assignor::{Assignor, Subscriber};
use crate::group::consumer::live::Live;
use crate::group::consumer::pattern::Pattern;
use crate::group::view::{self, View};
use crate::shard::group::Who;
use crate::types::TopicId;

/// The subscriptions of a group's members, looked up.
#[derive(Debug, Default)]
pub(super) struct Resolved {
    /// Of the topics; 0 before they were looked up.
    version: u64,
    /// Those that there are.
    topics: BTreeMap<String, (TopicId, i32)>,
    patterns: BTreeMap<String, BTreeSet<String>>,
}

impl Resolved {
    pub fn is_of(&self, view: &dyn View) -> bool {
        self.version == view.version()
    }

    pub fn matches(&self, pattern: &str, topic: &str) -> bool {
        self.patterns.get(pattern).is_some_and(|names| names.contains(topic))
    }

    pub fn names(&self) -> BTreeMap<TopicId, &String> {
        self.topics.iter().map(|(name, (id, _))| (*id, name)).collect()
    }

    fn ids(&self, who: &Who) -> BTreeSet<TopicId> {
        let matched = who.pattern.as_ref().and_then(|pattern| self.patterns.get(pattern));
        let names = who.topics.iter().chain(matched.into_iter().flatten());
        names.filter_map(|name| self.topics.get(name).map(|(id, _)| *id)).collect()
    }
}

impl Live {
    /// Looks the subscriptions up. True if the topics are other ones, or have other partitions, than when the group's
    /// epoch last grew.
    pub fn resolve(&mut self, view: &dyn View) -> bool {
        let mut patterns = BTreeMap::new();
        for text in self.members.values().filter_map(|member| member.who.pattern.as_ref()) {
            if patterns.contains_key(text) {
                continue;
            }
            let known = self.resolved.patterns.remove(text).filter(|_| self.resolved.is_of(view));
            patterns.insert(text.clone(), known.unwrap_or_else(|| matching(text, view)));
        }
        let named = self.members.values().flat_map(|member| &member.who.topics);
        let names: BTreeSet<&String> = named.chain(patterns.values().flatten()).collect();
        let found = names.into_iter().filter_map(|name| Some((name.clone(), view.topic(name)?))).collect();
        self.resolved = Resolved { version: view.version(), topics: found, patterns };
        let digest = view::digest(&self.resolved.topics);
        let changed = digest != self.topics_digest;
        if changed {
            self.topics_digest = digest;
            self.saving.touch();
        }
        changed
    }

    /// Targets for the group's epoch (Kafka: `TargetAssignmentBuilder`).
    pub fn retarget(&mut self, default: Assignor) {
        let partitions = self.resolved.topics.values().copied().collect();
        let members: Vec<Subscriber> = self
            .members
            .iter()
            .map(|(id, member)| Subscriber {
                id,
                instance: member.who.instance.as_deref(),
                topics: self.resolved.ids(&member.who),
                before: &member.target,
            })
            .collect();
        let targets = self.assignor(default).assign(&members, &partitions);
        let ids: Vec<String> = self.members.keys().cloned().collect();
        ids.iter().zip(targets).for_each(|(id, target)| self.set_target(id, target));
        self.assignment_epoch = self.epoch;
        self.saving.touch();
    }
}

fn matching(pattern: &str, view: &dyn View) -> BTreeSet<String> {
    let mut names = BTreeSet::new();
    // Only those that can be read are let in.
    let mut given_up = 0;
    if let Ok(pattern) = Pattern::parse(pattern) {
        view.each_topic(&mut |name| match pattern.matches(name) {
            Some(true) => {
                names.insert(name.to_owned());
            }
            Some(false) => {}
            None => given_up += 1,
        });
    }
    if given_up > 0 {
        tracing::warn!(
            pattern,
            topics = given_up,
            "an expression takes too long on names of topics: they do not match"
        );
    }
    names
}
