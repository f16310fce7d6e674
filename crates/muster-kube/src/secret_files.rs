//! Maps secret files to the keys of Kubernetes Secrets, and back.
//!
//! A file of the folder `secrets` has one value, a Secret has several. `muster import` names files after their server
//! and variable: `github.GITHUB_TOKEN` becomes the key `GITHUB_TOKEN` of the Secret `github`. A file whose name has no
//! dot becomes the key `value`. The mapping is reversible: a definition that is copied to files and back refers to the
//! same Secret, unless the name of the Secret has a dot.

use muster_core::{
    secret_source::{DEFAULT_KEY, references},
    server_auth::{SecretRef, ServerAuth},
};
use serde_json::Value as Json;

use crate::store::is_name;

/// The default keys of client credentials.
const CLIENT_ID: &str = "client-id";
const CLIENT_SECRET: &str = "client-secret";

/// A file in the folder `secrets`, and the key of a Secret that corresponds to it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct SecretFile {
    /// The namespace of the Secret; empty for that of the definitions.
    pub namespace: String,
    /// The Secret.
    pub name: String,
    /// Its key.
    pub key: String,
    /// The file, as a path in the folder.
    pub file: String,
}

/// The destination of a copy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Destination {
    Cluster,
    Files,
}

/// Converts the secret references in the spec of a server for its destination, and returns all secrets that it refers
/// to.
pub(crate) fn rename(spec: &mut Json, to: Destination) -> Result<Vec<SecretFile>, String> {
    let mut found = credentials(spec)?;
    rename_in(spec, to, &mut found)?;
    found.sort();
    found.dedup();
    Ok(found)
}

fn rename_in(value: &mut Json, to: Destination, found: &mut Vec<SecretFile>) -> Result<(), String> {
    match value {
        Json::String(text) => {
            *text = match to {
                Destination::Cluster => to_cluster(text, found)?,
                Destination::Files => to_files(text, found),
            }
        }
        Json::Array(items) => {
            for item in items {
                rename_in(item, to, found)?;
            }
        }
        Json::Object(members) => {
            for value in members.values_mut() {
                rename_in(value, to, found)?;
            }
        }
        Json::Null | Json::Bool(_) | Json::Number(_) => (),
    }
    Ok(())
}

/// The client credentials of a server: a Secret in a cluster, and a folder of files.
fn credentials(spec: &Json) -> Result<Vec<SecretFile>, String> {
    let auth = spec.get("auth").cloned().unwrap_or_default();
    let auth: Option<ServerAuth> = serde_json::from_value(auth).ok();
    let exchange = auth.and_then(|auth| auth.token_exchange);
    let Some(reference) = exchange.and_then(|exchange| exchange.client_credentials_secret_ref)
    else {
        return Ok(Vec::new());
    };
    let SecretRef { name, namespace, client_id_key, client_secret_key } = reference;
    if !is_name(&name) || (!namespace.is_empty() && !is_name(&namespace)) {
        return Err(cannot_be_a_name(&name));
    }
    let folder = match namespace.as_str() {
        "" => name.clone(),
        namespace => format!("{namespace}/{name}"),
    };
    let keys = [(client_id_key, CLIENT_ID), (client_secret_key, CLIENT_SECRET)];
    // A key becomes a file name: any other text could escape the folder of secrets.
    if let Some((key, _)) = keys.iter().find(|(key, _)| !key.is_empty() && !is_key(key)) {
        let shown = key.escape_debug();
        return Err(format!(
            "`{shown}` cannot be the key of a Secret: use letters, digits, `-`, `_` and `.`"
        ));
    }
    let files = keys.into_iter().map(|(key, default)| {
        let key = if key.is_empty() { default.to_owned() } else { key };
        let file = format!("{folder}/{key}");
        SecretFile { namespace: namespace.clone(), name: name.clone(), key, file }
    });
    Ok(files.collect())
}

fn is_key(key: &str) -> bool {
    let allowed = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
    key.chars().all(allowed) && key != "." && key != ".."
}

fn cannot_be_a_name(name: &str) -> String {
    format!(
        "`{name}` cannot be the name of a Secret: rename the secret, with lower case letters, digits and `-`"
    )
}

/// Converts a text of a file for a resource.
fn to_cluster(text: &str, found: &mut Vec<SecretFile>) -> Result<String, String> {
    let (mut after, mut from) = (String::new(), 0);
    for (range, file, _) in references(text) {
        // In a file, what follows the name is text.
        let end = range.start + SCHEME.len() + file.len();
        let rest = text.get(end..).unwrap_or_default();
        let (name, key) = match file.split_once('.') {
            Some((name, key)) if !key.is_empty() => (name, key),
            Some(_) => return Err(cannot_be_a_name(file)),
            None => (file, DEFAULT_KEY),
        };
        if !is_name(name) {
            return Err(cannot_be_a_name(file));
        }
        after.push_str(text.get(from..range.start).unwrap_or_default());
        after.extend([SCHEME, name]);
        if key != DEFAULT_KEY || rest.starts_with('/') {
            after.extend(["/", key]);
        }
        found.push(secret_file(name, key, file));
        from = end;
    }
    after.push_str(text.get(from..).unwrap_or_default());
    Ok(after)
}

