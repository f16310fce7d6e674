//! Redaction of secrets in settings and error messages.

use std::borrow::Cow;

use muster_core::secret_text::{
    REDACTED, is_random, is_secret_name, is_secret_value, without_embedded, without_inner,
};

/// A setting's value: redacted if its name or the value itself is that of a secret, otherwise without any secrets
/// inside it.
pub fn setting<'a>(name: &str, value: &'a str) -> Cow<'a, str> {
    if !value.is_empty() && (is_secret_name(name) || is_secret_value(value)) {
        return Cow::Borrowed(REDACTED);
    }
    without_inner(value).map_or(Cow::Borrowed(value), Cow::Owned)
}

/// The arguments of a command line, redacted where they are secrets or follow a flag that takes one.
pub fn arguments(words: &[String]) -> Vec<String> {
    let mut hides_next = false;
    let shown = words.iter().map(|word| {
        let is_flag = word.starts_with('-');
        let wants_secret = is_flag && !word.contains('=') && is_secret_name(word);
        let hidden = std::mem::replace(&mut hides_next, wants_secret) && !is_flag;
        if hidden { REDACTED.to_owned() } else { argument(word) }
    });
    shown.collect()
}

/// One argument, redacted if it is a secret. The value after a `=` is treated as a setting of the name before it.
fn argument(word: &str) -> String {
    if let Some(shown) = without_inner(word) {
        return shown;
    }
    match word.split_once('=') {
        Some((name, value)) => format!("{name}={}", setting(name, value)),
        None if is_secret_value(word) => REDACTED.to_owned(),
        None => word.to_owned(),
    }
}

/// A URL without its password and without secrets in its query.
pub fn address(url: &str) -> String {
    without_embedded(url).unwrap_or_else(|| url.to_owned())
}

/// An error message without directories and secrets.
pub fn error(text: &str) -> String {
    let mut shown = Vec::new();
    let mut hide_next = false;
    for word in text.split(' ') {
        if std::mem::take(&mut hide_next) && !word.is_empty() {
            shown.push(REDACTED.to_owned());
            continue;
        }
        let (next, hides) = error_word(word);
        hide_next = hides;
        shown.push(next);
    }
    shown.join(" ")
}

/// One word as it is shown, and whether the next one is a secret.
fn error_word(word: &str) -> (String, bool) {
    const NAMES: [&str; 6] = ["bearer", "token", "apikey", "api_key", "password", "secret"];
    let lower = word.to_ascii_lowercase();
    let named = |text: &str| NAMES.iter().any(|name| text.ends_with(name));
    if lower == "bearer" || lower.strip_suffix([':', '=']).is_some_and(named) {
        return (word.to_owned(), true);
    }
    if let Some(at) = word.find([':', '='])
        && named(lower.get(..at).unwrap_or_default())
    {
        let kept = word.get(..=at).unwrap_or_default();
        return (format!("{kept}{REDACTED}"), false);
    }
    let inner = word.trim_matches(|letter: char| !letter.is_ascii_alphanumeric());
    if is_random(inner) || is_secret_value(inner) {
        return (REDACTED.to_owned(), false);
    }
    (without_directory(word), false)
}

/// `"/usr/local/bin/x"` becomes `"[path]/x"`; URLs stay.
fn without_directory(word: &str) -> String {
    let Some(start) = word.find('/') else { return word.to_owned() };
    let (before, path) = word.split_at(start);
    let is_path = !before.ends_with(|letter: char| letter.is_ascii_alphanumeric() || letter == ':');
    match path.rsplit_once('/') {
        Some((directory, name)) if is_path && !directory.is_empty() => {
            format!("{before}[path]/{name}")
        }
        Some(_) | None => word.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::{address, argument, arguments, error, setting};

    #[test]
    fn secrets_of_settings_are_hidden() {
        let hidden = "[REDACTED]";
        assert_eq!(setting("GITHUB_TOKEN", "x"), hidden);
        assert_eq!(setting("X-Api-Key", "x"), hidden);
        assert_eq!(setting("OPENAI_APIKEY", "x"), hidden);
        assert_eq!(setting("Authorization", "Basic x"), hidden);
        assert_eq!(setting("X-Whatever", "Bearer abc"), hidden);
        assert_eq!(setting("V", "ghp_0123456789abcdef"), hidden);
        assert_eq!(setting("PATH", "/usr/bin:/bin"), "/usr/bin:/bin");
        assert_eq!(setting("AUTHOR", "ada"), "ada");
        assert_eq!(setting("MONKEY", "george"), "george");
        assert_eq!(setting("TOKEN", ""), "");
        assert_eq!(setting("MY_PASS", "x"), hidden);
        assert_eq!(
            setting("DATABASE_URL", "postgres://ada:pw@db/app"),
            "postgres://[REDACTED]@db/app"
        );
        assert_eq!(
            setting("OPENAPI_MCP_HEADERS", r#"{"Authorization": "Bearer x", "Version": "1"}"#),
            r#"{"Authorization":"[REDACTED]","Version":"1"}"#
        );
        assert_eq!(setting("BLOB", "https://h/b?se=1&sig=abc"), "https://h/b?se=1&sig=[REDACTED]");
    }

    #[test]
    fn secrets_of_command_lines_and_addresses_are_hidden() {
        assert_eq!(argument("--token=abc"), "--token=[REDACTED]");
        assert_eq!(argument("--port=1"), "--port=1");
        assert_eq!(argument("server.py"), "server.py");
        assert_eq!(argument("Authorization: Bearer x"), "Authorization: [REDACTED]");
        assert_eq!(
            argument("--header=Authorization: Bearer x"),
            "--header=Authorization: [REDACTED]"
        );
        let words = ["--password", "hunter2", "--port", "1", "--token=x", "y", "--key", "k", "z"];
        let shown = "--password [REDACTED] --port 1 --token=[REDACTED] y --key [REDACTED] z";
        assert_eq!(arguments(&words.map(str::to_owned)).join(" "), shown);
        assert_eq!(address("https://h/mcp"), "https://h/mcp");
        assert_eq!(
            address("https://u:p@h:1/mcp?a=b&key=c"),
            "https://[REDACTED]@h:1/mcp?a=b&key=[REDACTED]"
        );
    }

    #[test]
    fn errors_keep_their_sense() {
        let check = |text: &str, expect: &str| assert_eq!(error(text), expect);
        check("cannot run /usr/local/bin/x: no such file", "cannot run [path]/x: no such file");
        check("GET https://h/a/b failed", "GET https://h/a/b failed");
        check("open \"/etc/a/b\"", "open \"[path]/b\"");
        check("Authorization: Bearer abc refused", "Authorization: Bearer [REDACTED] refused");
        check("password=hunter2, sorry", "password=[REDACTED] sorry");
        check("the token: abc is old", "the token: [REDACTED] is old");
        check("token expired", "token expired");
        check(&format!("got {} back", "Ab1".repeat(20)), "got [REDACTED] back");
    }
}
