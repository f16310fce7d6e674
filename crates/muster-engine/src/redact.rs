//! Redaction of secrets in settings and error messages.

use muster_config::settings::REDACTED;

/// Words in a setting's name that mark its value as a secret.
const SECRET_NAMES: [&str; 11] = [
    "token",
    "key",
    "secret",
    "password",
    "passwd",
    "auth",
    "credential",
    "cookie",
    "session",
    "private",
    "pat",
];
/// Prefixes of common tokens.
const SECRET_STARTS: [&str; 10] =
    ["ghp_", "gho_", "ghs_", "github_pat_", "glpat-", "sk-", "xoxb-", "xoxp-", "AKIA", "eyJ"];
/// The longest run of characters that counts as a word.
const LONGEST_WORD: usize = 40;

/// A setting's value, redacted if its name or the value itself looks like a secret.
pub fn setting<'a>(name: &str, value: &'a str) -> &'a str {
    if !value.is_empty() && (is_secret_name(name) || is_secret(value)) { REDACTED } else { value }
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

/// One argument, redacted if it is a secret or follows a `=` after a secret's name.
fn argument(word: &str) -> String {
    match word.split_once('=') {
        Some((name, value)) => format!("{name}={}", setting(name, value)),
        None if is_secret(word) => REDACTED.to_owned(),
        None => word.to_owned(),
    }
}

/// A URL without its password and without secrets in its query.
pub fn address(url: &str) -> String {
    let (base, query) = match url.split_once('?') {
        Some((base, query)) => (base, Some(query)),
        None => (url, None),
    };
    let base = match base.split_once("://") {
        Some((scheme, rest)) => {
            let (authority, path) = rest.split_at(rest.find('/').unwrap_or(rest.len()));
            let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
            let user = if host.len() == authority.len() { "" } else { "[REDACTED]@" };
            format!("{scheme}://{user}{host}{path}")
        }
        None => base.to_owned(),
    };
    match query {
        Some(query) => {
            let pairs: Vec<String> = query.split('&').map(argument).collect();
            format!("{base}?{}", pairs.join("&"))
        }
        None => base,
    }
}

fn is_secret_name(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    let parts: Vec<&str> = name.split(|letter: char| !letter.is_ascii_alphanumeric()).collect();
    let is = |secret: &&str| match *secret {
        // Short words count only if they stand alone: not in `path` or `author`.
        "pat" | "auth" | "key" => parts.contains(secret) || name.ends_with("apikey"),
        secret => name.contains(secret),
    };
    SECRET_NAMES.iter().any(is) || name == "authorization"
}

fn is_secret(value: &str) -> bool {
    let lower = value.to_ascii_lowercase();
    let scheme = ["bearer ", "basic ", "token "].iter().any(|scheme| lower.starts_with(scheme));
    let start = SECRET_STARTS.iter().any(|start| value.starts_with(start) && value.len() >= 16);
    scheme || start || is_random(value)
}

/// Whether a text is a long run of letters and digits without a path or words.
fn is_random(text: &str) -> bool {
    let usual = |letter: char| letter.is_ascii_alphanumeric() || "+=_-".contains(letter);
    text.len() > LONGEST_WORD
        && text.chars().all(usual)
        && text.contains(|letter: char| letter.is_ascii_digit())
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
    if is_random(inner) || is_secret(inner) {
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
    }

    #[test]
    fn secrets_of_command_lines_and_addresses_are_hidden() {
        assert_eq!(argument("--token=abc"), "--token=[REDACTED]");
        assert_eq!(argument("--port=1"), "--port=1");
        assert_eq!(argument("server.py"), "server.py");
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
