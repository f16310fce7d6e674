//! Go's regular expressions, rewritten for the `regex` crate.
//!
//! Both are RE2 engines: leftmost-first, linear time. Their syntax differs: Go's classes `\d`, `\w`, `\s`
//! and `\b` are ASCII only, it has `\Q…\E` and octal escapes, and a brace that repeats nothing is a
//! literal; it has no nested sets and no flags `x` and `u`.

use std::{fmt::Write as _, iter::Peekable, str::Chars};

use regex::{Regex, RegexBuilder};

/// Compiles a Go pattern; errors have Go's messages.
pub(crate) fn compile(pattern: &str) -> Result<Regex, String> {
    const SIZE: usize = 1 << 20;
    let failed = |problem: &str| format!("error parsing regexp: {problem}: `{pattern}`");
    let rewritten = rewrite(pattern).map_err(|problem| failed(&problem))?;
    let mut builder = RegexBuilder::new(&rewritten);
    builder.size_limit(SIZE).dfa_size_limit(SIZE).nest_limit(100);
    builder.build().map_err(|problem| match problem {
        regex::Error::CompiledTooBig(_) => failed("expression too large"),
        _ => failed("invalid or unsupported syntax"),
    })
}

/// The name in the compiled pattern of the group `name`.
pub(crate) fn group_name(name: &str) -> String {
    format!("n{name}")
}

struct Rewriter<'p> {
    rest: Peekable<Chars<'p>>,
    out: String,
}

fn rewrite(pattern: &str) -> Result<String, String> {
    let mut rewriter = Rewriter { rest: pattern.chars().peekable(), out: String::new() };
    let mut after_repeat = false;
    while let Some(c) = rewriter.rest.next() {
        let repeats = matches!(c, '*' | '+' | '?') || c == '{' && rewriter.repetition().is_some();
        if repeats && after_repeat {
            return Err("invalid nested repetition operator".to_owned());
        }
        match c {
            '\\' => rewriter.escape(false)?,
            '[' => rewriter.class()?,
            '(' => rewriter.group()?,
            '{' => rewriter.brace()?,
            '*' | '+' | '?' => {
                rewriter.out.push(c);
                rewriter.lazy();
            }
            c => rewriter.out.push(c),
        }
        after_repeat = repeats;
    }
    Ok(rewriter.out)
}

