//! Translation of Python regular expressions to those of our engine.
//!
//! The pattern is parsed by Python's rules and written with constructs that mean the same to the
//! engine. Whatever Python rejects is rejected, so that no syntax of the engine leaks through.

use crate::policy::pattern::{
    flags::{self, Flags, Inline},
    piece::{Kind, Mode, Piece, UNBOUNDED, Width},
    set,
    token::{Token, Tokens},
};

/// The maximum nesting of groups.
const MAX_NESTING: usize = 50;

/// A pattern for the engine that matches exactly the texts that match `source` as a whole.
///
/// `flags` are the initial flags.
pub(super) fn translate(source: &str, flags: Flags) -> Result<String, String> {
    let mut reader = Reader {
        tokens: Tokens::new(source)?,
        groups: Vec::new(),
        conditions: Vec::new(),
        behind: None,
        depth: 0,
    };
    let pattern = reader.alternatives(flags)?;
    if reader.tokens.peek().is_some() {
        return Err("unbalanced parenthesis".to_owned());
    }
    if let Some(number) = reader.conditions.iter().find(|number| **number > reader.groups.len()) {
        return Err(format!("invalid group reference {number}"));
    }
    Ok(format!(r"\A(?:{})\z", pattern.text))
}

/// Whether a translated pattern needs backtracking. If not, matching takes linear time.
pub(super) fn backtracks(pattern: &str) -> bool {
    // Literal parentheses and backslashes are written as code points, so these are all group
    // openings.
    let openings = ["(?=", "(?!", "(?<", "(?>", "(?("];
    let mut after_colons = pattern.split(r":\").skip(1);
    openings.iter().any(|sign| pattern.contains(sign))
        || after_colons.any(|rest| rest.starts_with(|digit: char| digit.is_ascii_digit()))
}

struct Reader {
    tokens: Tokens,
    /// The capturing groups begun so far.
    groups: Vec<Group>,
    /// Groups that conditions refer to by number; they may begin later.
    conditions: Vec<usize>,
    /// Within a look-behind: the number of groups before it.
    behind: Option<usize>,
    depth: usize,
}

struct Group {
    name: Option<String>,
    /// None until the group is closed.
    width: Option<Width>,
}

impl Reader {
    /// Parses alternatives up to the end of the group or the pattern.
    fn alternatives(&mut self, mut flags: Flags) -> Result<Piece, String> {
        self.depth += 1;
        if self.depth > MAX_NESTING {
            return Err("groups are nested too deep".to_owned());
        }
        let mut whole = self.branch(&mut flags, self.depth == 1)?;
        while self.tokens.eat('|') {
            let next = self.branch(&mut flags, false)?;
            whole.width = whole.width.or(next.width);
            whole.text.push('|');
            whole.text.push_str(&next.text);
        }
        self.depth -= 1;
        Ok(whole)
    }

    /// Parses one branch. Global flags may begin the first.
    fn branch(&mut self, flags: &mut Flags, first: bool) -> Result<Piece, String> {
        let mut pieces: Vec<Piece> = Vec::new();
        while let Some(token) = self.tokens.peek() {
            if matches!(token, Token::Plain('|' | ')')) {
                break;
            }
            self.tokens.next();
            match token {
                Token::Plain(' ' | '\t' | '\n' | '\r' | '\u{B}' | '\u{C}')
                    if flags.has(Flags::VERBOSE) => {}
                Token::Plain('#') if flags.has(Flags::VERBOSE) => {
                    self.tokens.skip_past('\n');
                }
                Token::Plain(sign @ ('*' | '+' | '?' | '{')) => match self.count(sign)? {
                    Some(count) => {
                        let repeated = self.repeat(pieces.pop(), count)?;
                        pieces.push(repeated);
                    }
                    None => pieces.push(Piece::item(set::literal(0x7B, *flags), Width::ONE)),
                },
                Token::Plain('(') => {
                    let at_start = first && pieces.is_empty();
                    pieces.extend(self.group(flags, at_start)?);
                }
                Token::Plain(character) => pieces.push(self.plain(character, *flags)?),
                Token::Escaped(letter) => pieces.push(self.escape(letter, *flags)?),
            }
        }
        let width = pieces.iter().fold(Width::ZERO, |width, piece| width.then(piece.width));
        Ok(Piece::item(pieces.into_iter().map(|piece| piece.text).collect::<String>(), width))
    }

    fn plain(&mut self, character: char, flags: Flags) -> Result<Piece, String> {
        Ok(match character {
            '[' => Piece::item(set::bracketed(&mut self.tokens, flags)?, Width::ONE),
            '.' => Piece::item(set::dot(flags), Width::ONE),
            '^' if flags.has(Flags::MULTI_LINE) => Piece::anchor("(?m:^)"),
            '^' => Piece::anchor(r"\A"),
            '$' if flags.has(Flags::MULTI_LINE) => Piece::anchor("(?m:$)"),
            // At the end of the pattern nothing can match the line break that Python's `$` allows.
            '$' if self.at_pattern_end() => Piece::anchor(r"\z"),
            '$' => Piece::anchor(r"(?=\n?\z)"),
            _ => Piece::item(set::literal(u32::from(character), flags), Width::ONE),
        })
    }

    /// Whether a branch of the whole pattern ends here.
    fn at_pattern_end(&self) -> bool {
        self.depth == 1 && matches!(self.tokens.peek(), None | Some(Token::Plain('|')))
    }

    fn escape(&mut self, letter: char, flags: Flags) -> Result<Piece, String> {
        let code = match letter {
            'A' => return Ok(Piece::anchor(r"\A")),
            'Z' => return Ok(Piece::anchor(r"\z")),
            'b' | 'B' => return Ok(Piece::anchor(set::boundary(letter == 'b', flags))),
            'd' | 'D' | 's' | 'S' | 'w' | 'W' => {
                return Ok(Piece::item(set::class(letter, flags), Width::ONE));
            }
            '0' => set::octal(&format!("0{}", self.tokens.digits(8, 2)))?,
            '1'..='9' => {
                let position = self.tokens.position();
                let octal = format!("{letter}{}", self.tokens.digits(8, 2));
                if octal.len() < 3 || letter > '7' {
                    self.tokens.back_to(position);
                    let number = format!("{letter}{}", self.tokens.digits(10, 1));
                    return self.reference(number.parse().unwrap_or(0), flags);
                }
                set::octal(&octal)?
            }
            _ => set::escaped_character(&mut self.tokens, letter)?,
        };
        Ok(Piece::item(set::literal(code, flags), Width::ONE))
    }

    /// A back-reference to a group.
    fn reference(&mut self, number: usize, flags: Flags) -> Result<Piece, String> {
        let Some(group) = number.checked_sub(1).and_then(|index| self.groups.get(index)) else {
            return Err(format!("invalid group reference {number}"));
        };
        let width = group.width.ok_or("cannot refer to an open group")?;
        self.check_behind(number)?;
        let flag = if flags.has(Flags::IGNORE_CASE) { "i" } else { "" };
        Ok(Piece::item(format!(r"(?{flag}:\{number})"), width))
    }

    /// Within a look-behind, only groups closed before it can be referenced.
    fn check_behind(&self, number: usize) -> Result<(), String> {
        let Some(before) = self.behind else { return Ok(()) };
        let open = number
            .checked_sub(1)
            .and_then(|index| self.groups.get(index))
            .is_none_or(|group| group.width.is_none());
        if open {
            return Err("cannot refer to an open group".to_owned());
        }
        if number > before {
            return Err("cannot refer to a group in the same look-behind".to_owned());
        }
        Ok(())
    }

    /// Parses the rest of a quantifier: the minimum and maximum. A brace that begins none is a
    /// literal.
    fn count(&mut self, sign: char) -> Result<Option<(u64, u64)>, String> {
        match sign {
            '*' => return Ok(Some((0, UNBOUNDED))),
            '+' => return Ok(Some((1, UNBOUNDED))),
            '?' => return Ok(Some((0, 1))),
            _ => {}
        }
        let position = self.tokens.position();
        if self.tokens.peek() == Some(Token::Plain('}')) {
            return Ok(None);
        }
        let low = self.tokens.digits(10, usize::MAX);
        let high =
            if self.tokens.eat(',') { self.tokens.digits(10, usize::MAX) } else { low.clone() };
        if !self.tokens.eat('}') {
            self.tokens.back_to(position);
            return Ok(None);
        }
        let number = |digits: &str, absent| match digits.parse::<u64>() {
            _ if digits.is_empty() => Ok(absent),
            Ok(number) if number < UNBOUNDED => Ok(number),
            Ok(_) | Err(_) => Err("the repetition number is too large".to_owned()),
        };
        let (min, max) = (number(&low, 0)?, number(&high, UNBOUNDED)?);
        if min > max {
            return Err("min repeat greater than max repeat".to_owned());
        }
        Ok(Some((min, max)))
    }

    fn repeat(&mut self, piece: Option<Piece>, count: (u64, u64)) -> Result<Piece, String> {
        let piece = match piece {
            Some(piece) if piece.kind == Kind::Item => piece,
            Some(piece) if piece.kind == Kind::Repeat => return Err("multiple repeat".to_owned()),
            Some(_) | None => return Err("nothing to repeat".to_owned()),
        };
        let mode = if self.tokens.eat('?') {
            Mode::Lazy
        } else if self.tokens.eat('+') {
            Mode::Possessive
        } else {
            Mode::Greedy
        };
        Ok(piece.repeated(count, mode))
    }

    /// Parses what follows a `(`. Comments and global flags yield nothing.
    fn group(&mut self, flags: &mut Flags, at_start: bool) -> Result<Option<Piece>, String> {
        if !self.tokens.eat('?') {
            return self.capture(None, *flags).map(Some);
        }
        let position = self.tokens.position();
        let piece = match self.tokens.next() {
            Some(Token::Plain('P')) => self.named(*flags)?,
            Some(Token::Plain(':')) => self.enclosed("(?:", *flags)?,
            Some(Token::Plain('>')) => self.enclosed("(?>", *flags)?,
            Some(Token::Plain('=')) => self.look("(?=", *flags)?,
            Some(Token::Plain('!')) => self.look("(?!", *flags)?,
            Some(Token::Plain('<')) => self.look_behind(*flags)?,
            Some(Token::Plain('(')) => self.condition(*flags)?,
            Some(Token::Plain('#')) if self.tokens.skip_past(')') => return Ok(None),
            Some(Token::Plain('#')) => return Err("unterminated comment".to_owned()),
            Some(Token::Plain('i' | 'm' | 's' | 'x' | 'a' | 'u' | '-')) => {
                self.tokens.back_to(position);
                match flags::inline(&mut self.tokens, *flags)? {
                    Inline::Inside(flags) => self.enclosed("(?:", flags)?,
                    Inline::Everywhere(_) if !at_start => {
                        return Err("global flags not at the start of the expression".to_owned());
                    }
                    Inline::Everywhere(all) => {
                        *flags = all;
                        return Ok(None);
                    }
                }
            }
            Some(Token::Plain(other) | Token::Escaped(other)) => {
                return Err(format!("unknown extension `?{other}`"));
            }
            None => return Err("unexpected end of pattern".to_owned()),
        };
        Ok(Some(piece))
    }

    /// Parses to the end of an open group and writes it with the prefix `begin`.
    fn enclosed(&mut self, begin: &str, flags: Flags) -> Result<Piece, String> {
        let inner = self.alternatives(flags)?;
        self.close()?;
        Ok(Piece::item(format!("{begin}{})", inner.text), inner.width))
    }

    fn close(&mut self) -> Result<(), String> {
        if self.tokens.eat(')') { Ok(()) } else { Err("missing `)`".to_owned()) }
    }

    fn capture(&mut self, name: Option<String>, flags: Flags) -> Result<Piece, String> {
        let index = self.groups.len();
        self.groups.push(Group { name, width: None });
        let piece = self.enclosed("(", flags)?;
        if let Some(group) = self.groups.get_mut(index) {
            group.width = Some(piece.width);
        }
        Ok(piece)
    }

    /// `(?P<name>…)` or `(?P=name)`.
    fn named(&mut self, flags: Flags) -> Result<Piece, String> {
        if self.tokens.eat('<') {
            let name = self.tokens.name('>')?;
            if !is_identifier(&name) {
                return Err(format!("bad character in group name `{name}`"));
            }
            if self.group_named(&name).is_ok() {
                return Err(format!("redefinition of group name `{name}`"));
            }
            return self.capture(Some(name), flags);
        }
        if self.tokens.eat('=') {
            let name = self.tokens.name(')')?;
            let number = self.group_named(&name)?;
            return self.reference(number, flags);
        }
        Err("unknown extension `?P`".to_owned())
    }

    fn group_named(&self, name: &str) -> Result<usize, String> {
        let mut groups = self.groups.iter();
        let index = groups.position(|group| group.name.as_deref() == Some(name));
        index.map(|index| index + 1).ok_or_else(|| format!("unknown group name `{name}`"))
    }

    fn look(&mut self, begin: &str, flags: Flags) -> Result<Piece, String> {
        let piece = self.enclosed(begin, flags)?;
        Ok(Piece::item(piece.text, Width::ZERO))
    }

    fn look_behind(&mut self, flags: Flags) -> Result<Piece, String> {
        let begin = match self.tokens.next() {
            Some(Token::Plain('=')) => "(?<=",
            Some(Token::Plain('!')) => "(?<!",
            _ => return Err("unknown extension `?<`".to_owned()),
        };
        let outer = self.behind;
        self.behind = outer.or(Some(self.groups.len()));
        let piece = self.enclosed(begin, flags)?;
        self.behind = outer;
        if piece.width.min != piece.width.max {
            return Err("look-behind requires fixed-width pattern".to_owned());
        }
        Ok(Piece::item(piece.text, Width::ZERO))
    }

    /// `(?(1)…|…)`: one branch if a group has matched, the other if it has not.
    fn condition(&mut self, flags: Flags) -> Result<Piece, String> {
        let name = self.tokens.name(')')?;
        let number = if is_identifier(&name) {
            self.group_named(&name)?
        } else {
            let number = name.parse().ok().filter(|number| *number > 0);
            number.ok_or_else(|| format!("bad group name `{name}`"))?
        };
        // Python uses the group's previous match, our engine the current one.
        if self.groups.get(number - 1).is_some_and(|group| group.width.is_none()) {
            return Err("a condition on the group it is in is not supported".to_owned());
        }
        self.conditions.push(number);
        self.check_behind(number)?;
        self.depth += 1;
        let mut flags = flags;
        let yes = self.branch(&mut flags, false)?;
        let no = if self.tokens.eat('|') {
            self.branch(&mut flags, false)?
        } else {
            Piece::item("", Width::ZERO)
        };
        self.depth -= 1;
        self.close().map_err(|_| "conditional with more than two branches".to_owned())?;
        let text = match (&*yes.text, &*no.text) {
            ("", "") => String::new(),
            (yes, no) => format!("(?({number})(?:{yes})|(?:{no}))"),
        };
        Ok(Piece::item(text, yes.width.or(no.width)))
    }
}

fn is_identifier(name: &str) -> bool {
    let is_start = |first: char| first == '_' || first.is_alphabetic();
    name.starts_with(is_start) && name.chars().all(|part| part == '_' || part.is_alphanumeric())
}
