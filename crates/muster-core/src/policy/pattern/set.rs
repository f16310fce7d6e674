//! Character sets: literals, classes such as `\w`, and bracketed sets.
//!
//! All are written as explicit ranges and Unicode properties, because the two engines define the
//! short forms differently.

use crate::policy::pattern::{
    flags::Flags,
    token::{Token, Tokens},
};

/// Matches nothing.
pub(super) const NEVER: &str = r"[^\x{0}-\x{10FFFF}]";
/// The members of the set of all characters.
const ALL: &str = r"\x{0}-\x{10FFFF}";
/// Equal to Python when case is ignored, but not to other engines.
const TURKISH_I: [char; 4] = ['I', 'i', 'İ', 'ı'];

/// A member of a bracketed set.
enum Member {
    /// A range of code points.
    Range(u32, u32),
    /// One of `d D s S w W`.
    Class(char),
}

/// The set matched by `.`.
pub(super) fn dot(flags: Flags) -> String {
    if flags.has(Flags::DOT_ALL) { write_set("", ALL, flags) } else { write_set("^", r"\n", flags) }
}

/// The set that matches one literal, by the flags.
pub(super) fn literal(code: u32, flags: Flags) -> String {
    let Some(character) = char::from_u32(code) else { return NEVER.to_owned() };
    let has_case = character.is_alphabetic() || !character.is_ascii();
    if flags.has(Flags::IGNORE_CASE) && has_case {
        return set(&[Member::Range(code, code)], "", flags);
    }
    member(code)
}

/// The set matched by one of `\d \D \s \S \w \W`.
pub(super) fn class(letter: char, flags: Flags) -> String {
    write_set("", &class_members(letter, flags), flags)
}

/// The assertion `\b` (`true`) or `\B`. In Python neither matches in an empty text.
pub(super) fn boundary(wanted: bool, flags: Flags) -> String {
    let word = class('w', flags);
    if wanted {
        format!("(?:(?<={word})(?!{word})|(?<!{word})(?={word}))")
    } else {
        format!(r"(?:(?<={word})(?={word})|(?<!{word})(?!{word})(?!\A\z))")
    }
}

/// Reads a bracketed set after its `[`.
pub(super) fn bracketed(tokens: &mut Tokens, flags: Flags) -> Result<String, String> {
    let negation = if tokens.eat('^') { "^" } else { "" };
    let mut members = Vec::new();
    while members.is_empty() || !tokens.eat(']') {
        let low = set_member(tokens)?;
        if !tokens.eat('-') {
            members.push(low);
            continue;
        }
        if tokens.eat(']') {
            members.extend([low, Member::Range(u32::from('-'), u32::from('-'))]);
            break;
        }
        match (low, set_member(tokens)?) {
            (Member::Range(low, _), Member::Range(_, high)) if low <= high => {
                members.push(Member::Range(low, high));
            }
            _ => return Err("bad character range".to_owned()),
        }
    }
    Ok(set(&members, negation, flags))
}

/// Reads the rest of an escape for a single character.
pub(super) fn escaped_character(tokens: &mut Tokens, letter: char) -> Result<u32, String> {
    let digits = match letter {
        'a' => return Ok(0x07),
        'f' => return Ok(0x0C),
        'n' => return Ok(0x0A),
        'r' => return Ok(0x0D),
        't' => return Ok(0x09),
        'v' => return Ok(0x0B),
        'x' => 2,
        'u' => 4,
        'U' => 8,
        'N' => return Err("characters by name (`\\N`) are not supported".to_owned()),
        _ if letter.is_ascii_alphanumeric() => return Err(format!("bad escape `\\{letter}`")),
        _ => return Ok(u32::from(letter)),
    };
    let hex = tokens.digits(16, digits);
    match u32::from_str_radix(&hex, 16) {
        Ok(code) if hex.len() == digits && code <= u32::from(char::MAX) => Ok(code),
        Ok(_) | Err(_) => Err(format!("incomplete escape `\\{letter}{hex}`")),
    }
}

/// The character of an octal escape.
pub(super) fn octal(digits: &str) -> Result<u32, String> {
    match u32::from_str_radix(digits, 8) {
        Ok(code @ ..=0o377) => Ok(code),
        Ok(_) | Err(_) => Err(format!("octal escape `\\{digits}` is above `\\377`")),
    }
}

