//! Topics by regular expression. Kafka takes RE2's syntax and has the whole name match.

use std::ops::BitOrAssign;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// Longer expressions are refused.
const BYTES_MAX: usize = 1024;
/// So are those whose groups go deeper.
const NEST_MAX: u32 = 64;
/// No topic has a longer name (Kafka: `Topic.MAX_NAME_LENGTH`).
const NAME_BYTES_MAX: usize = 249;

#[derive(Debug, Clone)]
pub struct Pattern {
    hir: Hir,
}

impl Pattern {
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("it is longer than {BYTES_MAX} bytes"));
        }
        let parsed = ParserBuilder::new().nest_limit(NEST_MAX).build().parse(text);
        parsed.map(|hir| Pattern { hir }).map_err(|error| error.to_string())
    }

    pub fn matches(&self, name: &str) -> bool {
        if name.len() > NAME_BYTES_MAX {
            return false;
        }
        let mut start = Places::default();
        start.insert(0);
        ends(&self.hir, name, start).contains(name.len())
    }
}

/// Places in a name, from before its first byte to behind its last.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Places([u64; NAME_BYTES_MAX / 64 + 1]);

impl Places {
    fn insert(&mut self, at: usize) {
        self.0[at / 64] |= 1 << (at % 64);
    }

    fn contains(&self, at: usize) -> bool {
        self.0[at / 64] & 1 << (at % 64) != 0
    }

    fn is_empty(&self) -> bool {
        *self == Places::default()
    }

    fn iter(self) -> impl Iterator<Item = usize> {
        (0..=NAME_BYTES_MAX).filter(move |at| self.contains(*at))
    }
}

impl BitOrAssign for Places {
    fn bitor_assign(&mut self, other: Places) {
        self.0.iter_mut().zip(other.0).for_each(|(word, more)| *word |= more);
    }
}

impl FromIterator<usize> for Places {
    fn from_iter<I: IntoIterator<Item = usize>>(all: I) -> Places {
        let mut places = Places::default();
        all.into_iter().for_each(|at| places.insert(at));
        places
    }
}

/// Where a match can end that begins at one of these places. All at once: no input makes it try ways one by one.
fn ends(hir: &Hir, name: &str, starts: Places) -> Places {
    match hir.kind() {
        HirKind::Empty => starts,
        HirKind::Literal(literal) => {
            let follows = |at: &usize| name.as_bytes()[*at..].starts_with(&literal.0);
            starts.iter().filter(follows).map(|at| at + literal.0.len()).collect()
        }
        HirKind::Class(class) => {
            let next = |at: usize| {
                let next = name.get(at..)?.chars().next()?;
                is_in(class, next).then(|| at + next.len_utf8())
            };
            starts.iter().filter_map(next).collect()
        }
        HirKind::Look(look) => starts.iter().filter(|at| holds(*look, name, *at)).collect(),
        HirKind::Capture(capture) => ends(&capture.sub, name, starts),
        HirKind::Concat(parts) => parts.iter().fold(starts, |starts, part| ends(part, name, starts)),
        HirKind::Alternation(ways) => ways.iter().fold(Places::default(), |mut all, way| {
            all |= ends(way, name, starts);
            all
        }),
        HirKind::Repetition(repetition) => {
            let mut places = starts;
            // What consumes nothing changes nothing, what consumes comes to the end of the name: both loops are short.
            for _ in 0..repetition.min {
                let next = ends(&repetition.sub, name, places);
                if next == places {
                    break;
                }
                places = next;
            }
            let mut all = places;
            for _ in repetition.min..repetition.max.unwrap_or(u32::MAX) {
                let before = all;
                places = ends(&repetition.sub, name, places);
                all |= places;
                if places.is_empty() || all == before {
                    break;
                }
            }
            all
        }
    }
}

fn is_in(class: &Class, one: char) -> bool {
    match class {
        Class::Unicode(class) => class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&one)),
        Class::Bytes(class) => {
            let byte = u8::try_from(one).ok();
            byte.is_some_and(|byte| class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&byte)))
        }
    }
}

fn holds(look: Look, name: &str, at: usize) -> bool {
    let is_word = |one: Option<u8>| one.is_some_and(|one| one.is_ascii_alphanumeric() || one == b'_');
    let before = is_word(at.checked_sub(1).map(|at| name.as_bytes()[at]));
    let after = is_word(name.as_bytes().get(at).copied());
    match look {
        // Names have no lines.
        Look::Start | Look::StartLF | Look::StartCRLF => at == 0,
        Look::End | Look::EndLF | Look::EndCRLF => at == name.len(),
        Look::WordAscii | Look::WordUnicode => before != after,
        Look::WordAsciiNegate | Look::WordUnicodeNegate => before == after,
        Look::WordStartAscii | Look::WordStartUnicode => !before && after,
        Look::WordEndAscii | Look::WordEndUnicode => before && !after,
        Look::WordStartHalfAscii | Look::WordStartHalfUnicode => !before,
        Look::WordEndHalfAscii | Look::WordEndHalfUnicode => !after,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn matches(pattern: &str, name: &str) -> bool {
        Pattern::parse(pattern).unwrap().matches(name)
    }

    #[test]
    fn the_whole_name_has_to_match() {
        let cases = [
            ("orders", &["orders"][..], &["orders-1", "my-orders", ""][..]),
            ("orders.*", &["orders", "orders-1"], &["my-orders"]),
            ("^(a|bc)+$", &["a", "bc", "abca"], &["", "ab", "abcb"]),
            ("t-[0-9]{2,3}", &["t-12", "t-123"], &["t-1", "t-1234", "t-1a"]),
            ("(?i)Logs", &["logs", "LOGS"], &["log"]),
            (r"\w+\.v\d", &["topic.v1"], &["topic-v1", "topic.v"]),
            ("[^.]+", &["a-b"], &["a.b", ""]),
            (r"\bx\b.*", &["x", "x-y"], &["xy"]),
            (r"\pL*", &["abc"], &["a1"]),
            ("(a?){250}b", &["b", "aab"], &["c"]),
            ("", &[""], &["a"]),
        ];
        for (pattern, yes, no) in cases {
            yes.iter().for_each(|name| assert!(matches(pattern, name), "{pattern} {name}"));
            no.iter().for_each(|name| assert!(!matches(pattern, name), "{pattern} {name}"));
        }
    }

    #[test]
    fn what_is_no_expression_is_refused() {
        let deep = format!("{}a{}", "(".repeat(200), ")".repeat(200));
        for pattern in ["[", "*", "(a", r"\1", "(?=a)", "a{9,1}", deep.as_str(), &"a".repeat(2000)] {
            assert!(Pattern::parse(pattern).is_err(), "{pattern}");
        }
    }

    #[test]
    fn no_expression_takes_long() {
        let name = "a".repeat(NAME_BYTES_MAX);
        assert!(!matches("((((a*)*)*)*)*b", &name));
        assert!(!matches("(a|a|aa)*b", &name));
        assert!(matches("((a{0,250}){0,250}){0,250}", &name));
        assert!(!matches("((a?){1000}){1000}b", &name));
    }

    proptest! {
        #[test]
        fn a_name_matches_itself_and_survives_any_expression(name in "[a-z0-9-]{0,20}", pattern in ".{0,20}") {
            prop_assert!(matches(&name, &name));
            let _ = Pattern::parse(&pattern).map(|pattern| pattern.matches(&name));
        }
    }
}
