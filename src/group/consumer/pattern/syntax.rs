//! RE2's syntax, as RE2/J reads it, in the words of `regex-syntax`: the two differ in what is a letter of its own (`{`, `[` in a
//! class), in what may follow what (`a++`), and in what a class is (`\d` is ASCII here).

use std::collections::HashSet;
use std::fmt::Write;

/// Repetitions are counted so far (RE2/J's own limit).
const COUNT_MAX: u32 = 1000;

const CATEGORIES: [&str; 37] = [
    "C", "Cc", "Cf", "Co", "Cs", "L", "Ll", "Lm", "Lo", "Lt", "Lu", "M", "Mc", "Me", "Mn", "N", "Nd", "Nl", "No", "P",
    "Pc", "Pd", "Pe", "Pf", "Pi", "Po", "Ps", "S", "Sc", "Sk", "Sm", "So", "Z", "Zl", "Zp", "Zs", "Any",
];

const ASCII_CLASSES: [&str; 14] = [
    "alnum", "alpha", "ascii", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space", "upper", "word",
    "xdigit",
];

pub(super) const NO_CLASS: &str = "invalid character class range";

/// # Errors
/// What is wrong with it, in RE2/J's words.
pub(super) fn translated(text: &str) -> Result<String, String> {
    let mut translation = Translation { rest: text, out: String::with_capacity(text.len() * 2), ..Default::default() };
    while !translation.rest.is_empty() {
        translation.step()?;
    }
    match translation.depth {
        0 => Ok(translation.out),
        _ => Err("missing closing )".into()),
    }
}

/// What a repetition would repeat.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Before {
    #[default]
    Nothing,
    Something,
    Repetition,
}

#[derive(Debug, Default)]
struct Translation<'a> {
    rest: &'a str,
    out: String,
    depth: usize,
    before: Before,
    /// Where in `out` it ends.
    end: usize,
    names: HashSet<&'a str>,
}

