//! Topics by regular expression. Kafka takes RE2's syntax (RE2/J) and has the whole name match.

mod syntax;
#[cfg(test)]
mod test;

use std::ops::BitOrAssign;

use regex_syntax::ParserBuilder;
use regex_syntax::hir::{Class, Hir, HirKind, Look};

/// Longer expressions are refused. Kafka takes whatever fits in a request.
const BYTES_MAX: usize = 64 * 1024;
/// So are those whose brackets go deeper,
const NEST_MAX: u32 = 1000;
/// and those where repetitions and alternatives do, each of which is a few frames of the stack;
const HEIGHT_MAX: usize = 200;
/// those with more repetitions of repetitions, for each of which there is a table of a name's places;
const NESTED_MAX: usize = 256;
/// and those that count farther, all in all.
const COUNTS_MAX: usize = 16 * 1024;
/// No topic has a longer name (Kafka: `Topic.MAX_NAME_LENGTH`).
const NAME_BYTES_MAX: usize = 249;
/// Steps that are made for one name, of some nanoseconds each. The longest list of alternatives takes an eighth of them; only
/// repetitions of repetitions of long lists meet this end. Matching holds up all groups of a shard.
const STEPS_MAX: u32 = 500_000;
/// Whoever repeats more often than a name has bytes repeats nothing at least once, and might as well any number of times.
const REPEATS_MAX: u32 = NAME_BYTES_MAX as u32 + 1;

#[derive(Debug)]
pub struct Pattern {
    root: Node,
    /// Repetitions of repetitions.
    nested: usize,
}

#[derive(Debug)]
enum Node {
    Literal(Box<[u8]>),
    Class(Class),
    Look(Look),
    Concat(Vec<Node>),
    Alternation(Vec<Node>),
    Repetition(Box<Repetition>),
}

#[derive(Debug)]
struct Repetition {
    min: u32,
    max: u32,
    of: Node,
    /// Its place among those of repetitions, if it is one.
    nested: Option<usize>,
}

impl Pattern {
    /// # Errors
    /// What is wrong with it, for people.
    pub fn parse(text: &str) -> Result<Pattern, String> {
        if text.len() > BYTES_MAX {
            return Err(format!("it is longer than {BYTES_MAX} bytes"));
        }
        let parsed = ParserBuilder::new().nest_limit(NEST_MAX).build().parse(&syntax::translated(text)?);
        let hir = parsed.map_err(|error| match error {
            regex_syntax::Error::Parse(error) => error.kind().to_string(),
            // A class that there is not.
            _ => syntax::NO_CLASS.to_owned(),
        })?;
        let mut build = Build::default();
        let root = build.node(&hir, 0)?;
        Ok(Pattern { root, nested: build.nested })
    }

    /// None when that takes too long to say.
    pub fn matches(&self, name: &str) -> Option<bool> {
        if name.len() > NAME_BYTES_MAX {
            return Some(false);
        }
        let rounds = vec![None; self.nested * (name.len() + 1)];
        let mut matching = Matching { name, rounds, steps_left: STEPS_MAX };
        let ends = matching.ends(&self.root, Places::from_iter([0]));
        (matching.steps_left > 0).then(|| ends.contains(name.len()))
    }
}

#[derive(Debug, Default)]
struct Build {
    nested: usize,
    counts: usize,
    /// Repetitions so far.
    repetitions: usize,
}

