//! Copies definitions between files and a cluster.

use std::{collections::BTreeMap, io, path::Path};

use muster_config::{
    crd::{self, ResourceDefinition},
    documents,
    kinds::{API_GROUP, API_VERSION, DefinitionKind},
    writer,
};
use muster_engine::store::DefinitionStore;
use serde_json::{Map, Value as Json, json};
use thiserror::Error;

use crate::{
    access::ClusterAccess,
    api::{ApiClient, ApiError, WriteMode},
    discovery,
    object::{self, KubeObject},
    secret_files::{self, Destination, SecretFile},
    store::{InvalidNamespace, check_namespace, collection, is_name},
};

/// Why a definition cannot be copied.
#[derive(Debug, Error)]
pub enum TransferError {
    /// It cannot be read.
    #[error("{place}: {source}")]
    Read {
        /// The file or the kind.
        place: String,
        /// The cause.
        source: io::Error,
    },
    /// It is invalid, or has a name that a resource cannot have.
    #[error("{place}: {reason}")]
    Invalid {
        /// The file or resource.
        place: String,
        /// Why.
        reason: String,
    },
    /// The API server refuses it.
    #[error("{place}: {reason}")]
    Refused {
        /// The resource.
        place: String,
        /// Why.
        reason: String,
    },
}

/// A definition that is being copied.
#[derive(Debug, Clone, PartialEq)]
pub struct Movable {
    /// Its kind.
    pub kind: DefinitionKind,
    /// Its name.
    pub name: String,
    /// Its text, in the long form if its kind has one.
    pub text: String,
    /// The secrets that it refers to.
    pub secrets: Vec<SecretFile>,
}

impl Movable {
    /// Its manifest in a namespace.
    pub fn manifest(&self, namespace: &str) -> Result<String, TransferError> {
        let object = self.object(namespace)?;
        Ok(writer::object(&object))
    }

    fn object(&self, namespace: &str) -> Result<Json, TransferError> {
        object::created(self.kind, namespace, &self.name, &self.text)
            .map_err(|reason| TransferError::Invalid { place: self.place(), reason })
    }

    /// Its name in kubectl.
    pub fn place(&self) -> String {
        format!("{}/{}", self.kind.plural(), self.name)
    }
}

/// Reads all definitions of a store.
pub fn read_all(store: &dyn DefinitionStore) -> Result<Vec<Movable>, TransferError> {
    let mut found = Vec::new();
    for kind in DefinitionKind::ALL {
        let failed = |place: &Path, source| TransferError::Read {
            place: place.display().to_string(),
            source,
        };
        let paths = store.list(kind).map_err(|source| failed(&store.place(kind), source))?;
        for path in paths.into_iter().flatten() {
            let text = store.read(&path).map_err(|source| failed(&path, source))?.text;
            let stem = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            let place = path.display().to_string();
            let movable = movable(kind, &text, &stem)
                .map_err(|reason| TransferError::Invalid { place: place.clone(), reason })?;
            check_name(&movable.name).map_err(|reason| TransferError::Invalid { place, reason })?;
            found.push(movable);
        }
    }
    Ok(found)
}

/// Checks the name of a resource, which is part of the path of a request, or of a file.
fn check_name(name: &str) -> Result<(), String> {
    match is_name(name) {
        true => Ok(()),
        false => Err(format!(
            "`{name}` cannot be the name of a resource: rename it, with lower case letters, digits and `-`"
        )),
    }
}