impl<'a> Translation<'a> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    fn take(&mut self, word: &str) -> bool {
        let rest = self.rest.strip_prefix(word);
        self.rest = rest.unwrap_or(self.rest);
        rest.is_some()
    }

    fn step(&mut self) -> Result<(), String> {
        let Some(next) = self.next() else { return Ok(()) };
        match next {
            '(' => return self.open(),
            ')' if self.depth == 0 => return Err("unexpected )".into()),
            ')' => {
                self.depth -= 1;
                self.out.push(')');
            }
            '|' => {
                self.out.push('|');
                self.before = Before::Nothing;
                return Ok(());
            }
            '*' | '+' | '?' => return self.repeat(&next.to_string()),
            '{' => match self.count()? {
                Some(count) => return self.repeat(&count),
                None => {
                    self.literal('{');
                    // RE2/J takes it for a repetition all the same.
                    self.is(Before::Repetition);
                    return Ok(());
                }
            },
            '.' | '^' | '$' => self.out.push(next),
            '[' => self.class()?,
            '\\' => return self.escaped(),
            _ => self.literal(next),
        }
        self.is(Before::Something);
        Ok(())
    }

    /// What ends here may be repeated, or not.
    fn is(&mut self, before: Before) {
        (self.before, self.end) = (before, self.out.len());
    }

    /// Something that is nothing: a repetition after it is one of what was before.
    fn pass(&mut self) {
        if self.before == Before::Repetition {
            self.before = Before::Something;
        }
    }

    fn literal(&mut self, one: char) {
        match one.is_ascii_alphanumeric() {
            true => self.out.push(one),
            false => write!(self.out, "\\x{{{:x}}}", u32::from(one)).expect("writing to memory does not fail"),
        }
    }

    fn repeat(&mut self, operator: &str) -> Result<(), String> {
        match self.before {
            Before::Nothing => Err("missing argument to repetition operator".into()),
            Before::Repetition => Err("invalid nested repetition operator".into()),
            Before::Something => {
                let lazy = if self.take("?") { "?" } else { "" };
                self.out.insert_str(self.end, &format!("{operator}{lazy}"));
                self.before = Before::Repetition;
                self.end += operator.len() + lazy.len();
                Ok(())
            }
        }
    }

    /// What is in braces, if it is a count; it is as it stands if not.
    fn count(&mut self) -> Result<Option<String>, String> {
        let Some((inside, rest)) = self.rest.split_once('}') else { return Ok(None) };
        let is_number = |digits: &str| {
            let plain = digits == "0" || !digits.starts_with('0');
            plain && !digits.is_empty() && digits.bytes().all(|digit| digit.is_ascii_digit())
        };
        let (min, max) = inside.split_once(',').unwrap_or((inside, inside));
        if !is_number(min) || !(max.is_empty() || is_number(max)) {
            return Ok(None);
        }
        let number = |digits: &str| digits.parse::<u32>().ok().filter(|number| *number <= COUNT_MAX);
        let fits = number(min).is_some_and(|min| max.is_empty() || number(max).is_some_and(|max| min <= max));
        if !fits {
            return Err("invalid repeat count".into());
        }
        self.rest = rest;
        Ok(Some(format!("{{{inside}}}")))
    }

    /// A group, or flags for what follows.
    fn open(&mut self) -> Result<(), String> {
        if !self.take("?") {
            self.out.push_str("(?:");
        } else if self.take("P<") || self.take("<") {
            let name = self.rest.split_once('>');
            let is_plain = |name: &str| name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            let (name, rest) =
                name.filter(|(name, _)| !name.is_empty() && is_plain(name)).ok_or("invalid named capture")?;
            if !self.names.insert(name) {
                return Err("duplicate capture group name".into());
            }
            self.rest = rest;
            self.out.push_str("(?:");
        } else if self.flags()? {
            return Ok(());
        }
        self.depth += 1;
        self.before = Before::Nothing;
        Ok(())
    }

    /// True for flags without a group. The last word on each counts.
    fn flags(&mut self) -> Result<bool, String> {
        const UNKNOWN: &str = "invalid or unsupported Perl syntax";
        let (mut on, mut off, mut is_off, mut any) = (String::new(), String::new(), false, false);
        loop {
            match self.next().ok_or(UNKNOWN)? {
                flag @ ('i' | 'm' | 's' | 'U') => {
                    on.retain(|known| known != flag);
                    off.retain(|known| known != flag);
                    if is_off {
                        off.push(flag)
                    } else {
                        on.push(flag)
                    }
                    any = true;
                }
                '-' if !is_off => (is_off, any) = (true, false),
                end @ (':' | ')') if any || !is_off => {
                    let minus = if off.is_empty() { "" } else { "-" };
                    let is_alone = end == ')';
                    if is_alone {
                        self.pass();
                    }
                    if !is_alone || !on.is_empty() || !off.is_empty() {
                        write!(self.out, "(?{on}{minus}{off}{end}").expect("writing to memory does not fail");
                    }
                    return Ok(is_alone);
                }
                _ => return Err(UNKNOWN.into()),
            }
        }
    }

    /// What follows a backslash, outside of classes.
    fn escaped(&mut self) -> Result<(), String> {
        let next = self.peek().ok_or("trailing backslash at end of expression")?;
        match next {
            'Q' => {
                self.next();
                let (quoted, rest) = self.rest.split_once("\\E").unwrap_or((self.rest, ""));
                self.rest = rest;
                if quoted.is_empty() {
                    self.pass();
                    return Ok(());
                }
                quoted.chars().for_each(|one| self.literal(one));
            }
            'A' | 'z' | 'b' | 'B' => {
                self.next();
                // Bracketed, since `\b{` would be the beginning of something else.
                write!(self.out, "(?:\\{next})").expect("writing to memory does not fail");
            }
            _ if self.class_escaped()? => {}
            _ => {
                let one = self.escape()?;
                self.literal(one);
            }
        }
        self.is(Before::Something);
        Ok(())
    }

    /// Classes that a backslash makes, inside of others too. False where it makes none.
    fn class_escaped(&mut self) -> Result<bool, String> {
        let Some(next) = self.peek() else { return Ok(false) };
        let perl = match next {
            'd' => "[0-9]",
            'D' => "[^0-9]",
            's' => r"[\t\n\f\r ]",
            'S' => r"[^\t\n\f\r ]",
            'w' => "[0-9A-Za-z_]",
            'W' => "[^0-9A-Za-z_]",
            'p' | 'P' => {
                self.next();
                return self.unicode(next == 'P').map(|()| true);
            }
            _ => return Ok(false),
        };
        self.next();
        self.out.push_str(perl);
        Ok(true)
    }

    fn unicode(&mut self, negated: bool) -> Result<(), String> {
        let name = match self.take("{") {
            true => {
                let (name, rest) = self.rest.split_once('}').ok_or(NO_CLASS)?;
                self.rest = rest;
                name
            }
            false => {
                let rest = self.rest;
                let one = self.next().ok_or(NO_CLASS)?;
                &rest[..one.len_utf8()]
            }
        };
        let (name, negated) = name.strip_prefix('^').map_or((name, negated), |name| (name, !negated));
        let kind = match CATEGORIES.contains(&name) {
            true => "",
            false if name.starts_with(|first: char| first.is_ascii_uppercase()) => "Script=",
            false => return Err(NO_CLASS.into()),
        };
        if !name.bytes().all(|byte| byte.is_ascii_alphabetic() || byte == b'_') {
            return Err(NO_CLASS.into());
        }
        let letter = if negated { 'P' } else { 'p' };
        write!(self.out, "\\{letter}{{{kind}{name}}}").expect("writing to memory does not fail");
        Ok(())
    }

    /// The character that an escape stands for.
    fn escape(&mut self) -> Result<char, String> {
        const UNKNOWN: &str = "invalid escape sequence";
        let next = self.next().ok_or("trailing backslash at end of expression")?;
        let code = match next {
            // A digit alone would be a reference to a group.
            '1'..='7' if !self.peek().is_some_and(|next| next.is_digit(8)) => return Err(UNKNOWN.into()),
            '0'..='7' => {
                let mut code = next.to_digit(8).unwrap_or(0);
                for _ in 0..2 {
                    let Some(digit) = self.peek().and_then(|next| next.to_digit(8)) else { break };
                    self.next();
                    code = code * 8 + digit;
                }
                code
            }
            'x' => {
                let digits = match self.take("{") {
                    true => {
                        let (digits, rest) = self.rest.split_once('}').ok_or(UNKNOWN)?;
                        self.rest = rest;
                        digits
                    }
                    false => {
                        let (digits, rest) = self.rest.split_at_checked(2).ok_or(UNKNOWN)?;
                        self.rest = rest;
                        digits
                    }
                };
                let is_hex = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
                u32::from_str_radix(digits, 16).ok().filter(|_| is_hex).ok_or(UNKNOWN)?
            }
            'a' => 7,
            'f' => 12,
            'n' => 10,
            'r' => 13,
            't' => 9,
            'v' => 11,
            _ if next.is_ascii_alphanumeric() => return Err(UNKNOWN.into()),
            _ => u32::from(next),
        };
        char::from_u32(code).ok_or_else(|| UNKNOWN.into())
    }

    fn class(&mut self) -> Result<(), String> {
        const OPEN: &str = "missing closing ]";
        self.out.push('[');
        if self.take("^") {
            self.out.push('^');
        }
        let mut is_first = true;
        loop {
            let next = self.peek().ok_or(OPEN)?;
            if next == ']' && !is_first {
                self.next();
                self.out.push(']');
                return Ok(());
            }
            is_first = false;
            if next == '[' && self.ascii_class()? {
                continue;
            }
            if next == '\\' {
                let here = self.rest;
                self.next();
                if self.class_escaped()? {
                    continue;
                }
                self.rest = here;
            }
            let low = self.class_char(OPEN)?;
            self.literal(low);
            let is_range = self.rest.strip_prefix('-').is_some_and(|rest| !rest.starts_with(']'));
            if is_range {
                self.next();
                let high = self.class_char(OPEN)?;
                if high < low {
                    return Err(NO_CLASS.into());
                }
                self.out.push('-');
                self.literal(high);
            }
        }
    }

    fn class_char(&mut self, open: &str) -> Result<char, String> {
        match self.next().ok_or(open)? {
            '\\' => self.escape(),
            one => Ok(one),
        }
    }

    /// One like `[:alpha:]`. False where a bracket is a letter of the class.
    fn ascii_class(&mut self) -> Result<bool, String> {
        let inside = self.rest.strip_prefix("[:").and_then(|rest| rest.split_once(":]"));
        let Some((name, rest)) = inside else { return Ok(false) };
        if !ASCII_CLASSES.contains(&name.strip_prefix('^').unwrap_or(name)) {
            return Err(NO_CLASS.into());
        }
        self.rest = rest;
        write!(self.out, "[:{name}:]").expect("writing to memory does not fail");
        Ok(true)
    }
}
