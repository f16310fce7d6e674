//! Definitions moved between files and a cluster.

use std::{io, path::Path};

use muster_config::{documents, kinds::DefinitionKind, mcpserver, writer};
use muster_engine::store::DefinitionStore;
use serde_json::{Map, Value as Json, json};
use thiserror::Error;

use crate::{
    access::ClusterAccess,
    api::{ApiClient, ApiError},
    discovery,
    object::{self, KubeObject},
    store::{InvalidNamespace, check_namespace, collection, is_name},
};

/// Why a definition cannot be moved.
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

/// A definition on its way.
#[derive(Debug, Clone, PartialEq)]
pub struct Movable {
    /// Its kind.
    pub kind: DefinitionKind,
    /// Its name.
    pub name: String,
    /// Its text, in the long form where its kind has one.
    pub text: String,
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

    /// What kubectl calls it.
    pub fn place(&self) -> String {
        format!("{}/{}", self.kind.plural(), self.name)
    }
}

/// Every definition of a store.
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

/// A definition in the long form.
fn movable(kind: DefinitionKind, text: &str, stem: &str) -> Result<Movable, String> {
    let format = kind.format().ok_or("it has no format")?;
    format.check(text, stem).map_err(|error| error.to_string())?;
    let moved = |name: String, text: String| Movable { kind, name, text };
    let root = documents::json(text).map_err(|error| error.to_string())?;
    if kind == DefinitionKind::McpServer && root.get("spec").is_none() {
        // The short form has other defaults.
        let mut server = mcpserver::parse(text, stem).map_err(|error| error.to_string())?.value;
        server.status = mcpserver::McpServerStatus::default();
        return Ok(moved(server.name.clone(), mcpserver::text(&server)));
    }
    let Some(file_kind) = kind.file_kind() else {
        return Ok(moved(stem.to_owned(), text.to_owned()));
    };
    let (spec, metadata) = match root.get("spec") {
        Some(spec) => (spec.clone(), root.get("metadata").cloned().unwrap_or_default()),
        None => {
            let mut spec = root.as_object().cloned().unwrap_or_default();
            spec.remove("status");
            let name = spec.remove("name").unwrap_or_default();
            (Json::Object(spec), json!({"name": name}))
        }
    };
    let name = metadata.get("name").and_then(Json::as_str).filter(|name| !name.is_empty());
    let name = name.unwrap_or(stem).to_owned();
    let mut kept = Map::from_iter([("name".to_owned(), json!(name))]);
    for key in ["labels", "annotations"] {
        kept.extend(metadata.get(key).map(|value| (key.to_owned(), value.clone())));
    }
    let long = json!({
        "apiVersion": root.get("apiVersion").cloned().unwrap_or_else(|| json!("muster.giantswarm.io/v1alpha1")),
        "kind": file_kind,
        "metadata": kept,
        "spec": spec,
    });
    Ok(moved(name, writer::object(&long)))
}

/// A namespace that definitions are moved to or from.
#[derive(Debug)]
pub struct Transfer {
    api: ApiClient,
    namespace: String,
}

/// What was done with a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// It was created.
    Created,
    /// It was changed.
    Changed,
    /// It was like this before.
    Unchanged,
}

impl Transfer {
    /// The namespace of a cluster.
    pub fn new(access: ClusterAccess, namespace: &str) -> Result<Self, InvalidNamespace> {
        check_namespace(namespace)?;
        Ok(Self { api: ApiClient::new(access), namespace: namespace.to_owned() })
    }

    /// Creates a resource, or replaces its spec.
    pub async fn apply(&self, movable: &Movable) -> Result<Applied, TransferError> {
        let failed = |error: ApiError| TransferError::Refused {
            place: movable.place(),
            reason: error.to_string(),
        };
        let object = movable.object(&self.namespace)?;
        let collection = collection(&self.namespace, movable.kind);
        match self.api.create(&collection, &object).await {
            Ok(_) => return Ok(Applied::Created),
            Err(ApiError::Exists) => (),
            Err(error) => return Err(failed(error)),
        }
        let at = format!("{collection}/{}", movable.name);
        let mut known = self.api.get(&at).await.map_err(failed)?;
        if known.get("spec") == object.get("spec") {
            return Ok(Applied::Unchanged);
        }
        if let (Json::Object(known), Some(spec)) = (&mut known, object.get("spec")) {
            known.insert("spec".to_owned(), spec.clone());
        }
        self.api.replace(&at, &known).await.map_err(failed)?;
        Ok(Applied::Changed)
    }

    /// Every definition of the namespace. Kinds that are not installed have none.
    pub async fn read_all(&self) -> Result<Vec<Movable>, TransferError> {
        let mut found = Vec::new();
        for kind in DefinitionKind::ALL {
            let list = match self.api.list(&collection(&self.namespace, kind)).await {
                Ok(list) => list,
                Err(ApiError::NotFound)
                    if discovery::is_served(&self.api, kind).await == Ok(false) =>
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
                let text = without_cluster_fields(kind, &object.text);
                found.push(Movable { kind, name, text });
            }
        }
        Ok(found)
    }
}

/// A text without what only a cluster knows.
fn without_cluster_fields(kind: DefinitionKind, text: &str) -> String {
    if kind.file_kind().is_none() {
        return text.to_owned();
    }
    let Ok(mut root) = documents::json(text) else { return text.to_owned() };
    if let Json::Object(root) = &mut root {
        root.remove("status");
        if let Some(Json::Object(metadata)) = root.get_mut("metadata") {
            metadata.remove("creationTimestamp");
            metadata.remove("namespace");
        }
    }
    writer::object(&root)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use serde_json::json;

    use super::Transfer;
    use crate::testing::{Answer, api_that};

    #[tokio::test]
    async fn a_name_from_an_api_server_is_no_path() {
        for (name, is_read) in [("fine", true), ("../../etc/cron", false), ("a/b", false)] {
            let (api, _server) = api_that(move |_, _, _| {
                let object = json!({"metadata": {"name": name}, "spec": {}});
                Answer::Reply(200, json!({"metadata": {}, "items": [object]}))
            })
            .await;
            let api = Arc::into_inner(api).unwrap();
            let transfer = Transfer { api, namespace: "ns".to_owned() };
            assert_eq!(transfer.read_all().await.is_ok(), is_read, "{name}");
        }
    }
}