/// Converts a definition of a file for its resource.
fn movable(kind: DefinitionKind, text: &str, stem: &str) -> Result<Movable, String> {
    let format = kind.format().ok_or("it has no format")?;
    format.check(text, stem).map_err(|error| error.to_string())?;
    let read = crd::from_file(kind, text, stem).map_err(|error| error.to_string())?;
    let ResourceDefinition { name, metadata, spec } = read;
    let mut spec = Json::Object(spec);
    let secrets = match kind {
        DefinitionKind::McpServer => secret_files::rename(&mut spec, Destination::Cluster)?,
        _ => Vec::new(),
    };
    let text = match kind.file_kind() {
        None => writer::object(&spec),
        Some(file_kind) => {
            let mut kept = Map::from_iter([("name".to_owned(), json!(name))]);
            kept.extend(metadata);
            writer::object(&json!({
                "apiVersion": format!("{API_GROUP}/{API_VERSION}"),
                "kind": file_kind,
                "metadata": kept,
                "spec": spec,
            }))
        }
    };
    Ok(Movable { kind, name, text, secrets })
}

/// A namespace that definitions are copied to or from.
#[derive(Debug)]
pub struct Transfer {
    api: ApiClient,
    namespace: String,
}

/// The effect of applying a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It was created.
    Created,
    /// It was changed.
    Changed,
    /// It was up to date.
    Unchanged,
}

impl Transfer {
    /// The namespace of a cluster.
    pub fn new(access: ClusterAccess, namespace: &str) -> Result<Self, InvalidNamespace> {
        check_namespace(namespace)?;
        Ok(Self { api: ApiClient::new(access), namespace: namespace.to_owned() })
    }

    /// Checks that the API server would accept a resource, without storing it.
    pub async fn check(&self, movable: &Movable) -> Result<(), TransferError> {
        self.write(movable, WriteMode::DryRun).await.map(drop)
    }

    /// Creates a resource, or replaces its spec. Labels and annotations are added to the existing ones.
    pub async fn apply(&self, movable: &Movable) -> Result<Applied, TransferError> {
        self.write(movable, WriteMode::Store).await
    }

    async fn write(&self, movable: &Movable, mode: WriteMode) -> Result<Applied, TransferError> {
        let failed = |error: ApiError| TransferError::Refused {
            place: movable.place(),
            reason: match error {
                ApiError::NotFound => {
                    format!("there is no such kind, or no namespace `{}`", self.namespace)
                }
                error => error.to_string(),
            },
        };
        let object = movable.object(&self.namespace)?;
        let collection = collection(&self.namespace, movable.kind);
        match self.api.create_definition(&collection, &object, mode).await {
            Ok(_) => return Ok(Applied::Created),
            Err(ApiError::Exists) => (),
            Err(error) => return Err(failed(error)),
        }
        let at = format!("{collection}/{}", movable.name);
        let known = self.api.get(&at).await.map_err(failed)?;
        let next = merged(&known, &object);
        if next == known {
            return Ok(Applied::Unchanged);
        }
        self.api.replace_definition(&at, &next, mode).await.map_err(failed)?;
        Ok(Applied::Changed)
    }

    /// Reads all definitions of the namespace. Kinds that are not installed have none.
    pub async fn read_all(&self) -> Result<Vec<Movable>, TransferError> {
        let mut found = Vec::new();
        for kind in DefinitionKind::ALL {
            let list = match self.api.list(&collection(&self.namespace, kind)).await {
                Ok(list) => list,
                Err(ApiError::NotFound)
                    if discovery::is_served(&self.api, kind.plural()).await == Ok(false) =>
                {
                    continue;
                }
                Err(error) => {
                    let place = kind.plural().to_owned();
                    return Err(TransferError::Refused { place, reason: error.to_string() });
                }
            };
            let objects = list.items.into_iter().filter_map(|object| KubeObject::new(kind, object));
            for object in objects {
                let name = object.name().to_owned();
                check_name(&name).map_err(|reason| TransferError::Invalid {
                    place: kind.plural().to_owned(),
                    reason,
                })?;
                let (text, secrets) = for_files(kind, &object.text).map_err(|reason| {
                    let place = format!("{}/{name}", kind.plural());
                    TransferError::Invalid { place, reason }
                })?;
                found.push(Movable { kind, name, text, secrets });
            }
        }
        check_files(&found)?;
        Ok(found)
    }
}

