//! Names of topics, as Kafka allows them (`org.apache.kafka.common.internals.Topic`).

use std::borrow::Cow;
use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::hash::Hash;

use crate::admin::Error;
use crate::cluster::RootState;

const NAME_BYTES_MAX: usize = 249;

/// # Errors
/// [`Error::InvalidTopic`], with the rule that the name breaks.
pub(super) fn validate(name: &str) -> Result<(), Error> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let why = match name {
        "" => "the empty string is not allowed".to_string(),
        "." | ".." => format!("'{name}' is not allowed"),
        // The name itself may be as long as a request.
        _ if name.len() > NAME_BYTES_MAX => {
            format!("its length is longer than the max allowed length {NAME_BYTES_MAX}")
        }
        _ if !name.bytes().all(allowed) => {
            format!("'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'")
        }
        _ => return Ok(()),
    };
    Err(Error::InvalidTopic(format!("Topic name is invalid: {why}")))
}

/// Kafka refuses names that differ in '.' and '_' only, because its metrics cannot tell them apart. Clients and tools
/// rely on that, so we refuse them too.
///
/// # Errors
/// [`Error::InvalidTopic`], with the name that is there.
pub(super) fn refuse_collision(view: &RootState, name: &str) -> Result<(), Error> {
    let folded = fold(name);
    if !folded.contains('_') {
        return Ok(());
    }
    let collides = |other: &str| other.len() == name.len() && other != name && fold(other) == folded;
    match view.topics().find(|topic| !topic.deleting && collides(&topic.name)) {
        Some(other) => Err(Error::InvalidTopic(format!("Topic '{name}' collides with existing topic: {}", other.name))),
        None => Ok(()),
    }
}

fn fold(name: &str) -> Cow<'_, str> {
    match name.contains('.') {
        true => Cow::Owned(name.replace('.', "_")),
        false => Cow::Borrowed(name),
    }
}

/// Each part of a request once, and whether it is named more than once: such a request contradicts itself, and is told so
/// once, as by Kafka.
pub(super) fn counted<T, K: Eq + Hash>(parts: impl IntoIterator<Item = T>, key: impl Fn(&T) -> K) -> Vec<(T, bool)> {
    let mut places: HashMap<K, usize> = HashMap::new();
    let mut counted: Vec<(T, bool)> = Vec::new();
    for part in parts {
        match places.entry(key(&part)) {
            Entry::Occupied(place) => counted[*place.get()].1 = true,
            Entry::Vacant(place) => {
                place.insert(counted.len());
                counted.push((part, false));
            }
        }
    }
    counted
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::admin::sample;

    #[test]
    fn follows_kafkas_rules() {
        for name in ["a", "A.b_c-9", "...", &"x".repeat(249)] {
            assert!(validate(name).is_ok(), "{name}");
        }
        for name in ["", ".", "..", "a b", "a/b", "ä", "a\0", &"x".repeat(250)] {
            assert!(validate(name).is_err(), "{name}");
        }
    }

    #[test]
    fn names_that_differ_in_dots_and_underscores_only_collide() {
        let mut view = sample::cluster(&["a"]);
        sample::topic(&mut view, "a.b_c", 1, 1, 1);
        assert!(refuse_collision(&view, "a_b.c").is_err());
        assert!(refuse_collision(&view, "a_b_c").is_err());
        assert!(refuse_collision(&view, "a.b_c").is_ok(), "the same name is another error");
        assert!(refuse_collision(&view, "a-b-c").is_ok());
        view.apply(crate::cluster::RootEntry::DeleteTopic { topic: sample::topic_id(1), epoch: 0 });
        assert!(refuse_collision(&view, "a_b_c").is_ok());
    }

    #[test]
    fn finds_what_is_named_twice() {
        assert_eq!(counted(["a", "b", "a", "a"], |name| *name), [("a", true), ("b", false)]);
    }
}
