//! Lone dashes inside `[…]` and `{…}`.
//!
//! In YAML 1.1, `{default: -}` and `[+, -]` contain text; the YAML 1.2 parser rejects them. A placeholder of
//! the same width replaces the dash during parsing, so positions stay valid.

use std::borrow::Cow;

/// Text with placeholders for lone dashes.
pub(super) struct Shielded<'t> {
    /// The text to parse.
    pub(super) text: Cow<'t, str>,
    /// The placeholder.
    pub(super) stand_in: char,
}

/// Replaces each dash that follows a blank, bracket or comma and precedes a bracket or comma.
pub(super) fn shield(text: &str) -> Shielded<'_> {
    let stand_in = ('\u{e000}'..='\u{f8ff}').find(|stand_in| !text.contains(*stand_in));
    let Some(stand_in) = stand_in.filter(|_| dashes(text).next().is_some()) else {
        return Shielded { text: Cow::Borrowed(text), stand_in: '-' };
    };
    let mut shielded = String::with_capacity(text.len() + 8);
    let mut done = 0;
    for dash in dashes(text) {
        shielded.push_str(text.get(done..dash).unwrap_or_default());
        shielded.push(stand_in);
        done = dash + 1;
    }
    shielded.push_str(text.get(done..).unwrap_or_default());
    Shielded { text: Cow::Owned(shielded), stand_in }
}

/// Restores the dashes.
pub(super) fn unshield(text: Cow<'_, str>, stand_in: char) -> Cow<'_, str> {
    if stand_in == '-' || !text.contains(stand_in) {
        return text;
    }
    Cow::Owned(text.replace(stand_in, "-"))
}

fn dashes(text: &str) -> impl Iterator<Item = usize> {
    text.as_bytes().windows(3).enumerate().filter_map(|(index, bytes)| {
        let [before, b'-', after] = bytes else { return None };
        (b" \t\r\n[{,:".contains(before) && b",[]{}".contains(after)).then_some(index + 1)
    })
}
