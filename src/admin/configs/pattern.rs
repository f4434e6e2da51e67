//! Patterns that clients are matched with: a regular expression for the whole of a short text.

use std::collections::BTreeSet;

use regex_syntax::hir::{Class, Hir, HirKind, Look};
use regex_syntax::parse;

const PATTERN_BYTES_MAX: usize = 1024;
/// No longer text matches anything.
const TEXT_BYTES_MAX: usize = 1024;

/// A parsed pattern.
#[derive(Debug, Clone)]
pub struct Pattern(Hir);

impl Pattern {
    /// `None` for what is no regular expression, or one too long.
    pub fn parse(pattern: &str) -> Option<Pattern> {
        if pattern.len() > PATTERN_BYTES_MAX {
            return None;
        }
        parse(pattern).ok().map(Pattern)
    }

    /// Whether the pattern is of the whole text (Java's `Matcher.matches`). The work is at most the pattern's length times
    /// a power of the text's, whatever the pattern: all places where a part may end are followed together.
    pub fn matches(&self, text: &str) -> bool {
        text.len() <= TEXT_BYTES_MAX && ends(&self.0, text, &BTreeSet::from([0])).contains(&text.len())
    }
}

/// Where the text may go on after this part, which begins at one of `starts`.
fn ends(part: &Hir, text: &str, starts: &BTreeSet<usize>) -> BTreeSet<usize> {
    if starts.is_empty() {
        return BTreeSet::new();
    }
    match part.kind() {
        HirKind::Empty => starts.clone(),
        HirKind::Literal(literal) => {
            let bytes = &literal.0;
            let there = |at: &&usize| text.as_bytes()[**at..].starts_with(bytes);
            starts.iter().filter(there).map(|at| at + bytes.len()).collect()
        }
        HirKind::Class(class) => starts.iter().filter_map(|at| end_of_one(class, text, *at)).collect(),
        HirKind::Look(look) => starts.iter().copied().filter(|at| holds(*look, text, *at)).collect(),
        HirKind::Capture(capture) => ends(&capture.sub, text, starts),
        HirKind::Concat(parts) => parts.iter().fold(starts.clone(), |starts, part| ends(part, text, &starts)),
        HirKind::Alternation(parts) => parts.iter().flat_map(|part| ends(part, text, starts)).collect(),
        HirKind::Repetition(repetition) => {
            // A part that takes something moves on with each turn, one that may take nothing keeps what it has: after as
            // many turns as there are places nothing changes any more.
            let turns_max = text.len() as u32 + 1;
            let turn = |at: BTreeSet<usize>| ends(&repetition.sub, text, &at);
            let mut now = starts.clone();
            for _ in 0..repetition.min.min(turns_max) {
                let next = turn(now.clone());
                let settled = next == now;
                now = next;
                if settled {
                    break;
                }
            }
            let mut all = now.clone();
            let more = repetition.max.map_or(turns_max, |max| (max - repetition.min).min(turns_max));
            for _ in 0..more {
                now = turn(now);
                let before = all.len();
                all.extend(&now);
                if all.len() == before {
                    break;
                }
            }
            all
        }
    }
}

fn end_of_one(class: &Class, text: &str, at: usize) -> Option<usize> {
    let next = text.get(at..)?.chars().next()?;
    let contains = match class {
        Class::Unicode(class) => class.ranges().iter().any(|range| (range.start()..=range.end()).contains(&next)),
        Class::Bytes(class) => {
            u8::try_from(next).is_ok_and(|byte| class.ranges().iter().any(|r| (r.start()..=r.end()).contains(&byte)))
        }
    };
    contains.then(|| at + next.len_utf8())
}

/// Of what can be looked for, the text's two ends; a name has no lines, and nobody asks for the words in it.
fn holds(look: Look, text: &str, at: usize) -> bool {
    match look {
        Look::Start | Look::StartLF | Look::StartCRLF => at == 0,
        Look::End | Look::EndLF | Look::EndCRLF => at == text.len(),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_whole_text_has_to_match() {
        let matches = |pattern: &str, text: &str| Pattern::parse(pattern).unwrap().matches(text);
        for (pattern, text) in [
            ("abc", "abc"),
            ("a.c", "abc"),
            ("3\\.9\\..*", "3.9.1"),
            ("a*", ""),
            ("(a|bc)+", "abcbca"),
            ("[a-f0-9]{4,}", "00ff0"),
            ("a{2,3}", "aaa"),
            ("^x$", "x"),
            ("ü+", "üü"),
            ("(a*)*b", "aab"),
        ] {
            assert!(matches(pattern, text), "{pattern} {text}");
        }
        for (pattern, text) in [("abc", "abcd"), ("b", "abc"), ("a{2,3}", "aaaa"), ("a+", ""), ("[^a]", "a")] {
            assert!(!matches(pattern, text), "{pattern} {text}");
        }
        assert!(Pattern::parse("(a").is_none());
    }

    #[test]
    fn no_pattern_takes_for_ever() {
        let hostile = Pattern::parse("((a*)*)*((a{1000}){1000})*c").unwrap();
        assert!(!hostile.matches(&"a".repeat(200)));
    }
}
