//! Secrets that are moved out of the definition of a server into the secret store.
//!
//! **Invariant:** two different secrets never share a name, and a stored secret is never replaced by another.

use std::{fmt, path::Path};

use muster_config::mcp_json::secret_part;

use crate::secrets::{self, SecretError, SecretStore};

/// A secret to be moved into its own file. `Debug` omits its value.
#[derive(PartialEq, Eq)]
pub struct MovedSecret {
    /// Where it was found: a variable, header, option or file.
    pub origin: String,
    /// Its name in the secret store.
    pub name: String,
    value: String,
}

impl MovedSecret {
    pub(super) fn new(origin: impl Into<String>, name: &str, value: String) -> Self {
        Self { origin: origin.into(), name: name.to_owned(), value }
    }

    /// Whether the store has a different secret under this name.
    pub(super) fn conflicts(&self, secrets: &SecretStore) -> bool {
        let wanted = self.value.trim_end_matches('\n');
        secrets.get(&self.name).is_ok_and(|stored| stored != wanted)
    }
}

impl fmt::Debug for MovedSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MovedSecret")
            .field("origin", &self.origin)
            .field("name", &self.name)
            .finish_non_exhaustive()
    }
}

/// Replaces the secrets among the variables or headers of a server by references, and adds them to `moved`.
pub fn extract_secrets(
    server: &str,
    pairs: Vec<(String, String)>,
    moved: &mut Vec<MovedSecret>,
) -> Vec<(String, String)> {
    let mut extractor = SecretExtractor::new(server);
    extractor.moved = std::mem::take(moved);
    let pairs = pairs.into_iter().map(|pair| extractor.pair(pair)).collect();
    *moved = extractor.moved;
    pairs
}

/// Stores secrets in the configuration in `root`: all of them, or none if one would replace another secret.
pub fn store_secrets(root: &Path, moved: &[MovedSecret]) -> Result<(), SecretError> {
    let secrets = SecretStore::of(root);
    if let Some(MovedSecret { name, .. }) = moved.iter().find(|moved| moved.conflicts(&secrets)) {
        return Err(SecretError::Taken { name: name.clone(), path: secrets.path(name) });
    }
    moved.iter().try_for_each(|moved| secrets.put(&moved.name, &moved.value))
}

/// Replaces the secrets of a server by references.
pub(super) struct SecretExtractor<'a> {
    server: &'a str,
    pub(super) moved: Vec<MovedSecret>,
    pub(super) notes: Vec<String>,
}

impl<'a> SecretExtractor<'a> {
    pub(super) const fn new(server: &'a str) -> Self {
        Self { server, moved: Vec::new(), notes: Vec::new() }
    }

    pub(super) fn pair(&mut self, (key, value): (String, String)) -> (String, String) {
        if value.contains("${") || (value.starts_with('$') && value.len() > 1) {
            self.notes.push(format!(
                "{key} was filled in by the client: set its value, or use {} and store the secret there",
                secrets::reference(&self.secret_name(&key))
            ));
        }
        let Some(secret) = secret_part(&key, &value) else { return (key, value) };
        // Only the credentials of an `Authorization` header are replaced; the scheme before them stays.
        let scheme = value.strip_suffix(secret).unwrap_or_default();
        let stored = format!("{scheme}{}", self.extract(&key, secret));
        (key, stored)
    }

    /// Adds a note for each variable in a setting that only the client knows, such as `${workspaceFolder}`.
    pub(super) fn mark(&mut self, setting: &str, value: &str) {
        for reference in value.split("${").skip(1) {
            let name = reference.split('}').next().unwrap_or_default();
            self.notes.push(format!(
                "`${{{name}}}` in its {setting} was filled in by the client: write the value"
            ));
        }
    }

    pub(super) fn args(&mut self, args: Vec<String>) -> Vec<String> {
        let mut before = String::new();
        let mut replaced = Vec::with_capacity(args.len());
        for arg in args {
            self.mark("arguments", &arg);
            let option = arg.split_once('=').filter(|(option, _)| option.starts_with('-'));
            let arg = match option {
                Some((option, value)) if secret_part(option, value).is_some() => {
                    let (option, value) = self.pair((option.to_owned(), value.to_owned()));
                    format!("{option}={value}")
                }
                // This is the value of the preceding option. An option itself is never a secret.
                _ if before.starts_with('-') && !arg.starts_with('-') => {
                    self.pair((before.clone(), arg)).1
                }
                // A connection string with a password.
                None if secret_part("", &arg).is_some() => self.pair(("arg".to_owned(), arg)).1,
                _ => arg,
            };
            before.clone_from(&arg);
            replaced.push(arg);
        }
        replaced
    }

