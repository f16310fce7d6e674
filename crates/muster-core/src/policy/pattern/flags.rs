//! Pattern flags, and the inline groups that set them.

use crate::policy::pattern::token::{Token, Tokens};

/// A set of flags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Flags(u8);

impl Flags {
    pub(super) const IGNORE_CASE: Self = Self(1);
    pub(super) const MULTI_LINE: Self = Self(2);
    pub(super) const DOT_ALL: Self = Self(4);
    pub(super) const VERBOSE: Self = Self(8);
    pub(super) const ASCII: Self = Self(16);
    /// A property of the text, not the pattern: it is ASCII, so other characters can be left out.
    pub(super) const ASCII_TEXT: Self = Self(64);
    const UNICODE: Self = Self(32);
    /// The flags that select the alphabet; only one may be set.
    const ALPHABET: Self = Self(16 | 32);

    pub(super) fn has(self, flag: Self) -> bool {
        self.0 & flag.0 != 0
    }

    fn and(self, more: Self) -> Result<Self, String> {
        let both = Self(self.0 | more.0);
        if both.has(Self::ASCII) && both.has(Self::UNICODE) {
            return Err("flags `a` and `u` are incompatible".to_owned());
        }
        Ok(both)
    }

    fn without(self, fewer: Self) -> Self {
        Self(self.0 & !fewer.0)
    }

    fn named(letter: char) -> Option<Self> {
        match letter {
            'i' => Some(Self::IGNORE_CASE),
            'm' => Some(Self::MULTI_LINE),
            's' => Some(Self::DOT_ALL),
            'x' => Some(Self::VERBOSE),
            'a' => Some(Self::ASCII),
            'u' => Some(Self::UNICODE),
            _ => None,
        }
    }
}

/// The scope of an inline flag group.
pub(super) enum Inline {
    /// The whole pattern: `(?i)`.
    Everywhere(Flags),
    /// The rest of the group: `(?i-s:`.
    Inside(Flags),
}

/// Reads from the first flag through `)` or `:` and adds the flags to `outer`.
pub(super) fn inline(tokens: &mut Tokens, outer: Flags) -> Result<Inline, String> {
    let (on, end) = letters(tokens, &[')', '-', ':'])?;
    let (off, end) = match end {
        ')' => return Ok(Inline::Everywhere(outer.and(on)?)),
        '-' => letters(tokens, &[':'])?,
        _ => return Ok(Inline::Inside(with(outer, on)?)),
    };
    debug_assert_eq!(end, ':');
    if off == Flags::default() {
        return Err("missing flag".to_owned());
    }
    if off.has(Flags::ALPHABET) {
        return Err("flags `a` and `u` cannot be turned off".to_owned());
    }
    if on.has(off) {
        return Err("flag turned on and off".to_owned());
    }
    Ok(Inline::Inside(with(outer, on)?.without(off)))
}

fn with(outer: Flags, on: Flags) -> Result<Flags, String> {
    let outer = if on.has(Flags::ALPHABET) { outer.without(Flags::ALPHABET) } else { outer };
    outer.and(on)
}

fn letters(tokens: &mut Tokens, ends: &[char]) -> Result<(Flags, char), String> {
    let mut flags = Flags::default();
    loop {
        match tokens.next() {
            Some(Token::Plain(end)) if ends.contains(&end) => return Ok((flags, end)),
            Some(Token::Plain(letter)) => {
                let flag =
                    Flags::named(letter).ok_or_else(|| format!("unknown flag `{letter}`"))?;
                flags = flags.and(flag)?;
            }
            Some(Token::Escaped(letter)) => return Err(format!("unknown flag `\\{letter}`")),
            None => return Err("unterminated flags".to_owned()),
        }
    }
}
