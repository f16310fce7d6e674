//! What a server says in `WWW-Authenticate`.

/// The parts of a `Bearer` challenge that a login uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Challenge {
    pub(super) resource_metadata: Option<String>,
    pub(super) scope: Option<String>,
    pub(super) error: Option<String>,
    pub(super) realm: Option<String>,
}

impl Challenge {
    /// Reads the first `Bearer` challenge of a header. What cannot be read is as if it were not there.
    pub(super) fn parse(header: &str) -> Self {
        let mut found = Self::default();
        let mut rest = header;
        let mut inside = false;
        while let Some((word, after)) = word(rest) {
            if let Some((value, next)) = assigned(after) {
                if inside {
                    found.set(word, value);
                }
                rest = next;
                continue;
            }
            // A word without a value is the name of a scheme.
            if inside {
                break;
            }
            inside = word.eq_ignore_ascii_case("bearer");
            rest = after;
        }
        found
    }

    /// Whether the token was good, but not for this.
    pub(super) fn wants_more(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    fn set(&mut self, name: &str, value: String) {
        let place = match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => &mut self.resource_metadata,
            "scope" => &mut self.scope,
            "error" => &mut self.error,
            "realm" => &mut self.realm,
            _ => return,
        };
        if !value.is_empty() {
            place.get_or_insert(value);
        }
    }
}

/// The next word, and what follows it.
fn word(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let end = text.find([' ', '\t', ',', '=']).unwrap_or(text.len());
    let (word, rest) = text.split_at_checked(end)?;
    (!word.is_empty()).then_some((word, rest))
}

/// The value behind a `=`, and what follows it.
fn assigned(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start_matches([' ', '\t']).strip_prefix('=')?;
    let text = text.trim_start_matches([' ', '\t']);
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        let (value, rest) = text.split_at_checked(end)?;
        return Some((value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut letters = quoted.char_indices();
    while let Some((at, letter)) = letters.next() {
        match letter {
            '"' => return Some((value, quoted.get(at + 1..).unwrap_or_default())),
            '\\' => value.extend(letters.next().map(|(_, letter)| letter)),
            letter => value.push(letter),
        }
    }
    // It was cut off.
    Some((value, ""))
}

#[cfg(test)]
mod tests {
    use super::Challenge;

    #[track_caller]
    fn check(header: &str, metadata: &str, scope: &str, error: &str) {
        let found = Challenge::parse(header);
        let text = |part: Option<String>| part.unwrap_or_default();
        let got = (text(found.resource_metadata), text(found.scope), text(found.error));
        assert_eq!(got, (metadata.to_owned(), scope.to_owned(), error.to_owned()), "{header}");
    }

    #[test]
    fn what_servers_send() {
        check("Bearer", "", "", "");
        check("", "", "", "");
        check("Basic realm=\"x\"", "", "", "");
        check("Bearer resource_metadata=\"https://a/b\"", "https://a/b", "", "");
        check("bearer Resource_Metadata = \"https://a\" , scope=\"a b\"", "https://a", "a b", "");
        check(
            "Basic realm=\"x\", Bearer scope=\"a\", error=\"invalid_token\"",
            "",
            "a",
            "invalid_token",
        );
        check("Bearer error=insufficient_scope, scope=\"w\"", "", "w", "insufficient_scope");
        check("Bearer scope=\"a \\\"b\\\" \\\\c\"", "", "a \"b\" \\c", "");
        check("Bearer scope=\"a\", DPoP scope=\"b\"", "", "a", "");
        check("Bearer scope=\"cut off", "", "cut off", "");
        check("Bearer scope=, error=\"e\"", "", "", "e");
        check("Bearer scope=\"a\", scope=\"b\"", "", "a", "");
        check("Bearer ,,, scope=\"ä\"", "", "ä", "");
        check("Bearer realm", "", "", "");
    }

    #[test]
    fn a_realm_is_kept() {
        let found = Challenge::parse("Bearer realm=\"https://issuer\"");
        assert_eq!(found.realm.as_deref(), Some("https://issuer"));
    }
}
