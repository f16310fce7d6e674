//! Translated parts of a pattern.

use crate::policy::pattern::set::NEVER;

/// Python's value for an unbounded repetition.
pub(super) const UNBOUNDED: u64 = u32::MAX as u64;

/// The number of characters that a part can match.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Width {
    pub(super) min: u64,
    pub(super) max: u64,
}

impl Width {
    pub(super) const ZERO: Self = Self { min: 0, max: 0 };
    pub(super) const ONE: Self = Self { min: 1, max: 1 };

    pub(super) fn then(self, next: Self) -> Self {
        Self { min: self.min.saturating_add(next.min), max: self.max.saturating_add(next.max) }
    }

    pub(super) fn or(self, other: Self) -> Self {
        Self { min: self.min.min(other.min), max: self.max.max(other.max) }
    }

    pub(super) fn times(self, min: u64, max: u64) -> Self {
        let max = if max == UNBOUNDED && self.max > 0 { u64::MAX } else { max };
        Self { min: self.min.saturating_mul(min), max: self.max.saturating_mul(max) }
    }
}

/// A translated part.
pub(super) struct Piece {
    pub(super) text: String,
    pub(super) width: Width,
    pub(super) kind: Kind,
}

/// How a following quantifier applies.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// It can be repeated.
    Item,
    /// It is an assertion and cannot be repeated.
    Anchor,
    /// It is already repeated.
    Repeat,
}

/// Whether a repetition is greedy, lazy or possessive.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Mode {
    Greedy,
    Lazy,
    Possessive,
}

impl Piece {
    pub(super) fn item(text: impl Into<String>, width: Width) -> Self {
        Self { text: text.into(), width, kind: Kind::Item }
    }

    pub(super) fn anchor(text: impl Into<String>) -> Self {
        Self { text: text.into(), width: Width::ZERO, kind: Kind::Anchor }
    }

    /// Repeats the part.
    pub(super) fn repeated(self, (min, max): (u64, u64), mode: Mode) -> Self {
        let Self { text, width, .. } = self;
        let count = match (min, max) {
            (0, UNBOUNDED) => "*".to_owned(),
            (1, UNBOUNDED) => "+".to_owned(),
            (0, 1) => "?".to_owned(),
            (_, UNBOUNDED) => format!("{{{min},}}"),
            _ => format!("{{{min},{max}}}"),
        };
        // The engine does not repeat parts of width zero.
        let text = match (width == Width::ZERO, min, max, mode) {
            (true, _, 0, _) => format!("(?:{NEVER}{text}|)"),
            (true, 0, _, Mode::Greedy) => format!("(?:{text}|)"),
            (true, 0, _, Mode::Lazy) => format!("(?:|{text})"),
            (true, 0, _, Mode::Possessive) => format!("(?>{text}|)"),
            (true, _, _, Mode::Greedy | Mode::Lazy) => text,
            (true, _, _, Mode::Possessive) => format!("(?>{text})"),
            (false, _, _, Mode::Greedy) => format!("{text}{count}"),
            (false, _, _, Mode::Lazy) => format!("{text}{count}?"),
            (false, _, _, Mode::Possessive) => format!("(?>{text}{count})"),
        };
        Self { text, width: width.times(min, max), kind: Kind::Repeat }
    }
}
