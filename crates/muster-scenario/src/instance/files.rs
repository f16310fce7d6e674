//! The configuration files of an instance, generated from the setup of a scenario.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Component, Path, PathBuf},
};

use muster_config::writer;
use serde_json::{Map, Value, json};

use super::oauth;
use crate::{
    oauth::Providers,
    scenario::{ObjectKind, PreConfiguration, ScenarioServer, ServerKind, TrustedMock},
    template,
};

/// The addresses and paths that files refer to.
pub(super) struct FileContext<'a> {
    pub(super) dir: &'a Path,
    pub(super) muster: &'a Path,
    pub(super) port: u16,
    /// The port of the control server.
    pub(super) control: u16,
    /// The URLs of remote mocks.
    pub(super) urls: BTreeMap<String, String>,
    /// The mock identity providers.
    pub(super) providers: &'a Providers,
    /// Those whose tokens muster accepts beside those of its own.
    pub(super) trusted_issuers: &'a [TrustedMock],
}

/// A file to write.
#[derive(Debug)]
pub(super) struct PlannedFile {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

pub(super) fn write(files: &[PlannedFile]) -> io::Result<()> {
    for file in files {
        if let Some(dir) = file.path.parent() {
            fs::create_dir_all(dir)?;
        }
        fs::write(&file.path, &file.text)?;
    }
    Ok(())
}

/// All files of an instance.
pub(super) fn plan(
    setup: &PreConfiguration,
    context: &FileContext<'_>,
) -> io::Result<Vec<PlannedFile>> {
    let config_dir = context.dir.join("muster");
    let variables = oauth::variables(context);
    let fill = |value: &Value| {
        let wrong = |err| io::Error::new(io::ErrorKind::InvalidInput, format!("{err}"));
        template::substitute(value, &variables).map_err(wrong)
    };
    let given = object(fill(&Value::Object(setup.main_config.clone()))?);
    let config = main_config(&given, context);
    let mut files =
        vec![PlannedFile { path: config_dir.join("config.yaml"), text: writer::object(&config) }];
    if let Some(pem) = context.providers.ca_pem() {
        files.push(PlannedFile { path: oauth::ca_file(context), text: pem.to_owned() });
    }
    for server in &setup.mcp_servers {
        let spec = object(fill(&Value::Object(server_spec(server, context, &mut files)))?);
        let metadata = metadata(&server.name);
        files.push(object_file(&config_dir, "mcpservers", "MCPServer", &metadata, &spec));
    }
    for object in &setup.objects {
        let (kind, folder) = match object.kind {
            ObjectKind::Workflow => ("Workflow", "workflows"),
            ObjectKind::ServiceClass => ("ServiceClass", "serviceclasses"),
            ObjectKind::Service => ("Service", "services"),
        };
        let mut metadata = metadata(&object.name);
        if !object.labels.is_empty() {
            metadata.insert("labels".to_owned(), Value::Object(object.labels.clone()));
        }
        files.push(object_file(&config_dir, folder, kind, &metadata, &object.spec));
    }
    for (path, text) in &setup.files {
        let text = fill(&Value::String(text.clone()))?;
        let text = text.as_str().unwrap_or_default().to_owned();
        files.push(PlannedFile { path: below(&config_dir, path), text });
    }
    Ok(files)
}

/// Top-level keys of the scenario replace the generated ones. What an instance needs to be reached is restored,
/// and the port is never taken from the scenario: many instances run at once.
fn main_config(given: &Map<String, Value>, context: &FileContext<'_>) -> Value {
    let port = context.port;
    let mut own = json!({"host": "localhost", "port": port, "transport": "streamable-http"});
    if let (Some(own), Some(oauth)) = (own.as_object_mut(), oauth::section(context)) {
        own.insert("oauth".to_owned(), oauth);
    }
    // Which programs are installed differs by machine.
    let mut config = json!({"aggregator": own, "clis": {"bundled": "none"}});
    if let Some(config) = config.as_object_mut() {
        config.extend(given.clone());
    }
    if let (Some(Value::Object(aggregator)), Value::Object(own)) =
        (config.get_mut("aggregator"), own)
    {
        for (key, value) in own {
            aggregator.entry(key).or_insert(value);
        }
        aggregator.insert("port".to_owned(), port.into());
    }
    config
}

fn server_spec(
    server: &ScenarioServer,
    context: &FileContext<'_>,
    files: &mut Vec<PlannedFile>,
) -> Map<String, Value> {
    let mut spec = match &server.kind {
        ServerKind::Plain(spec) => spec.clone(),
        ServerKind::Stdio(mock) => {
            let path = below(&context.dir.join("mocks"), &format!("{}.yaml", server.name));
            let mut file = mock.written.clone();
            file.insert("control".to_owned(), context.control.into());
            file.extend(mock.fault.map(|fault| ("fault".to_owned(), fault.to_json())));
            let spec = json!({
                "type": "stdio",
                "autoStart": true,
                "command": context.muster.display().to_string(),
                "args": ["test", "--mock-mcp-server", "--mock-config", path.display().to_string()],
            });
            files.push(PlannedFile { path, text: writer::object(&Value::from(file)) });
            object(spec)
        }
        ServerKind::Remote { transport, .. } => {
            let url = context.urls.get(&server.name);
            object(json!({"type": transport.name(), "autoStart": true, "url": url}))
        }
    };
    if let Some(prefix) = server.mock().and_then(|mock| mock.prefix.as_ref()) {
        spec.insert("toolPrefix".to_owned(), prefix.as_str().into());
    }
    if let Some(family) = server.mock().and_then(|mock| mock.family.as_ref()) {
        spec.insert("family".to_owned(), Value::Object(family.clone()));
    }
    if let Some(auth) = server.guard().and_then(|guard| oauth::auth(guard, context)) {
        spec.insert("auth".to_owned(), auth);
    }
    spec
}

fn metadata(name: &str) -> Map<String, Value> {
    object(json!({"name": name, "namespace": "default"}))
}

fn object_file(
    config_dir: &Path,
    folder: &str,
    kind: &str,
    metadata: &Map<String, Value>,
    spec: &Map<String, Value>,
) -> PlannedFile {
    let name = metadata.get("name").and_then(Value::as_str).unwrap_or_default();
    let object = json!({
        "apiVersion": "muster.giantswarm.io/v1alpha1",
        "kind": kind,
        "metadata": metadata,
        "spec": spec,
    });
    let path = below(&config_dir.join(folder), &format!("{name}.yaml"));
    PlannedFile { path, text: writer::object(&object) }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A path that cannot leave `dir`.
pub(super) fn below(dir: &Path, path: &str) -> PathBuf {
    let parts = Path::new(path).components().filter_map(|part| match part {
        Component::Normal(part) => Some(part),
        Component::Prefix(_) | Component::RootDir | Component::CurDir | Component::ParentDir => {
            None
        }
    });
    dir.join(parts.collect::<PathBuf>())
}

#[cfg(test)]
mod tests;
