//! Go's `unicode` package: classes by general category, and case mappings one to one.

use unicode_general_category::{GeneralCategory as G, get_general_category};

pub(crate) fn is_letter(c: char) -> bool {
    use G::{LowercaseLetter, ModifierLetter, OtherLetter, TitlecaseLetter, UppercaseLetter};
    matches!(
        get_general_category(c),
        LowercaseLetter | ModifierLetter | OtherLetter | TitlecaseLetter | UppercaseLetter
    )
}

pub(crate) fn is_digit(c: char) -> bool {
    get_general_category(c) == G::DecimalNumber
}

pub(crate) fn is_number(c: char) -> bool {
    matches!(get_general_category(c), G::DecimalNumber | G::LetterNumber | G::OtherNumber)
}

pub(crate) fn is_upper(c: char) -> bool {
    get_general_category(c) == G::UppercaseLetter
}

pub(crate) fn is_lower(c: char) -> bool {
    get_general_category(c) == G::LowercaseLetter
}

pub(crate) fn is_title(c: char) -> bool {
    get_general_category(c) == G::TitlecaseLetter
}

pub(crate) fn is_punctuation(c: char) -> bool {
    matches!(
        get_general_category(c),
        G::ClosePunctuation
            | G::ConnectorPunctuation
            | G::DashPunctuation
            | G::FinalPunctuation
            | G::InitialPunctuation
            | G::OpenPunctuation
            | G::OtherPunctuation
    )
}

/// Whether Go prints `c` as it is inside a quoted string.
pub(crate) fn is_print(c: char) -> bool {
    if c.is_ascii() {
        return c == ' ' || c.is_ascii_graphic();
    }
    !matches!(
        get_general_category(c),
        G::Control
            | G::Format
            | G::LineSeparator
            | G::ParagraphSeparator
            | G::PrivateUse
            | G::SpaceSeparator
            | G::Surrogate
            | G::Unassigned
    )
}

/// Whether `c` may be part of an identifier.
pub(crate) fn is_alphanumeric(c: char) -> bool {
    c == '_' || c.is_ascii_alphanumeric() || !c.is_ascii() && (is_letter(c) || is_digit(c))
}

/// The upper-case letter of `c`; `c` itself where Unicode maps it to several letters.
pub(crate) fn to_upper(c: char) -> char {
    let title_of_iota = match c {
        '\u{1f80}'..='\u{1faf}' => u32::from(c) | 8,
        '\u{1fb3}' => 0x1fbc,
        '\u{1fc3}' => 0x1fcc,
        '\u{1ff3}' => 0x1ffc,
        _ => return single(c.to_uppercase(), c),
    };
    char::from_u32(title_of_iota).unwrap_or(c)
}

pub(crate) fn to_lower(c: char) -> char {
    if c == '\u{130}' { 'i' } else { single(c.to_lowercase(), c) }
}

/// The title-case letter of `c`: its upper case, except for digraphs and Georgian.
pub(crate) fn to_title(c: char) -> char {
    match c {
        '\u{1c4}'..='\u{1c6}' => '\u{1c5}',
        '\u{1c7}'..='\u{1c9}' => '\u{1c8}',
        '\u{1ca}'..='\u{1cc}' => '\u{1cb}',
        '\u{1f1}'..='\u{1f3}' => '\u{1f2}',
        '\u{10d0}'..='\u{10ff}' => c,
        _ => to_upper(c),
    }
}

fn single(mut mapped: impl Iterator<Item = char>, c: char) -> char {
    match (mapped.next(), mapped.next()) {
        (Some(one), None) => one,
        _ => c,
    }
}