/// Converts a text of a resource for a file.
fn to_files(text: &str, found: &mut Vec<SecretFile>) -> String {
    let (mut after, mut from) = (String::new(), 0);
    for (range, name, key) in references(text) {
        let file = match key {
            DEFAULT_KEY if !name.contains('.') => name.to_owned(),
            key => format!("{name}.{key}"),
        };
        after.push_str(text.get(from..range.start).unwrap_or_default());
        after.extend([SCHEME, &file]);
        found.push(secret_file(name, key, &file));
        from = range.end;
    }
    after.push_str(text.get(from..).unwrap_or_default());
    after
}

/// The prefix of a reference.
const SCHEME: &str = "secret://";

fn secret_file(name: &str, key: &str, file: &str) -> SecretFile {
    SecretFile {
        namespace: String::new(),
        name: name.to_owned(),
        key: key.to_owned(),
        file: file.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value as Json, json};

    use super::{Destination, SecretFile, rename, to_cluster, to_files};

    fn listed(found: &[SecretFile]) -> Vec<String> {
        let line = |secret: &SecretFile| {
            let SecretFile { namespace, name, key, file } = secret;
            format!("{namespace}|{name} {key} {file}")
        };
        found.iter().map(line).collect()
    }

    #[test]
    fn files_become_keys_of_secrets() {
        let check = |text: &str, expected: &str, secrets: &[&str]| {
            let mut found = Vec::new();
            assert_eq!(to_cluster(text, &mut found).as_deref(), Ok(expected));
            assert_eq!(listed(&found), secrets, "{text}");
        };
        check("plain", "plain", &[]);
        check(
            "Bearer secret://git-hub.API_KEY!",
            "Bearer secret://git-hub/API_KEY!",
            &["|git-hub API_KEY git-hub.API_KEY"],
        );
        check("secret://a.b, secret://c", "secret://a/b, secret://c", &["|a b a.b", "|c value c"]);
        check("secret://a.tls.crt", "secret://a/tls.crt", &["|a tls.crt a.tls.crt"]);
        // The text after the name of a file is not a key.
        check("https://h/secret://t/list", "https://h/secret://t/value/list", &["|t value t"]);
        check("secret://a.K/list", "secret://a/K/list", &["|a K a.K"]);
        check("secret://t/", "secret://t/value/", &["|t value t"]);
        for text in ["secret://A", "secret://A.B", "secret://a_b.c", "secret://a.", "secret://"] {
            let refused = to_cluster(text, &mut Vec::new()).unwrap_err();
            assert!(refused.contains("cannot be the name of a Secret"), "{text}: {refused}");
        }
    }

    #[test]
    fn keys_of_secrets_become_files() {
        for (text, expected, secret) in [
            ("Bearer secret://hub/TOKEN!", "Bearer secret://hub.TOKEN!", "|hub TOKEN hub.TOKEN"),
            ("secret://hub", "secret://hub", "|hub value hub"),
            ("secret://hub/value", "secret://hub", "|hub value hub"),
            ("secret://t/value/list", "secret://t/list", "|t value t"),
            ("secret://t/K/list", "secret://t.K/list", "|t K t.K"),
            ("secret://a.b", "secret://a.b.value", "|a.b value a.b.value"),
            ("secret://t/tls.crt", "secret://t.tls.crt", "|t tls.crt t.tls.crt"),
        ] {
            let mut found = Vec::new();
            assert_eq!(to_files(text, &mut found), expected);
            assert_eq!(listed(&found), [secret], "{text}");
        }
    }

    #[test]
    fn a_resource_that_was_copied_to_files_and_back_is_the_same() {
        for text in ["secret://hub/TOKEN", "secret://hub", "x secret://t/tls.crt/y secret://u/k"] {
            let file = to_files(text, &mut Vec::new());
            assert_eq!(to_cluster(&file, &mut Vec::new()).as_deref(), Ok(text), "{file}");
        }
    }

    #[test]
    fn client_credentials_are_secrets_as_well() {
        let spec = |reference: Json| {
            json!({"url": "http://h", "auth": {
                "type": "oauth",
                "tokenExchange": {"enabled": true, "clientCredentialsSecretRef": reference},
            }})
        };
        for (reference, expected) in [
            (
                json!({"name": "dex"}),
                ["|dex client-id dex/client-id", "|dex client-secret dex/client-secret"],
            ),
            (
                json!({"name": "dex", "namespace": "ns", "clientIdKey": "id"}),
                ["ns|dex client-secret ns/dex/client-secret", "ns|dex id ns/dex/id"],
            ),
        ] {
            for to in [Destination::Cluster, Destination::Files] {
                let mut server = spec(reference.clone());
                let found = rename(&mut server, to).unwrap();
                assert_eq!(listed(&found), expected);
                assert_eq!(server, spec(reference.clone()), "nothing is renamed");
            }
        }
        assert!(rename(&mut spec(json!({"name": "A_B"})), Destination::Cluster).is_err());
        for key in ["../../id", "..", "a/b", "a b", "a\u{1b}[2J"] {
            for reference in [
                json!({"name": "dex", "clientIdKey": key}),
                json!({"name": "dex", "clientSecretKey": key}),
            ] {
                let refused = rename(&mut spec(reference), Destination::Files).unwrap_err();
                assert!(refused.contains("cannot be the key of a Secret"), "{key:?}: {refused}");
                assert!(!refused.contains('\u{1b}'));
            }
        }
    }
}
