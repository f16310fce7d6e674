//! Port to the secrets that definitions refer to, where those are objects of a cluster.

use thiserror::Error;

use crate::{backend::BoxFuture, secret::Secret};

/// The key of a reference that does not name one.
pub const DEFAULT_KEY: &str = "value";

/// Why a secret cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum SecretSourceError {
    /// There is no such secret or key, or the gateway may not read it. A retry does not help.
    #[error("{0}")]
    Missing(String),
    /// The cluster does not respond; the secret may exist.
    #[error("{0}")]
    Unavailable(String),
}

/// The result of reading secrets.
pub type SecretFuture<'a, T> = BoxFuture<'a, Result<T, SecretSourceError>>;

/// Reads secrets by name. Values are read when they are needed, never listed, and never stored.
pub trait SecretSource: Send + Sync {
    /// Returns the values of `keys`, in their order and from one version of the secret. An empty namespace stands for
    /// that of the definitions.
    fn secrets<'a>(
        &'a self,
        namespace: &'a str,
        name: &'a str,
        keys: &'a [&'a str],
    ) -> SecretFuture<'a, Vec<Secret>>;
}

crate::opaque_debug!(SecretSource);

/// The secrets that a text refers to, as `secret://NAME` or `secret://NAME/KEY`: for each the range of the reference,
/// the name and the key.
pub fn references(text: &str) -> Vec<(std::ops::Range<usize>, &str, &str)> {
    let mut found = Vec::new();
    let mut from = 0;
    while let Some(start) = text.get(from..).and_then(|rest| rest.find(SCHEME)) {
        let start = from + start;
        let name = word(text, start + SCHEME.len());
        let mut end = start + SCHEME.len() + name.len();
        let mut key = DEFAULT_KEY;
        if text.get(end..).is_some_and(|rest| rest.starts_with('/')) {
            let named = word(text, end + 1);
            if !named.is_empty() {
                key = named;
                end += 1 + named.len();
            }
        }
        found.push((start..end, name, key));
        from = end;
    }
    found
}

/// The beginning of a reference.
const SCHEME: &str = "secret://";

/// The characters of a name from a position on.
fn word(text: &str, from: usize) -> &str {
    let rest = text.get(from..).unwrap_or_default();
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    let end = rest.find(|c| !allowed(c)).unwrap_or(rest.len());
    rest.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::references;

    #[test]
    fn references_have_a_name_and_perhaps_a_key() {
        let found = |text: &str| -> Vec<String> {
            let found = references(text).into_iter();
            found
                .map(|(at, name, key)| format!("{} {name} {key}", text.get(at).unwrap_or_default()))
                .collect()
        };
        assert_eq!(found("plain"), Vec::<String>::new());
        assert_eq!(found("Bearer secret://a.b/token!"), ["secret://a.b/token a.b token"]);
        assert_eq!(found("secret://a, secret://b/"), ["secret://a a value", "secret://b b value"]);
        assert_eq!(found("https://h/?k=secret://a/b&x"), ["secret://a/b a b"]);
        assert_eq!(found("secret://"), ["secret://  value"]);
    }
}