    fn secret_name(&self, key: &str) -> String {
        let key: String = key
            .trim_start_matches('-')
            .chars()
            .map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '_' })
            .collect();
        format!("{}.{key}", self.server)
    }

    /// Adds a secret under a unique name and returns the reference to it.
    fn extract(&mut self, key: &str, secret: &str) -> String {
        let name = self.secret_name(key);
        // Compare names ignoring case, as some file systems do.
        let is_free = |name: &String| {
            let mut others =
                self.moved.iter().filter(|moved| moved.name.eq_ignore_ascii_case(name));
            others.all(|moved| moved.name == *name && moved.value == secret)
        };
        let numbered = (2..).map(|number| format!("{name}-{number}"));
        let mut names = std::iter::once(name.clone()).chain(numbered);
        let name = names.find(is_free).unwrap_or_default();
        if self.moved.iter().all(|moved| moved.name != name) {
            self.moved.push(MovedSecret::new(key, &name, secret.to_owned()));
        }
        secrets::reference(&name)
    }
}

#[cfg(test)]
mod tests {
    use super::{MovedSecret, SecretExtractor, extract_secrets, store_secrets};
    use crate::secrets::SecretStore;

    fn names(moved: &[MovedSecret]) -> Vec<String> {
        moved.iter().map(|moved| format!("{}={}", moved.name, moved.value)).collect()
    }

    fn pairs(pairs: &[(&str, &str)]) -> Vec<(String, String)> {
        pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn every_secret_has_a_name_of_its_own() {
        let mut extractor = SecretExtractor::new("db");
        let args = ["postgres://a:one@h/d", "postgres://a:two@h/d", "postgres://a:one@h/d"];
        let args = extractor.args(args.map(str::to_owned).to_vec());
        assert_eq!(args, ["secret://db.arg", "secret://db.arg-2", "secret://db.arg"]);
        assert_eq!(
            names(&extractor.moved),
            ["db.arg=postgres://a:one@h/d", "db.arg-2=postgres://a:two@h/d"]
        );
        let mut extractor = SecretExtractor::new("r");
        let args = ["--header", "Authorization: Bearer x", "--header", "Accept: text/html"];
        let args = extractor.args(args.map(str::to_owned).to_vec());
        assert_eq!(args, ["--header", "secret://r.header", "--header", "Accept: text/html"]);
        assert_eq!(names(&extractor.moved), ["r.header=Authorization: Bearer x"]);
        let mut moved = Vec::new();
        let env = extract_secrets("s", pairs(&[("A-TOKEN", "x"), ("A_TOKEN", "y")]), &mut moved);
        let headers = extract_secrets("s", pairs(&[("a_token", "Basic a")]), &mut moved);
        assert_eq!(names(&moved), ["s.A_TOKEN=x", "s.A_TOKEN-2=y", "s.a_token-3=a"]);
        let values = env.iter().chain(&headers).map(|(_, value)| value.as_str());
        let values: Vec<&str> = values.collect();
        assert_eq!(
            values,
            ["secret://s.A_TOKEN", "secret://s.A_TOKEN-2", "Basic secret://s.a_token-3"]
        );
    }

    #[test]
    fn stored_secrets_are_not_replaced() {
        let root = tempfile::tempdir().unwrap();
        let secrets = SecretStore::of(root.path());
        secrets.put("s.TOKEN", "mine").unwrap();
        let mut moved = Vec::new();
        extract_secrets("s", pairs(&[("KEY_TOKEN", "k"), ("TOKEN", "theirs")]), &mut moved);
        let refused = store_secrets(root.path(), &moved).unwrap_err().to_string();
        assert!(refused.contains("`s.TOKEN` exists with another value"), "{refused}");
        assert!(!refused.contains("theirs") && !refused.contains("mine"), "{refused}");
        assert_eq!(secrets.get("s.TOKEN").unwrap(), "mine");
        assert!(secrets.get("s.KEY_TOKEN").is_err(), "all or none");
    }
}
