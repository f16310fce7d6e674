//! Converts objects of the API server to the texts that readers of definitions parse, and back.

use muster_config::{
    documents,
    kinds::{API_GROUP, API_VERSION, DefinitionKind},
    writer,
};
use muster_core::secret_source::references;
use serde_json::{Map, Value as Json, json};

/// The annotation in which kubectl stores a copy of the object.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

/// A custom resource as the API server sent it.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct KubeObject {
    pub(crate) json: Json,
    /// The definition in the format of its kind.
    pub(crate) text: String,
}

impl KubeObject {
    /// Converts an object of a kind; `None` if it has no name.
    pub(crate) fn new(kind: DefinitionKind, mut json: Json) -> Option<Self> {
        // Drop the largest parts of an object, which are not used.
        if let Some(Json::Object(metadata)) = json.get_mut("metadata") {
            metadata.remove("managedFields");
        }
        let text = text(kind, &json);
        let object = Self { json, text };
        (!object.name().is_empty()).then_some(object)
    }

    pub(crate) fn name(&self) -> &str {
        self.metadata("name")
    }

    pub(crate) fn uid(&self) -> &str {
        self.metadata("uid")
    }

    pub(crate) fn version(&self) -> &str {
        self.metadata("resourceVersion")
    }

    pub(crate) fn generation(&self) -> i64 {
        self.json.pointer("/metadata/generation").and_then(Json::as_i64).unwrap_or_default()
    }

    pub(crate) fn status(&self) -> Option<&Map<String, Json>> {
        self.json.get("status").and_then(Json::as_object)
    }

    /// The namespace and name of each Secret that it refers to. An empty namespace stands for that of the definitions.
    pub(crate) fn secrets(&self) -> impl Iterator<Item = (&str, &str)> {
        let by_text = references(&self.text).into_iter().map(|(_, name, _)| ("", name));
        let credentials = "/spec/auth/tokenExchange/clientCredentialsSecretRef";
        let credentials = self.json.pointer(credentials).map(|found| (found, "namespace", "name"));
        let identity = self.json.pointer("/spec/auth/teleport");
        let identity =
            identity.map(|found| (found, "identitySecretNamespace", "identitySecretName"));
        let by_field = credentials.into_iter().chain(identity);
        by_text.chain(by_field.map(|(found, namespace, name)| {
            let text = |key: &str| found.get(key).and_then(Json::as_str).unwrap_or_default();
            (text(namespace), text(name))
        }))
    }

    /// Its version as a number. The versions of all objects of a kind increase in one sequence.
    pub(crate) fn number(&self) -> Option<u64> {
        self.version().parse().ok()
    }

    /// The object with its definition replaced by that of a text. Its metadata stays.
    pub(crate) fn with_text(&self, kind: DefinitionKind, text: &str) -> Result<Json, String> {
        let mut json = self.json.clone();
        if let Json::Object(members) = &mut json {
            members.insert("spec".to_owned(), spec(kind, text)?.0);
            members.remove("status");
        }
        Ok(json)
    }

    fn metadata(&self, key: &str) -> &str {
        let value = self.json.get("metadata").and_then(|metadata| metadata.get(key));
        value.and_then(Json::as_str).unwrap_or_default()
    }
}

/// A new object with the definition of a text.
pub(crate) fn created(
    kind: DefinitionKind,
    namespace: &str,
    name: &str,
    text: &str,
) -> Result<Json, String> {
    let (spec, written) = spec(kind, text)?;
    let mut metadata = json!({"name": name, "namespace": namespace});
    for key in ["labels", "annotations"] {
        if let (Some(value), Json::Object(metadata)) = (written.get(key), &mut metadata) {
            metadata.insert(key.to_owned(), value.clone());
        }
    }
    Ok(json!({
        "apiVersion": format!("{API_GROUP}/{API_VERSION}"),
        "kind": kind.resource_kind(),
        "metadata": metadata,
        "spec": spec,
    }))
}

/// The spec and the metadata of a text.
fn spec(kind: DefinitionKind, text: &str) -> Result<(Json, Json), String> {
    let mut root = documents::json(text).map_err(|error| error.to_string())?;
    if kind.file_kind().is_none() {
        return Ok((root, Json::Null));
    }
    let metadata = root.get_mut("metadata").map(Json::take).unwrap_or_default();
    match root.get_mut("spec").map(Json::take) {
        Some(spec) => Ok((spec, metadata)),
        None => Err("the definition has no `spec`".to_owned()),
    }
}

/// The text of an object in the format of its kind.
fn text(kind: DefinitionKind, object: &Json) -> String {
    let member = |path: &str| object.pointer(path).cloned();
    let mut spec = member("/spec").unwrap_or_else(|| json!({}));
    let Some(file_kind) = kind.file_kind() else {
        // A CLI has its name in its definition, and an object has one in any case.
        if let (DefinitionKind::Cli, Json::Object(fields)) = (kind, &mut spec) {
            let name = member("/metadata/name").unwrap_or_default();
            fields.entry("name").or_insert(name);
        }
        return writer::object(&spec);
    };
    let mut metadata = Map::new();
    for key in ["name", "namespace", "labels", "annotations", "creationTimestamp"] {
        if let Some(value) = member(&format!("/metadata/{key}")) {
            metadata.insert(key.to_owned(), value);
        }
    }
    if let Some(Json::Object(annotations)) = metadata.get_mut("annotations") {
        annotations.remove(LAST_APPLIED);
    }
    let mut root = json!({
        "apiVersion": format!("{API_GROUP}/{API_VERSION}"),
        "kind": file_kind,
        "metadata": metadata,
        "spec": spec,
    });
    // Only the status of a service is part of its text, because readers need no other.
    if let (DefinitionKind::Service, Some(status), Json::Object(root)) =
        (kind, member("/status"), &mut root)
    {
        root.insert("status".to_owned(), status);
    }
    writer::object(&root)
}

#[cfg(test)]
mod tests {
    use muster_config::kinds::DefinitionKind;
    use serde_json::json;

    use super::KubeObject;

    #[test]
    fn the_secrets_of_a_resource_are_found_wherever_it_names_them() {
        let auth = json!({
            "tokenExchange": {"clientCredentialsSecretRef": {"name": "client", "namespace": "dex"}},
            "teleport": {"identitySecretName": "tbot", "identitySecretNamespace": "teleport"},
        });
        let spec = json!({"headers": {"T": "secret://token/key"}, "auth": auth});
        let object = json!({"metadata": {"name": "a"}, "spec": spec});
        let object = KubeObject::new(DefinitionKind::McpServer, object).unwrap();
        let found: Vec<_> = object.secrets().collect();
        assert_eq!(found, [("", "token"), ("dex", "client"), ("teleport", "tbot")]);
    }
}
