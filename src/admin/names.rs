//! Names of topics, as Kafka allows them (`org.apache.kafka.common.internals.Topic`).

use std::borrow::Cow;
use std::collections::HashSet;
use std::hash::Hash;

use crate::admin::Error;
use crate::cluster::RootState;

const NAME_BYTES_MAX: usize = 249;

/// # Errors
/// [`Error::InvalidTopic`], with the rule that the name breaks.
pub(super) fn validate(name: &str) -> Result<(), Error> {
    let allowed = |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-');
    let why = match name {
        "" => "a topic name cannot be empty".to_string(),
        "." | ".." => "a topic name cannot be '.' or '..'".to_string(),
        _ if name.len() > NAME_BYTES_MAX => format!("a topic name has at most {NAME_BYTES_MAX} characters"),
        _ if !name.bytes().all(allowed) => {
            format!("topic name {name:?} has characters other than ASCII letters, digits, '.', '_' and '-'")
        }
        _ => return Ok(()),
    };
    Err(Error::InvalidTopic(why))
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
        Some(other) => Err(Error::InvalidTopic(format!("topic '{name}' collides with the existing '{}'", other.name))),
        None => Ok(()),
    }
}

fn fold(name: &str) -> Cow<'_, str> {
    match name.contains('.') {
        true => Cow::Owned(name.replace('.', "_")),
        false => Cow::Borrowed(name),
    }
}

/// Those that come more than once: a request that names a topic twice contradicts itself.
pub(super) fn repeated<T: Eq + Hash + Clone>(names: impl Iterator<Item = T>) -> HashSet<T> {
    let mut seen = HashSet::new();
    names.filter(|name| !seen.insert(name.clone())).collect()
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
        assert_eq!(repeated(["a", "b", "a", "a"].into_iter()), HashSet::from(["a"]));
    }
}
