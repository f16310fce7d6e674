//! Untrusted text in messages, logs and on terminals.

use std::borrow::Cow;

/// The longest text that a message quotes, in characters.
const MAX_CHARS: usize = 200;
/// The longest name that a message quotes in full, in bytes.
const MAX_NAME: usize = 256;

/// Makes untrusted text safe to show in a message: short, on one line, and without characters that
/// control a terminal or change the direction of the text around them.
pub fn printable(text: &str) -> String {
    let plain: String = text.chars().map(neutralized).take(MAX_CHARS).collect();
    plain.trim().to_owned()
}

/// Returns a name as messages quote it: cut if it is too long.
pub fn shortened(name: &str) -> Cow<'_, str> {
    if name.len() <= MAX_NAME {
        return Cow::Borrowed(name);
    }
    let end = (0..=MAX_NAME).rev().find(|at| name.is_char_boundary(*at)).unwrap_or(0);
    let start = name.get(..end).unwrap_or_default();
    Cow::Owned(format!("{start}… ({} bytes)", name.len()))
}

/// Returns a name as log lines show it: on one line, and cut if it is too long.
pub fn log_name(name: &str) -> Cow<'_, str> {
    match shortened(name) {
        // The fast path for nearly all names.
        short if short.bytes().all(|byte| matches!(byte, b' '..=b'~')) => short,
        short if short.chars().all(|c| neutralized(c) == c) => short,
        short => Cow::Owned(short.chars().map(neutralized).collect()),
    }
}

/// Makes untrusted text safe to show on a terminal: line breaks and tabs stay, other control characters become their
/// visible pictures, and nothing changes the direction of the text around it.
pub fn for_terminal(text: &str) -> Cow<'_, str> {
    if text.chars().all(|c| on_terminal(c) == c) {
        return Cow::Borrowed(text);
    }
    let lines = text.split("\r\n").map(|line| line.chars().map(on_terminal).collect::<String>());
    Cow::Owned(lines.collect::<Vec<_>>().join("\n"))
}

fn on_terminal(c: char) -> char {
    match c {
        '\n' | '\t' => c,
        '\0'..='\u{1f}' => char::from_u32(0x2400 + u32::from(c)).unwrap_or('\u{fffd}'),
        '\u{7f}' => '\u{2421}',
        '\u{80}'..='\u{9f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2066}'..='\u{2069}'
        | '\u{e0000}'..='\u{e007f}' => '\u{fffd}',
        _ => c,
    }
}

/// Quotes a word for a shell, if it needs quotes.
pub fn shell_quoted(word: &str) -> String {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "-_./~:@%+=,".contains(letter);
    match !word.is_empty() && word.chars().all(plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

/// Replaces a control character by a space, and an invisible formatting character by a visible one.
pub fn neutralized(c: char) -> char {
    match c {
        _ if c.is_control() => ' ',
        // Line and paragraph separators.
        '\u{2028}' | '\u{2029}' => ' ',
        // Soft hyphens, zero-width characters, marks, embeddings, overrides, isolates, and the BOM.
        '\u{ad}'
        | '\u{61c}'
        | '\u{180e}'
        | '\u{200b}'..='\u{200f}'
        | '\u{202a}'..='\u{202e}'
        | '\u{2060}'..='\u{206f}'
        | '\u{feff}' => '\u{fffd}',
        // Tag characters.
        '\u{e0000}'..='\u{e007f}' => '\u{fffd}',
        _ => c,
    }
}

#[cfg(test)]
mod tests {
    use super::{for_terminal, log_name, printable, shortened};

    #[test]
    fn untrusted_text_is_short_and_on_one_line() {
        assert_eq!(printable(" a\r\nb\u{1b}[31m\u{2028}c "), "a  b [31m c");
        assert_eq!(
            printable("moc.\u{202e}evil\u{2066}x\u{200b}"),
            "moc.\u{fffd}evil\u{fffd}x\u{fffd}"
        );
        assert_eq!(printable(&"é".repeat(300)).chars().count(), 200);
    }

    #[test]
    fn names_that_are_too_long_are_cut() {
        assert_eq!(shortened(&"é".repeat(128)), "é".repeat(128));
        assert_eq!(
            shortened(&format!("a{}", "é".repeat(128))),
            format!("a{}… (257 bytes)", "é".repeat(127))
        );
    }

    #[test]
    fn names_in_logs_stay_on_their_line() {
        assert_eq!(log_name("git_log"), "git_log");
        assert_eq!(log_name("a\nsubject=b\u{1b}[2J\u{202e}"), "a subject=b [2J\u{fffd}");
        assert_eq!(log_name(&"\n".repeat(1000)), format!("{}… (1000 bytes)", " ".repeat(256)));
    }

    #[test]
    fn terminals_get_no_escapes() {
        assert_eq!(for_terminal("a\tb\nc é 👩\u{200d}💻"), "a\tb\nc é 👩\u{200d}💻");
        assert_eq!(for_terminal("\u{1b}]0;x\u{7}\u{9b}2J"), "␛]0;x␇\u{fffd}2J");
        assert_eq!(for_terminal("a\r\nb\rc\u{7f}\u{202e}"), "a\nb␍c␡\u{fffd}");
    }
}