impl Rewriter<'_> {
    fn literal(&mut self, c: char) {
        if c.is_alphanumeric() {
            self.out.push(c);
        } else {
            _ = write!(self.out, "\\x{{{:X}}}", u32::from(c));
        }
    }

    /// Copies the `?` that makes a repetition lazy.
    fn lazy(&mut self) {
        if self.rest.next_if_eq(&'?').is_some() {
            self.out.push('?');
        }
    }

    /// The bounds of `{2}`, `{2,}` or `{2,3}` after its `{`, and the length of the remainder.
    fn repetition(&self) -> Option<(u32, Option<u32>, usize)> {
        const LONGEST: usize = 16;
        let rest: String = self.rest.clone().take(LONGEST).take_while(|c| *c != '}').collect();
        let closed = self.rest.clone().nth(rest.chars().count()) == Some('}');
        let (low, high) =
            rest.split_once(',').map_or((&*rest, None), |(low, high)| (low, Some(high)));
        let number = |text: &str| {
            let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
            plain.then(|| text.parse::<u32>().unwrap_or(u32::MAX))
        };
        let low = number(low).filter(|_| closed)?;
        let high = match high {
            None => Some(low),
            Some("") => None,
            Some(high) => Some(number(high)?),
        };
        Some((low, high, rest.len() + 1))
    }

    fn brace(&mut self) -> Result<(), String> {
        const MOST: u32 = 1000;
        let Some((low, high, length)) = self.repetition() else {
            self.literal('{');
            return Ok(());
        };
        if low > MOST || high.is_some_and(|high| high > MOST || high < low) {
            return Err("invalid repeat count".to_owned());
        }
        self.out.push('{');
        self.out.extend(self.rest.by_ref().take(length));
        self.lazy();
        Ok(())
    }

    fn group(&mut self) -> Result<(), String> {
        self.out.push('(');
        if self.rest.next_if_eq(&'?').is_none() {
            return Ok(());
        }
        self.out.push('?');
        if matches!(self.rest.peek(), Some('P' | '<')) {
            return self.name();
        }
        for c in self.rest.by_ref() {
            if !matches!(c, 'i' | 'm' | 's' | 'U' | '-' | ':' | ')') {
                return Err("invalid or unsupported Perl syntax".to_owned());
            }
            self.out.push(c);
            if matches!(c, ':' | ')') {
                return Ok(());
            }
        }
        Err("missing argument to repetition operator".to_owned())
    }

    /// `P<name>` or `<name>`; a prefix allows names that begin with a digit, as Go does.
    fn name(&mut self) -> Result<(), String> {
        self.rest.next_if_eq(&'P');
        let name: String = self.rest.by_ref().take_while(|c| *c != '>').collect();
        let plain = |name: &&str| name.chars().all(|c| c == '_' || c.is_ascii_alphanumeric());
        match name.strip_prefix('<').filter(plain).filter(|name| !name.is_empty()) {
            Some(name) => _ = write!(self.out, "P<{}>", group_name(name)),
            None => return Err("invalid named capture".to_owned()),
        }
        Ok(())
    }

    /// `[…]` after its opening bracket.
    fn class(&mut self) -> Result<(), String> {
        self.out.push('[');
        if self.rest.next_if_eq(&'^').is_some() {
            self.out.push('^');
        }
        let mut first = true;
        while let Some(c) = self.rest.next() {
            match c {
                ']' if !first => {
                    self.out.push(']');
                    return Ok(());
                }
                '[' if self.rest.peek() == Some(&':') && self.named_class() => {}
                '\\' => self.escape(true)?,
                '-' if self.range_here(first) => self.out.push('-'),
                c => self.literal(c),
            }
            first = false;
        }
        Err("missing closing ]".to_owned())
    }

    /// Whether a hyphen at this position forms a range.
    fn range_here(&mut self, first: bool) -> bool {
        !first && self.rest.peek().is_some_and(|c| *c != ']') && !self.out.ends_with(['-', '^'])
    }

    /// `[:alpha:]`, if one is next.
    fn named_class(&mut self) -> bool {
        let name: String = self.rest.clone().skip(1).take_while(|c| *c != ':').collect();
        let tail: String = self.rest.clone().skip(1 + name.chars().count()).take(2).collect();
        let plain = name.chars().all(|c| c.is_ascii_lowercase() || c == '^');
        if tail != ":]" || !plain {
            return false;
        }
        _ = write!(self.out, "[:{name}:]");
        self.rest.by_ref().take(name.len() + 3).for_each(drop);
        true
    }

    /// An escape sequence after its backslash.
    fn escape(&mut self, in_class: bool) -> Result<(), String> {
        let invalid = || Err("invalid escape sequence".to_owned());
        let Some(c) = self.rest.next() else {
            return Err("trailing backslash at end of expression".to_owned());
        };
        let ascii = match c {
            'd' => "0-9",
            'w' => "0-9A-Za-z_",
            's' => r"\t\n\x0C\r\x20",
            'D' => "^0-9",
            'W' => "^0-9A-Za-z_",
            'S' => r"^\t\n\x0C\r\x20",
            _ => "",
        };
        match c {
            'd' | 'w' | 's' if in_class => self.out.push_str(ascii),
            'd' | 'w' | 's' | 'D' | 'W' | 'S' => _ = write!(self.out, "[{ascii}]"),
            'b' | 'B' if !in_class => _ = write!(self.out, "(?-u:\\{c})"),
            'A' | 'z' if !in_class => _ = write!(self.out, "\\{c}"),
            'Q' if !in_class => self.quoted(),
            'p' | 'P' => self.unicode_class(c),
            'x' => return self.hex(),
            'a' => self.literal('\x07'),
            'f' => self.literal('\x0c'),
            'n' => self.literal('\n'),
            'r' => self.literal('\r'),
            't' => self.literal('\t'),
            'v' => self.literal('\x0b'),
            '0'..='7' => {
                let mut code = c.to_digit(8).unwrap_or(0);
                let octal = |c: &char| matches!(c, '0'..='7');
                if c != '0' && !self.rest.peek().is_some_and(octal) {
                    return invalid();
                }
                for _ in 0..2 {
                    let Some(digit) = self.rest.next_if(octal) else { break };
                    code = code * 8 + digit.to_digit(8).unwrap_or(0);
                }
                self.literal(char::from_u32(code).unwrap_or_default());
            }
            c if c.is_ascii() && !c.is_ascii_alphanumeric() => self.literal(c),
            _ => return invalid(),
        }
        Ok(())
    }

    /// Everything up to `\E`.
    fn quoted(&mut self) {
        while let Some(c) = self.rest.next() {
            if c == '\\' && self.rest.next_if_eq(&'E').is_some() {
                return;
            }
            self.literal(c);
        }
    }

    /// `\pL`, `\p{Greek}` or `\p{^Greek}`.
    fn unicode_class(&mut self, mut letter: char) {
        let Some(c) = self.rest.next() else { return };
        let name: String = match c {
            '{' => self.rest.by_ref().take_while(|c| *c != '}').collect(),
            c => c.into(),
        };
        let name = match name.strip_prefix('^') {
            Some(name) => {
                letter = if letter == 'p' { 'P' } else { 'p' };
                name
            }
            None => &name,
        };
        _ = write!(self.out, "\\{letter}{{{name}}}");
    }

    fn hex(&mut self) -> Result<(), String> {
        let digits: String = match self.rest.next_if_eq(&'{') {
            Some(_) => self.rest.by_ref().take_while(|c| *c != '}').collect(),
            None => self.rest.by_ref().take(2).collect(),
        };
        let code = u32::from_str_radix(&digits, 16).ok().and_then(char::from_u32);
        match code.filter(|_| !digits.starts_with('+')) {
            Some(c) => {
                self.literal(c);
                Ok(())
            }
            None => Err("invalid escape sequence".to_owned()),
        }
    }
}