/// An existing resource with the spec of `wanted`, and the labels and annotations of both.
fn merged(known: &Json, wanted: &Json) -> Json {
    let mut next = known.clone();
    let Json::Object(members) = &mut next else { return next };
    members.extend(wanted.get("spec").map(|spec| ("spec".to_owned(), spec.clone())));
    for key in ["labels", "annotations"] {
        let Some(Json::Object(added)) = wanted.pointer(&format!("/metadata/{key}")) else {
            continue;
        };
        let Some(Json::Object(metadata)) = members.get_mut("metadata") else { continue };
        if let Json::Object(known) = metadata.entry(key).or_insert_with(|| json!({})) {
            known.extend(added.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
    }
    next
}

/// Checks that no two secrets of a cluster map to the same file.
fn check_files(found: &[Movable]) -> Result<(), TransferError> {
    let mut known: BTreeMap<&str, &SecretFile> = BTreeMap::new();
    for movable in found {
        for secret in &movable.secrets {
            let other = *known.entry(&secret.file).or_insert(secret);
            if other != secret {
                let SecretFile { name, key, file, .. } = secret;
                let reason = format!(
                    "the keys `{}` of the Secret `{}` and `{key}` of `{name}` would be one file, `secrets/{file}`: rename one \
                     of the Secrets",
                    other.key, other.name
                );
                return Err(TransferError::Invalid { place: movable.place(), reason });
            }
        }
    }
    Ok(())
}

/// Converts a text for files: removes metadata that only a cluster has, and converts references to secrets.
fn for_files(kind: DefinitionKind, text: &str) -> Result<(String, Vec<SecretFile>), String> {
    let unchanged = || Ok((text.to_owned(), Vec::new()));
    if kind.file_kind().is_none() {
        return unchanged();
    }
    let Ok(mut root) = documents::json(text) else { return unchanged() };
    let mut secrets = Vec::new();
    if let (DefinitionKind::McpServer, Some(spec)) = (kind, root.get_mut("spec")) {
        secrets = secret_files::rename(spec, Destination::Files)?;
    }
    if let Json::Object(root) = &mut root {
        root.remove("status");
        if let Some(Json::Object(metadata)) = root.get_mut("metadata") {
            metadata.remove("creationTimestamp");
            metadata.remove("namespace");
        }
    }
    Ok((writer::object(&root), secrets))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use muster_config::kinds::DefinitionKind;
    use muster_core::lock::Lock;
    use serde_json::{Value as Json, json};

    use super::{Applied, Movable, Transfer, merged, movable};
    use crate::testing::{Answer, TestServer, api_that};

    /// A namespace of an API server with these responses.
    async fn transfer(
        answers: impl Fn(&str, &str, &Json) -> Answer + Send + Sync + 'static,
    ) -> (Transfer, TestServer) {
        let (api, server) = api_that(answers).await;
        let api = Arc::into_inner(api).unwrap();
        (Transfer { api, namespace: "ns".to_owned() }, server)
    }

    #[tokio::test]
    async fn a_name_from_an_api_server_is_no_path() {
        for (name, is_read) in [("fine", true), ("../../etc/cron", false), ("a/b", false)] {
            let (transfer, _server) = transfer(move |_, _, _| {
                let object = json!({"metadata": {"name": name}, "spec": {}});
                Answer::Reply(200, json!({"metadata": {}, "items": [object]}))
            })
            .await;
            assert_eq!(transfer.read_all().await.is_ok(), is_read, "{name}");
        }
    }

    #[tokio::test]
    async fn what_restricts_callers_is_read_first() {
        let (transfer, _server) = transfer(|_, _, _| {
            let object = json!({"metadata": {"name": "a"}, "spec": {}});
            Answer::Reply(200, json!({"metadata": {}, "items": [object]}))
        })
        .await;
        let found = transfer.read_all().await.unwrap();
        let first: Vec<_> = found.iter().take(3).map(Movable::place).collect();
        assert_eq!(first, ["toolpolicies/a", "toolsets/a", "mcpservers/a"]);
    }

    #[tokio::test]
    async fn a_check_stores_nothing() {
        let asked = Arc::new(Lock::new(Vec::new()));
        let seen = Arc::clone(&asked);
        let known = json!({"metadata": {"name": "a", "labels": {"theirs": "1"}}, "spec": {}});
        let (transfer, _server) = transfer(move |method, path, _| {
            seen.lock().push(format!("{method} {}", path.contains("dryRun=All")));
            match method {
                "POST" => Answer::Reply(409, json!({"reason": "AlreadyExists"})),
                _ => Answer::Reply(200, known.clone()),
            }
        })
        .await;
        let server = movable(DefinitionKind::McpServer, "url: http://h/mcp\n", "a").unwrap();
        transfer.check(&server).await.unwrap();
        assert_eq!(*asked.lock(), ["POST true", "GET false", "PUT true"]);
        asked.lock().clear();
        assert_eq!(transfer.apply(&server).await.unwrap(), Applied::Changed);
        assert_eq!(*asked.lock(), ["POST false", "GET false", "PUT false"]);
    }

    #[test]
    fn labels_and_annotations_are_added() {
        let known = json!({
            "metadata": {"name": "a", "labels": {"theirs": "1", "both": "old"}},
            "spec": {"a": 1},
            "status": {"s": 1},
        });
        let wanted = json!({
            "metadata": {"name": "a", "labels": {"both": "new"}, "annotations": {"x": "y"}},
            "spec": {"b": 2},
        });
        let after = merged(&known, &wanted);
        let expected = json!({
            "metadata": {
                "name": "a",
                "labels": {"theirs": "1", "both": "new"},
                "annotations": {"x": "y"},
            },
            "spec": {"b": 2},
            "status": {"s": 1},
        });
        assert_eq!(after, expected);
        assert_eq!(merged(&after, &wanted), after);
    }

    #[tokio::test]
    async fn keys_of_secrets_become_files_unless_two_would_be_one() {
        let server = |name: &str, token: &str| {
            let spec = json!({"type": "stdio", "command": "run", "env": {"T": token}});
            json!({"metadata": {"name": name}, "spec": spec})
        };
        for (token, expected) in [
            ("secret://b/K", Ok("T: secret://b.K")),
            ("secret://a/b.K", Err("would be one file, `secrets/a.b.K`")),
        ] {
            let items = json!([server("a", "secret://a.b/K"), server("b", token)]);
            let (transfer, _server) = transfer(move |_, path, _| {
                let items = if path.contains("mcpservers") { items.clone() } else { json!([]) };
                Answer::Reply(200, json!({"metadata": {}, "items": items}))
            })
            .await;
            match (transfer.read_all().await, expected) {
                (Ok(found), Ok(expected)) => {
                    let text = &found.last().unwrap().text;
                    assert!(text.contains(expected), "{text}");
                }
                (Err(error), Err(expected)) => {
                    assert!(error.to_string().contains(expected), "{error}");
                }
                (found, _) => panic!("{found:?}"),
            }
        }
    }

    #[test]
    fn secrets_of_files_become_keys_of_secrets() {
        let text = "command: run\nenv: {T: 'secret://github.GITHUB_TOKEN', U: 'secret://plain'}\n";
        let server = movable(DefinitionKind::McpServer, text, "a").unwrap();
        assert!(server.text.contains("secret://github/GITHUB_TOKEN"), "{}", server.text);
        assert!(server.text.contains("U: secret://plain"), "{}", server.text);
        let found: Vec<String> =
            server.secrets.iter().map(|secret| format!("{secret:?}")).collect();
        assert_eq!(found.len(), 2, "{found:?}");
        let refused =
            movable(DefinitionKind::McpServer, "command: run\nargs: ['secret://A_B']\n", "a");
        assert!(refused.unwrap_err().contains("`A_B`"));
    }
}
