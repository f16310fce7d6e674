//! Text inside HTML and XML.

/// Appends a character, escaped so that it is not markup in text or in a quoted attribute.
pub fn push_escaped(out: &mut String, c: char) {
    match c {
        '&' => out.push_str("&amp;"),
        '<' => out.push_str("&lt;"),
        '>' => out.push_str("&gt;"),
        '"' => out.push_str("&quot;"),
        '\'' => out.push_str("&#39;"),
        c => out.push(c),
    }
}

#[cfg(test)]
mod tests {
    use super::push_escaped;

    #[test]
    fn nothing_opens_a_tag_or_closes_an_attribute() {
        let mut out = String::new();
        r#"<a b="c" d='e'>&é"#.chars().for_each(|c| push_escaped(&mut out, c));
        assert_eq!(out, "&lt;a b=&quot;c&quot; d=&#39;e&#39;&gt;&amp;é");
    }
}
