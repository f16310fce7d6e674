//! Detects which values of a configuration are secrets.

/// Substrings of the names of variables, headers and options that hold a secret.
const NAMES: [&str; 11] = [
    "token",
    "secret",
    "password",
    "passwd",
    "passphrase",
    "apikey",
    "api_key",
    "api-key",
    "credential",
    "private_key",
    "access_key",
];

/// Prefixes of tokens from well-known issuers.
const PREFIXES: [&str; 14] = [
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
    "hf_",
    "npm_",
    "pypi-",
];

/// The secret part of a value, if there is one: the whole value, or what follows the scheme of an
/// `Authorization` header.
pub(super) fn secret_part<'a>(name: &str, value: &'a str) -> Option<&'a str> {
    let is_public = value.trim().is_empty()
        || value.contains("${")
        || value.starts_with('$')
        || crate::secrets::is_reference(value);
    if is_public {
        return None;
    }
    let bare = value.split_once(' ').filter(|(scheme, _)| {
        ["bearer", "basic", "token"].iter().any(|known| scheme.eq_ignore_ascii_case(known))
    });
    let bare = bare.map_or(value, |(_, rest)| rest.trim_start());
    (is_secret_name(name) || PREFIXES.iter().any(|begin| bare.starts_with(begin))).then_some(bare)
}

/// Whether a value of this name is a secret.
pub(super) fn is_secret_name(name: &str) -> bool {
    let name = name.trim_start_matches('-').to_lowercase();
    // The path of a secret file is not a secret.
    let is_path = ["file", "path", "dir", "url"].iter().any(|end| name.ends_with(end));
    let is_key = name == "key" || name.ends_with("_key") || name.ends_with("-key");
    !is_path
        && (name == "authorization"
            || name.ends_with("_pat")
            || is_key
            || NAMES.iter().any(|part| name.contains(part)))
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
            ("ANYTHING", "ghp_123", Some("ghp_123")),
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
