//! Detection of secrets in configuration values: by the name of a setting, by the form of a value, and inside URLs,
//! connection strings, headers and JSON documents.

use serde_json::Value;

/// The placeholder for a secret in output.
pub const REDACTED: &str = "[REDACTED]";

/// Parts of names that mark a secret wherever they occur.
const NAME_PARTS: [&str; 12] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "credential",
    "apikey",
    "accesskey",
    "accountkey",
    "privatekey",
    "cookie",
    "session",
];
/// Words of a name that mark a secret only if they stand alone: not in `keyboard`, `author` or `path`.
const NAME_WORDS: [&str; 9] =
    ["key", "pass", "pwd", "pw", "pat", "sig", "signature", "private", "dsn"];
/// Words that end in `pass` and are not secrets.
const NOT_PASS: [&str; 3] = ["bypass", "compass", "surpass"];
/// Endings of names whose values are the location of a secret.
const LOCATIONS: [&str; 4] = ["file", "path", "dir", "url"];
/// Prefixes of tokens from well-known issuers.
const TOKEN_PREFIXES: [&str; 16] = [
    "ghp_",
    "gho_",
    "ghs_",
    "github_pat_",
    "glpat-",
    "sk-",
    "xoxb-",
    "xoxp-",
    "xapp-",
    "AKIA",
    "AIza",
    "eyJ",
    "hf_",
    "npm_",
    "pypi-",
    "dop_v1_",
];
/// Beginnings of URLs that are secrets as a whole: who knows one may post there.
const SECRET_URLS: [&str; 4] = [
    "https://hooks.slack.com/",
    "https://discord.com/api/webhooks/",
    "https://discordapp.com/api/webhooks/",
    "https://api.telegram.org/bot",
];
/// The shortest token with such a prefix.
const SHORTEST_TOKEN: usize = 16;
/// The longest run of characters that counts as a word.
const LONGEST_WORD: usize = 40;

/// Whether a setting, header, option or parameter of this name holds a secret.
pub fn is_secret_name(name: &str) -> bool {
    let name = name.trim_start_matches('-');
    let words = words(name);
    let joined: String = words.concat();
    let last = words.last().map_or("", String::as_str);
    if LOCATIONS.contains(&last) {
        return false;
    }
    let is_secret_word = |word: &String| {
        NAME_WORDS.contains(&word.as_str())
            || (word.ends_with("pass") && !NOT_PASS.contains(&word.as_str()))
    };
    last == "auth"
        || joined.ends_with("authorization")
        || NAME_PARTS.iter().any(|part| joined.contains(part))
        || words.iter().any(is_secret_word)
}