impl Build {
    fn node(&mut self, hir: &Hir, height: usize) -> Result<Node, String> {
        if height > HEIGHT_MAX {
            return Err("expression nests too deeply".into());
        }
        let mut all =
            |parts: &[Hir]| parts.iter().map(|part| self.node(part, height + 1)).collect::<Result<Vec<Node>, String>>();
        Ok(match hir.kind() {
            HirKind::Empty => Node::Concat(Vec::new()),
            HirKind::Literal(literal) => Node::Literal(literal.0.clone()),
            HirKind::Class(class) => Node::Class(class.clone()),
            HirKind::Look(look) => Node::Look(*look),
            HirKind::Capture(capture) => self.node(&capture.sub, height + 1)?,
            HirKind::Concat(parts) => Node::Concat(all(parts)?),
            HirKind::Alternation(ways) => Node::Alternation(all(ways)?),
            HirKind::Repetition(repetition) => {
                let min = repetition.min.min(REPEATS_MAX);
                let max = repetition.max.map_or(u32::MAX, |max| max.min(REPEATS_MAX));
                self.counts += if max == u32::MAX { min as usize } else { max as usize };
                let before = self.repetitions;
                let of = self.node(&repetition.sub, height + 1)?;
                let is_nested = self.repetitions > before;
                self.repetitions += 1;
                let nested = is_nested.then_some(self.nested);
                self.nested += usize::from(is_nested);
                if self.counts > COUNTS_MAX || self.nested > NESTED_MAX {
                    return Err("expression too large".into());
                }
                Node::Repetition(Box::new(Repetition { min, max, of, nested }))
            }
        })
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

    fn without(mut self, other: Places) -> Places {
        self.0.iter_mut().zip(other.0).for_each(|(word, gone)| *word &= !gone);
        self
    }

    fn count(self) -> u32 {
        self.0.iter().map(|word| word.count_ones()).sum()
    }

    fn iter(self) -> impl Iterator<Item = usize> {
        let bits = |(at, mut word): (usize, u64)| {
            std::iter::from_fn(move || {
                let bit = (word != 0).then(|| word.trailing_zeros() as usize)?;
                word &= word - 1;
                Some(at * 64 + bit)
            })
        };
        self.0.into_iter().enumerate().flat_map(bits)
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

/// All places at once: no input makes it try ways one by one.
struct Matching<'a> {
    name: &'a str,
    /// Of each repetition of repetitions and each place, where one round ends. Each is found once, however many
    /// repetitions it is in.
    rounds: Vec<Option<Places>>,
    /// None left: nothing matches any more.
    steps_left: u32,
}

impl Matching<'_> {
    /// Where a match can end that begins at one of these places.
    fn ends(&mut self, node: &Node, starts: Places) -> Places {
        let name = self.name;
        if self.is_spent(starts) {
            return Places::default();
        }
        match node {
            Node::Literal(literal) => {
                let follows = |at: &usize| name.as_bytes()[*at..].starts_with(literal);
                starts.iter().filter(follows).map(|at| at + literal.len()).collect()
            }
            Node::Class(class) => {
                let next = |at: usize| {
                    let next = name.get(at..)?.chars().next()?;
                    is_in(class, next).then(|| at + next.len_utf8())
                };
                starts.iter().filter_map(next).collect()
            }
            Node::Look(look) => starts.iter().filter(|at| holds(*look, name, *at)).collect(),
            Node::Concat(parts) => {
                let mut places = starts;
                for part in parts {
                    if places.is_empty() {
                        break;
                    }
                    places = self.ends(part, places);
                }
                places
            }
            Node::Alternation(ways) => {
                let mut all = Places::default();
                for way in ways {
                    all |= self.ends(way, starts);
                }
                all
            }
            Node::Repetition(repetition) => {
                let mut places = starts;
                for _ in 0..repetition.min {
                    let next = self.round(repetition, places);
                    if next == places {
                        break;
                    }
                    places = next;
                }
                let (mut all, mut fresh) = (places, places);
                for _ in repetition.min..repetition.max {
                    fresh = self.round(repetition, fresh).without(all);
                    if fresh.is_empty() {
                        break;
                    }
                    all |= fresh;
                }
                all
            }
        }
    }

    /// A place costs as much as a node.
    fn is_spent(&mut self, starts: Places) -> bool {
        self.steps_left = self.steps_left.saturating_sub(1 + starts.count());
        self.steps_left == 0
    }

    fn round(&mut self, repetition: &Repetition, starts: Places) -> Places {
        let Some(nested) = repetition.nested else { return self.ends(&repetition.of, starts) };
        if self.is_spent(starts) {
            return Places::default();
        }
        let mut all = Places::default();
        for at in starts.iter() {
            let place = nested * (self.name.len() + 1) + at;
            let known = self.rounds[place];
            let ends = known.unwrap_or_else(|| self.ends(&repetition.of, Places::from_iter([at])));
            self.rounds[place] = Some(ends);
            all |= ends;
        }
        all
    }
}

fn is_in(class: &Class, one: char) -> bool {
    match class {
        Class::Unicode(class) => {
            // In order, and apart.
            let after = class.ranges().partition_point(|range| range.start() <= one);
            after.checked_sub(1).is_some_and(|at| one <= class.ranges()[at].end())
        }
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
