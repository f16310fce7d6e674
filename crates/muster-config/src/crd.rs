//! CustomResourceDefinitions from field tables.
//!
//! The schemas are structural: one type for each value, no references. A value that may have several forms in a file
//! only has its first form in a resource, as in the arguments of core tools. Defaults are applied by the readers, so
//! that an object contains only what its author wrote.

mod execution;
mod from_file;
mod rules;
mod status;

use muster_core::fields::{Field, FieldTable, FieldType};
use serde_json::{Map, Value as Json, json};

use crate::{
    cli,
    kinds::{API_GROUP, API_VERSION, DefinitionKind},
    mcpserver, policy, schema, service, serviceclass, toolset, workflow, writer,
};

pub use self::from_file::{ResourceDefinition, from_file};

/// A column of `kubectl get`.
struct Column(&'static str, &'static str, &'static str);

/// A custom resource.
pub struct CustomResource {
    /// Its `kind`.
    pub kind: &'static str,
    /// Its plural, the name of its file.
    pub plural: &'static str,
    short: &'static [&'static str],
    about: &'static str,
    spec: &'static FieldTable,
    /// The schema of its status; `None` for records, which are never reconciled.
    status: Option<fn() -> Json>,
    columns: &'static [Column],
}

impl std::fmt::Debug for CustomResource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("CustomResource").field("kind", &self.kind).finish_non_exhaustive()
    }
}

const ACCEPTED: Column =
    Column("Accepted", "string", ".status.conditions[?(@.type==\"Accepted\")].status");
const READY: Column = Column("Ready", "string", ".status.conditions[?(@.type==\"Ready\")].status");
const VALID: Column = Column("Valid", "boolean", ".status.valid");
const AGE: Column = Column("Age", "date", ".metadata.creationTimestamp");

/// Every custom resource.
pub static RESOURCES: &[CustomResource] = &[
    CustomResource {
        short: &["mcps"],
        about: "An upstream MCP server",
        spec: mcpserver::FORMAT.spec,
        status: Some(status::mcp_server),
        columns: &[
            Column("Type", "string", ".spec.type"),
            Column("URL", "string", ".spec.url"),
            Column("AutoStart", "boolean", ".spec.autoStart"),
            Column("Status", "string", ".status.state"),
            READY,
            AGE,
        ],
        ..CustomResource::of(DefinitionKind::McpServer)
    },
    CustomResource {
        short: &["wf"],
        about: "A saved sequence of tool calls",
        spec: workflow::FORMAT.spec,
        status: Some(status::workflow),
        columns: &[VALID, Column("Steps", "integer", ".status.stepCount"), AGE],
        ..CustomResource::of(DefinitionKind::Workflow)
    },
    CustomResource {
        short: &["sc"],
        about: "The tools that start, stop and check a kind of service",
        spec: serviceclass::FORMAT.spec,
        status: Some(status::service_class),
        columns: &[VALID, Column("ReferencedTools", "string", ".status.referencedTools"), AGE],
        ..CustomResource::of(DefinitionKind::ServiceClass)
    },
    CustomResource {
        short: &["si"],
        about: "An instance of a service class",
        spec: service::FORMAT.spec,
        columns: &[
            Column("Class", "string", ".spec.serviceClassName"),
            Column("State", "string", ".status.state"),
            AGE,
        ],
        status: Some(status::service),
        ..CustomResource::of(DefinitionKind::Service)
    },
    CustomResource {
        short: &["clic"],
        about: "The tools of a command line program",
        spec: &cli::fields::CONFIG,
        columns: &[Column("Command", "string", ".spec.command"), ACCEPTED, AGE],
        ..CustomResource::of(DefinitionKind::Cli)
    },
    CustomResource {
        short: &["tp"],
        about: "Which tools exist for callers, and within which limits",
        spec: &policy::fields::POLICY,
        columns: &[Column("Default", "string", ".spec.default"), ACCEPTED, AGE],
        ..CustomResource::of(DefinitionKind::Policy)
    },
    CustomResource {
        short: &["ts"],
        about: "A selection of tools",
        spec: toolset::FORMAT.spec,
        columns: &[ACCEPTED, AGE],
        ..CustomResource::of(DefinitionKind::Toolset)
    },
    execution::RESOURCE,
];

impl CustomResource {
    /// A resource without fields, columns or short names.
    const fn of(kind: DefinitionKind) -> Self {
        static NOTHING: FieldTable = FieldTable::new("", "", &[]);
        Self {
            kind: kind.resource_kind(),
            plural: kind.plural(),
            short: &[],
            about: "",
            spec: &NOTHING,
            status: Some(status::accepted_only),
            columns: &[],
        }
    }

