//! Kubeconfig files with tokens or client certificates. Credential plugins, which run programs, are refused.

use std::path::{Path, PathBuf};

use base64::{Engine as _, engine::general_purpose::STANDARD};
use muster_config::documents;
use muster_core::secret::Secret;
use serde_json::Value as Json;

use crate::access::{AccessError, read};

/// The cluster and the user of a kubeconfig's current context.
#[derive(Debug)]
pub(crate) struct Kubeconfig {
    pub(crate) server: String,
    pub(crate) authority: Option<PemSource>,
    pub(crate) certificate: Option<PemSource>,
    pub(crate) key: Option<PemSource>,
    pub(crate) token: Option<Secret>,
    pub(crate) token_file: Option<PathBuf>,
}

/// PEM data: inline in the kubeconfig, or in a file.
pub(crate) enum PemSource {
    Inline(Vec<u8>),
    File(PathBuf),
}

impl std::fmt::Debug for PemSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Inline(_) => f.write_str("Inline"),
            Self::File(path) => f.debug_tuple("File").field(path).finish(),
        }
    }
}

impl PemSource {
    /// Loads the data. A relative path is resolved against the folder of the kubeconfig.
    pub(crate) fn load(&self, folder: &Path) -> Result<Vec<u8>, AccessError> {
        match self {
            Self::Inline(data) => Ok(data.clone()),
            Self::File(path) => read(&folder.join(path)),
        }
    }
}

/// Parses the current context of a kubeconfig.
pub(crate) fn parse(text: &str) -> Result<Kubeconfig, String> {
    let root = documents::json(text).map_err(|error| error.to_string())?;
    let current = text_of(&root, "current-context").ok_or("`current-context` is not set")?;
    let context = named(&root, "contexts", "context", &current)?;
    let cluster_name = text_of(context, "cluster").ok_or("the context has no `cluster`")?;
    let cluster = named(&root, "clusters", "cluster", &cluster_name)?;
    let nobody = Json::Null;
    let user = match text_of(context, "user") {
        Some(user) => named(&root, "users", "user", &user)?,
        None => &nobody,
    };
    if cluster.get("insecure-skip-tls-verify") == Some(&Json::Bool(true)) {
        return Err(
            "`insecure-skip-tls-verify` is not supported: name the `certificate-authority`"
                .to_owned(),
        );
    }
    for key in ["exec", "auth-provider", "username"] {
        if user.get(key).is_some() {
            return Err(format!(
                "users with `{key}` are not supported: use a token or a client certificate"
            ));
        }
    }
    // Refuse these keys: ignoring one would mean acting as another user, or connecting elsewhere.
    for key in ["as", "as-uid", "as-groups", "as-user-extra"] {
        if user.get(key).is_some() {
            return Err(format!(
                "users with `{key}` are not supported: use the credentials of that user"
            ));
        }
    }
    for key in ["proxy-url", "tls-server-name"] {
        if cluster.get(key).is_some() {
            return Err(format!(
                "clusters with `{key}` are not supported: use a `server` that is reached directly, by a name in its certificate"
            ));
        }
    }
    Ok(Kubeconfig {
        server: text_of(cluster, "server").ok_or("the cluster has no `server`")?,
        authority: pem(cluster, "certificate-authority")?,
        certificate: pem(user, "client-certificate")?,
        key: pem(user, "client-key")?,
        token: text_of(user, "token").map(|token| Secret::new(token.trim().to_owned())),
        token_file: text_of(user, "tokenFile").map(PathBuf::from),
    })
}

fn text_of(value: &Json, key: &str) -> Option<String> {
    value.get(key)?.as_str().filter(|text| !text.is_empty()).map(str::to_owned)
}

/// Finds the entry with this name in a list of a kubeconfig.
fn named<'a>(root: &'a Json, list: &str, what: &str, name: &str) -> Result<&'a Json, String> {
    let entries = root.get(list).and_then(Json::as_array);
    let found = entries
        .into_iter()
        .flatten()
        .find(|entry| entry.get("name").and_then(Json::as_str) == Some(name));
    found.and_then(|entry| entry.get(what)).ok_or_else(|| format!("`{list}` has no entry `{name}`"))
}

/// Reads PEM data. Inline data takes precedence over a file, as for kubectl.
fn pem(value: &Json, key: &str) -> Result<Option<PemSource>, String> {
    let inline = format!("{key}-data");
    match (text_of(value, &inline), text_of(value, key)) {
        (Some(data), _) => match STANDARD.decode(data.trim()) {
            Ok(data) => Ok(Some(PemSource::Inline(data))),
            Err(_) => Err(format!("`{inline}` is not Base64")),
        },
        (None, Some(path)) => Ok(Some(PemSource::File(path.into()))),
        (None, None) => Ok(None),
    }
}

#[cfg(test)]
mod tests {
    use super::{PemSource, parse};

    const FILE: &str = "\
apiVersion: v1
kind: Config
current-context: there
contexts:
- name: there
  context: {cluster: c, user: u, namespace: n}
clusters:
- name: c
  cluster: {server: 'https://10.0.0.1:6443', certificate-authority: ca.pem}
users:
- name: u
  user: {token: s3cret}
";

    #[test]
    fn the_current_context_counts() {
        let found = parse(FILE).unwrap();
        assert_eq!(found.server, "https://10.0.0.1:6443");
        assert!(
            matches!(&found.authority, Some(PemSource::File(path)) if path.ends_with("ca.pem"))
        );
        assert_eq!(found.token.as_ref().map(|token| token.reveal().as_str()), Some("s3cret"));
        assert!(!format!("{found:?}").contains("s3cret"));
    }

    #[test]
    fn what_cannot_be_used_is_named() {
        let check = |from: &str, to: &str, expected: &str| {
            let error = parse(&FILE.replace(from, to)).unwrap_err();
            assert!(error.contains(expected), "{error}");
        };
        check("current-context: there", "current-context: ''", "`current-context` is not set");
        check("current-context: there", "current-context: x", "`contexts` has no entry `x`");
        check("certificate-authority: ca.pem", "insecure-skip-tls-verify: true", "not supported");
        check("token: s3cret", "exec: {command: aws}", "users with `exec` are not supported");
        for key in ["as", "as-uid", "as-groups", "as-user-extra"] {
            let other = format!("token: s3cret, {key}: x");
            check("token: s3cret", &other, &format!("users with `{key}` are not supported"));
        }
        for key in ["proxy-url", "tls-server-name"] {
            let other = format!("certificate-authority: ca.pem, {key}: x");
            let expected = format!("clusters with `{key}` are not supported");
            check("certificate-authority: ca.pem", &other, &expected);
        }
        check("token: s3cret", "client-key-data: '%'", "`client-key-data` is not Base64");
    }
}
