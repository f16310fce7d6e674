//! Resources that are described by files, for `apply` and `create`.

use std::{
    fs,
    io::{self, Read as _},
    path::{Path, PathBuf},
};

use muster_api::workflow::WorkflowDefinition;
use muster_config::{
    LoadError, Loaded,
    documents::{YamlDocument, documents},
    formats::FileFormat,
    mcpserver, service, serviceclass, workflow,
};
use muster_core::fields::{FieldTable, FieldType};
use muster_engine::{
    redact,
    store::{FileProblem, file_problems},
};
use muster_workflow::service::class::GoDuration;
use serde_json::{Map, Value, json};

use super::{
    resource_kinds::ResourceKind,
    validate::{format_by_place, stem, unknown_format, yaml_files},
};
use crate::{error::CommandError, output};

/// A resource of a file.
#[derive(Debug)]
pub(super) struct Manifest {
    pub(super) kind: ResourceKind,
    pub(super) name: String,
    /// The arguments of the core tools that create and update it.
    pub(super) arguments: Map<String, Value>,
    /// The arguments as the gateway shows them, with secrets redacted.
    pub(super) shown: Value,
}

/// Reads the resources of files, of the files in directories, and of standard input for `-`. Reads all files before it
/// reports any problem.
pub(super) fn read(paths: &[PathBuf]) -> Result<Vec<Manifest>, CommandError> {
    let mut texts: Vec<(PathBuf, String)> = Vec::new();
    for path in paths {
        if path.as_os_str() == "-" {
            let mut text = String::new();
            io::stdin().read_to_string(&mut text)?;
            texts.push((PathBuf::from("standard input"), text));
            continue;
        }
        let files = if path.is_dir() { yaml_files(path)? } else { vec![path.clone()] };
        for file in files {
            let failed = |err| CommandError::new(format!("cannot read {}: {err}", file.display()));
            let text = fs::read_to_string(&file).map_err(failed)?;
            texts.push((file, text));
        }
    }
    let (mut manifests, mut problems) = (Vec::new(), Vec::new());
    for (path, text) in &texts {
        for document in documents(text) {
            match manifest(path, &document) {
                Ok(manifest) => manifests.push(manifest),
                Err(found) => problems.extend(found),
            }
        }
    }
    if !problems.is_empty() {
        let errors: Vec<String> = problems.iter().map(FileProblem::to_string).collect();
        return Err(CommandError::new(format!("nothing was applied:\n{}", errors.join("\n"))));
    }
    if manifests.is_empty() {
        return Err(CommandError::new("there is no resource in these files"));
    }
    Ok(manifests)
}

fn manifest(path: &Path, document: &YamlDocument) -> Result<Manifest, Vec<FileProblem>> {
    let text = document.text.as_str();
    let format = FileFormat::of_text(text).or_else(|| format_by_place(path));
    let Some(format) = format else { return Err(vec![unknown_format(path, document.line)]) };
    let name = stem(path);
    let read = match format.name {
        "mcpserver" => mcpserver::parse(text, &name).map(server),
        "workflow" => workflow::parse(text, &name).map(of_workflow),
        "serviceclass" => serviceclass::parse(text, &name).map(class),
        "service" => service::parse(text, &name).map(of_service),
        other => {
            let folder = format.folder().unwrap_or("the configuration directory");
            return Err(vec![FileProblem {
                fix: Some(format!(
                    "copy the file to `{folder}`; a running gateway reads it at once"
                )),
                message: format!(
                    "a {other} is not applied: it is a file of the configuration directory"
                ),
                ..unknown_format(path, document.line)
            }]);
        }
    };
    let manifest = read.map_err(|error: LoadError| file_problems(path, Err(error)))?;
    let warnings = file_problems(path, format.check(text, &name));
    warnings.iter().for_each(|warning| output::warn(&warning.to_string()));
    Ok(manifest)
}

fn object(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(members) => members,
        _ => Map::new(),
    }
}

fn server(loaded: Loaded<mcpserver::McpServer>) -> Manifest {
    let server = loaded.value;
    let mut arguments = object(json!(server.spec));
    // Only operators apply files, and that approves the server.
    arguments.remove("approval");
    let mut shown = arguments.clone();
    for key in ["env", "headers"] {
        if let Some(Value::Object(pairs)) = shown.get_mut(key) {
            for (name, value) in pairs {
                let text = value.as_str().unwrap_or_default().to_owned();
                *value = json!(redact::setting(name, &text));
            }
        }
    }
    if !server.spec.args.is_empty() {
        shown.insert("args".to_owned(), json!(redact::arguments(&server.spec.args)));
    }
    if !server.spec.url.is_empty() {
        shown.insert("url".to_owned(), json!(redact::address(&server.spec.url)));
    }
    named(ResourceKind::McpServer, server.name, arguments, Value::Object(shown))
}

fn of_workflow(loaded: Loaded<muster_workflow::Workflow>) -> Manifest {
    let workflow = loaded.value;
    let shown: WorkflowDefinition =
        serde_json::from_value(json!(workflow.shown(false))).unwrap_or_default();
    let arguments = object(json!(workflow.spec.to_file()));
    named(ResourceKind::Workflow, workflow.name, arguments, json!(shown))
}

fn class(loaded: Loaded<muster_workflow::service::ServiceClass>) -> Manifest {
    let class = loaded.value;
    let mut spec = json!(class.spec);
    in_nanoseconds(&mut spec, &serviceclass::fields::SPEC);
    let mut arguments = object(spec.clone());
    // A file without `args` means that there are no arguments.
    arguments.entry("args").or_insert_with(|| json!({}));
    named(ResourceKind::ServiceClass, class.name, arguments, spec)
}

fn of_service(loaded: Loaded<service::ServiceFile>) -> Manifest {
    let service = loaded.value.service;
    let shown = json!({"serviceClassName": service.class, "args": service.args});
    let mut arguments = object(shown.clone());
    arguments.insert("autoStart".to_owned(), json!(service.auto_start));
    // Users expect a service with a file to survive a restart of the gateway.
    arguments.insert("persist".to_owned(), json!(true));
    named(ResourceKind::Service, service.name, arguments, shown)
}

fn named(
    kind: ResourceKind,
    name: String,
    mut arguments: Map<String, Value>,
    shown: Value,
) -> Manifest {
    arguments.insert("name".to_owned(), json!(name));
    Manifest { kind, name, arguments, shown }
}

/// Converts durations to nanoseconds, which core tools expect.
fn in_nanoseconds(value: &mut Value, table: &'static FieldTable) {
    for field in table.all() {
        let Some(member) = value.get_mut(field.name) else { continue };
        match (&field.holds, &*member) {
            (FieldType::Object(table), Value::Object(_)) => in_nanoseconds(member, table),
            (FieldType::Duration, Value::String(text)) => {
                if let Ok(duration) = GoDuration::parse(text) {
                    *member = json!(duration.as_nanoseconds());
                }
            }
            _ => (),
        }
    }
}
