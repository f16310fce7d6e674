//! The files of an instance: what a scenario has prepared, as muster reads it.

use std::{
    collections::BTreeMap,
    fs, io,
    path::{Component, Path, PathBuf},
};

use serde_json::{Map, Value, json};

use super::{oauth, yaml};
use crate::{
    oauth::Providers,
    scenario::{ObjectKind, PreConfiguration, Server, ServerKind},
    template,
};

/// What files refer to.
pub(super) struct Surroundings<'a> {
    pub(super) dir: &'a Path,
    pub(super) muster: &'a Path,
    pub(super) port: u16,
    /// Where mock processes call.
    pub(super) control: u16,
    /// Where remote mocks listen.
    pub(super) urls: BTreeMap<String, String>,
    /// Who logs people in.
    pub(super) providers: &'a Providers,
}

/// A file that is to be written.
#[derive(Debug)]
pub(super) struct Planned {
    pub(super) path: PathBuf,
    pub(super) text: String,
}

pub(super) fn write(files: &[Planned]) -> io::Result<()> {
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
    before: &PreConfiguration,
    around: &Surroundings<'_>,
) -> io::Result<Vec<Planned>> {
    let config_dir = around.dir.join("muster");
    let variables = oauth::variables(around);
    let fill = |value: &Value| {
        let wrong = |err| io::Error::new(io::ErrorKind::InvalidInput, format!("{err}"));
        template::substitute(value, &variables).map_err(wrong)
    };
    let given = object(fill(&Value::Object(before.main_config.clone()))?);
    let config = main_config(&given, around);
    let mut files =
        vec![Planned { path: config_dir.join("config.yaml"), text: yaml::document(&config) }];
    if let Some(pem) = around.providers.ca_pem() {
        files.push(Planned { path: oauth::ca_file(around), text: pem.to_owned() });
    }
    for server in &before.mcp_servers {
        let spec = object(fill(&Value::Object(server_spec(server, around, &mut files)))?);
        files.push(object_file(&config_dir, "mcpservers", "MCPServer", &server.name, &spec));
    }
    for object in &before.objects {
        let (kind, folder) = match object.kind {
            ObjectKind::Workflow => ("Workflow", "workflows"),
            ObjectKind::ServiceClass => ("ServiceClass", "serviceclasses"),
            ObjectKind::Service => ("Service", "services"),
        };
        files.push(object_file(&config_dir, folder, kind, &object.name, &object.spec));
    }
    for (path, text) in &before.files {
        let text = fill(&Value::String(text.clone()))?;
        let text = text.as_str().unwrap_or_default().to_owned();
        files.push(Planned { path: below(&config_dir, path), text });
    }
    Ok(files)
}

/// Keys of the scenario replace whole keys of ours. What an instance needs to be reached is put back,
/// and the port is always ours: many instances run at once.
fn main_config(given: &Map<String, Value>, around: &Surroundings<'_>) -> Value {
    let port = around.port;
    let mut own = json!({"host": "localhost", "port": port, "transport": "streamable-http"});
    if let (Some(own), Some(oauth)) = (own.as_object_mut(), oauth::section(around)) {
        own.insert("oauth".to_owned(), oauth);
    }
    let mut config = json!({"aggregator": own});
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
    server: &Server,
    around: &Surroundings<'_>,
    files: &mut Vec<Planned>,
) -> Map<String, Value> {
    let mut spec = match &server.kind {
        ServerKind::Plain(spec) => spec.clone(),
        ServerKind::Stdio(mock) => {
            let path = below(&around.dir.join("mocks"), &format!("{}.yaml", server.name));
            let mut file = mock.written.clone();
            file.insert("control".to_owned(), around.control.into());
            file.extend(mock.fault.map(|fault| ("fault".to_owned(), fault.to_json())));
            let spec = json!({
                "type": "stdio",
                "autoStart": true,
                "command": around.muster.display().to_string(),
                "args": ["test", "--mock-mcp-server", "--mock-config", path.display().to_string()],
            });
            files.push(Planned { path, text: yaml::document(&file.into()) });
            object(spec)
        }
        ServerKind::Remote { transport, .. } => {
            let url = around.urls.get(&server.name);
            object(json!({"type": transport.name(), "autoStart": true, "url": url}))
        }
    };
    if let Some(prefix) = server.mock().and_then(|mock| mock.prefix.as_ref()) {
        spec.insert("toolPrefix".to_owned(), prefix.as_str().into());
    }
    if let Some(auth) = server.guard().and_then(|guard| oauth::auth(guard, around)) {
        spec.insert("auth".to_owned(), auth);
    }
    spec
}

fn object_file(
    config_dir: &Path,
    folder: &str,
    kind: &str,
    name: &str,
    spec: &Map<String, Value>,
) -> Planned {
    let object = json!({
        "apiVersion": "muster.giantswarm.io/v1alpha1",
        "kind": kind,
        "metadata": {"name": name, "namespace": "default"},
        "spec": spec,
    });
    let path = below(&config_dir.join(folder), &format!("{name}.yaml"));
    Planned { path, text: yaml::document(&object) }
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// A path that stays below `dir`, whatever a scenario writes.
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