/// The words of a name in lower case: `X-Api-Key`, `MY_PASS` and `accountKey` have two or three.
fn words(name: &str) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut after_small = false;
    for letter in name.chars() {
        let begins = !letter.is_alphanumeric() || (after_small && letter.is_uppercase());
        after_small = letter.is_lowercase();
        if begins {
            words.push(String::new());
        }
        if letter.is_alphanumeric()
            && let Some(word) = words.last_mut()
        {
            word.extend(letter.to_lowercase());
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

/// Whether a value is a secret by its form: a token of a well-known issuer, the value of an
/// `Authorization` header, or a long run of random characters.
pub fn is_secret_value(value: &str) -> bool {
    let scheme = value.split_once(' ').is_some_and(|(scheme, _)| is_auth_scheme(scheme));
    let has_token = value.len() >= SHORTEST_TOKEN
        && TOKEN_PREFIXES.iter().any(|prefix| value.starts_with(prefix));
    let has_secret_url = SECRET_URLS.iter().any(|prefix| value.starts_with(prefix));
    scheme || has_token || has_secret_url || is_random(value)
}

/// Whether a word is the scheme of an `Authorization` header.
pub fn is_auth_scheme(word: &str) -> bool {
    ["bearer", "basic", "token"].iter().any(|known| word.eq_ignore_ascii_case(known))
}

/// Whether a text is a long run of letters and digits without a path or words.
pub fn is_random(text: &str) -> bool {
    let usual = |letter: char| letter.is_ascii_alphanumeric() || "+=_-".contains(letter);
    text.len() > LONGEST_WORD
        && text.chars().all(usual)
        && text.contains(|letter: char| letter.is_ascii_digit())
}

/// The value of a setting without the secrets inside it: those of [`without_embedded`], and those of a header such as
/// `Authorization: Bearer x`, or of a JSON document. `None` if there are none.
pub fn without_inner(value: &str) -> Option<String> {
    header_shown(value).or_else(|| json_shown(value)).or_else(|| without_embedded(value))
}

/// Whether a text refers to a secret and holds none.
fn is_reference(text: &str) -> bool {
    text.starts_with("${") || text.starts_with("secret://")
}

fn header_shown(value: &str) -> Option<String> {
    let (name, content) = value.split_once(':')?;
    let is_name = |letter: char| letter.is_ascii_alphanumeric() || letter == '-' || letter == '_';
    let text = content.trim();
    let is_header = !name.is_empty()
        && name.chars().all(is_name)
        && !text.is_empty()
        && !content.starts_with("//")
        && !is_reference(text);
    (is_header && (is_secret_name(name) || is_secret_value(text)))
        .then(|| format!("{name}: {REDACTED}"))
}

fn json_shown(value: &str) -> Option<String> {
    if !value.trim_start().starts_with(['{', '[']) {
        return None;
    }
    let mut document: Value = serde_json::from_str(value).ok()?;
    hide_in_json(&mut document, false).then(|| document.to_string())
}

/// Replaces the secrets of a JSON document. Returns whether there were any.
fn hide_in_json(value: &mut Value, is_secret: bool) -> bool {
    let mut found = false;
    let shown = match value {
        Value::Object(members) => {
            for (name, member) in members {
                found |= hide_in_json(member, is_secret_name(name));
            }
            None
        }
        Value::Array(items) => {
            for item in items {
                found |= hide_in_json(item, is_secret);
            }
            None
        }
        Value::String(text) if text.is_empty() || is_reference(text) => None,
        Value::String(text) if is_secret || is_secret_value(text) => Some(REDACTED.to_owned()),
        Value::String(text) => header_shown(text).or_else(|| without_embedded(text)),
        Value::Number(_) => is_secret.then(|| REDACTED.to_owned()),
        Value::Bool(_) | Value::Null => None,
    };
    if let Some(shown) = shown {
        *value = Value::String(shown);
        found = true;
    }
    found
}

/// A value without the secrets inside it: passwords in URLs and connection strings, and parameters with
/// the name of a secret, such as `sig`. `None` if there are none.
pub fn without_embedded(value: &str) -> Option<String> {
    let mut shown = String::with_capacity(value.len());
    let mut rest = value;
    // Connection strings separate their pairs by blanks, `;`, `&` and `,`.
    while let Some(end) = rest.find([' ', ';', '&', '?', ',', '\n', '#']) {
        let (piece, after) = rest.split_at(end);
        shown.push_str(&piece_shown(piece));
        let separator = after.chars().next().map_or(0, char::len_utf8);
        let (separator, next) = after.split_at(separator);
        shown.push_str(separator);
        rest = next;
    }
    shown.push_str(&piece_shown(rest));
    (shown != value).then_some(shown)
}

/// One piece of a connection string or a URL.
fn piece_shown(piece: &str) -> String {
    let is_url = piece.contains("://");
    if let Some((name, value)) = piece.split_once('=')
        && !is_url
        && !value.is_empty()
        && is_secret_name(name)
    {
        return format!("{name}={REDACTED}");
    }
    let shown = without_user_info(piece).unwrap_or_else(|| piece.to_owned());
    match shown.split_once("://") {
        Some((scheme, rest)) => format!("{scheme}://{}", without_secret_segments(rest)),
        None => shown,
    }
}

/// The part of a URL after the scheme, without the segments of its path that are secrets.
fn without_secret_segments(rest: &str) -> String {
    let mut segments = rest.split('/');
    let authority = segments.next().unwrap_or_default();
    let path = segments.map(|segment| {
        let is_secret = segment != REDACTED && is_secret_value(segment);
        format!("/{}", if is_secret { REDACTED } else { segment })
    });
    std::iter::once(authority.to_owned()).chain(path).collect()
}

/// `scheme://user:password@host` and `user:password@tcp(host)` without the part before the `@`.
fn without_user_info(piece: &str) -> Option<String> {
    let (scheme, rest) = match piece.find("://") {
        Some(at) => piece.split_at(at + "://".len()),
        None => ("", piece),
    };
    // A password may hold an `@`; the host cannot.
    let authority = rest.split('/').next().unwrap_or_default();
    let (user, _) = match scheme.is_empty() {
        false if authority.contains('@') => authority.rsplit_once('@')?,
        // The password of a URL may hold a `/`.
        false => rest.rsplit_once('@').filter(|(user, _)| user.contains(':'))?,
        true => authority.rsplit_once('@')?,
    };
    let has_password = user.split_once(':').is_some_and(|(_, password)| !password.is_empty());
    if !has_password && (scheme.is_empty() || !is_secret_value(user)) {
        return None;
    }
    let host = rest.get(user.len()..)?;
    Some(format!("{scheme}{REDACTED}{host}"))
}

#[cfg(test)]
mod tests {
    use super::{is_secret_name, is_secret_value, without_embedded, without_inner};

    #[test]
    fn names_of_secrets() {
        for name in [
            "GITHUB_TOKEN",
            "X-Api-Key",
            "OPENAI_APIKEY",
            "Authorization",
            "Proxy-Authorization",
            "MY_PASS",
            "DBPASS",
            "PGPASSWORD",
            "DB_PWD",
            "GH_PAT",
            "--password",
            "--api-key",
            "key",
            "AWS_ACCESS_KEY_ID",
            "AccountKey",
            "SharedAccessKey",
            "sig",
            "X-Amz-Signature",
            "BASIC_AUTH",
            "SESSION_COOKIE",
            "client_secret",
            "SENTRY_DSN",
        ] {
            assert!(is_secret_name(name), "{name}");
        }
        for name in [
            "PATH",
            "AUTHOR",
            "MONKEY",
            "KEYBOARD",
            "TOKEN_FILE",
            "DATABASE_URL",
            "BYPASS",
            "COMPASS",
            "AUTH_MODE",
            "LOG_LEVEL",
            "PATTERN",
            "",
        ] {
            assert!(!is_secret_name(name), "{name}");
        }
    }

    #[test]
    fn forms_of_secrets() {
        for value in [
            "Bearer abc",
            "ghp_0123456789abcdef",
            "npm_0123456789abcdef",
            "https://hooks.slack.com/services/T0/B0/x",
        ] {
            assert!(is_secret_value(value), "{value}");
        }
        assert!(is_secret_value(&"Ab1".repeat(20)));
        for value in ["sk-learn", "/usr/bin:/bin", "hello world", "ghp_", ""] {
            assert!(!is_secret_value(value), "{value}");
        }
    }

    #[test]
    fn secrets_inside_headers_and_documents() {
        for (value, shown) in [
            ("Authorization: Bearer x", "Authorization: [REDACTED]"),
            ("Authorization:Bearer x", "Authorization: [REDACTED]"),
            ("X-Api-Key: k", "X-Api-Key: [REDACTED]"),
            ("X-Custom: Bearer x", "X-Custom: [REDACTED]"),
            (r#"{"Authorization":"Bearer x"}"#, r#"{"Authorization":"[REDACTED]"}"#),
            (
                r#"{"a":[{"token":["x",1]}],"b":2}"#,
                r#"{"a":[{"token":["[REDACTED]","[REDACTED]"]}],"b":2}"#,
            ),
            (r#" ["postgres://a:pw@h", "b"]"#, r#"["postgres://[REDACTED]@h","b"]"#),
            (r#"["X-Api-Key: k"]"#, r#"["X-Api-Key: [REDACTED]"]"#),
            ("postgres://a:pw@h/d", "postgres://[REDACTED]@h/d"),
        ] {
            assert_eq!(without_inner(value).as_deref(), Some(shown), "{value}");
        }
        for value in [
            "Authorization:",
            "Authorization: ${AUTH}",
            "Authorization:secret://a/b",
            "Accept: text/html",
            "token://x",
            r"C:\keys",
            r#"{"a":"b","token":"","key":"${KEY}"}"#,
            r#"{"token":"#,
            "not secret: at all",
        ] {
            assert_eq!(without_inner(value), None, "{value}");
        }
    }

    #[test]
    fn secrets_inside_values() {
        for (value, shown) in [
            ("postgres://ada:pw@db:5432/app", "postgres://[REDACTED]@db:5432/app"),
            ("postgres://ada:p@w@db/app", "postgres://[REDACTED]@db/app"),
            ("postgres://ada:p/w@db/app", "postgres://[REDACTED]@db/app"),
            ("redis://:pw@h", "redis://[REDACTED]@h"),
            ("https://ghp_0123456789abcdef@h/x", "https://[REDACTED]@h/x"),
            ("root:pw@tcp(db:3306)/app", "[REDACTED]@tcp(db:3306)/app"),
            ("host=db password=pw user=ada", "host=db password=[REDACTED] user=ada"),
            ("Server=db;Uid=a;Pwd=pw;", "Server=db;Uid=a;Pwd=[REDACTED];"),
            ("AccountName=a;AccountKey=Zm9v==", "AccountName=a;AccountKey=[REDACTED]"),
            ("https://h/b?se=1&sig=abc%3D", "https://h/b?se=1&sig=[REDACTED]"),
            ("https://h/b?token=x#f", "https://h/b?token=[REDACTED]#f"),
            (
                "https://h/s/Ab1Ab1Ab1Ab1Ab1Ab1Ab1Ab1Ab1Ab1Ab1Ab1Ab1Ab1/mcp",
                "https://h/s/[REDACTED]/mcp",
            ),
        ] {
            assert_eq!(without_embedded(value).as_deref(), Some(shown), "{value}");
        }
        for value in [
            "https://h/mcp?a=b",
            "git@github.com:o/r.git",
            "ssh://git@github.com/o/r",
            "@modelcontextprotocol/server",
            "ghcr.io/o/i:1@sha256:abc",
            "a=b",
            "mode=fast,level=2",
            "/usr/bin:/bin",
            "",
        ] {
            assert_eq!(without_embedded(value), None, "{value}");
        }
    }
}
