//! The file formats, with the JSON Schema of each.

use serde_json::Value as Json;

use crate::{
    LoadError, Loaded, Warning, cli, mcpserver, policy,
    reader::repeated_keys,
    resource::ResourceFormat,
    schema::{self, Root},
    service, serviceclass,
    settings::{self, Settings},
    toolset, workflow,
    yaml::{self, NodeValue},
};

/// Checks a text, given the name of its file, and returns the warnings.
type Check = fn(&str, &str) -> Result<Vec<Warning>, LoadError>;

/// A file format.
#[derive(Debug, Clone, Copy)]
pub struct FileFormat {
    /// Its name: `mcpserver`.
    pub name: &'static str,
    /// The files that have it.
    pub files: &'static str,
    /// The `kind` of its files; empty if they have none.
    kind: &'static str,
    /// Keys that no other format has: each of them identifies a file of this format.
    marks: &'static [&'static str],
    root: Root,
    check: Check,
}

/// Every file format.
pub static FORMATS: &[FileFormat] = &[
    FileFormat {
        name: "cli",
        files: "CLI configs: clis/*.yaml",
        kind: "",
        marks: &["global_args", "working_dir"],
        root: Root::Table(&cli::fields::CONFIG),
        check: |text, _| {
            let warnings = warnings(cli::parse(text))?;
            unless(cli::lint(text)).map(|()| warnings)
        },
    },
    FileFormat {
        name: "policy",
        files: "Policies: policies/*.yaml",
        kind: "",
        marks: &["default", "callers", "executor"],
        root: Root::Table(&policy::fields::POLICY),
        check: |text, _| {
            let warnings = warnings(policy::parse(text))?;
            unless(repeated_keys(text)).map(|()| warnings)
        },
    },
    FileFormat::resource(
        "toolset",
        "Toolsets: toolsets/*.yaml",
        &toolset::FORMAT,
        &["servers"],
        |text, name| warnings(toolset::parse(text, name)),
    ),
    FileFormat::resource(
        "mcpserver",
        "MCP servers: mcpservers/*.yaml",
        &mcpserver::FORMAT,
        &["url", "command", "type", "toolPrefix"],
        |text, name| warnings(mcpserver::parse(text, name)),
    ),
    FileFormat::resource(
        "workflow",
        "Workflows: workflows/*.yaml",
        &workflow::FORMAT,
        &["steps"],
        |text, name| warnings(workflow::parse(text, name)),
    ),
    FileFormat::resource(
        "serviceclass",
        "Service classes: serviceclasses/*.yaml",
        &serviceclass::FORMAT,
        &["serviceConfig"],
        |text, name| warnings(serviceclass::parse(text, name)),
    ),
    FileFormat::resource(
        "service",
        "Services: services/*.yaml",
        &service::FORMAT,
        &["serviceClassName"],
        |text, name| warnings(service::parse(text, name)),
    ),
    FileFormat {
        name: "config",
        files: "The gateway's configuration: config.yaml",
        kind: "",
        marks: &["aggregator", "clis", "access"],
        root: Root::Table(Settings::table()),
        check: |text, _| warnings(settings::parse(text)),
    },
];

fn warnings<T>(loaded: Result<Loaded<T>, LoadError>) -> Result<Vec<Warning>, LoadError> {
    loaded.map(|loaded| loaded.warnings)
}

fn unless(problems: Vec<crate::Problem>) -> Result<(), LoadError> {
    if problems.is_empty() { Ok(()) } else { Err(LoadError::Fields(problems)) }
}

impl FileFormat {
    const fn resource(
        name: &'static str,
        files: &'static str,
        format: &'static ResourceFormat,
        marks: &'static [&'static str],
        check: Check,
    ) -> Self {
        let root = Root::Forms { long: format.long, short: format.short };
        Self { name, files, kind: format.kind, marks, root, check }
    }

    /// The format of that name.
    pub fn named(name: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.name == name)
    }

    /// The format of the files in a folder of the configuration directory.
    pub fn of_folder(folder: &str) -> Option<&'static Self> {
        FORMATS.iter().find(|format| format.folder() == Some(folder))
    }

    /// The format of a document by its contents: its `kind`, or the keys that only one format has.
    pub fn of_text(text: &str) -> Option<&'static Self> {
        let root = yaml::parse(text).ok()?;
        let NodeValue::Map(pairs) = &root.value else { return None };
        let find = |name: &str| {
            pairs.iter().find(|(key, _)| key.as_text() == Some(name)).map(|(_, value)| value)
        };
        if let Some(kind) = find("kind").and_then(yaml::Node::as_text) {
            return FORMATS.iter().find(|format| !format.kind.is_empty() && format.kind == kind);
        }
        let has = |name: &str| find(name).is_some();
        // A list of tools next to a command is a CLI; a mapping of tools is a policy.
        match find("tools").map(|tools| &tools.value) {
            Some(NodeValue::List(_)) if has("command") => return Self::named("cli"),
            Some(NodeValue::Map(_)) => return Self::named("policy"),
            _ => (),
        }
        FORMATS.iter().find(|format| format.marks.iter().any(|mark| has(mark)))
    }

    /// The folder of its files in the configuration directory; `None` for `config.yaml`.
    pub fn folder(&self) -> Option<&'static str> {
        self.files.split_once(": ")?.1.split_once('/').map(|(folder, _)| folder)
    }

    /// Checks a document. `name` is the name of its file without the extension.
    pub fn check(&self, text: &str, name: &str) -> Result<Vec<Warning>, LoadError> {
        (self.check)(text, name)
    }

    /// Its JSON Schema (draft 2020-12), for editors.
    pub fn schema(&self) -> Json {
        schema::document(self.files, self.root)
    }
}

#[cfg(test)]
mod tests;