    /// Returns the resource with this kind or plural, ignoring case.
    pub fn named(name: &str) -> Option<&'static Self> {
        let is = |known: &&Self| {
            known.kind.eq_ignore_ascii_case(name) || known.plural.eq_ignore_ascii_case(name)
        };
        RESOURCES.iter().find(is)
    }

    /// The manifest of its CustomResourceDefinition, as YAML.
    pub fn manifest(&self) -> String {
        writer::object(&self.definition())
    }

    fn definition(&self) -> Json {
        let mut spec = object(self.spec);
        let mut path = vec!["spec"];
        rules::add(self.kind, &mut path, &mut spec);
        let mut properties = Map::from_iter([
            ("apiVersion".to_owned(), json!({"type": "string"})),
            ("kind".to_owned(), json!({"type": "string"})),
            ("metadata".to_owned(), json!({"type": "object"})),
            ("spec".to_owned(), spec),
        ]);
        let mut version = json!({"name": API_VERSION, "served": true, "storage": true});
        if let Some(status) = self.status {
            properties.insert("status".to_owned(), status());
            schema::set(&mut version, "subresources", json!({"status": {}}));
        }
        let columns: Vec<Json> = self
            .columns
            .iter()
            .map(|Column(name, kind, path)| json!({"name": name, "type": kind, "jsonPath": path}))
            .collect();
        schema::set(&mut version, "additionalPrinterColumns", json!(columns));
        let root = json!({
            "type": "object",
            "description": self.about,
            "required": ["spec"],
            "properties": properties,
        });
        schema::set(&mut version, "schema", json!({"openAPIV3Schema": root}));
        json!({
            "apiVersion": "apiextensions.k8s.io/v1",
            "kind": "CustomResourceDefinition",
            "metadata": {
                "name": format!("{}.{API_GROUP}", self.plural),
                "annotations": {"helm.sh/resource-policy": "keep"},
            },
            "spec": {
                "group": API_GROUP,
                "scope": "Namespaced",
                "names": {
                    "kind": self.kind,
                    "listKind": format!("{}List", self.kind),
                    "plural": self.plural,
                    "singular": self.kind.to_lowercase(),
                    "shortNames": self.short,
                    "categories": ["muster"],
                },
                "versions": [version],
            },
        })
    }
}

fn object(table: &'static FieldTable) -> Json {
    let properties: Map<String, Json> =
        table.all().map(|known| (known.name.to_owned(), field(known))).collect();
    let required: Vec<&str> =
        table.all().filter(|known| known.is_required()).map(|known| known.name).collect();
    let mut object = json!({"type": "object", "properties": properties});
    if !required.is_empty() {
        schema::set(&mut object, "required", json!(required));
    }
    object
}

fn field(field: &'static Field) -> Json {
    let mut schema = value(&field.holds);
    schema::set(&mut schema, "description", json!(field.meaning.replace('`', "")));
    if field.min_items > 0 {
        schema::set(&mut schema, "minItems", json!(field.min_items));
    }
    schema
}

fn value(holds: &'static FieldType) -> Json {
    match holds {
        FieldType::String | FieldType::Secret | FieldType::Scalar => json!({"type": "string"}),
        FieldType::Boolean => json!({"type": "boolean"}),
        FieldType::Integer { min, max: i64::MAX } => {
            json!({"type": "integer", "format": "int64", "minimum": min})
        }
        FieldType::Integer { min, max } => {
            json!({"type": "integer", "format": "int64", "minimum": min, "maximum": max})
        }
        FieldType::Number => json!({"type": "number"}),
        FieldType::Duration => json!({"type": "string", "pattern": schema::DURATION}),
        FieldType::Any => json!({"x-kubernetes-preserve-unknown-fields": true}),
        FieldType::Enum(words) | FieldType::EnumByCheck(words) => {
            json!({"type": "string", "enum": words})
        }
        FieldType::List(of) => json!({"type": "array", "items": value(of)}),
        FieldType::Map(FieldType::Any) => {
            json!({"type": "object", "x-kubernetes-preserve-unknown-fields": true})
        }
        FieldType::Map(of) => json!({"type": "object", "additionalProperties": value(of)}),
        FieldType::Object(table) => object(table),
        FieldType::Either(types) => types
            .first()
            .map_or_else(|| json!({"x-kubernetes-preserve-unknown-fields": true}), value),
    }
}

#[cfg(test)]
mod tests;
