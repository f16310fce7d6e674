//! Detects which settings of a server are secrets.

use muster_core::{
    secret_source,
    secret_text::{is_auth_scheme, is_secret_name, is_secret_value, without_inner},
};

/// The secret part of a value, if there is one: the whole value, or what follows the scheme of an
/// `Authorization` header.
pub fn secret_part<'a>(name: &str, value: &'a str) -> Option<&'a str> {
    let is_public = value.trim().is_empty()
        || value.contains("${")
        || value.starts_with('$')
        || !secret_source::references(value).is_empty();
    if is_public {
        return None;
    }
    let bare = value.split_once(' ').filter(|(scheme, _)| is_auth_scheme(scheme));
    let bare = bare.map_or(value, |(_, rest)| rest.trim_start());
    if is_secret_name(name) || is_secret_value(value) {
        return Some(bare);
    }
    // A URL, connection string or document that contains a secret is stored as a whole.
    without_inner(value).map(|_| value)
}

#[cfg(test)]
mod tests {
    use super::secret_part;

    #[test]
    fn secrets_are_detected_by_name_or_prefix() {
        for (name, value, secret) in [
            ("GITHUB_PERSONAL_ACCESS_TOKEN", "abc", Some("abc")),
            ("OPENAI_API_KEY", "x", Some("x")),
            ("Authorization", "Bearer xyz", Some("xyz")),
            ("X-Api-Key", "k", Some("k")),
            ("ANYTHING", "ghp_0123456789abcdef", Some("ghp_0123456789abcdef")),
            ("MY_PASS", "pw", Some("pw")),
            ("DATABASE_URL", "postgres://a:pw@h/d", Some("postgres://a:pw@h/d")),
            ("BLOB", "https://h/b?sig=x", Some("https://h/b?sig=x")),
            ("HEADERS", r#"{"X-Api-Key":"k"}"#, Some(r#"{"X-Api-Key":"k"}"#)),
            ("DATABASE_URL", "postgres://h/d", None),
            ("--api-key", "k", Some("k")),
            ("TOKEN", "${TOKEN}", None),
            ("TOKEN", "$TOKEN", None),
            ("TOKEN", "secret://t", None),
            ("TOKEN", "", None),
            ("TOKEN_FILE", "/run/token", None),
            ("LOG_LEVEL", "debug", None),
            ("KEYBOARD", "us", None),
        ] {
            assert_eq!(secret_part(name, value), secret, "{name}={value}");
        }
    }
}