/// Reads one member, or one end of a range.
fn set_member(tokens: &mut Tokens) -> Result<Member, String> {
    let code = match tokens.next() {
        None => return Err("unterminated character set".to_owned()),
        Some(Token::Plain(character)) => u32::from(character),
        Some(Token::Escaped('b')) => 0x08,
        Some(Token::Escaped(letter @ ('d' | 'D' | 's' | 'S' | 'w' | 'W'))) => {
            return Ok(Member::Class(letter));
        }
        Some(Token::Escaped(digit @ '0'..='7')) => {
            octal(&format!("{digit}{}", tokens.digits(8, 2)))?
        }
        Some(Token::Escaped(letter)) => escaped_character(tokens, letter)?,
    };
    Ok(Member::Range(code, code))
}

fn set(members: &[Member], negation: &str, flags: Flags) -> String {
    let mut list = String::new();
    for member in members {
        match *member {
            Member::Class(letter) => list.push_str(&class_members(letter, flags)),
            Member::Range(low, high) => list.push_str(&range(low, high, flags)),
        }
    }
    let set = match (list.is_empty(), negation.is_empty()) {
        (true, true) => return NEVER.to_owned(),
        (true, false) => write_set("", ALL, flags),
        (false, _) => write_set(negation, &list, flags),
    };
    if flags.has(Flags::IGNORE_CASE) && !flags.has(Flags::ASCII) {
        format!("(?i:{set})")
    } else {
        set
    }
}

/// Writes a set. For ASCII texts it is intersected with ASCII: Unicode classes are a thousand times
/// larger.
fn write_set(negation: &str, members: &str, flags: Flags) -> String {
    match (flags.has(Flags::ASCII_TEXT), negation.is_empty()) {
        (false, _) => format!("[{negation}{members}]"),
        // No brackets around the members: a colon after an inner bracket would begin a class.
        (true, true) => format!(r"[{members}&&[\x{{0}}-\x{{7F}}]]"),
        (true, false) => format!(r"[[^{members}]&&[\x{{0}}-\x{{7F}}]]"),
    }
}

/// A range as members of a set, with case variants that the engine does not know.
fn range(low: u32, high: u32, flags: Flags) -> String {
    let mut written = String::new();
    // Python's patterns may contain surrogates; texts cannot.
    for (first, last) in [(0, 0xD7FF), (0xE000, 0x10_FFFF)] {
        written.push_str(&span(low.max(first), high.min(last)));
    }
    let holds = |character: char| (low..=high).contains(&u32::from(character));
    match (flags.has(Flags::IGNORE_CASE), flags.has(Flags::ASCII)) {
        (false, _) => {}
        (true, false) if TURKISH_I.into_iter().any(holds) => written.extend(TURKISH_I),
        (true, false) => {}
        (true, true) => {
            let letters = ('A'..='Z').chain('a'..='z').filter(|letter| holds(*letter));
            for letter in letters {
                written.extend([letter.to_ascii_lowercase(), letter.to_ascii_uppercase()]);
            }
        }
    }
    written
}

fn span(low: u32, high: u32) -> String {
    match low.cmp(&high) {
        std::cmp::Ordering::Less => format!("{}-{}", member(low), member(high)),
        std::cmp::Ordering::Equal => member(low),
        std::cmp::Ordering::Greater => String::new(),
    }
}

/// A character, escaped so that it is literal everywhere.
fn member(code: u32) -> String {
    match char::from_u32(code) {
        Some(character) if character.is_ascii_alphanumeric() => character.to_string(),
        _ => format!(r"\x{{{code:X}}}"),
    }
}

/// The members of a class.
fn class_members(letter: char, flags: Flags) -> String {
    let members = match (letter.to_ascii_lowercase(), flags.has(Flags::ASCII)) {
        ('d', true) => "0-9",
        ('d', false) => r"\p{Nd}",
        ('s', true) => r"\x{9}-\x{D}\x{20}",
        ('s', false) => r"\p{White_Space}\x{1C}-\x{1F}",
        (_, true) => "0-9A-Z_a-z",
        (_, false) => r"\p{L}\p{N}_",
    };
    if letter.is_ascii_uppercase() { format!("[^{members}]") } else { members.to_owned() }
}
