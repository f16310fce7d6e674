//! Text of untrusted origin in messages and pages.

/// The longest text that is shown.
const MAX_CHARS: usize = 200;

/// Makes untrusted text safe to show in a message: short, on one line, and without characters that
/// control a terminal or change the direction of the text around them.
pub(crate) fn printable(text: &str) -> String {
    let plain: String = text.chars().map(neutralized).take(MAX_CHARS).collect();
    plain.trim().to_owned()
}

/// Replaces a control character by a space, and an invisible formatting character by a visible one.
pub(crate) fn neutralized(c: char) -> char {
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
    use super::printable;

    #[test]
    fn untrusted_text_is_short_and_on_one_line() {
        assert_eq!(printable(" a\r\nb\u{1b}[31m\u{2028}c "), "a  b [31m c");
        assert_eq!(
            printable("moc.\u{202e}evil\u{2066}x\u{200b}"),
            "moc.\u{fffd}evil\u{fffd}x\u{fffd}"
        );
        assert_eq!(printable(&"é".repeat(300)).chars().count(), 200);
    }
}
