//! `WWW-Authenticate` challenges.

/// The parameters of a `Bearer` challenge that a login uses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct BearerChallenge {
    /// The URL of the resource's metadata (RFC 9728).
    pub resource_metadata: Option<String>,
    /// The scopes that the request needs.
    pub scope: Option<String>,
    /// The error code, such as `insufficient_scope`.
    pub error: Option<String>,
    realm: Option<String>,
    issuer: Option<String>,
}

impl BearerChallenge {
    /// Parses the first `Bearer` challenge of a header. Unreadable parts are ignored.
    pub fn parse(header: &str) -> Self {
        let mut challenge = Self::default();
        let mut rest = header;
        let mut is_bearer = false;
        while let Some((token, after)) = token(rest) {
            if let Some((value, next)) = value(after) {
                if is_bearer {
                    challenge.set(token, value);
                }
                rest = next;
                continue;
            }
            // A token without `=` is the name of a scheme.
            if is_bearer {
                break;
            }
            is_bearer = token.eq_ignore_ascii_case("bearer");
            rest = after;
        }
        challenge
    }

    /// Whether the token is valid, but lacks scopes.
    pub fn is_insufficient_scope(&self) -> bool {
        self.error.as_deref() == Some("insufficient_scope")
    }

    /// The issuer, if the challenge names one by its `issuer` or, as some servers do, by its `realm`.
    pub fn issuer_hint(&self) -> Option<&str> {
        let named = [&self.issuer, &self.realm].into_iter().flatten();
        named.map(String::as_str).find(|name| muster_net::Url::parse(name).is_ok())
    }

    fn set(&mut self, name: &str, value: String) {
        let field = match name.to_ascii_lowercase().as_str() {
            "resource_metadata" => &mut self.resource_metadata,
            "scope" => &mut self.scope,
            "error" => &mut self.error,
            "realm" => &mut self.realm,
            "issuer" => &mut self.issuer,
            _ => return,
        };
        if !value.is_empty() {
            field.get_or_insert(value);
        }
    }
}

/// Splits off the next token. Returns it and the rest of the text.
fn token(text: &str) -> Option<(&str, &str)> {
    let text = text.trim_start_matches([' ', '\t', ',']);
    let end = text.find([' ', '\t', ',', '=']).unwrap_or(text.len());
    let (token, rest) = text.split_at_checked(end)?;
    (!token.is_empty()).then_some((token, rest))
}

/// Splits off the value after a `=`. Returns it and the rest of the text.
fn value(text: &str) -> Option<(String, &str)> {
    let text = text.trim_start_matches([' ', '\t']).strip_prefix('=')?;
    let text = text.trim_start_matches([' ', '\t']);
    let Some(quoted) = text.strip_prefix('"') else {
        let end = text.find([' ', '\t', ',']).unwrap_or(text.len());
        let (value, rest) = text.split_at_checked(end)?;
        return Some((value.to_owned(), rest));
    };
    let mut value = String::new();
    let mut chars = quoted.char_indices();
    while let Some((at, c)) = chars.next() {
        match c {
            '"' => return Some((value, quoted.get(at + 1..).unwrap_or_default())),
            '\\' => value.extend(chars.next().map(|(_, c)| c)),
            c => value.push(c),
        }
    }
    // The closing quote is missing.
    Some((value, ""))
}

#[cfg(test)]
mod tests {
    use super::BearerChallenge;

    #[track_caller]
    fn check(header: &str, metadata: &str, scope: &str, error: &str) {
        let found = BearerChallenge::parse(header);
        let text = |part: Option<String>| part.unwrap_or_default();
        let got = (text(found.resource_metadata), text(found.scope), text(found.error));
        assert_eq!(got, (metadata.to_owned(), scope.to_owned(), error.to_owned()), "{header}");
    }

    #[test]
    fn challenges_of_servers() {
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
    fn parameters_inside_quoted_strings_are_not_parameters() {
        check("Bearer error_description=\"use scope=admin, error=x\", scope=\"r\"", "", "r", "");
    }

    #[test]
    fn issuers() {
        let hint = |header: &str| BearerChallenge::parse(header).issuer_hint().map(str::to_owned);
        assert_eq!(hint("Bearer realm=\"https://i\"").as_deref(), Some("https://i"));
        let both = "Bearer realm=\"https://i\", issuer=\"https://j\"";
        assert_eq!(hint(both).as_deref(), Some("https://j"));
        assert_eq!(hint("Bearer realm=\"mcp\""), None);
    }
}
