//! Secrets of files, and what they are called in a cluster.
//!
//! The name of a file may have capital letters and `_`, that of a Secret may not. `muster import` names files by their
//! server and their variable: `github.GITHUB_TOKEN` is the key `GITHUB_TOKEN` of the Secret `github`.

use muster_core::secret_source::{DEFAULT_KEY, references};
use serde_json::Value as Json;

use crate::store::is_name;

/// A file in the folder `secrets`, and the key of a Secret that takes its place.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretFile {
    /// The Secret.
    pub name: String,
    /// Its key.
    pub key: String,
    /// The file.
    pub file: String,
}

/// Replaces the references of a spec to files by those to Secrets.
pub(crate) fn rename(spec: &mut Json, found: &mut Vec<SecretFile>) -> Result<(), String> {
    match spec {
        Json::String(text) => *text = renamed(text, found)?,
        Json::Array(items) => {
            for item in items {
                rename(item, found)?;
            }
        }
        Json::Object(members) => {
            for value in members.values_mut() {
                rename(value, found)?;
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => (),
    }
    found.sort();
    found.dedup();
    Ok(())
}

fn renamed(text: &str, found: &mut Vec<SecretFile>) -> Result<String, String> {
    let (mut after, mut from) = (String::new(), 0);
    for (range, file, key) in references(text) {
        let reference = text.get(range.clone()).unwrap_or_default();
        let (name, key, reference) = match file.rsplit_once('.') {
            _ if is_name(file) => (file, key, reference.to_owned()),
            Some((name, own)) if is_name(name) && !own.is_empty() && key == DEFAULT_KEY => {
                (name, own, format!("secret://{name}/{own}"))
            }
            _ => {
                return Err(format!(
                    "`{file}` cannot be the name of a Secret: rename the secret, with lower case letters, digits and `-`"
                ));
            }
        };
        found.push(SecretFile {
            name: name.to_owned(),
            key: key.to_owned(),
            file: file.to_owned(),
        });
        after.push_str(text.get(from..range.start).unwrap_or_default());
        after.push_str(&reference);
        from = range.end;
    }
    after.push_str(text.get(from..).unwrap_or_default());
    Ok(after)
}

#[cfg(test)]
mod tests {
    use super::renamed;

    #[test]
    fn names_that_a_secret_cannot_have_are_split() {
        let check = |text: &str, expected: &str, secrets: &[&str]| {
            let mut found = Vec::new();
            assert_eq!(renamed(text, &mut found).as_deref(), Ok(expected));
            let found: Vec<String> = found
                .iter()
                .map(|secret| format!("{} {} {}", secret.name, secret.key, secret.file))
                .collect();
            assert_eq!(found, secrets, "{text}");
        };
        check("plain", "plain", &[]);
        check(
            "Bearer secret://git-hub.API_KEY!",
            "Bearer secret://git-hub/API_KEY!",
            &["git-hub API_KEY git-hub.API_KEY"],
        );
        check(
            "secret://a.b, secret://c",
            "secret://a.b, secret://c",
            &["a.b value a.b", "c value c"],
        );
        check("secret://creds/TOKEN", "secret://creds/TOKEN", &["creds TOKEN creds"]);
        check("secret://a.b.C", "secret://a.b/C", &["a.b C a.b.C"]);
        for text in
            ["secret://A", "secret://A.B", "secret://a_b.c", "secret://A.b/key", "secret://a."]
        {
            let refused = renamed(text, &mut Vec::new()).unwrap_err();
            assert!(refused.contains("cannot be the name of a Secret"), "{text}: {refused}");
        }
    }
}
